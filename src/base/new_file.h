// SPDX-License-Identifier: Apache-2.0

// A file that stands under its name only when it is whole: it has no name, or an unguessable one in the folder where it
// is to stand, until publish() gives it the final one in a single step. A reader of that name finds the file from
// before, or all of the new one. Unless published it is gone with its object, and with the process however that ends,
// but for two cases of kill -9: where it has a name from the start, since the file system or a caller needs one, and
// within the moment between two system calls in which a file without a name replaces another.
//
// File systems that lack hard links, and renames that replace nothing, need a third call for a name that is not to be
// replaced: an empty file without permissions holds the name until the rename, and stays where kill -9 comes between. A
// file system that lacks renames as well is refused before a byte is written.
//
// The folder is held open: it may be moved meanwhile. Used by one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/name_calls.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

// Removes the temporary name of an unfinished file when a signal ends the process.
class TemporaryName {
 public:
  virtual ~TemporaryName() = default;
  // Before there is such a file. The descriptor is the folder's, and stays open until the name is gone. While the file
  // is renamed there are two: it has the one or the other.
  virtual void appears(int folder_fd, const std::string& name) = 0;
  // There is no such file any more, or it is another's.
  virtual void is_gone(const std::string& name) = 0;
};

class NewFile {
 public:
  struct Options {
    mode_t mode = 0600;                // The mode of open(2), less the umask.
    int flags = 0;                     // Added to O_RDWR: O_DIRECT.
    bool needs_name = false;           // From the start, for callers that open it once more by its name.
    bool is_flushed = true;            // When it is published; false where the file need not survive a loss of power.
    TemporaryName* watcher = nullptr;  // Outlives the file.
    NameCalls* calls = nullptr;        // The same; null: the kernel's.
  };

  // Fails where the folder cannot be opened, no file be made in it, or none be renamed. A file that has the name
  // already does not matter yet.
  static Result<std::unique_ptr<NewFile>> create(const std::string& path, const Options& options);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }

  // Writes the file down, gives it its name, writes that down (is_flushed). Fails, with nothing changed under the name,
  // where there is such a file and it is not to be replaced, where it is a pipe or a device, which is never replaced,
  // and for all other obstacles; then it may be tried again. Where only the folder could not be written down, the file
  // has its name all the same, as is_published() says, and a second call writes the folder down.
  Status publish(bool replace);
  bool is_published() const { return is_published_; }

 private:
  explicit NewFile(const Options& options);
  Status open(const std::string& path, const Options& options);
  bool open_nameless(const Options& options);
  Status open_named(const Options& options);
  Status try_rename();
  Status draw_temporary_name();
  void forget_temporary_name();
  bool remove_temporary_name();           // False where there is one still, which is tried again at the end.
  bool link_to(const std::string& name);  // False, with EEXIST, rather than replace; errno says why not.
  Status give_final_name(bool replace);
  Status move_to_final_name();
  Status move_to_held_name();
  Status replace_final_name();

  TemporaryName* const watcher_;
  NameCalls& calls_;
  const bool is_flushed_;
  UniqueFd folder_fd_;
  UniqueFd fd_;
  std::string name_;       // In the folder, in the end.
  std::string temporary_;  // In the folder, now; empty where it has none.
  bool is_published_ = false;
};

// Writes down which names a folder has. A file system that answers EINVAL cannot be told to: it does so by itself or
// never, and that counts as success.
Status flush_folder(int folder_fd, NameCalls& calls = NameCalls::of_kernel());

// Makes or replaces a file of this content, readable for all.
Status publish_file(const std::string& path, std::string_view content);
// The same for its owner alone, and not written down.
Status publish_private_file(const std::string& path, std::string_view content);

// Makes a path absolute by the directory in which the process is now.
std::string absolute_path(const std::string& path);
// Making a file larger than the process's limit would not only fail: its signal ends the program.
bool is_within_file_size_limit(std::uint64_t size);

}  // namespace penstock::core
