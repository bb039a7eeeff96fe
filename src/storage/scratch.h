// SPDX-License-Identifier: Apache-2.0

// A file of the library's own on a user's storage, to which a self-test writes. If it has a name, the name is removed
// with this object. Storage::open_scratch() makes it.
#pragma once

#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace penstock::core {

enum class ScratchKind {
  nameless,  // No other process can open it, and it never remains.
  named,     // For code that opens it a second time, by its name.
};

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(UniqueFd file) : file_(std::move(file)) {}
  // The destructor removes this name from the folder.
  Scratch(UniqueFd file, UniqueFd folder, std::string name)
      : file_(std::move(file)), folder_(std::move(folder)), name_(std::move(name)) {}
  Scratch(Scratch&&) = default;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    file_.reset();  // Closed first, because NFS renames a file that is removed while it is open.
    if (folder_.valid()) ::unlinkat(folder_.get(), name_.c_str(), 0);
  }

  int get() const { return file_.get(); }
  bool valid() const { return file_.valid(); }
  // Never closes the file, but still removes its name.
  void leave_open() { (void)file_.release(); }

 private:
  UniqueFd file_;
  UniqueFd folder_;  // Invalid if there is no name.
  std::string name_;
};

}  // namespace penstock::core
