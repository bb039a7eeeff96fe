// SPDX-License-Identifier: Apache-2.0

#include "failures/jobs.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cufile.h"
#include "failures/bytes.h"
#include "penstock/penstock.hpp"

namespace penstock::failures {
namespace {

// ---- cuFile --------------------------------------------------------------------------------------------------------

CUfileHandle_t registered(int fd) {
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd;
  CUfileHandle_t handle = nullptr;
  return cuFileHandleRegister(&handle, &descr).err == CU_FILE_SUCCESS ? handle : nullptr;
}

bool reads(CUfileHandle_t handle, std::size_t offset, std::size_t size, std::size_t misfit = 0) {
  char* const memory = fresh_memory() + misfit;
  const ssize_t got = cuFileRead(handle, memory, size, static_cast<off_t>(offset), 0);
  if (got > 0) require_bytes(memory, offset, static_cast<std::size_t>(got));
  return got == static_cast<ssize_t>(size);
}

bool finish(CUfileHandle_t handle) {
  if (handle != nullptr) cuFileHandleDeregister(handle);
  bool good = true;
  while (cuFileUseCount() > 0 && good) good = cuFileDriverClose().err == CU_FILE_SUCCESS;
  return good;
}

bool call_cufile(int fd) {
  bool good = cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "ERROR").err == CU_FILE_SUCCESS;
  good &= cuFileDriverOpen().err == CU_FILE_SUCCESS;
  CUfileHandle_t const handle = registered(fd);
  good &= handle != nullptr;
  const bool has_buffer = cuFileBufRegister(fresh_memory(), kFileBytes, 0).err == CU_FILE_SUCCESS;
  good &= reads(handle, 0, 4096) && reads(handle, 4097, 100'001, 1) && reads(handle, 0, kWriteBegin);
  wipe(fd);
  const bool is_written = cuFileWrite(handle, bytes_to_write(), kWriteBytes, kWriteBegin, 0) == kWriteBytes;
  if (is_written) require_written(fd);
  good &= is_written;
  (void)cuFileExportPCIeTopology("");  // An error, but behind all that needs memory.
  if (has_buffer) good &= cuFileBufDeregister(fresh_memory()).err == CU_FILE_SUCCESS;
  return finish(handle) && good && has_buffer;
}

bool batch_cufile(int fd) {
  constexpr unsigned kEntries = 8;
  bool good = cuFileDriverOpen().err == CU_FILE_SUCCESS;
  CUfileHandle_t const handle = registered(fd);
  char* const memory = fresh_memory();
  CUfileIOParams_t params[kEntries]{};
  for (unsigned i = 0; i < kEntries; ++i) {
    params[i].mode = CUFILE_BATCH;
    params[i].fh = handle;
    params[i].opcode = CUFILE_READ;
    params[i].cookie = params + i;
    params[i].u.batch = {.devPtr_base = memory, .file_offset = 5000 * i, .devPtr_offset = 8192 * i, .size = 5000};
  }
  CUfileBatchHandle_t batch = nullptr;
  const bool is_set_up = cuFileBatchIOSetUp(&batch, kEntries).err == CU_FILE_SUCCESS;
  good &= is_set_up;
  unsigned left = is_set_up && cuFileBatchIOSubmit(batch, kEntries, params, 0).err == CU_FILE_SUCCESS ? kEntries : 0;
  good &= left > 0;
  while (left > 0) {
    CUfileIOEvents_t events[kEntries]{};
    unsigned count = left;
    if (cuFileBatchIOGetStatus(batch, 1, &count, events, nullptr).err != CU_FILE_SUCCESS) {
      good = false;
      break;
    }
    for (unsigned i = 0; i < count; ++i) {
      const auto number = static_cast<std::size_t>(static_cast<CUfileIOParams_t*>(events[i].cookie) - params);
      if (events[i].status != CUFILE_COMPLETE || events[i].ret != 5000) good = false;
      else require_bytes(memory + 8192 * number, 5000 * number, 5000);
    }
    left -= count;
  }
  if (is_set_up) cuFileBatchIODestroy(batch);
  return finish(handle) && good;
}

// What is told of it is no more and no less than what a call said that it moved.
bool count_cufile(int fd) {
  constexpr std::size_t kSize = 100'000;
  bool good = cuFileSetStatsLevel(3).err == CU_FILE_SUCCESS && cuFileDriverOpen().err == CU_FILE_SUCCESS;
  good = good && cuFileStatsStart().err == CU_FILE_SUCCESS && cuFileStatsReset().err == CU_FILE_SUCCESS;
  CUfileHandle_t const handle = registered(fd);
  const bool is_read = reads(handle, 0, kSize);
  static CUfileStatsLevel3_t stats;
  const bool is_counted = cuFileGetStatsL3(&stats).err == CU_FILE_SUCCESS;
  if (good && is_read && is_counted && stats.detailed.basic.read_bytes != kSize) ::_exit(kWrongByte);
  CUfileBatchHandle_t batch = nullptr;
  const bool is_set_up = cuFileBatchIOSetUp(&batch, 2).err == CU_FILE_SUCCESS;
  CUfileIOParams_t params[2]{};
  for (CUfileIOParams_t& each : params) {
    each.mode = CUFILE_BATCH;
    each.fh = handle;
    each.opcode = CUFILE_READ;
    each.u.batch = {.devPtr_base = fresh_memory(), .file_offset = 0, .devPtr_offset = 0, .size = 5000};
  }
  const bool is_submitted = is_set_up && cuFileBatchIOSubmit(batch, 2, params, 0).err == CU_FILE_SUCCESS;
  const bool is_canceled = is_submitted && cuFileBatchIOCancel(batch).err == CU_FILE_SUCCESS;
  if (is_set_up) cuFileBatchIODestroy(batch);
  good &= cuFileStatsStop().err == CU_FILE_SUCCESS && cuFileSetStatsLevel(0).err == CU_FILE_SUCCESS;
  return finish(handle) && good && is_read && is_counted && is_canceled;
}

// ---- Penstock's own ------------------------------------------------------------------------------------------------

// Every request that was taken must come back once.
bool reap_all(Queue& queue, unsigned left, char* memory, std::size_t step, std::size_t size) {
  bool good = true;
  while (left > 0) {
    Completion completions[8];
    const Result<unsigned> count = queue.reap(completions, 8, 1);  // If a request was lost, the job hangs.
    if (!count) return false;
    for (unsigned i = 0; i < *count; ++i) {
      const std::size_t number = completions[i].cookie;
      good &= completions[i].outcome().ok() && completions[i].report.bytes == size;
      if (completions[i].outcome().ok())
        require_bytes(memory + step * number, size * number, completions[i].report.bytes);
    }
    left -= *count;
  }
  return good;
}

bool queue_by(int fd, penstock_queue_mode mode) {
  constexpr unsigned kRequests = 12;
  constexpr std::size_t kSize = 20'000, kStep = 32'768;
  Result<Session> session = Session::open();
  if (!session) return false;
  Result<File> file = session->file(fd);
  if (!file) return false;
  Result<Queue> queue = mode == PENSTOCK_QUEUE_POLLED ? session->polled_queue(8, 1 << 20) : session->queue(8);
  if (!queue) return false;
  char* const memory = fresh_memory();
  unsigned taken = 0;
  bool good = true;
  for (unsigned i = 0; i < kRequests; ++i) {
    Request request = file->request(PENSTOCK_READ, memory + kStep * i, kSize, static_cast<std::int64_t>(kSize * i));
    request.cookie = i;
    Status status = queue->submit(request);
    if (!status.ok() && taken > 0) {
      good &= reap_all(*queue, taken, memory, kStep, kSize);
      taken = 0;
      status = queue->submit(request);
    }
    if (status.ok()) ++taken;
    else good = false;
  }
  return reap_all(*queue, taken, memory, kStep, kSize) && good;
}

bool poll_queue(int fd) { return queue_by(fd, PENSTOCK_QUEUE_POLLED); }
bool thread_queue(int fd) { return queue_by(fd, PENSTOCK_QUEUE_THREADED); }

bool call_penstock(int fd) {
  Result<Session> session = Session::open();
  if (!session) return false;
  Result<File> file = session->file(fd);
  if (!file) return false;
  char* const memory = fresh_memory();
  const Outcome read = file->read(memory, 300'001, 5);
  if (read.ok()) require_bytes(memory, 5, read.report.bytes);
  char* const parts = memory + (512 << 10);
  iovec pieces[3] = {{parts, 5000}, {parts + 8192, 1}, {parts + 12288, 9000}};
  const Outcome vectored = transfer(file->vectored_request(PENSTOCK_READ, pieces, 3, 4096));
  if (vectored.ok() && vectored.report.bytes == 14'001) {
    require_bytes(parts, 4096, 5000);
    require_bytes(parts + 8192, 9096, 1);
    require_bytes(parts + 12288, 9097, 9000);
  }
  wipe(fd);
  const Outcome write = file->write(bytes_to_write(), kWriteBytes, kWriteBegin);
  if (write.ok()) require_written(fd);
  const Status sync = file->sync();
  return read.ok() && read.report.bytes == 300'001 && vectored.ok() && write.ok() && sync.ok();
}

// Through the device's memory, on the bounce path.
bool call_device(int fd) {
  Result<Session> session = Session::open();
  if (!session) return false;
  Result<DeviceMemory> device = session->allocate(0, 1 << 20);
  if (!device) return false;
  Result<Buffer> buffer = session->buffer(device->data(), device->size());
  Result<File> file = session->file(fd);
  if (!file) return false;
  bool good = bool(buffer);
  char* const memory = fresh_memory();
  for (const std::size_t offset : {std::size_t{0}, std::size_t{4097}}) {
    const Outcome read = file->read(device->data(), 500'000, static_cast<std::int64_t>(offset));
    const bool is_there = read.ok() && device->download(0, memory, read.report.bytes).ok();
    if (is_there) require_bytes(memory, offset, read.report.bytes);
    good &= is_there && read.report.bytes == 500'000;
  }
  const bool is_uploaded = device->upload(0, bytes_to_write(), kWriteBytes).ok();
  wipe(fd);
  const bool is_written = is_uploaded && file->write(device->data(), kWriteBytes, kWriteBegin).ok();
  if (is_written) require_written(fd);
  return is_written && good;
}

// Nothing is left of an object that could not be published.
bool write_stripe(int) {
  static int number = 0;
  const std::string name = folder() + "/object" + std::to_string(number++);
  Result<Session> session = Session::open();
  if (!session) return false;
  bool good = false;
  {
    Result<File> file = session->create_stripe(name.c_str(), {folder(), folder()}, kWriteBytes, 1 << 16);
    good = file && file->write(bytes_to_write(), kWriteBytes, 0).ok() && file->publish().ok();
  }
  Result<File> file = session->stripe(name.c_str());
  char* const memory = fresh_memory();
  if (file) {
    const Outcome read = file->read(memory, kWriteBytes, 0);
    if (read.ok()) require_bytes(memory, kWriteBegin, read.report.bytes);
    good &= read.ok() && read.report.bytes == kWriteBytes;
  }
  return good && file;
}

// ---- Faults on purpose ---------------------------------------------------------------------------------------------

// What each does if the allocation, or the call that opens the file, has failed.
template <typename Fault>
bool open_and(Fault fault) {
  void* const memory = std::malloc(100);
  const int fd = memory == nullptr ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::free(memory);
  if (fd < 0) return fault();
  ::close(fd);
  return true;
}

bool die_of_it(int) {
  return open_and([]() -> bool { std::abort(); });
}
bool lie_of_it(int) {
  return open_and([] { return require_bytes("?", 0, 1), false; });
}
bool leak_of_it(int fd) {
  return open_and([=] { return ::dup(fd) < 0; });
}
bool litter_of_it(int) {
  return open_and([] {
    for (const char* const name : {"one", "other"}) {
      char path[4096];
      std::snprintf(path, sizeof path, "%s/%s", folder().c_str(), name);
      ::close(::open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    return false;
  });
}
bool remember_it(int) {
  static bool has_failed = false;
  return open_and([] { return !(has_failed = true); }) && !has_failed;
}

}  // namespace

const std::vector<Job>& jobs() {
  static const std::vector<Job> all = {{"cufile", call_cufile, 0, nullptr},
                                       {"cufile-batch", batch_cufile, 0, nullptr},
                                       {"cufile-statistics", count_cufile, 0, nullptr},
                                       {"call", call_penstock, 0, nullptr},
                                       {"device", call_device, 0, nullptr},
                                       {"stripe", write_stripe, 3, nullptr},
                                       {"polled-queue", poll_queue, 0, nullptr},
                                       {"threaded-queue", thread_queue, 0, nullptr},
                                       {"canceled", cancel_request, 0, nullptr},
                                       {"stream", read_and_write_on_stream, 0, nullptr},
                                       {"changed-files", use_changed_files, 0, nullptr},
                                       {"two-sessions", use_two_sessions, 0, nullptr},
                                       {"kv", [](int) { return put_chunks(folder() + ".kv"); }, 0, nullptr}};
  return all;
}

const std::vector<Job>& faulty_jobs() {
  static const std::vector<Job> all = {
      {"dies", die_of_it, 0, "it died: Aborted"},
      {"lies", lie_of_it, 0, "bytes were reported as moved that are wrong"},
      {"leaks", leak_of_it, 0, "a descriptor was left open"},
      {"litters", litter_of_it, 0, "files were left behind"},
      {"remembers", remember_it, 0, "the same job failed afterwards, when nothing failed any more"}};
  return all;
}

}  // namespace penstock::failures
