// A file under construction: it has no name, or an unguessable one in the folder where it is to stand, until
// publish() gives it the final one in a single step. Unless published it is gone with this object, also when the
// process is killed where the file system knows files without a name.
#pragma once

#include <sys/stat.h>

#include <string>

#include "files.h"

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
  // there is such a file and it is not to be replaced.
  void publish(bool replace);

 private:
  bool open_nameless(int flags);
  void open_named(int flags);
  void link_to(const std::string& name);  // Fails with EEXIST rather than replace.
  void move_to_final_name();

  std::string path_;  // The final one.
  std::string folder_;
  std::string name_;  // The last part of path_.
  UniqueFd folder_fd_;
  UniqueFd fd_;
  std::string temporary_;  // The name it has in the folder now; "" for none.
};

}  // namespace penstock::tools
