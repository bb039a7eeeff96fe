// SPDX-License-Identifier: Apache-2.0

#include "frontend/gpu_file.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>
#include <vector>

#include "base/align.h"
#include "base/page_size.h"
#include "base/thread.h"
#include "frontend/transfer.h"
#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "open the file for kernels";

// The places of the table of extents, and of the words that kernels write, in device memory.
struct DevicePlaces {
  explicit DevicePlaces(std::size_t sets, std::size_t slots, std::size_t extents)
      : standing(sets * sizeof(gpu::CacheSet)), counts(standing + sizeof(gpu::Standing)),
        owners(counts + gpu::kCountParts * sizeof(gpu::Counts)),
        table(owners + (slots * sizeof(gpu::Word) + 63) / 64 * 64), size(table + extents * sizeof(void*)) {}

  std::size_t standing;  // Behind the cache's sets, which are all zeros.
  std::size_t counts;
  std::size_t owners;
  std::size_t table;
  std::size_t size;
};

std::uint64_t extent_count(std::uint64_t size) { return (size + Extent::kBytes - 1) / Extent::kBytes; }

Status fill_with_zeros(CopyQueue& copies, std::byte* memory, std::size_t size) {
  const std::vector<std::byte> zeros(std::min<std::size_t>(size, 1u << 20));
  Status status = success();
  for (std::size_t done = 0; done < size && status.ok(); done += zeros.size()) {
    const std::size_t here = std::min(zeros.size(), size - done);
    status = wait_for_copies(copies, copies.copy_to_device(memory + done, zeros.data(), here));
  }
  return status;
}

void add(gpu::Counts& sum, const gpu::Counts& part) {
  sum.resident_reads += part.resident_reads;
  sum.resident_bytes += part.resident_bytes;
  sum.ring_reads += part.ring_reads;
  sum.ring_bytes += part.ring_bytes;
  sum.repeated += part.repeated;
  sum.failed += part.failed;
  sum.cached_reads += part.cached_reads;
  sum.cached_bytes += part.cached_bytes;
  sum.fetched += part.fetched;
}

}  // namespace

// ---- Opening and closing -------------------------------------------------------------------------------------------

GpuFile::GpuFile(Session& session, std::uint64_t file, Device& device, const Terms& terms)
    : session_(session), handle_(file), file_(session, file), device_(device), terms_(terms) {}

Result<std::unique_ptr<GpuFile>> GpuFile::open(Session& session, std::uint64_t file, const Terms& terms) {
  if (session.is_inherited()) return failure(Code::closed, kStep);
  const Result<Device*> device = session.devices().device(terms.device);
  if (!device.ok()) return device.status();
  if ((*device)->pages() == nullptr) return failure(Code::unsupported, kStep);
  std::unique_ptr<GpuFile> opened(new GpuFile(session, file, **device, terms));
  if (const Status status = opened->prepare(); !status.ok()) return status;
  return opened;
}

Status GpuFile::prepare() {
  if (!file_) return failure(Code::not_registered, kStep);
  if (!file_->facts().readable()) return failure(Code::not_readable, kStep);
  if (file_->userspace() != nullptr) return failure(Code::unsupported, kStep);
  open_descriptors();
  GpuRing::Terms ring = terms_.ring;
  ring.placement = &session_.config().placement;
  Result<std::unique_ptr<GpuRing>> opened = GpuRing::open(device_, ring, *this);
  if (!opened.ok()) return opened.status();
  ring_ = std::move(*opened);
  Path* const path = find_path();
  const bool may_keep = (path != nullptr || terms_.cache_bytes > 0) && may_keep_bytes();
  // Under the lease, if there is one. Once: without a lease, a second look might find more than what is registered.
  const Result<std::uint64_t> size = file_->size();
  if (!size.ok()) return size.status();
  if (*size >= gpu::kOffsetEnd) return failure(Code::unsupported, kStep);
  if (may_keep) path_ = path;
  keep_pages(*size);
  value_ = {.struct_size = sizeof value_, .layout = gpu::kLayout, .size = *size, .timeout_ns = terms_.timeout_ns};
  value_.looks = was_leased_ ? 1 : 0;
  ring_->describe(value_);
  const std::uint64_t set_bytes = gpu::kWays * std::uint64_t{value_.slot_bytes};
  const bool has_numbers = *size / value_.slot_bytes < (std::uint64_t{1} << gpu::kBlockBits) - 1;
  const bool has_cache = may_keep && has_numbers && terms_.cache_bytes > 0;
  const std::uint64_t sets = std::clamp<std::uint64_t>(terms_.cache_bytes / set_bytes, 1, UINT32_MAX);
  value_.set_count = has_cache ? static_cast<gpu::Word>(sets) : 0;
  if (const Status status = fill_device_memory(); !status.ok()) return status;
  if (const Status status = offer_device_memory(); !status.ok()) return status;
  is_ready_.store(true);
  // The keeper may have looked before, or the kernel have taken the lease away.
  if (was_leased_ && !lease_.is_held()) {
    ring_->raise_generation();
    may_be_held_.store(false);
  }
  return success();
}

// Null if nothing can be registered; `reason_` says why.
Path* GpuFile::find_path() {
  reason_ = resident_reason::not_wanted;
  if (terms_.resident_bytes_max == 0) return nullptr;
  reason_ = pagecache_reason::registration_cache_off;
  Path* const path = session_.engine().router().fallback_of(device_);
  if (path == nullptr || path->hooks() == nullptr) return nullptr;
  const PointerFacts memory{.kind = MemoryKind::device, .device = &device_};
  const Verdict verdict = path->judge(*file_, memory, Op::read);
  if (!verdict.usable) {
    reason_ = verdict.reason;
    detail_ = verdict.detail;
    return nullptr;
  }
  reason_ = Reason::none;
  return path;
}

// Takes the lease under which kernels may use what was read before.
bool GpuFile::may_keep_bytes() {
  int error = 0;
  const Reason reason = take_lease(error);
  if (reason != Reason::none) std::tie(reason_, detail_) = std::tuple(reason, error);
  return reason == Reason::none || terms_.may_be_stale;
}

void GpuFile::keep_pages(std::uint64_t size) {
  ResidentPages& pages = pages_.emplace_back([this] { return !ring_->is_over(); });
  const PathHooks::Kept kept{.size = size, .bytes_max = terms_.resident_bytes_max};
  if (path_ != nullptr) path_->hooks()->keep(*file_, device_, kept, pages);
  resident_bytes_.store(pages.bytes());
}

Status GpuFile::fill_device_memory() {
  const DevicePlaces places(value_.set_count, value_.slot_count, extent_count(value_.size));
  const MutexLock lock(mutex_);
  Result<std::unique_ptr<CopyQueue>> copies = device_.open_copy_queue(1);
  if (!copies.ok()) return copies.status();
  copies_ = std::move(*copies);
  const Result<void*> memory = device_.memory().allocate(places.size);
  if (!memory.ok()) return memory.status();
  memory_ = static_cast<std::byte*>(*memory);
  value_.standing = reinterpret_cast<gpu::Standing*>(memory_ + places.standing);
  value_.counts = reinterpret_cast<gpu::Counts*>(memory_ + places.counts);
  value_.owners = reinterpret_cast<gpu::Word*>(memory_ + places.owners);
  value_.extents = reinterpret_cast<const gpu::Long*>(memory_ + places.table);
  value_.extent_shift = std::countr_zero(Extent::kBytes);
  if (value_.set_count > 0) {
    const Result<void*> frames = device_.memory().allocate(value_.set_count * gpu::kWays * value_.slot_bytes);
    if (!frames.ok()) return frames.status();
    frames_ = static_cast<std::byte*>(*frames);
    value_.sets = reinterpret_cast<gpu::CacheSet*>(memory_);
    value_.frames = reinterpret_cast<unsigned char*>(frames_);
  }
  const Status status = fill_with_zeros(*copies_, memory_, places.table);
  return status.ok() ? publish(pages_.back(), ring_->generation()) : status;
}

// Gives the ring's slots device memory if the session has a direct path from the file to it.
Status GpuFile::offer_device_memory() {
  const std::uint64_t size = std::uint64_t{value_.slot_count} * value_.slot_bytes;
  const Result<void*> memory = device_.memory().allocate(size);
  if (!memory.ok()) return memory.status();
  staging_ = static_cast<std::byte*>(*memory);
  Status status = session_.register_buffer(staging_, size);
  if (!status.ok()) return status;
  Flight flight;
  status = session_.admit({.op = Op::read, .file = handle_, .base = staging_, .size = size}, &*file_, flight.request);
  if (status.ok()) status = session_.engine().router().choose(flight);
  const std::uint64_t block = std::max<std::uint64_t>(page_size(), file_->direct_offset_align());
  if (status.ok() && traits_of(flight.report.path).direct &&
      is_aligned(reinterpret_cast<std::uintptr_t>(staging_), block)) {
    value_.staging_in_device = reinterpret_cast<const unsigned char*>(staging_);
    ring_path_ = flight.report.path;
    block_ = block;
  } else {
    withdraw_device_memory();
  }
  return success();
}

void GpuFile::withdraw_device_memory() {
  if (staging_ == nullptr) return;
  (void)session_.deregister_buffer(staging_);
  device_.memory().release(std::exchange(staging_, nullptr));
}

Status GpuFile::upload(const void* place, const void* from, std::size_t size) {
  std::byte* const to = static_cast<std::byte*>(const_cast<void*>(place));
  return wait_for_copies(*copies_, copies_->copy_to_device(to, static_cast<const std::byte*>(from), size));
}

Status GpuFile::end() {
  const MutexLock lock(ending_);
  if (ended_) return *ended_;
  // First of all, since kernels may wait for answers.
  if (ring_ != nullptr) ring_->stop();
  join_taker();
  ended_ = memory_ != nullptr ? device_.pages()->wait_for_kernels() : success();
  return *ended_;
}

GpuFile::~GpuFile() {
  const Status waited = end();
  if (was_leased_) lease_.give_back(leased_.is_ours());
  const MutexLock lock(mutex_);
  if (waited.ok() && memory_ != nullptr) (void)count();
  copies_.reset();
  withdraw_device_memory();
  if (frames_ != nullptr) device_.memory().release(frames_);
  if (memory_ != nullptr) device_.memory().release(memory_);
  pages_.clear();
}

// ---- Reads by the ring ---------------------------------------------------------------------------------------------

// None where reads do not pass the page cache. Where the file cannot be opened again, reads are the
// session's requests.
void GpuFile::open_descriptors() {
  descriptors_.resize(terms_.ring.threads);
  if (file_->prefers_o_direct() || session_.config().direct_io == DirectIo::always) return;
  for (Descriptor& each : descriptors_) {
    Result<UniqueFd> own = Lease::reopen(file_->own_descriptor());
    if (own.ok()) each.own = GuardedFd(std::move(*own));
  }
}

// The program may have closed the descriptor, and have opened something else by its number.
void GpuFile::begin_look(unsigned thread) {
  Descriptor& descriptor = descriptors_[thread];
  const int fd = descriptor.own.get();
  descriptor.fd = fd >= 0 && session_.storage().is_descriptor_of(fd, file_->facts(), nullptr) ? fd : -1;
  if (is_given_back_.load(std::memory_order_acquire)) take_again_soon();
}

// False if storage has to be waited for.
bool GpuFile::read_if_cached(unsigned thread, std::uint64_t offset, std::uint32_t bytes, std::byte* memory) {
  const int fd = descriptors_[thread].fd;
  if (fd < 0) return false;
  const Result<std::size_t> got = session_.storage().read_if_cached(fd, memory, bytes, offset);
  if (!got.ok() || *got < bytes) return false;
  session_.engine().count({.bytes = *got, .path = PathId::host, .reason = Reason::host_memory}, Op::read);
  return true;
}

Result<GpuRing::Read> GpuFile::read(unsigned thread, std::uint64_t offset, std::uint32_t bytes,
                                    const GpuRing::SlotMemory& to) {
  if (read_if_cached(thread, offset, bytes, to.pinned)) return GpuRing::Read{bytes};
  if (const std::optional<Result<GpuRing::Read>> read = read_to_device(offset, bytes, to.slot)) return *read;
  const PointerFacts host;
  return read_by_session({.op = Op::read,
                          .file = handle_,
                          .base = to.pinned,
                          .size = bytes,
                          .file_offset = static_cast<std::int64_t>(offset),
                          .memory = &host});
}

// Nothing if the bytes have to come to pinned memory. The path would bounce parts of blocks by a kernel of the
// library's, which perhaps does not begin before those that wait have ended.
std::optional<Result<GpuRing::Read>> GpuFile::read_to_device(std::uint64_t offset, std::uint32_t bytes, unsigned slot) {
  if (staging_ == nullptr || (offset | bytes | value_.slot_bytes) % block_ != 0 || offset + bytes > value_.size) {
    return std::nullopt;
  }
  Result<GpuRing::Read> read =
      read_by_session({.op = Op::read,
                       .file = handle_,
                       .base = staging_,
                       .size = bytes,
                       .file_offset = static_cast<std::int64_t>(offset),
                       .buffer_offset = static_cast<std::int64_t>(std::uint64_t{slot} * value_.slot_bytes),
                       .required = ring_path_});
  if (read.status().is(Code::path_refused)) return std::nullopt;
  if (read.ok()) read->is_in_device = true;
  return read;
}

Result<GpuRing::Read> GpuFile::read_by_session(const RawRequest& request) {
  const Outcome outcome = transfer(session_, request);
  // The file is being closed, and will end the ring in a moment.
  if (outcome.status.is(Code::not_registered)) return failure(Code::closed, kStep);
  if (!outcome.status.ok()) return outcome.status;
  return GpuRing::Read{static_cast<std::uint32_t>(outcome.report.bytes)};
}

void GpuFile::prefetch(unsigned thread, std::uint64_t offset, std::uint32_t bytes) {
  const int fd = descriptors_[thread].fd;
  if (fd >= 0) session_.storage().start_reading(fd, offset, bytes);
}

// ---- Facts --------------------------------------------------------------------------------------------------------

Result<GpuFile::Facts> GpuFile::facts() {
  const MutexLock lock(mutex_);
  Facts facts{.reason = reason_, .detail = detail_, .ring_path = ring_path_, .size = value_.size};
  facts.is_leased = is_standing_ && may_be_held_.load();
  facts.resident_bytes = resident_bytes_.load();
  facts.cache_bytes = value_.set_count * gpu::kWays * value_.slot_bytes;
  const bool is_all = facts.resident_bytes == facts.size;
  if (facts.reason == Reason::none && !is_all) facts.reason = pagecache_reason::extent_not_registered;
  if (was_leased_ && !facts.is_leased) {
    facts.reason = resident_reason::lease_ended;
    facts.resident_bytes = facts.cache_bytes = 0;
  }
  if (const Status status = count(); !status.ok()) return status;
  facts.counts = counted_;
  return facts;
}

Status GpuFile::count() {
  gpu::Counts parts[gpu::kCountParts];
  const Status status = wait_for_copies(*copies_, copies_->copy_to_host(parts, value_.counts, sizeof parts));
  if (!status.ok()) return status;
  gpu::Counts sum = {};
  for (const gpu::Counts& part : parts) add(sum, part);
  const Count fresh{.bytes = sum.resident_bytes - counted_.resident_bytes,
                    .operations = sum.resident_reads - counted_.resident_reads};
  const Reason reason = was_leased_ ? Reason::none : reason_;
  if (fresh.operations > 0) session_.engine().count_sum(PathId::pagecache, reason, Op::read, fresh);
  counted_ = sum;
  return success();
}

// ---- All of a session --------------------------------------------------------------------------------------------

GpuFiles::~GpuFiles() {
  session_.remove(this);
  stop();
}

// A file that is deregistered meanwhile waits for our pin, and may have asked us to forget it before it was found here.
Result<std::uint64_t> GpuFiles::open(std::uint64_t file, const GpuFile::Terms& terms) {
  Result<std::unique_ptr<GpuFile>> opened = GpuFile::open(session_, file, terms);
  if (!opened.ok()) return opened.status();
  const Result<std::uint64_t> number = files_.insert(std::move(*opened));
  if (!number.ok()) return number;
  if (const PinnedFile again(session_, file); again) return number;
  close(*number);
  return failure(Code::not_registered, kStep);
}

void GpuFiles::close(std::uint64_t number) {
  GpuFile* const file = files_.pin(number);
  if (file == nullptr) return;
  (void)file->end();
  files_.unpin(number);
  if (files_.retire(number) != nullptr) (void)files_.wait_and_take(number);
}

void GpuFiles::forget_file(const File& file) {
  for (std::uint64_t number = files_.next(0); number != 0; number = files_.next(number)) {
    GpuFile* const each = files_.pin(number);
    if (each == nullptr) continue;
    const bool is_it = each->is_of(file);
    files_.unpin(number);
    if (is_it) close(number);
  }
}

void GpuFiles::stop() {
  for (std::uint64_t number = files_.next(0); number != 0; number = files_.next(number)) close(number);
}

}  // namespace penstock::core
