// SPDX-License-Identifier: Apache-2.0

#include "simulation/gpu.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "device/device.h"
#include "device/host/pinned_pages.h"
#include "simulation/files.h"

namespace penstock::simulation {
namespace {

using namespace core::cuda;

constexpr Nanoseconds kMicrosecond = 1000, kMillisecond = 1'000'000;
constexpr Nanoseconds kHeldMax = 3600'000 * kMillisecond;  // A look waits an eighth of what came before.
constexpr std::size_t kAlign = 512, kLargeAlign = 64 << 10;
constexpr CUresult kOutOfMemory = 2;
constexpr unsigned kCallThreads = 4;
// So many streams that are held keep kernels waiting, and with a copy behind the hold copies, as was measured.
constexpr unsigned kHeldForKernels = 8, kHeldForCopies = 4;
// What a call tells of a GPU that is lost: the driver is shut down, the device is not available, its memory is broken,
// an address is illegal, a launch failed.
constexpr CUresult kLosses[] = {CUDA_ERROR_DEINITIALIZED, 46, 214, 700, 719};

void* pointer(Address address) { return reinterpret_cast<void*>(address); }
Address address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

void count(Fault fault) { ++disk().faults[static_cast<std::size_t>(fault)]; }

void* call_for_streams(void*) { gpu().run_calls(); }

}  // namespace

Gpu& gpu() {
  static auto* const only = new Gpu;
  return *only;
}

void Gpu::plug_in() {
  Random& random = scheduler().random();
  descriptor_ = ::memfd_create("simulated-gpu", MFD_CLOEXEC);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, kBytes) != 0) scheduler().fail("a GPU can have no memory");
  const auto map = [&](int access) {
    return ::mmap(nullptr, kBytes, access, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  };
  memory_ = address_of(map(PROT_NONE));
  alias_ = static_cast<std::byte*>(map(PROT_READ | PROT_WRITE));
  owner_ = ::getpid();
  is_out_of_reach = [](const void* one) { return gpu().owns(address_of(one)); };
  has_words_ = !random.one_in(4);
  has_kernels_ = !random.one_in(8);
  tells_when_lost_ = random.one_in(2);
  constexpr unsigned kRefusals[] = {0, 400, 40, 12};
  refuses_one_in_ = kRefusals[random.below(4)];
  if (random.one_in(2))
    refuses_after_ = static_cast<unsigned>(random.between(20, 400));  // Self-tests are over by then.
  if (random.one_in(4)) coming_loss_ = 1 << random.between(3, 15);
  default_ = open_stream(true);
  default_->is_default = true;
  for (unsigned i = 0; i < threads(); ++i) {
    pthread_t thread;
    if (::pthread_create(&thread, nullptr, call_for_streams, nullptr) != 0) scheduler().fail("a driver has no thread");
  }
}

bool Gpu::is_there() const { return owner_ != 0 && owner_ == ::getpid(); }
unsigned Gpu::threads() const { return is_there() ? kCallThreads : 0; }

std::byte* Gpu::seen(const void* memory) const {
  const Address address = address_of(memory);
  return owns(address) ? alias_ + (address - memory_) : static_cast<std::byte*>(const_cast<void*>(memory));
}

// ---- What goes wrong ------------------------------------------------------------------------------------------------

bool Gpu::has_refused(int error) const { return refused_.contains(error); }

int Gpu::trouble(bool may_be_refused) {
  if (loss_ != 0) return loss_;
  if (coming_loss_ > 0 && --coming_loss_ == 0) lose(kLosses[scheduler().random().below(std::size(kLosses))]);
  if (loss_ != 0) return loss_;
  const bool may_refuse = may_be_refused && refuses_one_in_ != 0 && ++asked_ > refuses_after_;
  if (!may_refuse || !scheduler().random().one_in(refuses_one_in_)) return CUDA_SUCCESS;
  count(Fault::refused);
  ++refused_[kOutOfMemory];
  return kOutOfMemory;
}

// What was just being copied may have been copied in part. All of that lands before anybody is told of the loss: while
// pages of a file are read another thread may go on, and whoever knows of the loss waits for nothing any more.
void Gpu::lose(int loss) {
  if (std::exchange(is_still_, true)) return;
  count(Fault::broken);
  for (std::size_t i = 0; i < streams_.size(); ++i) {  // There may be more by then.
    const GpuStream& stream = streams_[i];
    const GpuWork* const work = stream.is_busy && !stream.pending.empty() ? &stream.pending.front() : nullptr;
    if (work == nullptr || work->kind != GpuWork::Kind::copy) continue;
    copy(work->to, work->from, scheduler().random().below(work->size + 1));
  }
  loss_ = loss;
  calls_.clear();
  for (GpuStream& stream : streams_) scheduler().wake(&stream);
  scheduler().wake(this);
}

void Gpu::shut_down() {
  lose(CUDA_ERROR_DEINITIALIZED);
  while (!is_lost()) scheduler().wait(Call::ring, this);  // Another thread has begun it.
  loss_ = CUDA_ERROR_DEINITIALIZED;
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

// The first room that is large enough.
Address Gpu::allocate(std::size_t size) {
  const std::size_t align = size < kLargeAlign ? kAlign : kLargeAlign;
  Address at = memory_;
  for (const auto& [begin, block] : blocks_) {
    if (!owns(begin)) continue;
    if (begin >= at + size) break;
    at = std::max(at, (begin + block.size + align - 1) / align * align);
  }
  if (size == 0 || at + size > memory_ + kBytes) return 0;
  blocks_[at] = {.size = size, .number = ++allocations_};
  return at;
}

bool Gpu::free(Address address) { return owns(address) && blocks_.erase(address) == 1; }

int Gpu::add_host(void* memory, std::size_t size, bool is_of_a_file) {
  const Address begin = address_of(memory);
  const auto next = blocks_.lower_bound(begin);
  const bool is_free = !knows(find(begin)) && (next == blocks_.end() || next->first >= begin + size);
  if (!is_free) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Block block{.size = size, .number = ++allocations_, .is_host = true};
  if (is_of_a_file) {
    block.pages = std::make_shared<core::PinnedPages>();
    if (!block.pages->add(static_cast<std::byte*>(memory), size, false).ok()) return CUDA_ERROR_INVALID_VALUE;
  }
  blocks_[begin] = std::move(block);
  return CUDA_SUCCESS;
}

bool Gpu::remove_host(void* memory) {
  const auto found = blocks_.find(address_of(memory));
  if (found == blocks_.end() || !found->second.is_host) return false;
  blocks_.erase(found);
  return true;
}

Gpu::Blocks::const_iterator Gpu::find(Address address) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return blocks_.end();
  --after;
  return address - after->first < after->second.size ? after : blocks_.end();
}

bool Gpu::is_reached(Address address, std::size_t size) const {
  const auto block = find(address);
  return size == 0 || (knows(block) && address + size <= block->first + block->second.size);
}

bool Gpu::has_pinned(const void* memory, std::size_t size) const {
  const auto next = blocks_.lower_bound(address_of(memory) + size);
  if (next == blocks_.begin()) return false;
  const auto& [begin, block] = *std::prev(next);
  return block.is_host && address_of(memory) < begin + block.size;
}

void Gpu::require_reached(Address address, std::size_t size) const {
  if (!is_reached(address, size)) scheduler().fail("the GPU is to use memory that is not allocated, or not any more");
}

// ---- Streams --------------------------------------------------------------------------------------------------------

GpuStream* Gpu::open_stream(bool waits_for_default) {
  return &streams_.emplace_back(GpuStream{.waits_for_default = waits_for_default});
}

// The default stream waits for the others, but for those that do not take part, and they for it.
void Gpu::give(GpuStream& stream, GpuWork work) {
  const auto wait_for = [&](GpuStream& other) {
    if (!other.pending.empty()) work.after.emplace_back(&other, other.end());
  };
  if (stream.is_default) {
    for (GpuStream& other : streams_) {
      if (other.waits_for_default && !other.is_default) wait_for(other);
    }
  } else if (stream.waits_for_default) {
    wait_for(*default_);
  }
  stream.pending.push_back(std::move(work));
  start(stream);
}

bool Gpu::is_ready(const GpuStream& stream) const {
  const GpuWork& work = stream.pending.front();
  const auto is_over = [](const auto& one) { return one.first->landed >= one.second; };
  return std::all_of(work.after.begin(), work.after.end(), is_over) && !is_crowded_out(work);
}

bool Gpu::is_held(const GpuStream& stream) const {
  return !stream.pending.empty() && stream.pending.front().kind == GpuWork::Kind::wait && stream.pause != 0;
}

bool Gpu::is_crowded_out(const GpuWork& work) const {
  if (!work.is_kernel() && work.kind != GpuWork::Kind::copy) return false;
  const auto has_copy = [](const GpuStream& stream) {
    return std::any_of(stream.pending.begin(), stream.pending.end(),
                       [](const GpuWork& one) { return one.kind == GpuWork::Kind::copy; });
  };
  const auto held = std::count_if(streams_.begin(), streams_.end(), [&](const GpuStream& stream) {
    return is_held(stream) && (work.is_kernel() || has_copy(stream));
  });
  return held >= (work.is_kernel() ? kHeldForKernels : kHeldForCopies);
}

Nanoseconds Gpu::time_of(const GpuWork& work) const {
  Random& random = scheduler().random();
  if (work.kind == GpuWork::Kind::nothing) return 0;
  if (random.one_in(64)) return count(Fault::late), random.between(1, 100) * 100 * kMicrosecond;
  return random.between(2, 30) * kMicrosecond + work.size / 50;
}

void Gpu::start(GpuStream& stream) {
  if (stream.is_busy || stream.pending.empty() || is_still_ || !is_ready(stream)) return;
  stream.is_busy = true;
  const GpuWork& work = stream.pending.front();
  if (work.kind == GpuWork::Kind::wait) return look_at_word(stream);
  if (work.kind == GpuWork::Kind::call) {
    calls_.push_back(&stream);
    scheduler().wake(&calls_, 1);
    return;
  }
  scheduler().at(scheduler().now() + time_of(work), [this, &stream] {
    if (is_still_) return;
    perform(stream.pending.front());
    end_first(stream);
  });
}

// The longer it waits, the more seldom it looks.
void Gpu::look_at_word(GpuStream& stream) {
  const GpuWork& work = stream.pending.front();
  const std::uint32_t there =
      std::atomic_ref(*reinterpret_cast<std::uint32_t*>(seen(pointer(work.to)))).load(std::memory_order_acquire);
  if (static_cast<std::int32_t>(there - work.value) >= 0) {
    stream.pause = 0;
    return end_first(stream);
  }
  stream.pause = std::max(2 * kMicrosecond, stream.pause + stream.pause / 8);
  if (stream.pause > kHeldMax) scheduler().fail("a stream is held for ever");
  scheduler().at(scheduler().now() + stream.pause, [this, &stream] {
    if (!is_still_) look_at_word(stream);
  });
}

void Gpu::end_first(GpuStream& stream) {
  stream.pending.pop_front();
  ++stream.landed;
  stream.is_busy = false;
  scheduler().wake(&stream);
  scheduler().wake(this);
  for (GpuStream& one : streams_) start(one);
}

bool Gpu::has_call_left(const GpuStream& stream) {
  return std::any_of(stream.pending.begin(), stream.pending.end(),
                     [](const GpuWork& work) { return work.kind == GpuWork::Kind::call; });
}

void Gpu::wait_for(const GpuStream& stream, std::uint64_t target) {
  while (stream.landed < target && !is_lost()) scheduler().wait(Call::ring, &stream);
}

void Gpu::wait_for_all() {
  for (std::size_t i = 0; i < streams_.size(); ++i) wait_for(streams_[i], streams_[i].end());
}

void Gpu::wait_for_held() {
  const auto is_one_held = [&] {
    return std::any_of(streams_.begin(), streams_.end(), [&](const GpuStream& stream) { return is_held(stream); });
  };
  while (is_one_held() && !is_lost()) scheduler().wait(Call::ring, this, scheduler().now() + kMillisecond);
}

void Gpu::run_calls() {
  while (true) {
    while (calls_.empty()) scheduler().wait(Call::ring, &calls_);
    GpuStream& stream = *calls_.front();
    calls_.pop_front();
    const GpuWork call = stream.pending.front();
    call.function(call.argument);
    if (!is_still_) end_first(stream);
    else stream.pending.pop_front();
  }
}

// ---- Work -----------------------------------------------------------------------------------------------------------

void Gpu::copy(Address to, Address from, std::size_t size) {
  if (size == 0) return;
  for (const Address address : {to, from}) {
    if (owns(address)) require_reached(address, size);
  }
  const auto block = find(from);
  const bool is_of_a_file = knows(block) && block->second.pages != nullptr;
  if (!is_of_a_file) std::memmove(seen(pointer(to)), seen(pointer(from)), size);
  else if (!block->second.pages->fetch(seen(pointer(to)), pointer(from), size))
    scheduler().fail("the GPU is to read pages of a file beyond those that are registered");
}

void Gpu::store(Address word, std::uint32_t value) {
  require_reached(word, sizeof value);
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(seen(pointer(word)))).store(value, std::memory_order_release);
}

void Gpu::sum(const GpuWork& work) {
  require_reached(work.to, work.size);
  const std::span blocks(reinterpret_cast<core::ChecksumBlock*>(seen(pointer(work.to))),
                         work.size / sizeof(core::ChecksumBlock));
  for (core::ChecksumBlock& block : blocks) {
    require_reached(address_of(block.address), block.bytes);
    const std::span<const std::byte> bytes(seen(block.address), block.bytes);
    if (work.kind == GpuWork::Kind::hash) block.hash = core::Hash64::of_block(bytes);
    else block.sum ^= core::crc32c(bytes) ^ core::crc32c_of_zeros(bytes.size());
  }
}

void Gpu::perform(const GpuWork& work) {
  switch (work.kind) {
    case GpuWork::Kind::copy: return copy(work.to, work.from, work.size);
    case GpuWork::Kind::checksum:
    case GpuWork::Kind::hash: return sum(work);
    case GpuWork::Kind::write: return store(work.to, work.value);
    case GpuWork::Kind::scatter:
      for (const core::ScatterPiece& piece : work.pieces) {
        require_reached(piece.to, piece.size);
        require_reached(piece.from, piece.size);
        copy(piece.to, piece.from, piece.size);
      }
      return work.end.word == 0 ? void() : store(work.end.word, static_cast<std::uint32_t>(work.end.value));
    case GpuWork::Kind::copy_as_told: {
      Address told[3];
      require_reached(work.from, sizeof told);
      std::memcpy(told, seen(pointer(work.from)), sizeof told);
      for (const Address address : {told[0], told[1]}) require_reached(address, told[2]);
      return copy(told[0], told[1], told[2]);
    }
    default: return;
  }
}

}  // namespace penstock::simulation
