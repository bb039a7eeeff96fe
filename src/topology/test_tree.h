// SPDX-License-Identifier: Apache-2.0

// For tests: a temporary directory as a machine's root, and the captured machines.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "topology/root.h"

namespace penstock::core {

class TestTree {
 public:
  TestTree() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-tree-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TestTree(const TestTree&) = delete;
  TestTree& operator=(const TestTree&) = delete;
  ~TestTree() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  Root root(Root::Resolver resolver = Root::Resolver::kernel) const {
    return std::move(Root::open(path_, resolver).value());
  }
  TestTree& put(const std::string& path, const std::string& text) {
    make_parents(path);
    std::ofstream(path_ + path) << text;
    return *this;
  }
  TestTree& link(const std::string& path, const std::string& target) {
    make_parents(path);
    std::filesystem::create_symlink(target, path_ + path);
    return *this;
  }

 private:
  void make_parents(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + path).parent_path());
  }
  std::string path_;
};

inline Root captured_machine(const std::string& name) {
  return std::move(Root::open(std::string(PENSTOCK_MACHINES) + name).value());
}

}  // namespace penstock::core
