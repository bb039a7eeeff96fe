// SPDX-License-Identifier: Apache-2.0

// -x 5 and 7: asynchronous calls, each slot's on a stream of its own.
#include <fmt/format.h>

#include <deque>
#include <limits>
#include <vector>

#include "tools/common/failure.h"
#include "tools/gdsio/transport.h"

namespace penstock::tools {
namespace {

constexpr ssize_t kNotDone = std::numeric_limits<ssize_t>::min();

// Arguments that an asynchronous call reads when its stream arrives, and the result that it leaves: it must not move.
struct AsyncCall {
  CUstream stream = nullptr;
  Extent extent;
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t result = kNotDone;
};

class StreamTransport final : public CufileTransport {
 public:
  explicit StreamTransport(const ThreadSetup& setup) : CufileTransport(setup), calls_(setup.depth) {
    for (AsyncCall& call : calls_) {
      // If host memory stands in for a GPU, any handle is a stream.
      void* const stream = setup.cuda != nullptr ? setup.cuda->open_stream() : &call;
      call.stream = static_cast<CUstream>(stream);
      require_cufile(cuFileStreamRegister(call.stream, 0), setup.file->path(), "cuFileStreamRegister");
    }
  }
  ~StreamTransport() override {
    for (const AsyncCall& call : calls_) {
      (void)cuFileStreamDeregister(call.stream);  // Waits for it.
      if (setup_.cuda != nullptr) setup_.cuda->close_stream(call.stream);
    }
  }

  void start(unsigned slot, const Extent& extent) override {
    AsyncCall& call = calls_[slot];
    call.extent = extent;
    call.size = extent.size;
    call.file_offset = static_cast<off_t>(extent.offset);
    call.memory_offset = static_cast<off_t>(slot * slot_size());
    call.result = kNotDone;
    const auto begin = setup_.is_write ? cuFileWriteAsync : cuFileReadAsync;
    require_cufile(begin(setup_.file->handle(), arena().data(), &call.size, &call.file_offset, &call.memory_offset,
                         &call.result, call.stream),
                   setup_.file->path(), name());
    under_way_.push_back(slot);
  }

  unsigned reap(std::span<Completion> done) override {
    const unsigned slot = under_way_.front();
    under_way_.pop_front();
    const AsyncCall& call = calls_[slot];
    wait_for(call.stream);
    if (call.result == kNotDone) throw Failure(fmt::format("{}: {} left no result", setup_.file->path(), name()));
    done[0] =
        completion_of(slot, require_bytes(call.result, static_cast<int>(-call.result), setup_, name(), call.extent));
    return 1;
  }

 private:
  const char* name() const { return setup_.is_write ? "cuFileWriteAsync" : "cuFileReadAsync"; }
  // Only behind the stream are the bytes where they belong: the result may be there before. Without CUDA, leaving
  // cuFile's register is what waits.
  void wait_for(CUstream stream) const {
    if (setup_.cuda != nullptr) return setup_.cuda->wait(stream);
    require_cufile(cuFileStreamDeregister(stream), setup_.file->path(), "cuFileStreamDeregister");
    require_cufile(cuFileStreamRegister(stream, 0), setup_.file->path(), "cuFileStreamRegister");
  }

  std::vector<AsyncCall> calls_;
  std::deque<unsigned> under_way_;
};

}  // namespace

std::unique_ptr<Transport> open_stream_transport(const ThreadSetup& setup) {
  return std::make_unique<StreamTransport>(setup);
}

}  // namespace penstock::tools
