// SPDX-License-Identifier: Apache-2.0

// A file under construction: it has no name, or an unguessable one in the folder where it is to stand, until
// publish() gives it the final one in a single step. Unless published it is gone with this object, and with the process
// however that ends, but for two cases of kill -9: where it has a name from the start, since the file system or a
// caller needs one, and within the moment between two system calls in which a file without a name replaces another.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "tools/common/files.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {

class NewFile {
 public:
  // flags are added to O_RDWR (O_DIRECT). needs_name: with a name from the start.
  NewFile(const std::string& path, int flags, bool needs_name = false);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // Writes the file down, gives it its name, writes that down. Throws, with nothing changed under the final name, if
  // there is such a file and it is not to be replaced, or for whatever else stands in the way. Where only the folder
  // could not be written down, the file has its name all the same, and what is thrown says so.
  void publish(bool replace);

 private:
  bool open_nameless(int flags);
  void open_named(int flags);
  bool link_to(const std::string& name);  // False, with EEXIST, rather than replace; errno says why not.
  void move_to_final_name();
  void replace_final_name();

  std::string path_;  // The final one.
  std::string folder_;
  std::string name_;  // The last part of path_.
  UniqueFd folder_fd_;
  UniqueFd fd_;
  std::optional<Unfinished> temporary_;  // The name it has in the folder now.
};

}  // namespace penstock::tools
