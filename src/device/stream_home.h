// SPDX-License-Identifier: Apache-2.0

// The seam to users' streams: queues work of ours on them, in their order, without waiting for anything.
//
// A StreamHome is where streams run: one CUDA context, or host memory standing in for it. It outlives sessions
// and goes with its context, so that what a stream was told to do stays true when the session that told it is gone.
// Requests on streams (frontend/) see this class only. Nothing that a stream waits for may need the GPU outside of that
// stream: on an H200 machine a few held streams are enough to hold up every copy and every kernel of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "device/stream_memory.h"

namespace penstock::core {

// Work for users' streams, in the order of these calls. Words and copies lie in blocks of the home's memory.
class StreamWork {
 public:
  // Calls function(argument), on a thread of the driver's, which must not call the device.
  virtual Status call(void* stream, void (*function)(void*), void* argument) = 0;
  // Copies what `what` says when the stream gets there, at most `size_max` bytes.
  virtual Status copy(void* stream, const StreamBlock& block, const StreamCopy& what, std::uint64_t size_max) = 0;
  // Copies at once: the stream is through with its earlier work, and `what` is known. `what` may lie anywhere, and need
  // not stay; the bytes that it names, in the block or in registered pages, must.
  virtual Status copy_at_once(void* stream, const StreamBlock& block, const StreamCopy& what) = 0;
  // Goes on when the word has reached the value: serial numbers, which may wrap.
  virtual Status wait(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) = 0;
  virtual Status write(void* stream, const StreamBlock& block, const std::uint32_t& word, std::uint32_t value) = 0;
  // From any thread, without a call to the device: raises the word, which never goes back.
  virtual void set(std::uint32_t& word, std::uint32_t value) = 0;

 protected:
  ~StreamWork() = default;
};

class StreamHome {
 public:
  // The work is a part of the home, and not used before it is made.
  explicit StreamHome(StreamWork* work) : id_(next_id()), work_(work), memory_(*this) {}
  virtual ~StreamHome() = default;
  StreamHome(const StreamHome&) = delete;
  StreamHome& operator=(const StreamHome&) = delete;

  // Never another home's, also when this one is gone.
  std::uint64_t id() const { return id_; }
  // True if a stream can wait for a word and write one. If not, wait() and write() must not be used: a function that
  // waits holds the stream up as well, together with a thread of the driver's and the functions of other streams.
  virtual bool has_words() const = 0;
  // True if copies in the streams of this home reach the memory at `base`.
  virtual bool reaches(const PointerFacts& memory, const void* base) const = 0;
  // True if they reach the pages of files that are registered with the device, at the addresses where they are mapped.
  bool reaches_pages_of(const Device& device) const {
    const void* const context = pages_context();
    return context != nullptr && device.pages() != nullptr && context == device.pages()->pages_context();
  }
  // True if the stream has done all its work, so that it is already where something queued now would find it. False
  // also if the driver cannot tell.
  virtual bool is_through(void* stream) = 0;
  // Waits until the stream is through with what was queued so far.
  virtual Status drain(void* stream) = 0;

  StreamWork& work() const { return *work_; }
  // Memory that streams of this home reach.
  StreamMemory& memory() { return memory_; }

 private:
  friend class StreamMemory;

  virtual const void* pages_context() const = 0;
  // Makes mapped memory of ours known to the device, for good. `shift`: its address there, less that here.
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
