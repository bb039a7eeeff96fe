// SPDX-License-Identifier: Apache-2.0

// What the cases of stream_probe share: calls of the driver and of cuFile by name, a file of a known content, and words
// to hold streams with.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cufile.h"

namespace probe {

using Address = unsigned long long;
using Handle = void*;  // Of the driver: contexts, streams, events.

constexpr std::size_t kMiB = 1u << 20;
constexpr std::size_t kFileBytes = 512 * kMiB;
constexpr int kNoGpu = 77;

inline const char* libcufile_name;
inline std::string file_name;
inline void* libcuda;
inline void* libcufile;

[[noreturn]] inline void fail(const char* what, long got, long wanted) {
  std::printf("FAILED: %s: %ld, not %ld\n", what, got, wanted);
  std::fflush(stdout);
  ::_exit(1);
}
inline void expect(const char* what, long got, long wanted) {
  if (got != wanted) fail(what, got, wanted);
}

template <typename... Arguments>
int cu(const char* name, Arguments... arguments) {
  const auto call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(libcuda, name));
  return call != nullptr ? call(arguments...) : -1;
}
template <typename... Arguments>
void must(const char* name, Arguments... arguments) {
  expect(name, cu(name, arguments...), 0);
}
template <typename... Arguments>
CUfileError_t cufile(const char* name, Arguments... arguments) {
  const auto call = reinterpret_cast<CUfileError_t (*)(Arguments...)>(::dlsym(libcufile, name));
  if (call == nullptr) fail(name, 0, 1);
  return call(arguments...);
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline char pattern(std::size_t at) { return static_cast<char>(at * 2654435761u >> 15); }

// One GPU's primary context, current; the file, registered; words that streams can wait for.
struct Fixture {
  int fd = -1;
  Handle context = nullptr;
  CUfileHandle_t file = nullptr;
  unsigned* words = nullptr;

  Fixture() {
    must("cuDevicePrimaryCtxRetain", &context, 0);
    must("cuCtxSetCurrent", context);
    must("cuMemHostAlloc", &words, std::size_t{65536}, 1u);
    std::memset(words, 0, 65536);
    // Loads what streams of this context need: the driver does not while one of them is held.
    expect("cuFileDriverOpen", cufile("cuFileDriverOpen").err, 0);
    fd = ::open(file_name.c_str(), O_RDWR | O_CLOEXEC);
    register_file();
  }
  void register_file() {
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd;
    expect("cuFileHandleRegister", cufile("cuFileHandleRegister", &file, &descr).err, 0);
  }
  Handle stream(unsigned flags = 1) const {
    Handle made = nullptr;
    must("cuStreamCreate", &made, flags);
    return made;
  }
  Address memory(std::size_t size) const {
    Address made = 0;
    must("cuMemAlloc_v2", &made, size);
    must("cuMemsetD8_v2", made, static_cast<unsigned char>(0), size);
    must("cuStreamSynchronize", Handle{});  // Other streams do not wait for it.
    return made;
  }
  // Copies to memory that is not page-locked block the caller.
  char* pinned(std::size_t size) const {
    char* made = nullptr;
    must("cuMemHostAlloc", &made, size, 1u);
    return made;
  }
  void hold(Handle stream, unsigned word) const {
    must("cuStreamWaitValue32_v2", stream, reinterpret_cast<Address>(words + word), 1u, 0u);
  }
  void release(unsigned word) const { std::atomic_ref(words[word]).store(1); }
};

struct Request {
  size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t result = -99999;
};

inline CUfileError_t submit(const char* name, const Fixture& fixture, Address base, Request& request, Handle stream) {
  return cufile(name, fixture.file, reinterpret_cast<void*>(base), &request.size, &request.file_offset,
                &request.buffer_offset, &request.result, static_cast<CUstream>(stream));
}
inline void read_async(const Fixture& fixture, Address base, Request& request, Handle stream) {
  expect("cuFileReadAsync", submit("cuFileReadAsync", fixture, base, request, stream).err, 0);
}
inline void write_async(const Fixture& fixture, Address base, Request& request, Handle stream) {
  expect("cuFileWriteAsync", submit("cuFileWriteAsync", fixture, base, request, stream).err, 0);
}
inline void expect_content(Address memory, std::size_t file_offset, std::size_t size) {
  std::vector<char> host(size);
  if (size > 0) must("cuMemcpyDtoH_v2", static_cast<void*>(host.data()), memory, size);
  for (std::size_t i = 0; i < size; ++i) {
    if (host[i] != pattern(file_offset + i)) fail("a byte of the content at", static_cast<long>(i), -1);
  }
}

}  // namespace probe
