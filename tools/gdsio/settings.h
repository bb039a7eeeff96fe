// SPDX-License-Identifier: Apache-2.0

// The work that gdsio is asked to do, by flags or by a job file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/gdsio/io_extents.h"

namespace penstock::tools {

// The numbers of -x.
enum class TransferType : std::uint8_t {
  gpu_direct = 0,        // cuFileRead, cuFileWrite.
  cpu_only = 1,          // pread, pwrite; no device takes part.
  cpu_gpu = 2,           // pread, then a copy to the device, one after the other.
  cpu_async_gpu = 3,     // cpu_gpu with several copies in flight.
  cpu_cached_gpu = 4,    // cpu_gpu through the page cache.
  gpu_direct_async = 5,  // cuFileReadAsync, cuFileWriteAsync on a stream.
  gpu_batch = 6,         // cuFileBatchIOSubmit.
  gpu_batch_stream = 7,  // A batch's number of asynchronous calls in flight, each on a stream of its own.
};
constexpr unsigned kTransferTypes = 8;

// The numbers of -m.
enum class MemoryType : std::uint8_t { device = 0, device_vmm = 1, pinned_host = 2, malloc_host = 3, mmap_host = 4 };
constexpr unsigned kMemoryTypes = 5;

// Threads that work on one file, or on a folder where each has its own.
struct GdsioGroup {
  std::string file;
  std::string folder;
  unsigned gpu = 0;
  std::optional<unsigned> numa_node;
  unsigned threads = 1;  // The number of requests in flight if the type is a batch.

  bool has_target() const { return !file.empty() || !folder.empty(); }
  const std::string& target() const { return folder.empty() ? file : folder; }
};

struct GdsioSettings {
  std::vector<GdsioGroup> groups;
  TransferType transfer = TransferType::gpu_direct;
  MemoryType memory = MemoryType::device;
  bool is_write = false;
  bool is_random = false;
  bool is_unaligned = false;  // Random offsets may be any byte.
  std::uint64_t size = 0;     // The size of each file; 0: the size that it has.
  std::uint64_t offset = 0;
  IoSizes io{std::uint64_t{1} << 20, std::uint64_t{1} << 20, 0};
  double seconds = 0;  // 0: until every file was moved once.
  std::uint64_t seed = 1;
  bool skip_register = false;
  bool verify = false;
  bool random_fill = false;
  bool refill = false;
  bool buffered = false;  // Files are opened without O_DIRECT.
  bool wants_nvlinks = false;
  bool json = false;

  // True if one thread has several requests in flight.
  bool is_batch() const { return transfer == TransferType::gpu_batch || transfer == TransferType::gpu_batch_stream; }
  bool calls_cufile() const {
    return transfer == TransferType::gpu_direct || transfer == TransferType::gpu_direct_async || is_batch();
  }
  bool on_host() const { return memory >= MemoryType::pinned_host; }
};

}  // namespace penstock::tools
