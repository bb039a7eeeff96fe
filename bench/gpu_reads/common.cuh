// SPDX-License-Identifier: Apache-2.0

// What the benchmark of kernels' own reads and its self-check share: a file whose words tell their places, a session
// with that file, and memory that host and kernels see.
#pragma once

#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "penstock/gpu.cuh"
#include "penstock/gpu.h"

namespace gpu = penstock::gpu;

inline void fail(const char* what, const char* why) {
  std::printf("FAILED %s: %s\n", what, why);
  std::exit(1);
}
inline void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) fail(what, cudaGetErrorString(result));
}
inline void check(const penstock_status& status) {
  char text[512];
  if (status.code == 0) return;
  penstock_status_message(status, text, sizeof text);
  fail(status.step, text);
}
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline double cpu_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

__host__ __device__ inline std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}
// The word at that place of the file, in that version of it.
__host__ __device__ inline std::uint64_t word_at(std::uint64_t place, std::uint64_t version = 0) {
  return mix(place / 8 + (version << 48));
}

// Truncates the file and writes it anew.
inline void write_file(const std::string& path, std::uint64_t size, std::uint64_t version = 0) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail("open for writing", path.c_str());
  std::vector<std::uint64_t> words((1u << 20) / 8);
  for (std::uint64_t at = 0; at < size;) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(at + 8 * i, version);
    const std::uint64_t some = size - at < (1u << 20) ? size - at : 1u << 20;
    if (::write(fd, words.data(), some) != static_cast<ssize_t>(some)) fail("write", path.c_str());
    at += some;
  }
  ::close(fd);
}

// Pinned host memory that kernels reach, or device memory.
template <typename T>
class Memory {
 public:
  Memory(std::size_t count, bool on_device) : on_device_(on_device) {
    void* got = nullptr;
    check(on_device ? cudaMalloc(&got, count * sizeof(T)) : cudaHostAlloc(&got, count * sizeof(T), cudaHostAllocMapped),
          "allocate");
    data_ = static_cast<T*>(got);
    if (!on_device) {
      for (std::size_t i = 0; i < count; ++i) data_[i] = T{};
    }
  }
  ~Memory() { on_device_ ? cudaFree(data_) : cudaFreeHost(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* get() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  const bool on_device_;
};

// A session, its file, and the file for the GPU.
class Opened {
 public:
  explicit Opened(const std::string& path, int flags = 0) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
    if (fd_ < 0) fail("open", path.c_str());
    check(penstock_session_open(nullptr, &session_));
    check(penstock_file_register(session_, fd_, &file_));
  }
  ~Opened() {
    close();
    penstock_file_close(file_);
    penstock_session_close(session_);
    ::close(fd_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  gpu::File open(penstock_gpu_options options = {}) {
    close();
    options.struct_size = sizeof options;
    options.layout = PENSTOCK_GPU_LAYOUT;
    check(penstock_gpu_open(session_, file_, &options, &gpu_file_));
    penstock_gpu_value value{sizeof value, 0, {}};
    check(penstock_gpu_get_value(gpu_file_, &value));
    return gpu::File(value);
  }
  void close() {
    penstock_gpu_close(gpu_file_);
    gpu_file_ = nullptr;
  }
  penstock_status ask(penstock_gpu_info& info) const {
    info.struct_size = sizeof info;
    return penstock_gpu_get(gpu_file_, &info);
  }
  penstock_gpu_info info() const {
    penstock_gpu_info info{};
    check(ask(info));
    return info;
  }
  // By which ways the reads went, to the end of a line.
  void print_ways() const {
    const penstock_gpu_info told = info();
    std::printf("reads: %llu cached (%llu blocks fetched), %llu resident, %llu by ring, %llu failed\n",
                (unsigned long long)told.cached_reads, (unsigned long long)told.fetched_blocks,
                (unsigned long long)told.resident_reads, (unsigned long long)told.ring_reads,
                (unsigned long long)told.failed_reads);
  }
  penstock_session* session() const { return session_; }
  penstock_file* file() const { return file_; }

 private:
  const int fd_;
  penstock_session* session_ = nullptr;
  penstock_file* file_ = nullptr;
  penstock_gpu_file* gpu_file_ = nullptr;
};

// Loses the GPU's context, by a kernel that traps among others that read, or by destroying it, and tells what came of
// it; false if something stood still, or went on as if nothing had been. It has to be a process of its own.
bool lose_the_context(const std::string& path, bool by_trap);
// Runs the checks, if wanted with few and small reads, for compute-sanitizer; false if one failed.
bool check_reads(const std::string& path, bool is_small);
// Changes files under kernels that read them, so many times; false if a read was wrong that a lease protects.
bool run_races(const std::string& path, unsigned wanted);
