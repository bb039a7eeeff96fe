// SPDX-License-Identifier: Apache-2.0

// A machine with nvidia-fs and a copy of NVIDIA's library of its own (test/fakes/fake_vendor), in a folder that goes
// with it. Its environment controls the library, so there can be only one at a time.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::core {

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

inline std::string stats_text(int reads, int writes) {
  return "Reads\t\t\t\t: n=" + std::to_string(reads) + " ok=" + std::to_string(reads) +
         " err=0 readMiB=0\nWrites\t\t\t\t: n=" + std::to_string(writes) + " ok=" + std::to_string(writes) + " err=0\n";
}

class VendorMachine {
 public:
  VendorMachine() {
    std::string name = testing::TempDir() + "/penstock_vendor_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    install(PENSTOCK_FAKE_VENDOR);
    write_text(root() / "proc/driver/nvidia-fs/version", "version: 2.28\n");
    write_text(root() / "proc/driver/nvidia-fs/modules", "nvme: 1.0\n");
    write_text(stats_file(), stats_text(0, 0));
    ::setenv("FAKE_VENDOR_STATS", stats_file().c_str(), 1);
    behave("direct");
  }
  ~VendorMachine() { std::filesystem::remove_all(folder_); }
  VendorMachine(const VendorMachine&) = delete;
  VendorMachine& operator=(const VendorMachine&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path root() const { return folder_ / "root"; }
  std::filesystem::path stats_file() const { return root() / "proc/driver/nvidia-fs/stats"; }
  std::string library_file() const { return (folder_ / "libcufile.so.0").string(); }
  void install(const char* library) const {
    std::filesystem::copy_file(library, library_file(), std::filesystem::copy_options::overwrite_existing);
  }
  static void behave(const char* script) { ::setenv("FAKE_VENDOR", script, 1); }

 private:
  std::filesystem::path folder_;
};

}  // namespace penstock::core
