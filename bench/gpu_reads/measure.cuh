// SPDX-License-Identifier: Apache-2.0

// How the benchmarks of kernels' own reads measure: a first round whose bytes are compared, and three whose time
// counts.
#pragma once

#include <algorithm>

#include "common.cuh"

inline constexpr unsigned kInBlock = 128;
inline constexpr double kRoundSeconds = 0.15;

struct Task {
  unsigned bytes;     // Of each read.
  unsigned per_warp;  // Reads.
  std::uint64_t blocks;
  std::uint64_t seed;
  bool compares;
};

__device__ inline std::uint64_t place_of(const Task& task, unsigned warp, unsigned i) {
  return mix(task.seed + std::uint64_t{warp} * task.per_warp + i) % task.blocks * task.bytes;
}

__device__ inline unsigned wrong_words(const uint4* got, std::uint64_t place, unsigned bytes, unsigned lane) {
  unsigned wrong = 0;
  for (unsigned at = lane; at < bytes / 16; at += 32) {
    const uint4 v = got[at];
    wrong += (std::uint64_t{v.y} << 32 | v.x) != word_at(place + at * 16);
    wrong += (std::uint64_t{v.w} << 32 | v.z) != word_at(place + at * 16 + 8);
  }
  return wrong;
}

__device__ inline unsigned warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }

// Reads whole blocks at random, one after the other in each warp. read(number, i, place, own) fills `own` with the
// bytes at `place`, for the i-th read of the warp of that number, and returns false if it could not.
template <typename Read>
__device__ void read_each(const Task& task, uint4* out, unsigned long long* wrong, Read read) {
  const unsigned number = warp_number();
  uint4* const own = out + std::uint64_t{number} * (task.bytes / 16);
  unsigned bad = 0;
  for (unsigned i = 0; i < task.per_warp; ++i) {
    const std::uint64_t place = place_of(task, number, i);
    if (!read(number, i, place, own)) ++bad;
    __syncwarp();
    if (task.compares) bad += wrong_words(own, place, task.bytes, threadIdx.x % 32);
    __syncwarp();
  }
  if (bad != 0) atomicAdd(wrong, bad);
}

struct Rate {
  double best = 0, least = 0;  // Reads a second.
  double cpus = 0;             // Busy meanwhile, on the average.
  unsigned long long wrong = 0;
};

// A first round whose bytes are compared, and which tells how many reads a round of kRoundSeconds has; then three whose
// time counts.
template <typename Launch>
Rate measure(Task task, unsigned warps, Memory<unsigned long long>& wrong, Launch launch) {
  const auto time = [&] {
    const double began = now();
    launch(task);
    check(cudaDeviceSynchronize(), "a round");
    return now() - began;
  };
  wrong[0] = 0;
  task.compares = true;
  task.per_warp = 16;
  (void)time();
  task.per_warp = std::max(8u, static_cast<unsigned>(16 * kRoundSeconds / 4 / time()) / 8 * 8);
  task.per_warp = std::max(8u, static_cast<unsigned>(task.per_warp * kRoundSeconds / time()) / 8 * 8);
  task.compares = false;
  Rate rate{0, 1e30};
  const double cpu = cpu_seconds(), start = now();
  for (int round = 0; round < 3; ++round) {
    task.seed += 77777;
    const double reads = static_cast<double>(task.per_warp) * warps / time();
    rate.best = std::max(rate.best, reads);
    rate.least = std::min(rate.least, reads);
  }
  rate.cpus = (cpu_seconds() - cpu) / (now() - start);
  rate.wrong = wrong[0];
  return rate;
}

inline void print(const char* what, unsigned bytes, unsigned warps, const Rate& rate) {
  std::printf("%-34s %6u B %5u warps: %8.2f M reads/s (least %8.2f), %5.1f GB/s, %4.2f CPUs, wrong %llu\n", what, bytes,
              warps, rate.best / 1e6, rate.least / 1e6, rate.best * bytes / 1e9, rate.cpus, rate.wrong);
  std::fflush(stdout);
}

// The benchmarks; false if bytes were wrong.
bool run_rows(const std::string& path, std::uint64_t size);
bool run_bfs(const std::string& path, std::uint64_t size);
