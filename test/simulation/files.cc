// SPDX-License-Identifier: Apache-2.0

#include "simulation/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulation/drive.h"
#include "simulation/leases.h"
#include "stress/history.h"

namespace penstock::simulation {
namespace {

using stress::stamp_range;

constexpr Nanoseconds kMicrosecond = 1000, kSecond = 1'000'000'000;
constexpr long kXfs = 0x58465342, kBtrfs = 0x9123683e;
constexpr std::uintptr_t kMemoryBegins = 1 << 24;  // Nothing is mapped below.
constexpr unsigned kNobodysMajor = 4095;           // Of a drive that this machine cannot have.
constexpr time_t kNotSettledYet = 2'000'000'000;   // Ahead of the clock: who compares times must not rely on them.

std::size_t bytes_of(std::span<const iovec> memory) {
  std::size_t bytes = 0;
  for (const iovec& one : memory) bytes += one.iov_len;
  return bytes;
}

bool is_aligned(std::span<const iovec> memory, std::uint64_t offset, std::uint64_t sector) {
  const auto fits = [&](const iovec& one) {
    return (reinterpret_cast<std::uintptr_t>(one.iov_base) | one.iov_len) % sector == 0;
  };
  return offset % sector == 0 && std::all_of(memory.begin(), memory.end(), fits);
}

std::string text_of(const char* what, std::uint64_t first, std::uint64_t second, std::uint64_t third) {
  char text[200];
  std::snprintf(text, sizeof text, what, static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(second), static_cast<unsigned long long>(third));
  return text;
}

bool has_unreached(std::span<const iovec> memory) {
  return is_out_of_reach != nullptr &&
         std::any_of(memory.begin(), memory.end(), [](const iovec& one) { return is_out_of_reach(one.iov_base); });
}

}  // namespace

int open_again(int fd) {
  static const auto really = REAL(open);
  return really(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
}

bool (*open_device)(const char* name, int& fd) = nullptr;
bool (*close_device)(int fd) = nullptr;
void* (*map_device)(void* place, int fd, std::size_t size) = nullptr;
void (*unmap_device)(const void* memory) = nullptr;
bool (*control_device)(int fd, unsigned long call, void* argument, int& result) = nullptr;
bool (*is_out_of_reach)(const void* memory) = nullptr;
bool (*is_of_a_device)(const void* memory) = nullptr;
int (*refuse_memory)(bool is_direct, std::span<const iovec> memory) = nullptr;
std::byte* (*reach_memory)(bool is_write, std::byte* memory, std::size_t size) = nullptr;

File::File(std::uint8_t number, std::uint64_t size)
    : number_(number), bytes_(size), size_(size), weather_(disk().weather), is_of_a_drive_(false) {
  draw_kind();
}

File::File(std::uint8_t number, int fd, std::uint64_t size)
    : number_(number), bytes_(open_again(fd), size), size_(size), weather_(disk().weather), is_of_a_drive_(true) {
  draw_kind();
}

void File::draw_kind() {
  constexpr long kFileSystems[] = {EXT4_SUPER_MAGIC, kXfs, kBtrfs};
  Random& random = scheduler().random();
  sector_ = random.one_in(3) ? 4096 : 512;
  file_system_ = kFileSystems[random.below(3)];
  if (bytes_.descriptor() < 0) scheduler().fail("no file can be made");
  if (::fstat(bytes_.descriptor(), &facts_) != 0) scheduler().fail("a file has no facts");
}

void File::look_at_size() {
  struct stat facts {};
  if (is_of_a_drive_ && ::syscall(SYS_fstat, descriptor(), &facts) == 0)
    note_size(static_cast<std::uint64_t>(facts.st_size));
}

// Of a drive's files the kernel knows all.
void File::tell(struct stat& facts) const {
  facts = facts_;
  bytes_.tell(facts);
  facts.st_ctim = {kNotSettledYet, static_cast<long>(times_)};
  if (!is_raw_drive()) return;
  facts.st_mode = S_IFBLK | S_IRUSR | S_IWUSR;
  facts.st_rdev = makedev(kNobodysMajor, raw_drive_);
  facts.st_size = 0;
}

unsigned File::all_errors() const {
  unsigned count = 0;
  for (const unsigned one : errors_) count += one;
  return count;
}

bool File::has_failed_at(std::uint64_t offset, std::size_t since) const {
  const auto has_it = [&](const Range& one) { return one.first <= offset && offset < one.end; };
  return std::any_of(failures_.begin() + static_cast<std::ptrdiff_t>(since), failures_.end(), has_it);
}

bool File::has(Fault fault) {
  const unsigned one_in = weather_[static_cast<std::size_t>(fault)];
  if (calm_ > 0 || one_in == 0 || !scheduler().random().one_in(one_in)) return false;
  ++disk().faults[static_cast<std::size_t>(fault)];
  return true;
}

// ---- Transfers ------------------------------------------------------------------------------------------------------

Fate File::decide(bool is_write, bool is_direct, std::span<const iovec> memory, std::uint64_t offset) {
  Random& random = scheduler().random();
  ++disk().transfers;
  calm_ -= calm_ > 0;
  Fate fate;
  // It fails for its memory alone, and moves nothing.
  fate.error = refuse_memory == nullptr ? 0 : refuse_memory(is_direct, memory);
  if (fate.error != 0) return fate;
  const std::uint64_t unit = is_direct ? sector_ : 1;
  if (is_direct && !is_aligned(memory, offset, sector_)) fate.error = EINVAL;
  else if (has_unreached(memory)) fate.error = EFAULT;
  else if (has(Fault::interrupted)) fate.error = EINTR;
  else if (has(Fault::put_off)) fate.error = EAGAIN;
  else if (has(Fault::broken)) fate.error = EIO;
  else if (is_write && has(Fault::full)) fate.error = ENOSPC;
  else if (is_write && is_raw_drive() && offset >= size_) fate.error = ENOSPC;
  const std::size_t all = bytes_of(memory);
  fate.bytes = fate.error == 0 ? all : 0;
  const bool is_partly = fate.error == EIO || (fate.error == 0 && all > unit && has(Fault::cut_short));
  if (is_partly) fate.bytes = random.between(fate.error == 0 ? 1 : 0, (all - 1) / unit) * unit;
  if (is_raw_drive()) fate.bytes = std::min<std::uint64_t>(fate.bytes, size_ - std::min(size_, offset));
  fate.latency = random.between(2, 80) * kMicrosecond;
  if (has(Fault::late)) fate.latency = random.between(1, 400) * 100 * kMicrosecond;
  if (has(Fault::stalled)) fate.latency = random.between(1, 100) * kSecond;
  if (fate.error != 0) ++errors_[static_cast<unsigned>(fate.error) % errors_.size()];
  if (fate.error != 0) failures_.push_back({offset, offset + all});
  return fate;
}

std::size_t File::move(bool is_write, std::span<const iovec> memory, std::uint64_t offset, std::size_t from,
                       std::size_t to) {
  std::size_t begin = 0, moved = 0;
  for (const iovec& one : memory) {
    const std::size_t first = std::max(from, begin), end = std::min(to, begin + one.iov_len);
    begin += one.iov_len;
    if (first >= end) continue;
    auto* bytes = static_cast<std::byte*>(one.iov_base) + (first + one.iov_len - begin);
    if (reinterpret_cast<std::uintptr_t>(bytes) < kMemoryBegins) return moved;
    if (reach_memory != nullptr) bytes = reach_memory(is_write, bytes, end - first);
    const std::size_t done =
        is_write ? write({bytes, end - first}, offset + first) : bytes_.read(bytes, end - first, offset + first);
    moved += done;
    if (done < end - first) return moved;
  }
  return moved;
}

std::size_t File::write(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (is_of_a_drive_) note_unflushed(offset, bytes);
  else if (!is_scratch_) require_asked(offset, bytes);
  note_change(offset, bytes.size());
  ++writes_, ++times_;
  const std::size_t done = bytes_.write(bytes.data(), bytes.size(), offset);
  note_size(std::max(size_, offset + done));
  return done;
}

void File::spoil(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!is_scratch_) require_asked(offset, bytes, true);
  note_change(offset, bytes.size());
  ++times_;
  if (bytes_.write(bytes.data(), bytes.size(), offset) < bytes.size()) scheduler().fail("a file is full");
  note_size(std::max(size_, offset + bytes.size()));
}

void File::note_unflushed(std::uint64_t offset, std::span<const std::byte> bytes) {
  drive().count_change();
  const std::span<const std::byte> before = bytes_.look(offset, bytes.size());
  unflushed_.push_back({writes_ + 1,
                        offset,
                        {before.begin(), before.end()},
                        {bytes.begin(), bytes.end()},
                        size_,
                        std::max(size_, offset + bytes.size())});
}

std::vector<std::byte> File::after_a_loss_of_power(Random& random) const {
  const std::span<const std::byte> whole = bytes_.look(0, size_);
  std::vector<std::byte> left(whole.begin(), whole.end());
  const auto put = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    if (left.size() < offset + bytes.size()) left.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), left.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  for (auto one = unflushed_.rbegin(); one != unflushed_.rend(); ++one) {
    put(one->offset, one->before);
    left.resize(one->size_before);
  }
  for (const Unflushed& one : unflushed_) {
    if (one.after.empty() && random.one_in(2)) left.resize(one.size_after);
    const std::span all(one.after);
    for (std::uint64_t at = 0; at < all.size();) {
      const std::uint64_t next =
          std::min<std::uint64_t>(all.size(), (one.offset + at) / sector_ * sector_ + sector_ - one.offset);
      if (random.one_in(2)) put(one.offset + at, all.subspan(at, next - at));
      at = next;
    }
  }
  return left;
}

void File::note_size(std::uint64_t size) {
  if (size != std::exchange(size_, size) && looks_ > 0) sizes_.push_back(size);
}

// A later write has made its bytes durable where they lie on ours: they stay, whatever of ours is lost.
void File::Unflushed::be_overwritten(const Unflushed& durable) {
  size_before = durable.size_after;
  const std::uint64_t first = std::max(offset, durable.offset);
  const std::uint64_t end = std::min(offset + after.size(), durable.offset + durable.after.size());
  if (first >= end) return;
  const std::span bytes = std::span(durable.after).subspan(first - durable.offset, end - first);
  std::copy(bytes.begin(), bytes.end(), after.begin() + static_cast<std::ptrdiff_t>(first - offset));
  if (before.size() < end - offset) before.resize(end - offset);
  std::copy(bytes.begin(), bytes.end(), before.begin() + static_cast<std::ptrdiff_t>(first - offset));
  is_given_up = is_given_up && end - first < after.size();
}

// What was flushed is durable, and so is the place of what was given up there before.
void File::end_flushed() {
  const auto is_flushed = [&](const Unflushed& one) { return one.write <= durable_writes_ && !one.is_given_up; };
  for (const Unflushed& one : unflushed_) {
    if (!is_flushed(one)) continue;
    for (Unflushed& old : unflushed_) {
      if (old.is_given_up && old.write < one.write) old.be_overwritten(one);
    }
  }
  std::erase_if(unflushed_, is_flushed);
}

int File::flush(std::uint64_t writes, bool is_durable) {
  if (!has(Fault::broken) && !disk().fails_flush()) {
    if (!is_durable) return 0;
    durable_writes_ = std::max(durable_writes_, writes);
    end_flushed();
    return 0;
  }
  for (Unflushed& one : unflushed_) one.is_given_up = one.is_given_up || one.write <= writes;
  ++errors_[EIO], ++failed_flushes_;
  failures_.push_back({0, ~std::uint64_t{0}});
  return EIO;
}

void File::resize(std::uint64_t size) {
  ++disturbances_, ++times_;
  if (is_of_a_drive_) unflushed_.push_back({++writes_, 0, {}, {}, size_, size});
  if (size < size_) note_change(size, size_ - size);
  if (size < size_) blocks_end_ = size;
  note_size(size);
  bytes_.resize(size);
}

void File::cut_at_end() {
  blocks_end_ = 0;
  bytes_.resize(size_);
}

int File::allocate(int mode, std::uint64_t first, std::uint64_t end) {
  const int error = bytes_.allocate(mode, first, end);
  if (error == 0) blocks_end_ = std::max(blocks_end_, end);
  return error;
}

void File::punch(std::uint64_t first, std::uint64_t end) {
  ++disturbances_, ++times_;
  note_change(first, end - first);
  bytes_.punch(first, end);
}

// ---- Who asked for it -----------------------------------------------------------------------------------------------

std::uint32_t File::begin_write(std::uint64_t first, std::uint64_t end) {
  asked_.push_back({++changes_begun_, first, end, disturbances_});
  return changes_begun_;
}

bool File::is_written(std::uint64_t first, std::uint64_t end) const {
  return std::any_of(asked_.begin(), asked_.end(),
                     [&](const Asked& one) { return one.first < end && first < one.end; });
}

std::optional<std::string> File::end_write(std::uint32_t change, std::uint64_t bytes) {
  const auto found = std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.change == change; });
  const Asked asked = *found;
  asked_.erase(found);
  if (asked.disturbances != disturbances_ || bytes == 0) return std::nullopt;
  const std::span<const std::byte> there = bytes_.look(asked.first, bytes);
  if (there.size() == bytes && are_of(there, change, asked.first)) return std::nullopt;
  return text_of("a write of %llu bytes at %llu of file %llu told of bytes that are not there", bytes, asked.first,
                 number_);
}

bool File::are_of(std::span<const std::byte> bytes, std::uint32_t change, std::uint64_t first) const {
  static auto& scratch = *new Scratch;  // Also behind exit().
  const std::span<std::byte> meant = scratch.of(bytes.size());
  stamp_range(meant, number_, change, first);
  return std::memcmp(meant.data(), bytes.data(), bytes.size()) == 0;
}

void File::require_asked(std::uint64_t first, std::span<const std::byte> bytes, bool is_spoiled) {
  for (const Asked& one : asked_) {
    if (first < one.first || first + bytes.size() > one.end) continue;
    if (is_spoiled || are_of(bytes, one.change, first)) return;
    scheduler().fail(
        text_of("wrong bytes are written: %llu at %llu of file %llu", bytes.size(), first, number_).c_str());
  }
  scheduler().fail(
      text_of("nobody asked for a write of %llu bytes at %llu of file %llu", bytes.size(), first, number_).c_str());
}

// ---- What was there -------------------------------------------------------------------------------------------------

// What is there now may be what a read gets that is under way.
void File::note_change(std::uint64_t first, std::uint64_t size) {
  if (looks_ == 0) return;
  const std::span<const std::byte> before = bytes_.look(first, size);
  changes_.push_back({first, {before.begin(), before.end()}});
}

File::Look File::begin_read(std::uint64_t first, std::uint64_t wanted) {
  if (looks_++ == 0) {
    changes_.clear();
    sizes_ = {size()};
  }
  return {first, wanted, changes_.size(), sizes_.size() - 1};
}

bool File::was_there(const Look& look, std::uint64_t at, std::byte byte) const {
  if (byte == std::byte{0} && look.first + at >= *std::min_element(sizes_.begin(), sizes_.end())) return true;
  return std::any_of(changes_.begin() + static_cast<std::ptrdiff_t>(look.change), changes_.end(),
                     [&](const Change& change) {
                       const std::uint64_t place = look.first + at - change.first;
                       return place < change.before.size() && change.before[place] == byte;
                     });
}

std::optional<std::string> File::end_read(const Look& look, std::span<const std::byte> got, bool is_whole) {
  --looks_;
  const auto sizes = std::minmax_element(sizes_.begin() + static_cast<std::ptrdiff_t>(look.size), sizes_.end());
  const auto reach = [&](std::uint64_t size) { return std::min(look.wanted, size - std::min(size, look.first)); };
  if (got.size() > reach(*sizes.second))
    return text_of("a read at %llu told of %llu bytes, where the file had %llu", look.first, got.size(),
                   reach(*sizes.second));
  if (is_whole && got.size() < reach(*sizes.first))
    return text_of("a read at %llu succeeded with %llu bytes, where the file had %llu", look.first, got.size(),
                   reach(*sizes.first));
  const std::span<const std::byte> now = bytes_.look(look.first, got.size());
  if (now.size() == got.size() && std::memcmp(now.data(), got.data(), got.size()) == 0) return std::nullopt;
  for (std::uint64_t at = 0; at < got.size(); ++at) {
    if ((at < now.size() && now[at] == got[at]) || was_there(look, at, got[at])) continue;
    return text_of("byte %llu of a read at %llu got %02llx, which was never there", at, look.first,
                   static_cast<std::uint64_t>(got[at]));
  }
  return std::nullopt;
}

// ---- What is under way ----------------------------------------------------------------------------------------------

namespace {

std::vector<const Moving*>& under_way() {
  static auto* const all = new std::vector<const Moving*>;
  return *all;
}

}  // namespace

Moving::Moving(std::shared_ptr<File> file, bool is_write, std::span<const iovec> memory, std::uint64_t offset,
               bool is_apart)
    : file_(std::move(file)), is_write_(is_write), memory_(memory), offset_(offset), is_apart_(is_apart) {
  under_way().push_back(this);
}

Moving::~Moving() { std::erase(under_way(), this); }

void Moving::land_all() {
  for (const Moving* const one : under_way()) {
    const bool may_stop = one->file_->is_of_a_drive() && scheduler().random().one_in(2);
    if (one->is_write_ && !may_stop && !has_unreached(one->memory_)) (void)one->move(0, bytes_of(one->memory_));
  }
}

void Moving::forget_all() { under_way().clear(); }

void Moving::require_none(std::span<const std::byte> memory) {
  const auto reaches = [&](const iovec& one) {
    const auto* const first = static_cast<const std::byte*>(one.iov_base);
    return first < memory.data() + memory.size() && memory.data() < first + one.iov_len;
  };
  for (const Moving* const one : under_way()) {
    if (std::any_of(one->memory_.begin(), one->memory_.end(), reaches))
      scheduler().fail("a request is over, and a transfer of it still reaches its memory");
  }
}

void Moving::require_no_write(const File& file, std::uint64_t first, std::uint64_t end) {
  for (const Moving* const one : under_way()) {
    const bool overlaps = one->offset_ < end && first < one->offset_ + bytes_of(one->memory_);
    if (one->is_write_ && one->file_.get() == &file && overlaps)
      scheduler().fail("a write is over, and a transfer of it still reaches its file");
  }
}

void Moving::require_no_neighbour(const File& file, std::uint64_t first, std::uint64_t end) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t begin = first / kPage * kPage, reach = (end + kPage - 1) / kPage * kPage;
  for (const Moving* const one : under_way()) {
    const bool shares = one->offset_ < reach && begin < one->offset_ + bytes_of(one->memory_);
    if (one->is_apart_ && one->is_write_ && one->file_.get() == &file && shares)
      scheduler().fail("the page cache may bring back what a direct write replaces, which nobody waits for");
  }
}

}  // namespace penstock::simulation
