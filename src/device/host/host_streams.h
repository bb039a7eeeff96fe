// SPDX-License-Identifier: Apache-2.0

// Streams of the stand-in device: any handle is a stream, also null. A stream does its work in order, at once, on the
// thread whose call made the work ready.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "base/mutex.h"
#include "device/host/pinned_pages.h"
#include "device/stream_home.h"

namespace penstock::core {

class HostStreamHome : public StreamHome, public StreamWork {
 public:
  HostStreamHome() : StreamHome(this) {}
  // The process's home. A forked child gets a new one: it has no thread to continue the parent's work.
  static HostStreamHome& of_process();

  bool has_words() const override { return true; }
  bool reaches(const PointerFacts& memory, const void*) const override {
    return memory.device != nullptr && memory.device->facts().stand_in;
  }
  bool is_through(void* stream) override;
  Status call(void* stream, void (*function)(void*), void* argument) override;
  Status copy(void* stream, const StreamBlock&, const StreamCopy& what, std::uint64_t) override;
  Status copy_at_once(void* stream, const StreamBlock&, const StreamCopy& what) override;
  Status wait(void* stream, const StreamBlock&, const std::uint32_t& word, std::uint32_t value) override;
  Status write(void* stream, const StreamBlock&, const std::uint32_t& word, std::uint32_t value) override;
  void set(std::uint32_t& word, std::uint32_t value) override;
  Status drain(void* stream) override;

  // Returns when all streams have done the work queued so far.
  void drain_all();
  // Files' pages that are registered with the stand-in's devices.
  PinnedPages& pages() { return pages_; }

 private:
  struct Work {
    enum class Kind : std::uint8_t { call, copy, wait, write } kind;
    void (*function)(void*) = nullptr;
    void* argument = nullptr;
    const StreamCopy* copy = nullptr;  // Null: the copy is in `known`.
    StreamCopy known;
    std::uint32_t* word = nullptr;
    std::uint32_t value = 0;
  };
  struct Stream {
    std::deque<Work> work;
    std::uint64_t done = 0;  // Number of items done since the stream began.
    bool busy = false;       // A thread is working on the stream.

    std::uint64_t given() const { return done + work.size(); }
  };

  Status add(void* stream, const Work& work);
  void go_on(Stream& stream) REQUIRES(mutex_);
  void wait_until_done(const Stream& stream, std::uint64_t given) REQUIRES(mutex_);
  void raise(std::uint32_t& word, std::uint32_t value) REQUIRES(mutex_);
  bool do_first(Stream& stream) REQUIRES(mutex_);
  void copy_bytes(const StreamCopy& what);
  const void* pages_context() const override { return this; }
  Status pin(void*, std::size_t, std::uint64_t& shift) override;

  PinnedPages pages_;
  Mutex mutex_;
  ConditionVariable progress_;
  unsigned waiting_ GUARDED_BY(mutex_) = 0;             // For that.
  std::map<void*, Stream> streams_ GUARDED_BY(mutex_);  // Never shrinks.
};

}  // namespace penstock::core
