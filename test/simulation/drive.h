// SPDX-License-Identifier: Apache-2.0

// Folders of a simulated disk, and the names in them. They are the machine's own, in memory, so that the kernel answers
// for names; the bytes of their files are simulated (files.h). What was not flushed, of names as of bytes, is lost when
// power is: of a file's sectors any, of a folder's changes the later ones.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulation/files.h"

namespace penstock::simulation {

class Drive {
 public:
  // The folder that holds those of a process. Whoever started it removes it.
  static std::array<char, 64> root_of(pid_t process);

  // What its file system lacks.
  struct Kind {
    bool has_nameless = true, has_links = true, has_kept_renames = true, can_flush_folders = true;
  };
  void make(unsigned folders, const Kind& kind);
  const Kind& kind() const { return kind_; }
  bool is_made() const { return !folders_.empty(); }
  const std::string& folder(std::size_t number) const { return folders_[number]; }
  std::size_t folders() const { return folders_.size(); }

  // Power is lost behind so many changes; calls this at once.
  void lose_power_at(std::uint64_t change, std::function<void()> lost) { left_ = change, lost_ = std::move(lost); }
  // It is lost now, if it was to be and was not.
  void lose_power() { left_ = std::min<std::uint64_t>(left_, 1), count_change(); }
  bool has_lost_power() const { return image_.has_value(); }
  // Everything becomes as it was left then, or stays as it is; files have today's weather. No file may be open.
  void start_anew();

  // ---- For the calls
  // The file behind a descriptor that the kernel has just opened; null: it is none of these.
  std::shared_ptr<File> find(int fd);
  // Every now and then, of names in its folders.
  bool is_asked_not_to_wait(const std::string& name) const;
  // The number of the folder that is open, or nothing.
  std::optional<unsigned> find_folder(int fd) const;
  // Bytes are about to change, or have changed.
  void count_change();
  // What these names mean has changed, by one call.
  void note_names(int folder, std::initializer_list<const char*> names);
  // The same, of a name that may be new.
  void note_made(const std::string& name);
  void flush_folder(unsigned folder);

 private:
  using Names = std::map<std::string, ino_t>;
  struct Change {
    Names names;  // 0: gone.
  };
  struct Folder {
    Names durable;
    std::vector<Change> changes;
  };

  void note(unsigned folder, Change change);

  std::vector<std::string> folders_;
  std::vector<Folder> states_;
  Kind kind_;
  dev_t device_ = 0;
  std::map<ino_t, std::shared_ptr<File>> files_;
  std::uint64_t left_ = 0;
  std::function<void()> lost_;
  std::optional<std::map<std::string, std::vector<std::byte>>> image_;
};

Drive& drive();

}  // namespace penstock::simulation
