// SPDX-License-Identifier: Apache-2.0

// A file that appears under its name only when it is whole. Until publish() gives it the final name in a single step,
// it has no name, or an unguessable one in the same folder. A reader of the name finds the old file or all of the new
// one. A file that is not published is removed with its object, and when the process ends in any way, except for two
// cases of kill -9: if it has a name from the start, because the file system or a caller needs one, and in the moment
// between two system calls in which a file without a name replaces another.
//
// On file systems that lack hard links and renames without replacement, a name that must not be replaced needs a third
// call: an empty file without permissions holds the name until the rename, and stays if kill -9 comes between. A file
// system that lacks renames as well is refused before a byte is written.
//
// The folder is held open, because it may be moved meanwhile. One thread at a time uses the object.
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

// Removes the temporary name of an unfinished file if a signal ends the process.
class TemporaryName {
 public:
  virtual ~TemporaryName() = default;
  // Called before the file exists. The descriptor is the folder's, and stays open until the name is gone. During a
  // rename there are two names, of which the file has one.
  virtual void appears(int folder_fd, const std::string& name) = 0;
  // Called when no file of ours has this name any longer.
  virtual void is_gone(const std::string& name) = 0;
};

class NewFile {
 public:
  struct Options {
    mode_t mode = 0600;       // The mode of open(2), less the umask.
    int flags = 0;            // Added to O_RDWR: O_DIRECT.
    bool needs_name = false;  // It has a name from the start, for callers that open it again by its name.
    bool is_flushed = true;   // Flushed when it is published; false if the file need not survive a loss of power.
    TemporaryName* watcher = nullptr;  // Must outlive the file.
    NameCalls* calls = nullptr;        // Must outlive the file, too; null: the kernel's calls.
  };

  // Fails if the folder cannot be opened, or if no file can be made or renamed in it. An existing file with the name is
  // no error yet.
  static Result<std::unique_ptr<NewFile>> create(const std::string& path, const Options& options);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }

  // Flushes the file, gives it its name, and flushes the folder (if is_flushed). Fails, with nothing changed under the
  // name, if a file with the name exists and must not be replaced, if that is a pipe or a device, which are never
  // replaced, and for all other errors; then it may be called again. If only the folder could not be flushed, the file
  // has its name all the same (see is_published()), and a second call flushes the folder. If the file could not be
  // flushed, each later call fails with the same error: the kernel may have dropped its bytes, and would call the next
  // flush a success (fsync(2)).
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
  bool remove_temporary_name();           // False if the name still exists; the destructor tries again.
  bool link_to(const std::string& name);  // False, with EEXIST, rather than replace; otherwise errno says why.
  Status give_final_name(bool replace);
  Status move_to_final_name();
  Status move_to_held_name();
  Status replace_final_name();

  TemporaryName* const watcher_;
  NameCalls& calls_;
  const bool is_flushed_;
  UniqueFd folder_fd_;
  UniqueFd fd_;
  std::string name_;       // The final name in the folder.
  std::string temporary_;  // The present name in the folder; empty if it has none.
  bool is_published_ = false;
  Status flushed_;
};

// Flushes the folder's names to storage. A file system that returns EINVAL does not support it, which counts as
// success.
Status flush_folder(int folder_fd, NameCalls& calls = NameCalls::of_kernel());

// Makes or replaces a file with this content, readable for all users.
Status publish_file(const std::string& path, std::string_view content);
// Does the same for a file that only its owner can read, and does not flush it.
Status publish_private_file(const std::string& path, std::string_view content);

// Makes a path absolute, starting at the process's working directory.
std::string absolute_path(const std::string& path);
// Check this first: a write beyond the process's file-size limit kills the program by a signal.
bool is_within_file_size_limit(std::uint64_t size);

}  // namespace penstock::core
