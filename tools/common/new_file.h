// SPDX-License-Identifier: Apache-2.0

// A command's file under construction (base/new_file.h): also where a signal ends the process, nothing of it is left
// behind, and failures are thrown as one sentence that begins with the path.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "base/new_file.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {

class NewFile : private core::TemporaryName {
 public:
  // flags are added to O_RDWR (O_DIRECT). needs_name: with a name from the start.
  NewFile(const std::string& path, int flags, bool needs_name = false);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return file_->fd(); }
  const std::string& path() const { return path_; }

  // As core::NewFile's. Where only the folder could not be written down, what is thrown says that the file has its name
  // all the same.
  void publish(bool replace);

 private:
  void appears(int folder_fd, const std::string& name) override { temporary_.emplace_back(folder_fd, name); }
  void is_gone(const std::string& name) override;

  const std::string path_;  // The final one.
  std::list<Unfinished> temporary_;
  std::unique_ptr<core::NewFile> file_;  // Goes first.
};

// A regular file for text that is known later: a folder that refuses it shows at once, and the file is there when it is
// whole. Refuses to replace one unless `overwrite`.
class TextFile {
 public:
  TextFile(const std::string& path, bool overwrite);
  void publish(const std::string& text);  // Once.
  const std::string& path() const { return file_.path(); }

 private:
  NewFile file_;
  const bool overwrite_;
};

// The same in one step.
void write_file(const std::string& path, const std::string& text, bool overwrite);

}  // namespace penstock::tools
