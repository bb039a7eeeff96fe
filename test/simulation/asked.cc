// SPDX-License-Identifier: Apache-2.0

#include "simulation/asked.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "penstock/device_memory.h"
#include "simulation/dmabufs.h"
#include "simulation/gpu.h"
#include "simulation/leases.h"
#include "simulation/nvfs.h"
#include "simulation/peers.h"
#include "simulation/requests.h"
#include "simulation/vendor.h"
#include "stress/history.h"

namespace penstock::simulation {
namespace {

constexpr auto kPoison = std::byte{0xa5}, kFence = std::byte{0x5a};
constexpr std::uint64_t kShiftMax = 4096;
constexpr std::ptrdiff_t kFenceBytes = 4096;  // On either side of a request; more takes longer than the request.

std::byte* seen(const std::byte* memory) { return peers().seen(gpu().seen(memory)); }

unsigned long long number(std::uint64_t value) { return value; }

bool are_all(const std::byte* bytes, std::size_t count, std::byte value) {
  return count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

}  // namespace

std::string text_of(const penstock_status& status) {
  char text[400];
  (void)penstock_status_message(status, text, sizeof text);
  return text;
}

Handle::~Handle() {
  penstock_file_close(raw);
  if (!is_lost && raw != nullptr) require_no_blocks_behind_end(*file);
}

Place::Place(penstock_session* session, std::size_t room, bool on_device)
    : session_(session), room_(room + kShiftMax + 2 * kGuard), on_device_(on_device) {
  void* memory = nullptr;
  if (!on_device) memory = std::aligned_alloc(4096, (room_ + 4095) / 4096 * 4096);
  else if (penstock_device_alloc(session, 0, room_, &memory).code != 0) memory = nullptr;
  base_ = static_cast<std::byte*>(memory);
  if (base_ == nullptr && !on_device) scheduler().fail("there is no memory");
  const bool is_registered =
      base_ != nullptr && on_device && (gpu().is_there() || peers().is_there()) && scheduler().random().one_in(2);
  if (is_registered) (void)penstock_buffer_register(session, base_, room_, &buffer_);
}

Place::Place(Place&& other) noexcept
    : session_(other.session_), room_(other.room_), on_device_(other.on_device_),
      base_(std::exchange(other.base_, nullptr)), buffer_(std::exchange(other.buffer_, nullptr)) {}

Place::~Place() {
  if (base_ == nullptr) return;
  penstock_buffer_close(buffer_);
  if (on_device_) (void)penstock_device_free(session_, 0, base_);
  else std::free(base_);
}

// A channel whose ring is broken keeps its memory for good. A ring also breaks where the kernel does not release a
// dma-buf.
bool is_of_a_broken_ring(const penstock_status& status) {
  if (status.domain == PENSTOCK_DOMAIN_OS)
    return status.code == EBADF || (status.code == ENOMEM && dmabufs().is_there());
  return status.domain == PENSTOCK_DOMAIN_PENSTOCK && (status.code == PENSTOCK_CLOSED || status.code == PENSTOCK_LIMIT);
}

// A driver that was shut down does not know the memory any more. A channel with a copy that failed is not used again.
bool is_of_the_gpu(const penstock_status& status) {
  const bool is_lost = (gpu().is_there() && gpu().is_lost()) || peers().is_lost();
  if (!is_lost && !(gpu().is_there() && gpu().has_refused())) return false;
  const auto is = [&](int code) { return status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == code; };
  if (status.domain == PENSTOCK_DOMAIN_DRIVER) return status.code == gpu().loss() || gpu().has_refused(status.code);
  if (is(PENSTOCK_CLOSED) || is(PENSTOCK_LIMIT)) return true;
  return is_lost && (is(PENSTOCK_DEVICE_LOST) || is(PENSTOCK_BAD_POINTER) || is(PENSTOCK_NO_DEVICE));
}

// The first request on a stream makes ready what they need; where the driver refuses that, there are none.
bool is_stream_unsupported(const penstock_status& status) {
  const bool is_refused = gpu().is_there() && (gpu().is_lost() || gpu().has_refused());
  return (is_refused || peers().is_there()) && status.domain == PENSTOCK_DOMAIN_PENSTOCK &&
         status.code == PENSTOCK_UNSUPPORTED;
}

// ---- The request ----------------------------------------------------------------------------------------------------

bool Asked::draw_range(Random& random, const Place& place, std::uint64_t size_max) {
  const std::uint64_t end = handle_->file->size(),
                      most = std::min<std::uint64_t>(size_max, place.room() - kShiftMax - 2 * Place::kGuard);
  const bool is_aligned = random.one_in(2);
  const std::uint64_t unit = is_aligned ? (random.one_in(2) ? 4096 : 512) : 1;
  size_ = random.between(1, random.one_in(4) ? most : std::min<std::uint64_t>(most, 16 << 10));
  first_ = random.one_in(4) ? 0 : random.below(end + end / 8 + 1);
  size_ = std::max(size_ / unit * unit, unit);
  first_ = first_ / unit * unit;
  if (!random.one_in(4) && first_ < end && first_ + size_ > end && !is_aligned) size_ = end - first_;
  memory_ = place.base() + (is_aligned ? 4096 : Place::kGuard + random.below(kShiftMax));
  return size_ <= most;
}

bool Asked::begin(Random& random, const Place& place, std::shared_ptr<Handle> handle, std::uint64_t size_max,
                  bool is_write) {
  handle_ = std::move(handle);
  return place.base() != nullptr && draw_range(random, place, size_max) && start(random, place, is_write);
}

bool Asked::begin_at(Random& random, const Place& place, std::shared_ptr<Handle> handle, std::uint64_t first,
                     std::uint64_t size, bool is_write) {
  handle_ = std::move(handle);
  first_ = first;
  size_ = size;
  memory_ = place.base() + 4096;
  return place.base() != nullptr && start(random, place, is_write);
}

bool Asked::start(Random& random, const Place& place, bool is_write) {
  is_write_ = is_write;
  room_ = memory_ - std::min(kFenceBytes, memory_ - place.base());
  room_bytes_ = static_cast<std::size_t>(std::min(place.base() + place.room(), memory_ + size_ + kFenceBytes) - room_);
  if (is_write && handle_->file->is_written(first_, first_ + size_)) return false;
  pieces_ = {{memory_, size_}};
  request = {};
  request.op = is_write ? PENSTOCK_WRITE : PENSTOCK_READ;
  request.file = handle_->raw;
  request.base = place.on_device() || random.one_in(2) ? place.base() : memory_;
  request.buffer_offset = memory_ - static_cast<std::byte*>(request.base);
  request.size = size_;
  request.file_offset = static_cast<std::int64_t>(first_);
  errors_before_ = handle_->file->all_errors();
  failures_before_ = handle_->file->failures();
  is_on_a_lost_gpu_ = place.on_device() && ((gpu().is_there() && gpu().is_lost()) || peers().is_lost());
  if (is_write) change_ = handle_->file->begin_write(first_, first_ + size_);
  else look_ = handle_->file->begin_read(first_, size_);
  fill_memory();
  return true;
}

void Asked::fill_memory() {
  std::memset(seen(room_), static_cast<int>(kFence), room_bytes_);
  if (!is_write_) std::memset(seen(memory_), static_cast<int>(kPoison), size_);
  else stress::stamp_range({seen(memory_), size_}, handle_->file->number(), change_, first_);
}

void Asked::cut_into_pieces(Random& random) {
  pieces_.clear();
  const std::uint64_t pieces = random.between(1, 6);
  for (std::uint64_t done = 0; done < size_;) {
    const std::uint64_t left = size_ - done;
    const std::uint64_t part = pieces_.size() + 1 == pieces ? left : random.between(1, left);
    pieces_.push_back({memory_ + done, part});
    done += part;
  }
  request.base = nullptr;
  request.size = 0;
  request.buffer_offset = 0;
  request.pieces = pieces_.data();
  request.piece_count = static_cast<std::uint32_t>(pieces_.size());
}

void Asked::take_back() {
  require_nothing_under_way();
  if (is_write_) (void)handle_->file->end_write(change_, 0);
  else (void)handle_->file->end_read(look_, {}, false);
}

// The memory is the program's again, and may be changed or freed; the bytes of the file may be written anew.
void Asked::require_nothing_under_way() const {
  Moving::require_none({memory_, size_});
  if (is_write_) Moving::require_no_write(*handle_->file, first_, first_ + size_);
}

// ---- Judgement ------------------------------------------------------------------------------------------------------

bool Asked::has_errors_since() const { return handle_->file->all_errors() != errors_before_; }

void Asked::judge_status(const penstock_status& status, const penstock_report& report) const {
  const auto is = [&](int code) { return status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == code; };
  if (is(PENSTOCK_CANCELED) != is_canceled)
    scheduler().fail("a request ends as canceled that was not, or otherwise though it was");
  if (report.bytes > size_) scheduler().fail("more bytes are told than were asked for");
  if (report.direct_bytes + report.cached_bytes != report.bytes) scheduler().fail("a report's bytes do not add up");
  if (handle_->is_lost && is(PENSTOCK_DESCRIPTOR_LOST) && report.bytes == 0) return;
  if (status.code == 0) {
    if (handle_->is_lost) scheduler().fail("a request is moved by descriptors that are another file's");
    if (is_on_a_lost_gpu_ && report.bytes > 0) scheduler().fail("a request moves memory of a GPU that was lost before");
    if (is_write_ && report.bytes != size_) scheduler().fail("a write succeeded without all of its bytes");
    return;
  }
  if (is_of_the_gpu(status)) return;
  const bool is_fault = status.domain == PENSTOCK_DOMAIN_OS && (status.code == EIO || status.code == ENOSPC);
  if (is_fault && has_errors_since()) return require_failure_before_end(first_ + report.bytes);
  const bool has_cut = disk().weather[static_cast<std::size_t>(Fault::cut_short)] != 0;
  if (is(PENSTOCK_NO_PROGRESS) && (has_cut || dmabufs().is_there())) return;  // A canary that is late breaks a channel.
  if (is_canceled && report.bytes == 0) return;
  if (is(PENSTOCK_TIMED_OUT) && may_be_late && scheduler().now() >= request.deadline_ns && report.bytes == 0) return;
  if (is(PENSTOCK_CLOSED) && may_be_closed) return;
  if (is(PENSTOCK_PATH_REFUSED) && may_refuse_for_want_of_a_path()) return;
  if (disk().has_had(Fault::ring) && is_of_a_broken_ring(status)) return;
  // A call waits for memory to bounce through for a while only, which a transfer may stand still for longer. Pieces
  // take theirs one after the other.
  const bool is_at_a_begin = report.bytes == 0 || request.piece_count > 1;
  if (is(PENSTOCK_LIMIT) && disk().weather[static_cast<std::size_t>(Fault::stalled)] != 0 && is_at_a_begin) return;
  // Parts of a request on a stream that lie in pages need no thread, and those behind them may.
  const bool needs_its_first_thread = report.bytes == 0 || request.stream != nullptr;
  if (is(PENSTOCK_OUT_OF_MEMORY) && scheduler().refuses_threads() && needs_its_first_thread) return;
  scheduler().fail(("an error that nothing explains: " + text_of(status)).c_str());
}

// What failed behind the end of the file does not count, where a read has every byte before it.
void Asked::require_failure_before_end(std::uint64_t moved_to) const {
  const File& file = *handle_->file;
  if (is_write_ || moved_to < file.size() || file.is_resized_since(look_)) return;
  if (!file.has_failed_at(moved_to, failures_before_))
    scheduler().fail("a read has all bytes of the file, and fails for what is behind it");
}

void Asked::require_memory_untouched(std::size_t got, bool is_whole) const {
  const std::size_t before = static_cast<std::size_t>(memory_ - room_);
  const bool is_fenced =
      are_all(seen(room_), before, kFence) && are_all(seen(memory_ + size_), room_bytes_ - before - size_, kFence);
  if (!is_fenced) scheduler().fail("memory beside a request was changed");
  // A transfer that breaks may leave bytes that it does not tell of, and so may a file that is cut meanwhile.
  if (!is_write_ && is_whole && !has_errors_since() && !handle_->file->is_resized_since(look_) && got < size_ &&
      !are_all(seen(memory_ + got), size_ - got, kPoison)) {
    scheduler().fail("memory behind the bytes that a read tells of was changed");
  }
}

void Asked::end(const penstock_status& status, const penstock_report& report, Sums& sums) {
  const bool is_whole = status.code == 0;
  char text[300];
  std::snprintf(text, sizeof text, "%s %llu bytes at %llu of a file with %llu%s%s: %llu moved by %s, %llu directly; %s",
                is_write_ ? "write" : "read", number(size_), number(first_), number(handle_->file->size()),
                request.piece_count > 0 ? " in pieces" : "", request.stream != nullptr ? " on a stream" : "",
                number(report.bytes), penstock_path_name(report.path), number(report.direct_bytes),
                is_whole ? "success" : text_of(status).c_str());
  scheduler().say_on_failure(text);
  judge_status(status, report);
  require_nothing_under_way();
  (is_write_ ? sums.written_bytes : sums.read_bytes) += report.bytes;
  if (request.piece_count > 1 || request.stream != nullptr)
    (is_write_ ? sums.written_behind_gaps : sums.read_behind_gaps) += size_ - report.bytes;
  require_memory_untouched(report.bytes, is_whole);
  File& file = *handle_->file;
  const std::optional<std::string> fault =
      is_write_ ? file.end_write(change_, report.bytes) : file.end_read(look_, {seen(memory_), report.bytes}, is_whole);
  if (fault) scheduler().fail(fault->c_str());
  handle_.reset();
}

void compare_counters(penstock_session* session, const Sums& sums) {
  std::vector<Counter> counters(64);
  std::uint32_t count = 0;
  const penstock_status status = penstock_counters(session, counters.data(), 64, &count);
  Sums told;
  for (std::uint32_t i = 0; i < count && i < 64; ++i) {
    told.read_bytes += counters[i].read_bytes;
    told.written_bytes += counters[i].write_bytes;
    if (counters[i].path == PENSTOCK_PATH_NVFS && counters[i].read_bytes + counters[i].write_bytes > nvfs().moved())
      scheduler().fail("nvfs is told to have moved what nvidia-fs did not");
    if (counters[i].path == PENSTOCK_PATH_VENDOR && counters[i].read_bytes + counters[i].write_bytes > vendor().asked())
      scheduler().fail("vendor is told to have moved more than NVIDIA's library was asked for");
    if (counters[i].path == PENSTOCK_PATH_DMABUF &&
        counters[i].read_bytes + counters[i].write_bytes > dmabufs().moved())
      scheduler().fail("dmabuf is told to have moved what no drive did");
    if (counters[i].path == PENSTOCK_PATH_P2PDMA && counters[i].read_bytes + counters[i].write_bytes > peers().moved())
      scheduler().fail("p2pdma is told to have moved what no drive did");
  }
  const auto fits = [](std::uint64_t counted, std::uint64_t least, std::uint64_t more) {
    return least <= counted && counted <= least + more;
  };
  const bool is_right = fits(told.read_bytes, sums.read_bytes, sums.read_behind_gaps) &&
                        fits(told.written_bytes, sums.written_bytes, sums.written_behind_gaps);
  if (status.code != 0 || !is_right) scheduler().fail("a session has counted other bytes than its requests have told");
}

}  // namespace penstock::simulation
