// SPDX-License-Identifier: Apache-2.0

// A file that a command is making (base/new_file.h). If a signal ends the process, nothing of the file is left.
// Failures are thrown as one sentence that begins with the path.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "base/new_file.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {

class NewFile : private core::TemporaryName {
 public:
  // `flags` are added to O_RDWR (O_DIRECT). With `needs_name` the file has a name from the start.
  NewFile(const std::string& path, int flags, bool needs_name = false);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return file_->fd(); }
  const std::string& path() const { return path_; }

  // Publishes as core::NewFile does. If only the folder could not be flushed to storage, the exception says that the
  // file has its name all the same.
  void publish(bool replace);

 private:
  void appears(int folder_fd, const std::string& name) override { temporary_.emplace_back(folder_fd, name); }
  void is_gone(const std::string& name) override;

  const std::string path_;  // The final path.
  std::list<Unfinished> temporary_;
  std::unique_ptr<core::NewFile> file_;  // Destroyed first.
};

// A regular file whose text comes later. A folder that refuses the file shows at once, and the file appears only when
// it is whole. Replaces an existing file only with `overwrite`.
class TextFile {
 public:
  TextFile(const std::string& path, bool overwrite);
  void publish(const std::string& text);  // Called once.
  const std::string& path() const { return file_.path(); }

 private:
  NewFile file_;
  const bool overwrite_;
};

// Writes a text file in one step.
void write_file(const std::string& path, const std::string& text, bool overwrite);

}  // namespace penstock::tools
