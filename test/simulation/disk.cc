// SPDX-License-Identifier: Apache-2.0

// The disk's open files, by their descriptors.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "simulation/files.h"
#include "simulation/leases.h"

namespace penstock::simulation {
bool Disk::refuses(unsigned one_in) {
  const bool is_refused = scheduler().random().one_in(one_in);
  faults[static_cast<std::size_t>(Fault::refused)] += is_refused;
  return is_refused;
}

bool Disk::fails_flush() {
  const bool fails = fails_flushes_one_in != 0 && scheduler().random().one_in(fails_flushes_one_in);
  faults[static_cast<std::size_t>(Fault::broken)] += fails;
  return fails;
}

std::shared_ptr<File> Disk::create(std::uint64_t size) {
  if (++files_ == 0) ++files_;
  return std::make_shared<File>(files_, size);
}

std::shared_ptr<File> Disk::adopt(int fd, std::uint64_t size) {
  if (++files_ == 0) ++files_;
  return std::make_shared<File>(files_, fd, size);
}

int Disk::open(const std::shared_ptr<File>& file, bool is_direct) {
  (void)pass_leases(*file, true);
  const int fd = open_again(file->descriptor());
  keep(fd, {file, is_direct});
  return fd;
}

const Disk::Open* Disk::find(int fd) const {
  if (fd < 0 || static_cast<std::size_t>(fd) >= open_.size()) return nullptr;
  const Open& open = open_[static_cast<std::size_t>(fd)];
  return open.file != nullptr ? &open : nullptr;
}

std::shared_ptr<File> Disk::find_by_descriptor(int descriptor) const {
  const auto has_it = [&](const Open& one) { return one.file != nullptr && one.file->descriptor() == descriptor; };
  const auto found = std::find_if(open_.begin(), open_.end(), has_it);
  return found == open_.end() ? nullptr : found->file;
}

void Disk::keep(int fd, Open open) {
  if (fd < 0) return;
  if (static_cast<std::size_t>(fd) >= open_.size()) open_.resize(static_cast<std::size_t>(fd) + 32);
  if (open.description == 0) open.description = ++descriptions_;
  open_[static_cast<std::size_t>(fd)] = std::move(open);
}

bool Disk::is_open(const File& file) const {
  return std::any_of(open_.begin(), open_.end(), [&](const Open& one) { return one.file.get() == &file; });
}

bool Disk::is_open_beside(const Open& open) const {
  const auto is_other = [&](const Open& one) { return one.file == open.file && one.description != open.description; };
  return std::any_of(open_.begin(), open_.end(), is_other);
}

void Disk::take_descriptors(const File& file) {
  forgive_blocks(file);
  const std::shared_ptr<File> other = create(file.size());
  for (std::size_t fd = 0; fd < open_.size(); ++fd) {
    if (open_[fd].file.get() != &file || open_[fd].is_of_others) continue;
    const int opened = open_again(other->descriptor());
    if (::dup3(opened, static_cast<int>(fd), O_CLOEXEC) < 0) scheduler().fail("a descriptor cannot be taken");
    ::close(opened);
    open_[fd] = {other, false};
    taken_.emplace_back(fd, other);
  }
}

bool Disk::give_up_taken() {
  bool is_theirs = true;
  for (const auto& [fd, file] : std::exchange(taken_, {})) {
    const Open* const open = find(fd);
    is_theirs = is_theirs && open != nullptr && open->file == file;
    ::close(fd);
  }
  return is_theirs;
}

void Disk::drop(int fd) {
  if (find(fd) != nullptr) open_[static_cast<std::size_t>(fd)] = {};
}

Disk& disk() {
  static auto* const only = new Disk;
  return *only;
}

}  // namespace penstock::simulation
