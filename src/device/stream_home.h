// SPDX-License-Identifier: Apache-2.0

// The seam to users' streams: queues our work on them, in stream order, without waiting.
//
// A StreamHome is where streams run: one CUDA context, or host memory standing in for it. It outlives sessions and
// lives as long as its context, so that work queued on a stream stays valid after its session is closed. Requests on
// streams (frontend/) see this class only. Nothing that a stream waits for may need the GPU outside of that stream: on
// an H200 machine a few held streams are enough to hold up every copy and every kernel of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "device/stream_memory.h"

namespace penstock::core {

// Work for users' streams, in the order of these calls. Words and copies lie in blocks of the home's memory. None of
// them throws, also where memory is short: their caller lets the stream pass the work that it had queued before.
class StreamWork {
 public:
  // Calls function(argument), on a thread of the driver's, which must not call the device.
  virtual Status call(void* stream, void (*function)(void*), void* argument) = 0;
  // Copies at most `size_max` bytes as *what says at the time when the stream reaches the copy.
  virtual Status copy(void* stream, const StreamBlock& block, const StreamCopy& what, std::uint64_t size_max) = 0;
  // Copies at once: the stream has done its earlier work, and `what` is final. `what` may be anywhere, and need not
  // outlive the call; its bytes, in the block or in registered pages, must.
  virtual Status copy_at_once(void* stream, const StreamBlock& block, const StreamCopy& what) = 0;
  // The stream continues when the word has reached the value. Both are serial numbers, which may wrap.
  virtual Status wait(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) = 0;
  virtual Status write(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) = 0;
  // Raises the word, which only grows. Any thread may call it; it makes no call to the device.
  virtual void set(std::uint32_t& word, std::uint32_t value) = 0;

 protected:
  ~StreamWork() = default;
};

class StreamHome {
 public:
  // `work` is a part of the home; the constructor does not use it.
  explicit StreamHome(StreamWork* work) : id_(next_id()), work_(work), memory_(*this) {}
  virtual ~StreamHome() = default;
  StreamHome(const StreamHome&) = delete;
  StreamHome& operator=(const StreamHome&) = delete;

  // Unique: never reused, even after the home is gone.
  std::uint64_t id() const { return id_; }
  // True if a stream can wait for a word and write one. If not, wait() and write() must not be used: a function that
  // waits holds the stream up as well, together with a thread of the driver's and the functions of other streams.
  virtual bool has_words() const = 0;
  // True if copies in the streams of this home reach the memory at `base`.
  virtual bool reaches(const PointerFacts& memory, const void* base) const = 0;
  // True if its streams reach file pages that are registered with the device, at their mapped addresses.
  bool reaches_pages_of(const Device& device) const {
    const void* const context = pages_context();
    return context != nullptr && device.pages() != nullptr && context == device.pages()->pages_context();
  }
  // True if the stream has done all its work, so that work queued now could start at once. False also if the driver
  // does not say.
  virtual bool is_through(void* stream) = 0;
  // Waits until the stream has done the work queued so far.
  virtual Status drain(void* stream) = 0;

  StreamWork& work() const { return *work_; }
  // Memory that streams of this home reach.
  StreamMemory& memory() { return memory_; }

 private:
  friend class StreamMemory;

  virtual const void* pages_context() const = 0;
  // Registers mapped memory of ours with the device, for good. `shift`: its device address minus its host address.
  // Fails with already_registered if the device's driver takes it for registered.
  virtual Status pin(void* memory, std::size_t size, std::uint64_t& shift) = 0;

  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  const std::uint64_t id_;
  StreamWork* const work_;
  StreamMemory memory_;
};

}  // namespace penstock::core
