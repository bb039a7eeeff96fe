// SPDX-License-Identifier: Apache-2.0

// For the tests of the vendor path: a machine with NVIDIA's library (vendor_machine.h), a file of a known content, and
// a device.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "fakes/block_storage.h"
#include "fakes/fake_peer.h"
#include "fakes/fake_vendor/fake_vendor.h"
#include "fakes/obeying_modes.h"
#include "fakes/path_fixture.h"
#include "fakes/vendor_machine.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/vendor/vendor_path.h"
#include "path/vendor/vendor_reasons.h"

namespace penstock::core {

inline constexpr const char* kAddress = "0000:03:00.0";

class VendorPathTest : public PathFixture {
 protected:
  void SetUp() override {
    content_.resize(kFileBytes);
    for (std::size_t i = 0; i < kFileBytes; ++i) content_[i] = static_cast<char>(i * 31 + i / 257);
    std::ofstream(folder_ / "file") << content_;
    fd_.reset(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC));
    file_ = std::move(*File::open(storage_, fd_.get()));
    if (file_->direct_offset_align() == 1) GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    devices_ = open_devices();
    device_ = *devices_->device(0);
    memory_ = static_cast<char*>(*device_->memory().allocate(1 << 20));
    make_path();
  }
  void TearDown() override {
    close_path();
    file_.reset();
    devices_.reset();
  }

  std::filesystem::path root() const { return machine_.root(); }
  std::filesystem::path stats_file() const { return machine_.stats_file(); }
  std::string library_file() const { return machine_.library_file(); }
  void install(const char* library) const { machine_.install(library); }
  static void behave(const char* script) { VendorMachine::behave(script); }

  virtual std::unique_ptr<DeviceSet> open_devices() {
    peers_.add(kAddress, 4 << 20);
    return std::move(*peers_.open());
  }
  Path& path() override { return *path_; }
  void close_path() {
    if (path_ != nullptr) path_->forget_file(*file_);
    path_.reset();
  }
  void make_path(VendorUse use = VendorUse::automatic, bool strict = false) {
    close_path();
    path_ = std::make_unique<VendorPath>(storage_, VendorRules{.use = use,
                                                               .strict = strict,
                                                               .direct_io = direct_io_,
                                                               .library = library_file(),
                                                               .patience = patience_,
                                                               .root = root().string()});
  }
  Verdict judge(Op op = Op::read) { return judge(*file_, op); }
  Verdict judge(File& file, Op op) { return path_->judge(file, devices_->describe(memory_), op); }
  // It, both ways, and no other file.
  void expect_refused_alone(File& file, int number) {
    for (const Op op : {Op::read, Op::write}) {
      EXPECT_EQ(judge(file, op).reason, vendor_reason::refused);
      EXPECT_EQ(judge(file, op).detail, number);
      EXPECT_TRUE(judge(op).usable);
    }
    path_->forget_file(file);
  }
  // What self-tests have left in the file's folder.
  std::string leftovers() const {
    std::string names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".")) names += name + " ";
    }
    return names;
  }

  // Null where nothing has loaded it.
  FakeVendorSeen* seen() const {
    void* library = ::dlopen(library_file().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    auto* found = static_cast<FakeVendorSeen*>(::dlsym(library, "fake_vendor_seen"));
    ::dlclose(library);
    return found;
  }

  Completion run(Op op, std::uint64_t offset, std::uint64_t size) {
    return channel()->move_and_wait(request(op), plan(op, offset, size).chunk(0));
  }
  std::string file_content() const {
    std::string bytes(kFileBytes + 4096, '\0');
    bytes.resize(static_cast<std::size_t>(::pread(fd_.get(), bytes.data(), bytes.size(), 0)));
    return bytes;
  }

  using Bytes = std::map<Reason, std::uint64_t>;
  VendorMachine machine_;
  const std::filesystem::path& folder_ = machine_.folder();
  BlockStorage storage_;
  std::string content_;
  UniqueFd fd_;
  FakePeers peers_;
  std::unique_ptr<VendorPath> path_;
  std::chrono::milliseconds patience_{20'000};
  bool direct_io_ = true;
};

}  // namespace penstock::core
