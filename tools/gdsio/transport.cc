// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <limits>
#include <vector>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

// Returns the number of bytes that a call of cuFile returned, or throws the failure that it stands for.
std::uint64_t require_bytes(ssize_t count, int error, const ThreadSetup& setup, const char* call,
                            const Extent& extent) {
  if (count >= 0) return static_cast<std::uint64_t>(count);
  fail_cufile(fmt::format("{}: at offset {}", setup.file->path(), extent.offset), call, error);
}

// The memory of a cuFile transport, registered unless the settings say not to.
class CufileTransport : public Transport {
 public:
  explicit CufileTransport(const ThreadSetup& setup) : Transport(memory_of(setup), setup.slot_size), setup_(setup) {
    if (setup_.skip_register) return;
    require_cufile(cuFileBufRegister(arena().data(), arena().size(), 0), "the memory", "cuFileBufRegister");
  }
  ~CufileTransport() override {
    if (!setup_.skip_register) (void)cuFileBufDeregister(arena().data());
  }

 protected:
  const ThreadSetup setup_;
};

// -x 0: one call after the other.
class CallTransport final : public CufileTransport {
 public:
  using CufileTransport::CufileTransport;

  void start(unsigned slot, const Extent& extent) override {
    const auto file_offset = static_cast<off_t>(extent.offset), offset = static_cast<off_t>(slot * slot_size());
    const CUfileHandle_t handle = setup_.file->handle();
    const ssize_t count = setup_.is_write ? cuFileWrite(handle, arena().data(), extent.size, file_offset, offset)
                                          : cuFileRead(handle, arena().data(), extent.size, file_offset, offset);
    done_.push_back(completion_of(
        slot, require_bytes(count, errno, setup_, setup_.is_write ? "cuFileWrite" : "cuFileRead", extent)));
  }
  unsigned reap(std::span<Completion> done) override {
    done[0] = done_.front();
    done_.pop_front();
    return 1;
  }

 private:
  std::deque<Completion> done_;
};

// -x 6: -w entries of one batch in flight, each replaced as it completes.
class BatchTransport final : public CufileTransport {
 public:
  explicit BatchTransport(const ThreadSetup& setup)
      : CufileTransport(setup), extents_(setup.depth), events_(setup.depth) {
    require_cufile(cuFileBatchIOSetUp(&batch_, setup.depth), setup.file->path(), "cuFileBatchIOSetUp");
  }
  ~BatchTransport() override { cuFileBatchIODestroy(batch_); }

  // Collects entries until reap() submits them together.
  void start(unsigned slot, const Extent& extent) override {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.u.batch.devPtr_base = arena().data();
    entry.u.batch.devPtr_offset = static_cast<off_t>(slot * slot_size());
    entry.u.batch.file_offset = static_cast<off_t>(extent.offset);
    entry.u.batch.size = extent.size;
    entry.fh = setup_.file->handle();
    entry.opcode = setup_.is_write ? CUFILE_WRITE : CUFILE_READ;
    extents_[slot] = extent;
    entry.cookie = &extents_[slot];
    entries_.push_back(entry);
  }

  unsigned reap(std::span<Completion> done) override {
    if (!entries_.empty()) {
      const auto count = static_cast<unsigned>(entries_.size());
      require_cufile(cuFileBatchIOSubmit(batch_, count, entries_.data(), 0), setup_.file->path(),
                     "cuFileBatchIOSubmit");
      entries_.clear();
    }
    auto count = static_cast<unsigned>(std::min(done.size(), events_.size()));
    require_cufile(cuFileBatchIOGetStatus(batch_, 1, &count, events_.data(), nullptr), setup_.file->path(),
                   "cuFileBatchIOGetStatus");
    for (unsigned i = 0; i < count; ++i) done[i] = completion_of_event(events_[i]);
    return count;
  }

 private:
  Completion completion_of_event(const CUfileIOEvents_t& event) const {
    const auto slot = static_cast<std::uint64_t>(static_cast<const Extent*>(event.cookie) - extents_.data());
    const auto count = static_cast<ssize_t>(event.ret);
    if (event.status != CUFILE_COMPLETE && count >= 0) {
      throw Failure(setup_.file->path() + ": an entry of the batch ended in state " + std::to_string(event.status));
    }
    return completion_of(slot,
                         require_bytes(count, static_cast<int>(-count), setup_, "cuFileBatchIOSubmit", extents_[slot]));
  }

  CUfileBatchHandle_t batch_ = nullptr;
  std::vector<Extent> extents_;
  std::vector<CUfileIOParams_t> entries_;
  std::vector<CUfileIOEvents_t> events_;
};

constexpr ssize_t kNotDone = std::numeric_limits<ssize_t>::min();

// The arguments of an asynchronous call, which it reads when its stream reaches it, and its result. They must not move.
struct AsyncCall {
  CUstream stream = nullptr;
  Extent extent;
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t result = kNotDone;
};

// -x 5 and 7: asynchronous calls, each slot's on a stream of its own.
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
      (void)cuFileStreamDeregister(call.stream);  // Waits until the stream's calls are done.
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
  // The bytes are only sure to be in place after the stream: the result may come earlier. Without CUDA, leaving
  // cuFile's register waits for them.
  void wait_for(CUstream stream) const {
    if (setup_.cuda != nullptr) return setup_.cuda->wait(stream);
    require_cufile(cuFileStreamDeregister(stream), setup_.file->path(), "cuFileStreamDeregister");
    require_cufile(cuFileStreamRegister(stream, 0), setup_.file->path(), "cuFileStreamRegister");
  }

  std::vector<AsyncCall> calls_;
  std::deque<unsigned> under_way_;
};

}  // namespace

Arena memory_of(const ThreadSetup& setup) {
  const std::uint64_t size = setup.slot_size * setup.depth;
  if (setup.session == nullptr) return Arena::on_host(size);
  switch (setup.memory) {
    case MemoryType::device: {
      const auto whole = std::make_shared<Arena>(Arena::on_device(setup.session, setup.gpu, setup.shift + size));
      return {whole->data() + setup.shift, size, setup.session, [whole] {}};
    }
    case MemoryType::device_vmm: return setup.cuda->virtual_memory(setup.session, size);
    case MemoryType::pinned_host: return setup.cuda->pinned_host(size);
    case MemoryType::malloc_host: break;
    case MemoryType::mmap_host: return Arena::on_host(size);
  }
  void* memory = std::aligned_alloc(4096, size);
  if (memory == nullptr) fail_errno("memory", "allocate memory", ENOMEM);
  return {static_cast<std::byte*>(memory), size, nullptr, [memory] { std::free(memory); }};
}

std::unique_ptr<Transport> open_transport(const ThreadSetup& setup) {
  switch (setup.transfer) {
    case TransferType::gpu_direct: break;
    case TransferType::cpu_only:
    case TransferType::cpu_gpu:
    case TransferType::cpu_async_gpu:
    case TransferType::cpu_cached_gpu: return open_posix_transport(setup);
    case TransferType::gpu_direct_async:
    case TransferType::gpu_batch_stream: return std::make_unique<StreamTransport>(setup);
    case TransferType::gpu_batch: return std::make_unique<BatchTransport>(setup);
  }
  return std::make_unique<CallTransport>(setup);
}

}  // namespace penstock::tools
