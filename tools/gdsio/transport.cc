// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/transport.h"

#include <fmt/format.h>

#include <cstdlib>
#include <deque>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

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

std::uint64_t require_bytes(ssize_t count, int error, const ThreadSetup& setup, const char* call,
                            const Extent& extent) {
  if (count >= 0) return static_cast<std::uint64_t>(count);
  fail_cufile(fmt::format("{}: at offset {}", setup.file->path(), extent.offset), call, error);
}

CufileTransport::CufileTransport(const ThreadSetup& setup)
    : Transport(memory_of(setup), setup.slot_size), setup_(setup) {
  if (setup_.skip_register) return;
  require_cufile(cuFileBufRegister(arena().data(), arena().size(), 0), "the memory", "cuFileBufRegister");
}

CufileTransport::~CufileTransport() {
  if (!setup_.skip_register) (void)cuFileBufDeregister(arena().data());
}

std::unique_ptr<Transport> open_transport(const ThreadSetup& setup) {
  switch (setup.transfer) {
    case TransferType::gpu_direct: break;
    case TransferType::cpu_only:
    case TransferType::cpu_gpu:
    case TransferType::cpu_async_gpu:
    case TransferType::cpu_cached_gpu: return open_posix_transport(setup);
    case TransferType::gpu_direct_async:
    case TransferType::gpu_batch_stream: return open_stream_transport(setup);
    case TransferType::gpu_batch: return open_batch_transport(setup);
  }
  return open_call_transport(setup);
}

std::unique_ptr<Transport> open_call_transport(const ThreadSetup& setup) {
  return std::make_unique<CallTransport>(setup);
}

}  // namespace penstock::tools
