// Reads a file into GPU memory by coroutines of C++20: several read their parts at the same time, on one thread.
// `co_await` gives an Outcome: the status, the bytes, and the path that moved them.
//
//   read_coroutines FILE
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <penstock/futures.hpp>
#include <string>
#include <utility>

constexpr std::size_t kReaders = 4, kRequestBytes = 256 << 10;

// Suspends its coroutine until the request has ended; run() of the queue resumes it.
struct Read {
  penstock::AsyncQueue& queue;
  penstock::Request request;
  penstock::Outcome outcome = {};
  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> reader) {
    outcome.status = queue.submit(request, [this, reader](const penstock::Outcome& ended) {
      outcome = ended;
      reader.resume();
    });
    return outcome.status.ok();  // A request that was refused never ends.
  }
  penstock::Outcome await_resume() const { return outcome; }
};

// A coroutine that begins at once and belongs to nobody.
struct Reader {
  struct promise_type {
    Reader get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

[[noreturn]] static void fail(const std::string& what) {
  std::fprintf(stderr, "read_coroutines: %s\n", what.c_str());
  std::exit(1);
}
template <typename T>
static T must(penstock::Result<T> result) {
  if (!result) fail(result.error().message());
  return std::move(*result);
}

// Reads every kReaders-th piece of the file into a piece of memory of its own.
static Reader read_part(penstock::AsyncQueue& queue, const penstock::File& file, const penstock::DeviceMemory& memory,
                        std::size_t number, std::uint64_t& bytes) {
  for (std::uint64_t offset = number * kRequestBytes;; offset += kReaders * kRequestBytes) {
    const penstock::Outcome read = co_await Read{
        queue, file.request(PENSTOCK_READ, memory.data(), kRequestBytes, static_cast<std::int64_t>(offset),
                            static_cast<std::int64_t>(number * kRequestBytes))};
    if (!read.ok()) fail(read.status.message());
    if (read.report.bytes == 0) co_return;  // Behind the end of the file there is nothing.
    bytes += read.report.bytes;             // A program would use this piece of memory now.
  }
}

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return std::fputs("usage: read_coroutines FILE\n", stderr), 2;
  const int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::perror(arguments[1]), 1;
  penstock::Session session = must(penstock::Session::open());
  const penstock::File file = must(session.file(fd));
  const penstock::DeviceMemory memory = must(session.allocate(0, kReaders * kRequestBytes));
  penstock::AsyncQueue queue(must(session.polled_queue(kReaders, kRequestBytes)));
  std::uint64_t bytes = 0;
  for (std::size_t number = 0; number < kReaders; ++number) read_part(queue, file, memory, number, bytes);
  while (must(queue.run()) > 0) continue;  // 0: no coroutine waits any more.
  std::printf("%llu bytes by %zu coroutines\n", static_cast<unsigned long long>(bytes), kReaders);
}
