// SPDX-License-Identifier: Apache-2.0

// What requests on streams do on a real GPU, told case by case: a program to be run by hand or by a script.
//
//   stream_probe LIBCUFILE DIRECTORY [CASE...]
//
// Each case runs in a process of its own and has 60 seconds: one that hangs is reported as such. Prints a line a case;
// exits 1 where one failed, 77 where there is no GPU. It knows cufile.h and libcuda.so.1 alone.
#include "system/stream_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace probe;

constexpr unsigned kSeconds = 60;

// ---- Cases

void round_trips(Fixture& fixture) {
  const Handle stream = fixture.stream();
  const Address memory = fixture.memory(80 * kMiB);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{4096}, std::size_t{65537},
                                 4 * kMiB, 4 * kMiB + 1, 13 * kMiB + 5, 64 * kMiB}) {
    for (const off_t shift : {0, 1, 16, 4096}) {
      Request request{size, 4096 + shift, shift};
      read_async(fixture, memory, request, stream);
      must("cuStreamSynchronize", stream);
      expect("bytes read", request.result, static_cast<long>(size));
      expect_content(memory + static_cast<Address>(shift), 4096 + static_cast<std::size_t>(shift), size);
      write_async(fixture, memory, request, stream);  // The same bytes to the same place.
      must("cuStreamSynchronize", stream);
      expect("bytes written", request.result, static_cast<long>(size));
    }
  }
}

void order(Fixture& fixture) {
  const Handle stream = fixture.stream();
  const Address memory = fixture.memory(kMiB);
  char* const before = fixture.pinned(4096);
  char* const after = fixture.pinned(4096);
  Request request{4096, 8192, 0};
  must("cuMemsetD8Async", memory, static_cast<unsigned char>(7), std::size_t{4096}, stream);
  fixture.hold(stream, 0);
  must("cuMemcpyDtoHAsync_v2", static_cast<void*>(before), memory, std::size_t{4096}, stream);
  read_async(fixture, memory, request, stream);
  must("cuMemcpyDtoHAsync_v2", static_cast<void*>(after), memory, std::size_t{4096}, stream);
  ::usleep(20'000);
  expect("the result before the stream was there", request.result, -99999);
  request.file_offset = 12288;
  fixture.release(0);
  must("cuStreamSynchronize", stream);
  expect("bytes", request.result, 4096);
  expect("before", before[5], 7);
  for (std::size_t i = 0; i < 4096; ++i) expect("after", after[i], pattern(12288 + i));
}

void held_streams(Fixture& fixture) {
  constexpr unsigned kStreams = 200;
  const Address memory = fixture.memory(kStreams * kMiB);
  std::vector<Handle> streams;
  std::vector<Request> requests(kStreams);
  for (unsigned i = 0; i < kStreams; ++i) streams.push_back(fixture.stream());
  for (unsigned i = 0; i < kStreams; ++i) {
    fixture.hold(streams[i], i);
    requests[i] = {65536, i * 65536, static_cast<off_t>(i * kMiB)};
    read_async(fixture, memory, requests[i], streams[i]);
  }
  ::usleep(100'000);
  for (unsigned i = kStreams; i-- > 0;) fixture.release(i);
  for (const Handle stream : streams) must("cuStreamSynchronize", stream);
  for (unsigned i = 0; i < kStreams; ++i) {
    expect("bytes", requests[i].result, 65536);
    expect_content(memory + i * kMiB, i * 65536, 65536);
  }
}

void many_streams(Fixture& fixture) {
  constexpr unsigned kStreams = 200;
  const Address memory = fixture.memory(kStreams * kMiB);
  std::vector<Request> requests(kStreams * 4);
  std::vector<Handle> streams;
  for (unsigned i = 0; i < kStreams; ++i) streams.push_back(fixture.stream());
  for (unsigned i = 0; i < requests.size(); ++i) {
    const unsigned at = i % kStreams;
    requests[i] = {kMiB / 4, at * 65536, static_cast<off_t>(at * kMiB)};
    (i / kStreams % 2 == 0 ? read_async : write_async)(fixture, memory, requests[i], streams[at]);
  }
  must("cuCtxSynchronize");
  for (const Request& request : requests) expect("bytes", request.result, kMiB / 4);
}

void default_streams(Fixture& fixture) {
  const Address memory = fixture.memory(kMiB);
  for (const std::uintptr_t number : {0, 1, 2}) {
    const auto stream = reinterpret_cast<Handle>(number);
    Request request{kMiB, 100, 0};
    read_async(fixture, memory, request, stream);
    must("cuStreamSynchronize", stream);
    expect("bytes", request.result, kMiB);
    expect_content(memory, 100, kMiB);
  }
  const Handle blocking = fixture.stream(0);
  Request request{kMiB, 5000, 0};
  fixture.hold(blocking, 0);
  read_async(fixture, memory, request, nullptr);
  ::usleep(20'000);
  expect("the default stream waits for others", request.result, -99999);
  fixture.release(0);
  must("cuCtxSynchronize");
  expect("bytes", request.result, kMiB);
}

void events(Fixture& fixture) {
  const Handle one = fixture.stream(), other = fixture.stream();
  const Address memory = fixture.memory(kMiB);
  Handle there = nullptr, back = nullptr;
  must("cuEventCreate", &there, 2u);
  must("cuEventCreate", &back, 2u);
  for (int round = 0; round < 100; ++round) {
    Request first{kMiB / 2, round * 4096, 0}, second{kMiB / 2, round * 4096, 0}, third{kMiB / 2, round * 4096, 1000};
    read_async(fixture, memory, first, one);
    must("cuEventRecord", there, one);
    must("cuStreamWaitEvent", other, there, 0u);
    write_async(fixture, memory, second, other);
    must("cuEventRecord", back, other);
    must("cuStreamWaitEvent", one, back, 0u);
    read_async(fixture, memory, third, one);
    must("cuStreamSynchronize", one);
    expect("first", first.result, kMiB / 2);
    expect("second", second.result, kMiB / 2);
    expect("third", third.result, kMiB / 2);
    expect_content(memory + 1000, static_cast<std::size_t>(round) * 4096, kMiB / 2);
  }
}

void capture(Fixture& fixture) {
  const Handle stream = fixture.stream(), blocking = fixture.stream(0);
  const Address memory = fixture.memory(kMiB);
  for (const Handle captured : {stream, blocking}) {
    for (const int mode : {0, 1, 2}) {
      Handle graph = nullptr;
      Request request{4096, 0, 0};
      must("cuStreamBeginCapture_v2", captured, mode);
      expect("refused", submit("cuFileReadAsync", fixture, memory, request, captured).err, CU_FILE_ASYNC_NOT_SUPPORTED);
      const int of_default = submit("cuFileReadAsync", fixture, memory, request, nullptr).err;
      std::printf("(default stream beside it: %d) ", of_default);
      must("cuStreamEndCapture", captured, &graph);
    }
  }
  must("cuCtxSynchronize");
}

void context_destroyed(Fixture& fixture) {
  for (int round = 0; round < 5; ++round) {
    Handle users = nullptr;
    const int made = cu("cuCtxCreate_v2", &users, 0u, 0);
    if (made != 0) fail("cuCtxCreate_v2", made, 0);
    const Handle stream = fixture.stream();
    const Address memory = fixture.memory(kMiB);
    static Request requests[5];
    requests[round] = {kMiB, 0, 0};
    read_async(fixture, memory, requests[round], stream);
    if (round % 2 == 0) must("cuStreamSynchronize", stream);
    must("cuCtxDestroy_v2", users);
    must("cuCtxSetCurrent", fixture.context);
  }
  const Address memory = fixture.memory(kMiB);
  Request request{kMiB, 0, 0};
  const Handle stream = fixture.stream();
  read_async(fixture, memory, request, stream);
  must("cuStreamSynchronize", stream);
  expect("bytes", request.result, kMiB);
}

void second_context(Fixture& fixture) {
  const Address memory = fixture.memory(64 * kMiB);
  std::vector<Handle> streams;
  std::vector<Request> requests(16, Request{kMiB, 0, 0});
  for (unsigned i = 0; i < 16; ++i) {
    streams.push_back(fixture.stream());
    fixture.hold(streams[i], i);
    requests[i].buffer_offset = static_cast<off_t>(i * kMiB);
    read_async(fixture, memory, requests[i], streams[i]);
  }
  Handle users = nullptr;
  must("cuCtxCreate_v2", &users, 0u, 0);
  const Handle stream = fixture.stream();
  Address there = 0;
  must("cuMemAlloc_v2", &there, kMiB);
  Request request{kMiB, 0, 0};
  read_async(fixture, there, request, stream);
  ::usleep(50'000);
  std::printf("(result in the second context while 16 streams are held: %zd) ", request.result);
  must("cuCtxSetCurrent", fixture.context);
  for (unsigned i = 0; i < 16; ++i) fixture.release(i);
  must("cuCtxSynchronize");
  must("cuCtxSetCurrent", users);
  must("cuStreamSynchronize", stream);
  expect("bytes", request.result, kMiB);
  for (const Request& each : requests) expect("bytes", each.result, kMiB);
}

void small_requests(Fixture& fixture) {
  constexpr unsigned kRequests = 10'000, kStreams = 8;
  const Address memory = fixture.memory(kStreams * 4096);
  std::vector<Handle> streams;
  for (unsigned i = 0; i < kStreams; ++i) streams.push_back(fixture.stream());
  std::vector<Request> requests(kRequests);
  const auto start = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < kRequests; ++i) {
    requests[i] = {4096, i * 4096 % (64u << 20), i % kStreams * 4096};
    read_async(fixture, memory, requests[i], streams[i % kStreams]);
  }
  const double queued = seconds_since(start);
  must("cuCtxSynchronize");
  const double all = seconds_since(start);
  for (const Request& request : requests) expect("bytes", request.result, 4096);
  std::printf("(%.1f us a call, %.0f requests/s) ", queued / kRequests * 1e6, kRequests / all);
}

void latency(Fixture& fixture) {
  const Address memory = fixture.memory(kMiB);
  const Handle stream = fixture.stream();
  for (const std::size_t size : {std::size_t{4096}, std::size_t{65536}, kMiB}) {
    std::vector<double> times;
    for (int i = 0; i < 500; ++i) {
      Request request{size, i * 4096, 0};
      const auto start = std::chrono::steady_clock::now();
      read_async(fixture, memory, request, stream);
      must("cuStreamSynchronize", stream);
      times.push_back(seconds_since(start) * 1e6);
    }
    std::sort(times.begin(), times.end());
    std::printf("(%zu bytes: %.1f us, p99 %.1f) ", size, times[250], times[495]);
  }
}

void throughput(Fixture& fixture) {
  const Address memory = fixture.memory(kFileBytes);
  const Handle stream = fixture.stream();
  for (const bool reads : {true, false}) {
    for (int round = 0; round < 3; ++round) {
      Request request{kFileBytes, 0, 0};
      const auto start = std::chrono::steady_clock::now();
      (reads ? read_async : write_async)(fixture, memory, request, stream);
      const double queued = seconds_since(start);
      must("cuStreamSynchronize", stream);
      const double all = seconds_since(start);
      expect("bytes", request.result, kFileBytes);
      if (round == 2)
        std::printf("(%s %.1f GB/s, call %.2f ms) ", reads ? "read" : "write", kFileBytes / all / 1e9, queued * 1e3);
    }
  }
  expect_content(memory, 0, kFileBytes);
}

void other_memory(Fixture& fixture) {
  const Handle stream = fixture.stream();
  Address managed = 0, pooled = 0;
  must("cuMemAllocManaged", &managed, kMiB, 1u);
  must("cuMemAllocAsync", &pooled, kMiB, stream);
  for (const Address memory : {managed, pooled}) {
    Request request{kMiB - 10, 33, 10};
    read_async(fixture, memory, request, stream);
    must("cuStreamSynchronize", stream);
    expect("bytes", request.result, kMiB - 10);
    expect_content(memory + 10, 33, kMiB - 10);
  }
  std::vector<char> pageable(kMiB);
  Request request{kMiB, 77, 0};
  read_async(fixture, reinterpret_cast<Address>(pageable.data()), request, stream);
  must("cuStreamSynchronize", stream);
  expect("bytes", request.result, kMiB);
  expect("a byte", pageable[500], pattern(577));
}

void close_before_arrival(Fixture& fixture) {
  const Handle stream = fixture.stream();
  const Address memory = fixture.memory(32 * kMiB);
  const auto sync =
      reinterpret_cast<ssize_t (*)(CUfileHandle_t, void*, size_t, off_t, off_t)>(::dlsym(libcufile, "cuFileRead"));
  expect("cuFileRead", sync(fixture.file, reinterpret_cast<void*>(memory), 16 * kMiB, 0, 0), 16 * kMiB);
  fixture.hold(stream, 0);
  Request request{kMiB, 0, 0};
  read_async(fixture, memory, request, stream);
  std::thread closing([] { expect("cuFileDriverClose", cufile("cuFileDriverClose").err, 0); });
  ::usleep(300'000);
  fixture.release(0);  // Whether closing waited for this is told by the next line.
  std::printf("(result %zd when released) ", request.result);
  closing.join();
  must("cuStreamSynchronize", stream);
  std::printf("(result %zd in the end) ", request.result);
  fixture.register_file();
  Request again{kMiB, 0, 0};
  read_async(fixture, memory, again, stream);
  must("cuStreamSynchronize", stream);
  expect("bytes after opening again", again.result, kMiB);
}

void closing_waits_for_no_stream(Fixture& fixture) {
  const Handle stream = fixture.stream();
  const Address memory = fixture.memory(32 * kMiB);
  const auto sync =
      reinterpret_cast<ssize_t (*)(CUfileHandle_t, void*, size_t, off_t, off_t)>(::dlsym(libcufile, "cuFileRead"));
  expect("cuFileRead", sync(fixture.file, reinterpret_cast<void*>(memory), 16 * kMiB, 0, 0), 16 * kMiB);
  Request request{kMiB, 0, 0};
  fixture.hold(stream, 0);
  read_async(fixture, memory, request, stream);
  expect("cuFileDriverClose", cufile("cuFileDriverClose").err, 0);  // Hangs where it waits for the stream.
  fixture.release(0);
  must("cuStreamSynchronize", stream);
  expect("the result", request.result, -CU_FILE_DRIVER_CLOSING);
}

struct Case {
  const char* name;
  void (*run)(Fixture&);
  bool bypass = false;
};
constexpr Case kCases[] = {
    {"round_trips", round_trips},
    {"round_trips_bypass", round_trips, true},
    {"order", order},
    {"order_bypass", order, true},
    {"held_streams", held_streams},
    {"held_streams_bypass", held_streams, true},
    {"many_streams", many_streams},
    {"many_streams_bypass", many_streams, true},
    {"default_streams", default_streams},
    {"events", events},
    {"events_bypass", events, true},
    {"capture", capture},
    {"context_destroyed", context_destroyed},
    {"second_context", second_context},
    {"small_requests", small_requests},
    {"small_requests_bypass", small_requests, true},
    {"latency", latency},
    {"latency_bypass", latency, true},
    {"throughput", throughput},
    {"other_memory", other_memory},
    {"close_before_arrival", close_before_arrival},
    {"closing_waits_for_no_stream", closing_waits_for_no_stream},
};

[[noreturn]] void run(const Case& each) {
  ::alarm(kSeconds);
  libcuda = ::dlopen("libcuda.so.1", RTLD_NOW);
  libcufile = ::dlopen(libcufile_name, RTLD_NOW);
  if (libcufile == nullptr) {
    std::printf("%s\n", ::dlerror());
    ::_exit(1);
  }
  if (libcuda == nullptr || cu("cuInit", 0u) != 0) ::_exit(kNoGpu);
  if (each.bypass) cufile("cuFileSetParameterBool", CUFILE_PARAM_STREAM_MEMOPS_BYPASS, true);
  Fixture fixture;
  const auto start = std::chrono::steady_clock::now();
  each.run(fixture);
  (void)cufile("cuFileDriverClose");
  std::printf("ok, %.2f s\n", seconds_since(start));
  std::fflush(stdout);
  ::_exit(0);
}

int run_apart(const Case& each) {
  std::printf("%-28s ", each.name);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) run(each);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::printf("%s\n", WTERMSIG(status) == SIGALRM ? "HUNG" : ::strsignal(WTERMSIG(status)));
    return 1;
  }
  return WEXITSTATUS(status);
}

void make_file(const char* directory) {
  file_name = std::string(directory) + "/stream_probe.data";
  std::vector<char> content(kFileBytes);
  for (std::size_t i = 0; i < kFileBytes; ++i) content[i] = pattern(i);
  const int fd = ::open(file_name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (std::size_t done = 0; done < kFileBytes;) {
    const ssize_t written = ::write(fd, content.data() + done, kFileBytes - done);
    if (written <= 0) fail("writing the file", static_cast<long>(done), kFileBytes);
    done += static_cast<std::size_t>(written);
  }
  ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: stream_probe LIBCUFILE DIRECTORY [CASE...]\n");
    return 2;
  }
  libcufile_name = argv[1];
  make_file(argv[2]);
  int failed = 0;
  for (const Case& each : kCases) {
    const bool wanted = argc == 3 || std::any_of(argv + 3, argv + argc,
                                                 [&](const char* name) { return std::strcmp(name, each.name) == 0; });
    const int result = wanted ? run_apart(each) : 0;
    if (result == kNoGpu) {
      std::printf("no GPU\n");
      ::unlink(file_name.c_str());
      return kNoGpu;
    }
    failed += result != 0 ? 1 : 0;
  }
  ::unlink(file_name.c_str());
  std::printf("%d failed\n", failed);
  return failed > 0 ? 1 : 0;
}
