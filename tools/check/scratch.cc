// SPDX-License-Identifier: Apache-2.0

#include "tools/check/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/whole_transfer.h"
#include "tools/common/content.h"
#include "tools/common/cufile_mappings.h"
#include "tools/common/failure.h"
#include "tools/common/machine_use.h"
#include "tools/common/residency.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kPage = 4096;

// Pages that any program made dirty since the machine started; only writes through the page cache make pages dirty.
std::optional<std::uint64_t> dirtied_pages() { return number_in(text_of_proc("/proc/vmstat"), "\nnr_dirtied "); }

// True if a count grew by at least half of what was moved: counts of single CPUs come late, or not at all.
std::optional<bool> grew(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after, std::uint64_t by) {
  if (!before || !after) return std::nullopt;
  return by > 0 && *after >= *before + (by + 1) / 2;
}

std::optional<bool> opposite(std::optional<bool> told) {
  if (told) *told = !*told;
  return told;
}

}  // namespace

void Block::Free::operator()(std::byte* memory) const { std::free(memory); }

Block::Block(std::size_t size, std::size_t room)
    : size_(size), memory_(static_cast<std::byte*>(
                       std::aligned_alloc(kPage, (std::max(size, room) + kPage - 1) / kPage * kPage + kPage))) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

Scratch::Scratch(const std::string& folder, std::uint64_t seed) : file_(folder + "/penstock-odirect", 0), seed_(seed) {
  direct_ = core::UniqueFd(::open(fmt::format("/proc/self/fd/{}", file_.fd()).c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!direct_.valid()) direct_error_ = errno;
}

core::DirectFile Scratch::facts() const { return facts::file_facts(file_.fd()); }

void Scratch::fill_cache(std::uint64_t offset, std::uint64_t size) {
  const Block block(size);
  RandomContent(seed_).fill(block.bytes(), offset);
  constexpr const char* kStep = "write a scratch file";
  const core::Status written = core::write_all(file_.fd(), block.bytes(), offset, kStep);
  if (!written.ok()) fail_errno(file_.path(), kStep, written.code);
}

void Scratch::forget() {
  if (fsync(file_.fd()) != 0) fail_errno(file_.path(), "flush a scratch file");
  posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_DONTNEED);
}

void Scratch::fill(std::uint64_t offset, std::uint64_t size) {
  fill_cache(offset, size);
  forget();
}

void Scratch::resize(std::uint64_t size) {
  if (ftruncate(file_.fd(), static_cast<off_t>(size)) != 0) fail_errno(file_.path(), "give a scratch file its size");
}

bool Scratch::is_in_memory() const {
  struct statfs place {};
  return fstatfs(file_.fd(), &place) == 0 && (place.f_type == TMPFS_MAGIC || place.f_type == RAMFS_MAGIC);
}

DirectTry Scratch::call_all(const Request& request, std::byte* memory) const {
  DirectTry moved;
  const auto began = std::chrono::steady_clock::now();
  while (moved.bytes < request.size) {
    const std::size_t size = std::min(request.request_bytes, request.size - moved.bytes);
    const auto at = static_cast<off_t>(request.offset + moved.bytes);
    const ssize_t count = request.is_write ? pwrite(direct_.get(), memory + moved.bytes, size, at)
                                           : pread(direct_.get(), memory + moved.bytes, size, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) moved.error = errno;
    if (count <= 0) break;
    moved.bytes += static_cast<std::uint64_t>(count);
  }
  moved.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return moved;
}

DirectTry Scratch::move(const Request& request, bool is_hole) {
  if (direct_error_ != 0) return {.error = direct_error_};
  const Block block(request.size, request.size + request.memory_offset);
  const std::span<std::byte> memory{block.data() + request.memory_offset, request.size};
  if (request.is_write) RandomContent(seed_).fill(memory, request.offset);
  // Touches the memory's pages: some file systems read through the page cache if they would have to wait for pages.
  else std::memset(memory.data(), 1, memory.size());
  const std::optional<std::uint64_t> dirtied = dirtied_pages();
  const std::optional<std::uint64_t> fetched = bytes_read_from_drives();
  const std::optional<std::uint64_t> there = cached_bytes(file_.fd(), request.offset, request.size);
  DirectTry moved = call_all(request, memory.data());
  if (request.is_write) moved.is_cached = grew(dirtied, dirtied_pages(), moved.bytes / kPage);
  else if (there.value_or(0) > moved.bytes / 2)
    moved.is_cached = opposite(grew(fetched, bytes_read_from_drives(), moved.bytes));
  else moved.is_cached = grew(there, cached_bytes(file_.fd(), request.offset, request.size), moved.bytes);
  if (is_in_memory()) moved.is_cached = moved.bytes > 0;
  if (request.is_write || moved.bytes == 0) return moved;
  const auto came = memory.first(moved.bytes);
  moved.is_wrong = is_hole ? std::any_of(came.begin(), came.end(), [](std::byte byte) { return byte != std::byte{0}; })
                           : RandomContent(seed_).first_difference(came, request.offset).has_value();
  return moved;
}

bool Scratch::is_right(std::uint64_t offset, std::uint64_t size) {
  forget();
  const Block block(size);
  const auto read = core::read_all(file_.fd(), block.bytes(), offset, "read a scratch file");
  return read.ok() && *read == size && !RandomContent(seed_).first_difference(block.bytes(), offset);
}

}  // namespace penstock::tools
