// SPDX-License-Identifier: Apache-2.0

// Makes REQUESTS reads of BYTES bytes on the null path, which moves nothing, so that only the library's own cost
// remains: calls of cuFileRead, a queue of the C API, 32 requests at a time, or batches of cuFile of 64 entries. For
// bench/instructions.py, which counts the instructions of two runs that differ in their number of requests.
//
//   instructions call|queue|batch BYTES REQUESTS
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cufile.h"
#include "penstock/cufile_session.h"
#include "penstock/penstock.hpp"

namespace {

constexpr std::size_t kFileSize = std::size_t{64} << 20;

void require(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "instructions: could not %s\n", what);
  std::exit(1);
}

constexpr std::uint32_t kDepth = 32;
constexpr unsigned kEntries = 64;

void read_by_calls(CUfileHandle_t handle, void* memory, std::size_t size, std::size_t requests) {
  for (std::size_t i = 0; i < requests; ++i) {
    const auto offset = static_cast<off_t>(i * size % kFileSize);
    require(cuFileRead(handle, memory, size, offset, 0) == static_cast<ssize_t>(size), "read");
  }
}

void read_by_queue(CUfileHandle_t handle, void* memory, std::size_t size, std::size_t requests) {
  penstock_session* session = nullptr;
  penstock::Request request;
  require(penstock_cufile_session(&session).code == 0, "find the session");
  require(penstock_cufile_file(handle, &request.file).code == 0, "find the file");
  penstock::QueueOptions options;
  options.mode = PENSTOCK_QUEUE_POLLED;
  options.depth = kDepth;
  options.request_bytes_max = size;
  penstock_queue* queue = nullptr;
  require(penstock_queue_open(session, &options, &queue).code == 0, "open the queue");
  request.base = memory;
  request.size = size;
  std::vector<penstock::Completion> done(kDepth);
  for (std::size_t begun = 0; begun < requests; begun += kDepth) {
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      request.file_offset = static_cast<std::int64_t>((begun + i) * size % kFileSize);
      require(penstock_queue_submit(queue, &request, 1, nullptr).code == 0, "submit");
    }
    std::uint32_t count = 0;
    require(penstock_queue_reap(queue, done.data(), kDepth, kDepth, -1, &count).code == 0 && count == kDepth, "reap");
  }
}

void read_by_batch(CUfileHandle_t handle, void* memory, std::size_t size, std::size_t requests) {
  CUfileBatchHandle_t batch = nullptr;
  require(cuFileBatchIOSetUp(&batch, kEntries).err == CU_FILE_SUCCESS, "set the batch up");
  std::vector<CUfileIOParams_t> entries(kEntries);
  std::vector<CUfileIOEvents_t> events(kEntries);
  for (CUfileIOParams_t& entry : entries) {
    entry.mode = CUFILE_BATCH;
    entry.u.batch = {memory, 0, 0, size};
    entry.fh = handle;
  }
  for (std::size_t begun = 0; begun < requests; begun += kEntries) {
    for (unsigned i = 0; i < kEntries; ++i) {
      entries[i].u.batch.file_offset = static_cast<off_t>((begun + i) * size % kFileSize);
    }
    require(cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0).err == CU_FILE_SUCCESS, "submit");
    unsigned count = kEntries;
    require(cuFileBatchIOGetStatus(batch, kEntries, &count, events.data(), nullptr).err == CU_FILE_SUCCESS, "reap");
    require(count == kEntries && events[0].ret == size, "read all entries");
  }
}

using Reader = void (*)(CUfileHandle_t, void*, std::size_t, std::size_t);

// Null for a way that is not known.
Reader reader_of(std::string_view how) {
  if (how == "call") return read_by_calls;
  if (how == "queue") return read_by_queue;
  return how == "batch" ? read_by_batch : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::size_t size = std::strtoul(argv[2], nullptr, 10), requests = std::strtoul(argv[3], nullptr, 10);
  const Reader read = reader_of(argv[1]);
  if (size == 0 || size > kFileSize || read == nullptr) return 2;
  ::setenv("PENSTOCK_PATHS", "null", 1);
  ::setenv("PENSTOCK_DEVICE", "host", 1);
  const int fd = ::memfd_create("instructions", MFD_CLOEXEC);
  require(fd >= 0 && ::ftruncate(fd, kFileSize) == 0, "make a file");
  require(cuFileDriverOpen().err == CU_FILE_SUCCESS, "open the driver");
  penstock_session* session = nullptr;
  require(penstock_cufile_session(&session).code == 0, "find the session");
  void* memory = nullptr;
  require(penstock_device_alloc(session, 0, size, &memory).code == 0, "allocate device memory");
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd;
  CUfileHandle_t handle = nullptr;
  require(cuFileHandleRegister(&handle, &descr).err == CU_FILE_SUCCESS, "register the file");
  require(cuFileBufRegister(memory, size, 0).err == CU_FILE_SUCCESS, "register the memory");
  read(handle, memory, size, requests);
  std::fflush(nullptr);
  ::_exit(0);  // Exits without closing, which is not to be counted.
}
