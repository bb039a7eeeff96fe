// SPDX-License-Identifier: Apache-2.0

// A file of our own on a user's storage, for a self-test to write to. Where it has a name, it loses it with this
// object. Made by Storage::open_scratch().
#pragma once

#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace penstock::core {

enum class ScratchKind {
  nameless,  // No other process can open it, and nothing is ever left of it.
  named,     // For code that opens it a second time, by its name.
};

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(UniqueFd file) : file_(std::move(file)) {}
  // Named so, in that folder, and to be taken off it.
  Scratch(UniqueFd file, UniqueFd folder, std::string name)
      : file_(std::move(file)), folder_(std::move(folder)), name_(std::move(name)) {}
  Scratch(Scratch&&) = default;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    file_.reset();  // First: NFS renames a file that is removed while it is open.
    if (folder_.valid()) ::unlinkat(folder_.get(), name_.c_str(), 0);
  }

  int get() const { return file_.get(); }
  bool valid() const { return file_.valid(); }
  // Never closes it; the name goes all the same.
  void leave_open() { (void)file_.release(); }

 private:
  UniqueFd file_;
  UniqueFd folder_;  // Invalid where there is no name.
  std::string name_;
};

}  // namespace penstock::core
