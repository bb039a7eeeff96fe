// SPDX-License-Identifier: Apache-2.0

#include "frontend/gpu_ring.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/align.h"
#include "base/page_size.h"
#include "base/thread.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

// While kernels ask, the next request comes within microseconds; sleeping and waking takes some fifty.
constexpr auto kSpinsFor = 200us;
constexpr std::chrono::nanoseconds kSleepsAtFirst = 20us, kSleepsAtMost = 500us;
constexpr unsigned kLooksApart = 8;  // Looks without a request between two looks at the clock.

template <typename T>
void store(T& place, T value, std::memory_order order = std::memory_order_relaxed) {
  std::atomic_ref(place).store(value, order);
}

gpu::Error error_of(const Status& status) {
  if (status.ok()) return gpu::Error::none;
  if (status.is(Code::closed)) return gpu::Error::closed;
  return status.domain == Domain::os ? gpu::Error::os : gpu::Error::refused;
}

std::uint32_t request_number(std::uint64_t what) { return static_cast<std::uint32_t>(what >> 32) & gpu::kNumberMask; }

}  // namespace

class GpuRing::Attendance {
 public:
  explicit Attendance(GpuRing& ring) : ring_(ring) {}
  ~Attendance() { ring_.end(gpu::Error::proxy_gone); }
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

 private:
  GpuRing& ring_;
};

GpuRing::Places::Places(const Terms& terms)
    : slots(gpu::kControls * sizeof(gpu::Control)), requests(slots + terms.slots * sizeof(gpu::Slot)),
      staging(align_up(requests + terms.slots * sizeof(gpu::Request), page_size())),
      size(align_up(staging + std::size_t{terms.slots} * terms.slot_bytes, page_size())) {}

GpuRing::GpuRing(const Terms& terms, Reader& reader, PinnedBlock memory, std::byte* in_kernels)
    : terms_(terms), places_(terms), reader_(reader), memory_(std::move(memory)), in_kernels_(in_kernels),
      threads_(terms.threads), answered_(terms.slots / gpu::kSlotsOfLine + 1) {
  for (unsigned i = 0; i < gpu::kControls; ++i) new (&control(i)) gpu::Control{gpu::Error::none, 1};
  for (unsigned i = 0; i < terms_.slots; ++i) {
    new (&slot(i)) gpu::Slot{};
    new (&request(i)) gpu::Request{};
  }
}

Result<std::unique_ptr<GpuRing>> GpuRing::open(Device& device, const Terms& terms, Reader& reader) {
  const Placement placement = terms.placement != nullptr ? *terms.placement : Placement{};
  Result<PinnedBlock> memory = PinnedBlock::open(&device, Places(terms).size, placement);
  if (!memory.ok()) return memory.status();
  const Result<void*> in_kernels = device.pages()->address_in_kernels(memory->data());
  if (!in_kernels.ok()) return in_kernels.status();
  std::unique_ptr<GpuRing> ring(new GpuRing(terms, reader, std::move(*memory), static_cast<std::byte*>(*in_kernels)));
  if (!ring->start()) return failure(Code::out_of_memory, "start a thread that answers kernels");
  return ring;
}

bool GpuRing::start() {
  const auto body = [](void* argument) {
    const auto& own = *static_cast<const Thread*>(argument);
    own.ring->serve(own.number);
  };
  for (unsigned i = 0; i < terms_.threads; ++i) {
    threads_[i] = {this, i};
    if (start_thread(threads_[i].handle, "penstock-gpu", body, &threads_[i])) continue;
    threads_.resize(i);
    return false;
  }
  return true;
}

GpuRing::~GpuRing() { stop(); }

void GpuRing::stop() {
  {
    const MutexLock lock(mutex_);
    end(gpu::Error::closed);
    stopping_.notify_all();
  }
  for (const Thread& thread : std::exchange(threads_, {})) ::pthread_join(thread.handle, nullptr);
}

// The first cause stays.
void GpuRing::end(gpu::Error error) {
  gpu::Error none = gpu::Error::none;
  if (!std::atomic_ref(control(0).over).compare_exchange_strong(none, error)) return;
  for (unsigned i = 1; i < gpu::kControls; ++i) store(control(i).over, error, std::memory_order_release);
}

bool GpuRing::is_over() const { return std::atomic_ref(control(0).over).load() != gpu::Error::none; }

// All of them have changed when it returns.
void GpuRing::raise_generation() {
  for (unsigned i = 0; i < gpu::kControls; ++i) std::atomic_ref(control(i).generation).fetch_add(1);
}

void GpuRing::serve(unsigned number) {
  const Attendance attendance(*this);
  std::chrono::nanoseconds pause = kSleepsAtFirst;
  bool sleeps = false;
  for (auto idle_since = std::chrono::steady_clock::now(); !is_over();) {
    bool was_asked = look(number);
    for (unsigned looks = 1; looks < kLooksApart && !was_asked && !sleeps; ++looks) was_asked = look(number);
    const auto now = std::chrono::steady_clock::now();
    if (was_asked) {
      idle_since = now;
      pause = kSleepsAtFirst;
    }
    sleeps = now - idle_since >= kSpinsFor;
    if (!sleeps) continue;
    sleep(pause);
    pause = std::min(2 * pause, kSleepsAtMost);
  }
}

void GpuRing::sleep(std::chrono::nanoseconds time) {
  const MutexLock lock(mutex_);
  if (!is_over()) (void)stopping_.wait_until(mutex_, std::chrono::steady_clock::now() + time);
}

// Answers those of the thread's own slots that ask; false if none did.
bool GpuRing::look(unsigned thread) {
  bool was_asked = false;
  for (unsigned line = thread * gpu::kSlotsOfLine; line < terms_.slots; line += terms_.threads * gpu::kSlotsOfLine) {
    for (unsigned i = line; i < std::min(line + gpu::kSlotsOfLine, terms_.slots); ++i) {
      const std::uint64_t what = std::atomic_ref(request(i).what).load(std::memory_order_acquire);
      std::uint32_t& answered = answered_[i / gpu::kSlotsOfLine].numbers[i % gpu::kSlotsOfLine];
      const std::uint32_t number = request_number(what);
      if (number == answered) continue;
      const std::uint64_t place = std::atomic_ref(request(i).place).load(std::memory_order_relaxed);
      if ((place ^ number) % 256 != 0) continue;  // Its other half has still to come.
      if (!was_asked) reader_.begin_look(thread);
      was_asked = true;
      answer(thread, i, what, place >> 8);
      answered = number;
    }
  }
  return was_asked;
}

void GpuRing::answer(unsigned thread, unsigned index, std::uint64_t what, std::uint64_t offset) {
  gpu::Slot& asked = slot(index);
  const Result<Read> read = move(thread, index, what, offset);
  const Status status = read.status();
  if (!status.ok()) store(asked.detail, status.code);
  const gpu::Word moved = read.ok() ? read->bytes | (read->is_in_device ? gpu::kInDevice : 0) : 0;
  store(asked.answer, gpu::answer(request_number(what), error_of(status), moved), std::memory_order_release);
}

// A kernel that has gone wrong may ask for anything.
Result<GpuRing::Read> GpuRing::move(unsigned thread, unsigned index, std::uint64_t what, std::uint64_t offset) {
  const auto size = static_cast<std::uint32_t>(what);
  const std::uint64_t kind = what >> 62;
  if (kind == gpu::kPrefetch && size > 0 && size <= gpu::kPrefetchBytes) {  // 0 bytes would be all of the file.
    reader_.prefetch(thread, offset, size);
    return Read{0};
  }
  if (kind != gpu::kRead || size == 0 || size > terms_.slot_bytes) {
    return failure(Code::invalid_argument, "read for a kernel");
  }
  std::byte* const pinned = memory_.data() + places_.staging + std::size_t{index} * terms_.slot_bytes;
  return reader_.read(thread, offset, size, {pinned, index});
}

void GpuRing::describe(gpu::Layout& layout) const {
  layout.controls = reinterpret_cast<const gpu::Control*>(in_kernels_);
  layout.slots = reinterpret_cast<const gpu::Slot*>(in_kernels_ + places_.slots);
  layout.requests = reinterpret_cast<gpu::Request*>(in_kernels_ + places_.requests);
  layout.staging = reinterpret_cast<const unsigned char*>(in_kernels_ + places_.staging);
  layout.slot_count = terms_.slots;
  layout.slot_bytes = terms_.slot_bytes;
}

}  // namespace penstock::core
