// SPDX-License-Identifier: Apache-2.0

// What the cases of streams share: requests that stay alive, streams, and a way to hold one up.
#ifndef PENSTOCK_CONFORMANCE_STREAM_KIT_H_
#define PENSTOCK_CONFORMANCE_STREAM_KIT_H_

#include <atomic>
#include <chrono>
#include <thread>

#include "fixture.h"

namespace conformance {

constexpr std::size_t kSize = 64 * kKib;

inline CUstream as_stream(Stream stream) { return static_cast<CUstream>(stream); }

// What must stay alive until the stream has passed.
struct Wish {
  std::size_t size = kSize;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t bytes = -12345;
};
inline CUfileError_t read_async(Fixture& w, CUfileHandle_t handle, void* base, Wish& wish, Stream stream) {
  return w.cuFileReadAsync(handle, base, &wish.size, &wish.file_offset, &wish.buffer_offset, &wish.bytes,
                           as_stream(stream));
}
inline CUfileError_t write_async(Fixture& w, CUfileHandle_t handle, void* base, Wish& wish, Stream stream) {
  return w.cuFileWriteAsync(handle, base, &wish.size, &wish.file_offset, &wish.buffer_offset, &wish.bytes,
                            as_stream(stream));
}

inline Stream make_stream(Fixture& w, unsigned flags = kStreamNonBlocking) {
  w.need_gpu();
  Stream stream = nullptr;
  w.must_cuda("cuStreamCreate", w.cuda.cuStreamCreate(&stream, flags));
  return stream;
}
inline void synchronize(Fixture& w, Stream stream) {
  w.must_cuda("cuStreamSynchronize", w.cuda.cuStreamSynchronize(stream));
}

// Holds a stream until let go, for three seconds at most.
class Hold {
 public:
  Hold(Fixture& w, Stream stream) { w.must_cuda("cuLaunchHostFunc", w.cuda.cuLaunchHostFunc(stream, wait, this)); }
  void let_go() { free_ = true; }
  bool was_let_go() const { return !late_; }

 private:
  static void wait(void* self) {
    Hold& hold = *static_cast<Hold*>(self);
    for (int turn = 0; turn < 3000 && !hold.free_; ++turn) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    hold.late_ = !hold.free_;
  }
  std::atomic<bool> free_ = false, late_ = false;
};

}  // namespace conformance

#endif  // PENSTOCK_CONFORMANCE_STREAM_KIT_H_
