// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_scatter.h"

#include <algorithm>

#include "device/cuda/cuda_allocation.h"
#include "device/cuda/cuda_streams.h"
#include "device/cuda/scatter_kernel.h"

namespace penstock::core {

using namespace cuda;

CudaScatter::CudaScatter(const CudaApi& api, int ordinal)
    : api_(api), ordinal_(ordinal), kernel_(api, ordinal, kScatterKernelName, [] { return kScatterKernel; }),
      signals_(api) {}

bool CudaScatter::Range::holds(const void* memory, std::size_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return address >= begin && address <= end && size <= end - address;
}

// For a stale or foreign address a copy would report an error, but a kernel would destroy the user's context. So this
// asks the driver, once for all pieces in one allocation. Managed memory is left to copies: while a kernel runs, some
// GPUs keep the CPU away from it.
CudaScatter::Range CudaScatter::find(const void* memory, bool on_device) const {
  const CudaAllocation found = find_allocation(api_, memory);
  const bool is_ours = found.type == CU_MEMORYTYPE_DEVICE && found.ordinal == ordinal_;
  const bool fits = on_device ? is_ours : found.type == CU_MEMORYTYPE_HOST;
  if (!fits || found.managed != 0) return {};
  return {found.base, found.base + found.size};
}

bool CudaScatter::launch(CUstream stream, std::span<const Copy> copies, Direction direction,
                         CudaSignals::Signal*& signal, std::uint32_t number) {
  if (copies.size() < kPiecesMin || copies.size() > ScatterList::kPiecesMax) return false;
  std::size_t size_max = 1;
  for (const Copy& copy : copies) size_max = std::max(size_max, copy.size);
  // A few held streams keep every kernel waiting; copies get past them.
  if (size_max > kPieceBytesMax || is_any_cuda_stream_busy(api_)) return false;
  const CUfunction kernel = kernel_.function([&] { (void)signals_.open(stream); });
  if (kernel == nullptr) return false;

  ScatterList list = {};
  Range device;
  Range host;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    if (!copy.is_fresh && !device.holds(copy.device_address, copy.size)) device = find(copy.device_address, true);
    if (!copy.is_fresh && !device.holds(copy.device_address, copy.size)) return false;
    if (!copy.locked && !host.holds(copy.host, copy.size)) host = find(copy.host, false);
    if (!copy.locked && !host.holds(copy.host, copy.size)) return false;
    const std::uint64_t there = reinterpret_cast<std::uintptr_t>(copy.device_address);
    const std::uint64_t here = reinterpret_cast<std::uintptr_t>(copy.host);
    list.pieces[i] =
        direction == Direction::to_device ? ScatterPiece{there, here, copy.size} : ScatterPiece{here, there, copy.size};
  }
  const auto blocks = static_cast<unsigned>((size_max + kScatterBytesOfBlock - 1) / kScatterBytesOfBlock);
  if (signal == nullptr) signal = signals_.take();
  ScatterEnd end;
  if (signal != nullptr) end = {signal->word(), signal->counter(), number};
  void* parameters[] = {&list, &end};
  return api_.cuLaunchKernel(kernel, static_cast<unsigned>(copies.size()), blocks, 1, kScatterThreads, 1, 1, 0, stream,
                             parameters, nullptr) == CUDA_SUCCESS;
}

}  // namespace penstock::core
