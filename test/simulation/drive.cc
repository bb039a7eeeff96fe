// SPDX-License-Identifier: Apache-2.0

#include "simulation/drive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace penstock::simulation {
namespace {

void apply(std::map<std::string, ino_t>& names, const std::map<std::string, ino_t>& changes) {
  for (const auto& [name, inode] : changes) {
    if (inode == 0) names.erase(name);
    else names[name] = inode;
  }
}

// By the machine's own calls.
void write_file(const std::string& name, const std::vector<std::byte>& bytes) {
  static const auto really_open = REAL(open);
  static const auto really_write = REAL(pwrite);
  static const auto really_close = REAL(close);
  const int fd = really_open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  const bool is_written = fd >= 0 && really_write(fd, bytes.data(), bytes.size(), 0) == ssize_t(bytes.size());
  if (!is_written) scheduler().fail("the machine has no room for the files of a drive");
  really_close(fd);
}

}  // namespace

std::array<char, 64> Drive::root_of(pid_t process) {
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "/dev/shm/penstock-simulation-%010d", process);
  return name;
}

void Drive::make(unsigned folders, const Kind& kind) {
  kind_ = kind;
  const std::string root = root_of(::getpid()).data();
  for (unsigned i = 0; i < folders; ++i) {
    folders_.push_back(root + "/" + std::to_string(i));
    std::filesystem::create_directories(folders_.back());
  }
  states_.resize(folders);
  struct stat facts {};
  if (::stat(root.c_str(), &facts) != 0) scheduler().fail("a drive has no folders");
  device_ = facts.st_dev;
}

std::shared_ptr<File> Drive::find(int fd) {
  struct stat facts {};
  if (!is_made() || ::fstat(fd, &facts) != 0 || facts.st_dev != device_ || !S_ISREG(facts.st_mode)) return nullptr;
  std::shared_ptr<File>& file = files_[facts.st_ino];
  if (file == nullptr) file = disk().adopt(fd, static_cast<std::uint64_t>(facts.st_size));
  file->look_at_size();
  return file;
}

bool Drive::is_asked_not_to_wait(const std::string& name) const {
  const auto is_in = [&](const std::string& folder) { return name.starts_with(folder + "/"); };
  return std::any_of(folders_.begin(), folders_.end(), is_in) && scheduler().random().one_in(16);
}

std::optional<unsigned> Drive::find_folder(int fd) const {
  struct stat facts {
  }, other{};
  if (!is_made() || ::fstat(fd, &facts) != 0 || facts.st_dev != device_ || !S_ISDIR(facts.st_mode)) return std::nullopt;
  for (unsigned i = 0; i < folders_.size(); ++i) {
    if (::stat(folders_[i].c_str(), &other) == 0 && other.st_ino == facts.st_ino) return i;
  }
  return std::nullopt;
}

void Drive::note_names(int folder, std::initializer_list<const char*> names) {
  const std::optional<unsigned> number = find_folder(folder);
  if (!number) return;
  Change change;
  for (const char* const name : names) {
    struct stat facts {};
    const bool is_there = ::fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
    change.names[name] = is_there ? facts.st_ino : 0;
  }
  note(*number, std::move(change));
}

void Drive::note_made(const std::string& name) {
  struct stat facts {};
  for (unsigned i = 0; i < folders_.size(); ++i) {
    const std::string begin = folders_[i] + "/";
    if (!name.starts_with(begin) || ::stat(name.c_str(), &facts) != 0) continue;
    note(i, {{{name.substr(begin.size()), facts.st_ino}}});
  }
}

void Drive::note(unsigned folder, Change change) {
  states_[folder].changes.push_back(std::move(change));
  if (kind_.can_flush_folders) count_change();
  else flush_folder(folder);  // Such a file system keeps names by itself.
}

void Drive::flush_folder(unsigned folder) {
  Folder& state = states_[folder];
  for (const Change& change : state.changes) apply(state.durable, change.names);
  state.changes.clear();
  count_change();
}

void Drive::count_change() {
  if (left_ == 0 || --left_ > 0) return;
  Random& random = scheduler().random();
  image_.emplace();
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    Names names = states_[i].durable;
    const std::vector<Change>& changes = states_[i].changes;
    const std::uint64_t kept = random.between(0, changes.size());
    for (std::size_t one = 0; one < kept; ++one) apply(names, changes[one].names);
    for (const auto& [name, inode] : names)
      (*image_)[folders_[i] + "/" + name] = files_.at(inode)->after_a_loss_of_power(random);
  }
  lost_();
}

void Drive::start_anew() {
  files_.clear();
  states_.assign(folders_.size(), {});
  if (!image_) return;
  for (const std::string& folder : folders_) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry.path());
  }
  for (const auto& [name, bytes] : *image_) write_file(name, bytes);
  image_.reset();
}

Drive& drive() {
  static auto* const only = new Drive;
  return *only;
}

}  // namespace penstock::simulation
