// Reads a file into GPU memory with many requests in flight from one thread.
//
//   read_queue FILE
//
// Reading one piece after the other leaves the drive idle in between. A queue keeps 16 reads of 256 KiB on their way,
// each into a piece of device memory of its own, which is used again as soon as its read has come back.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <penstock/penstock.hpp>
#include <string>

constexpr unsigned kDepth = 16;
constexpr std::size_t kRequestBytes = 256 << 10;

static int failed(const std::string& what) {
  std::fprintf(stderr, "read_queue: %s\n", what.c_str());
  return 1;
}

// Submits the read at `offset` into the piece of memory number `slot`, which comes back as the completion's cookie.
static penstock::Status submit(penstock::Queue& queue, const penstock::File& file, const penstock::DeviceMemory& memory,
                               unsigned slot, std::uint64_t offset) {
  penstock::Request request =
      file.request(PENSTOCK_READ, memory.data(), kRequestBytes, static_cast<std::int64_t>(offset),
                   static_cast<std::int64_t>(slot * kRequestBytes));
  request.cookie = slot;
  return queue.submit(request);
}

static int read_all(penstock::Queue& queue, const penstock::File& file, const penstock::DeviceMemory& memory,
                    std::uint64_t size) {
  std::uint64_t next = 0, bytes = 0;
  unsigned in_flight = 0;
  const auto start = [&](unsigned slot) {
    const auto status = submit(queue, file, memory, slot, next);
    next += kRequestBytes;
    in_flight += status.ok() ? 1 : 0;
    return status;
  };
  for (unsigned slot = 0; slot < kDepth && next < size; ++slot) {
    if (const auto status = start(slot); !status.ok()) return failed(status.message());
  }
  while (in_flight > 0) {
    penstock::Completion done;
    const auto reaped = queue.reap(&done, 1, 1);
    if (!reaped) return failed(reaped.error().message());
    in_flight -= *reaped;
    if (done.status.code != 0) return failed(penstock::Status(done.status).message());
    bytes += done.report.bytes;  // A program would use this piece of memory now.
    if (next >= size) continue;
    if (const auto status = start(static_cast<unsigned>(done.cookie)); !status.ok()) return failed(status.message());
  }
  std::printf("%llu bytes, up to %u reads in flight\n", static_cast<unsigned long long>(bytes), kDepth);
  return 0;
}

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return failed("usage: read_queue FILE"), 2;
  const int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(std::string(arguments[1]) + ": " + std::strerror(errno));
  auto session = penstock::Session::open();
  if (!session) return failed(session.error().message());
  auto file = session->file(fd);
  if (!file) return failed(file.error().message());
  auto memory = session->allocate(0, kDepth * kRequestBytes);
  if (!memory) return failed(memory.error().message());
  auto queue = session->polled_queue(kDepth, kRequestBytes);
  if (!queue) return failed(queue.error().message());
  const auto info = file->info();
  return info ? read_all(*queue, *file, *memory, (*info).size) : failed(info.error().message());
}
