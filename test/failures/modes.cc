// SPDX-License-Identifier: Apache-2.0

// Jobs of more than one request at a time: on a stream, on a queue where one is canceled, of a file that others change,
// of two sessions, and what is counted of them.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include "cufile.h"
#include "failures/bytes.h"
#include "failures/jobs.h"
#include "penstock/penstock.hpp"

namespace penstock::failures {
namespace {

constexpr std::size_t kOld = 300'000, kCut = 100'000;  // Sizes of a file that is cut.

bool is_moved(const Outcome& outcome, std::size_t size) { return outcome.ok() && outcome.report.bytes == size; }

bool read_some(const File& file, char* memory) {
  const Outcome read = file.read(memory, 200'001, 4097);
  if (read.ok()) require_bytes(memory, 4097, read.report.bytes);
  return is_moved(read, 200'001);
}

// A file of kOld bytes, which are those that the other file has behind `from`. Returns -1 if it cannot.
int make_named(const std::string& name, std::size_t from) {
  const int fd = ::open(name.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  static char bytes[kOld];
  for (std::size_t i = 0; i < kOld; ++i) bytes[i] = byte_at(from + i);
  if (::pwrite(fd, bytes, kOld, 0) == static_cast<ssize_t>(kOld)) return fd;
  ::close(fd);
  return -1;
}

struct Descriptor {
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  const int fd;
};

// What is behind the end does not come; what was punched may be zeros.
bool read_changed(const File& file, std::size_t from, std::size_t end, std::size_t hole) {
  char* const memory = fresh_memory();
  const Outcome read = file.read(memory, kOld, 0);
  if (!read.ok()) return false;
  const auto bytes = static_cast<std::size_t>(read.report.bytes);
  if (bytes > hole) require_bytes(memory + hole, from + hole, bytes - hole);
  if (std::any_of(memory, memory + std::min(hole, bytes), [](char one) { return one != 0; })) require_bytes("?", 0, 1);
  return bytes == end;
}

bool change(const Session& session, const std::string& name, const std::string& fresh, int fd) {
  Result<File> file = session.file(fd);
  if (!file || !read_changed(*file, 0, kOld, 0)) return false;
  if (::ftruncate(fd, kCut) != 0 || !read_changed(*file, 0, kCut, 0)) return false;
  constexpr std::size_t kHole = 1 << 16;
  if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kHole) != 0) return false;
  if (!read_changed(*file, 0, kCut, kHole)) return false;
  const Descriptor other{make_named(fresh, kWriteBegin)};
  bool good = other.fd >= 0 && ::rename(fresh.c_str(), name.c_str()) == 0;
  if (!good) return false;
  Result<File> replacement = session.file(other.fd);
  good = replacement && read_changed(*replacement, kWriteBegin, kOld, 0);
  return read_changed(*file, 0, kCut, kHole) && good;  // The old one is still there.
}

Result<Queue> open_and_submit(Session& session, const File& file, char* memory, bool polled, bool& good) {
  Result<Queue> queue = polled ? session.polled_queue(4, 1 << 20) : session.queue(4);
  if (!queue) return queue;
  for (std::size_t i = 0; i < 4; ++i)
    good &=
        queue->submit(file.request(PENSTOCK_READ, memory + 65536 * i, 50'000, static_cast<std::int64_t>(50'000 * i)))
            .ok();
  return queue;
}

bool reap(Queue& queue, char* memory) {
  Completion done[4];
  unsigned left = 4;
  bool good = true;
  while (left > 0) {
    const Result<unsigned> count = queue.reap(done, left, 0, 0);
    if (!count) return false;
    for (unsigned i = 0; i < *count; ++i) good &= is_moved(done[i].outcome(), 50'000);
    left -= *count;
    if (*count == 0) ::sched_yield();
  }
  for (std::size_t i = 0; i < 4 && good; ++i) require_bytes(memory + 65536 * i, 50'000 * i, 50'000);
  return good;
}

// Its object's memory may be short, too; one that is under way must be waited for.
Result<OnStream> submit(const Request& request, void* stream) {
  try {
    return File::submit(request, stream);
  } catch (const std::bad_alloc&) {
    return Status(penstock_status{.domain = PENSTOCK_DOMAIN_PENSTOCK, .code = PENSTOCK_OUT_OF_MEMORY, .step = nullptr});
  }
}

bool use_and_close(int fd, char* memory) {
  Result<Session> session = Session::open();
  if (!session) return false;
  std::uint32_t sums[4] = {};
  bool good = session->crc32c(memory, 4096, 1024, sums).ok();
  Result<File> file = session->file(fd);
  if (!file) return false;
  good &= read_some(*file, memory);
  Result<Buffer> buffer = session->buffer(memory, 1 << 18);
  return buffer && read_some(*file, memory) && good;
}

}  // namespace

bool read_and_write_on_stream(int fd) {
  static int stream = 0;  // Any address is one.
  constexpr std::size_t kRead = 300'000, kOffset = 4097;
  Result<Session> session = Session::open();
  if (!session) return false;
  Result<File> file = session->file(fd);
  if (!file) return false;
  char* const memory = fresh_memory();
  wipe(fd);
  const auto read = submit(file->request(PENSTOCK_READ, memory, kRead, kOffset), &stream);
  const auto write = submit(file->request(PENSTOCK_WRITE, bytes_to_write(), kWriteBytes, kWriteBegin), &stream);
  for (const auto* each : {&read, &write})
    while (*each && !(*each)->is_done()) ::sched_yield();  // If it was lost, the job hangs.
  const bool is_written = write && is_moved(write->outcome(), kWriteBytes);
  if (is_written) require_written(fd);
  // The write has begun, so that the stream has copied what was read.
  const bool is_read = is_written && read && is_moved(read->outcome(), kRead);
  if (is_read) require_bytes(memory, kOffset, kRead);
  return is_read;
}

bool cancel_request(int fd) {
  constexpr unsigned kEntries = 4;
  constexpr std::size_t kSize = 50'000, kStep = 65'536;
  Result<Session> session = Session::open();
  if (!session) return false;
  Result<File> file = session->file(fd);
  Result<Queue> queue = session->queue(kEntries);
  if (!file || !queue) return false;
  char* const memory = fresh_memory();
  unsigned taken = 0;
  for (unsigned i = 0; i < kEntries; ++i) {
    Request request = file->request(PENSTOCK_READ, memory + kStep * i, kSize, static_cast<std::int64_t>(kSize * i));
    request.cookie = i;
    if (queue->submit(request).ok()) ++taken;
  }
  bool good = taken == kEntries && queue->cancel(kEntries - 1);
  for (unsigned seen = 0; seen < taken;) {
    Completion done[kEntries];
    const Result<unsigned> count = queue->reap(done, kEntries, 1);
    if (!count) return false;
    for (unsigned i = 0; i < *count; ++i) {
      const std::size_t number = done[i].cookie;
      const Outcome outcome = done[i].outcome();
      if (outcome.ok()) require_bytes(memory + kStep * number, kSize * number, outcome.report.bytes);
      good &= is_moved(outcome, kSize) || (number == kEntries - 1 && outcome.status.is(PENSTOCK_CANCELED));
    }
    seen += *count;
  }
  return good;
}

bool use_changed_files(int) {
  const std::string name = folder() + "/changed", fresh = name + ".new";
  Result<Session> session = Session::open();
  if (!session) return false;
  const Descriptor made{make_named(name, 0)};
  bool good = made.fd >= 0;
  try {
    good = good && change(*session, name, fresh, made.fd);
  } catch (const std::bad_alloc&) {  // Of the C++ interface.
    good = false;
  }
  (void)::unlink(name.c_str());
  (void)::unlink(fresh.c_str());
  return good;
}

// The first is closed while the second has requests under way.
bool use_two_sessions(int fd) {
  char* const memory = fresh_memory();
  Result<Session> second = Session::open(Config().set("paths", "host").set("workers", "2"));
  if (!second) return false;
  Result<File> file = second->file(fd);
  if (!file) return false;
  bool good = true;
  Result<Queue> queue = open_and_submit(*second, *file, memory, false, good);
  if (!queue) return false;
  good &= use_and_close(fd, memory + (1 << 19));
  return good && reap(*queue, memory);
}

}  // namespace penstock::failures
