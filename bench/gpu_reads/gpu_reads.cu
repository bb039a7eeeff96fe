// SPDX-License-Identifier: Apache-2.0

// How fast kernels read a file by themselves, by penstock/gpu.cuh: resident, beside plain loads of the same pages, and
// by the ring. Every byte of each first round is compared.
//
//   gpu_reads [--self-check | --small-check | --rows | --bfs | --cold | --races] FOLDER [MIB or changes]
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "measure.cuh"

namespace {

__global__ void __launch_bounds__(kInBlock, 4)
    read_blocks(gpu::File file, Task task, uint4* out, unsigned long long* wrong, unsigned* latencies) {
  const gpu::Warp warp;
  read_each(task, out, wrong, [&](unsigned number, unsigned i, std::uint64_t place, uint4* own) {
    const gpu::Long began = latencies != nullptr ? gpu::detail::now_ns() : 0;
    const gpu::Result result = file.read(warp, place, task.bytes, own);
    if (latencies != nullptr && warp.thread_rank() == 0) {
      latencies[number * task.per_warp + i] = static_cast<unsigned>(gpu::detail::now_ns() - began);
    }
    return result.error == gpu::Error::none && result.bytes == task.bytes;
  });
}

// The same, eight begun before the first is waited for.
__global__ void __launch_bounds__(kInBlock, 4)
    read_ahead(gpu::File file, Task task, uint4* out, unsigned long long* wrong) {
  const gpu::Warp warp;
  constexpr unsigned kAhead = 8;
  const unsigned number = warp_number();
  uint4* const own = out + std::uint64_t{number} * kAhead * (task.bytes / 16);
  unsigned bad = 0;
  for (unsigned i = 0; i + kAhead <= task.per_warp; i += kAhead) {
    gpu::Pending pending[kAhead];
#pragma unroll
    for (unsigned k = 0; k < kAhead; ++k) {
      pending[k] = file.read_async(warp, place_of(task, number, i + k), task.bytes, own + k * (task.bytes / 16));
    }
#pragma unroll
    for (unsigned k = 0; k < kAhead; ++k) {
      const gpu::Result result = file.wait(warp, pending[k]);
      if (result.error != gpu::Error::none || result.bytes != task.bytes) ++bad;
    }
    __syncwarp();
    for (unsigned k = 0; task.compares && k < kAhead; ++k) {
      bad += wrong_words(own + k * (task.bytes / 16), place_of(task, number, i + k), task.bytes, warp.thread_rank());
    }
    __syncwarp();
  }
  if (bad != 0) atomicAdd(wrong, bad);
}

// Plain loads of registered pages, for comparison: nothing is checked, nothing is counted.
__global__ void load_blocks(const uint4* file, Task task, uint4* out, unsigned long long* wrong) {
  read_each(task, out, wrong, [&](unsigned, unsigned, std::uint64_t place, uint4* own) {
    for (unsigned at = threadIdx.x % 32; at < task.bytes / 16; at += 32 * 8) {
      uint4 v[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (at + 32 * k < task.bytes / 16) v[k] = __ldcv(file + place / 16 + at + 32 * k);
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (at + 32 * k < task.bytes / 16) own[at + 32 * k] = v[k];
      }
    }
    return true;
  });
}

// What a read does besides loading bytes: a look at host memory, of which warps share a line or have their own, and a
// fence. `fence`: 0 none, 1 of the block, 2 of the GPU, 3 of the system; 4: a look at the clock.
__global__ void look_around(const unsigned* lines, unsigned line_count, int fence, unsigned looks, unsigned* sum) {
  const unsigned number = warp_number();
  if (threadIdx.x % 32 != 0) return;
  unsigned found = 0;
  for (unsigned i = 0; i < looks; ++i) {
    if (fence == 1) __threadfence_block();
    if (fence == 2) __threadfence();
    if (fence == 3) __threadfence_system();
    if (fence == 4) found += static_cast<unsigned>(gpu::detail::now_ns());
    if (line_count > 0) found += gpu::detail::look(lines + number % line_count * 16);
    sum[number * 16] = found;
  }
}

struct Bench {
  std::string path;
  std::uint64_t size;
  Opened opened{path};
  Memory<uint4> out{std::size_t{2112} * 8 * 65536 / 16, true};
  Memory<unsigned long long> wrong{1, false};
  unsigned long long all_wrong = 0;

  void row(const char* what, unsigned bytes, unsigned warps, const Rate& rate) {
    print(what, bytes, warps, rate);
    all_wrong += rate.wrong;
  }
  Task task(unsigned bytes) const { return {bytes, 0, size / bytes, 5, false}; }

  void resident(const char* what, const gpu::File& file) {
    for (const unsigned bytes : {512u, 4096u, 65536u}) {
      for (const unsigned warps : {64u, 512u, 2112u}) {
        row(what, bytes, warps, measure(task(bytes), warps, wrong, [&](const Task& each) {
              read_blocks<<<warps * 32 / kInBlock, kInBlock>>>(file, each, out.get(), wrong.get(), nullptr);
            }));
      }
    }
  }
  void resident_ahead(const gpu::File& file) {
    for (const unsigned bytes : {512u, 4096u}) {
      for (const unsigned warps : {64u, 512u, 2112u}) {
        row("resident, 8 begun at once", bytes, warps, measure(task(bytes), warps, wrong, [&](const Task& each) {
              read_ahead<<<warps * 32 / kInBlock, kInBlock>>>(file, each, out.get(), wrong.get());
            }));
      }
    }
  }
  void plain_loads() {
    const int fd = ::open(path.c_str(), O_RDONLY);
    void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    check(cudaHostRegister(map, size, cudaHostRegisterMapped | cudaHostRegisterReadOnly), "register the pages");
    void* there = nullptr;
    check(cudaHostGetDevicePointer(&there, map, 0), "find the pages");
    for (const unsigned bytes : {512u, 4096u, 65536u}) {
      for (const unsigned warps : {64u, 512u, 2112u}) {
        row("plain loads, for comparison", bytes, warps, measure(task(bytes), warps, wrong, [&](const Task& each) {
              load_blocks<<<warps * 32 / kInBlock, kInBlock>>>(static_cast<const uint4*>(there), each, out.get(),
                                                               wrong.get());
            }));
      }
    }
    check(cudaHostUnregister(map), "unregister the pages");
    munmap(map, size);
    ::close(fd);
  }
  void looks() {
    Memory<unsigned> lines(4096 * 16, false), sums(4096 * 16, true);
    const auto row_of = [&](const char* what, unsigned line_count, int fence) {
      for (const unsigned warps : {64u, 2112u}) {
        const Rate rate = measure(task(4), warps, wrong, [&](const Task& each) {
          look_around<<<warps * 32 / kInBlock, kInBlock>>>(lines.get(), line_count, fence, each.per_warp, sums.get());
        });
        print(what, 4, warps, rate);
      }
    };
    row_of("a look, all at one line", 1, 0);
    row_of("a look, each at its own line", 4096, 0);
    row_of("the same behind a system's fence", 4096, 3);
    row_of("a block's fence", 0, 1);
    row_of("a GPU's fence", 0, 2);
    row_of("a system's fence", 0, 3);
    row_of("a look at the clock", 0, 4);
  }
  void by_direct_preads(int fd, unsigned threads) {
    std::atomic<std::uint64_t> reads{0};
    const double began = now();
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        alignas(4096) static thread_local char memory[4096];
        for (std::uint64_t n = 0; now() - began < 1; ++n) {
          const auto place = static_cast<off_t>(mix(n << 8 | i) % (size / 4096) * 4096);
          if (::pread(fd, memory, 4096, place) == 4096) ++reads;
        }
      });
    }
    for (std::thread& each : all) each.join();
    std::printf("cold, O_DIRECT and pread by %u threads: %.4f M reads/s\n", threads,
                static_cast<double>(reads) / (now() - began) / 1e6);
  }
  gpu::File ring_of(unsigned threads) {
    return opened.open({.threads = threads, .slots = 1024, .slot_bytes = 4096, .ring_only = 1});
  }
  // So few reads of a large file that next to none finds its page in the page cache because of another.
  void cold_ring(unsigned threads) {
    constexpr unsigned kReads = 32768, kWarps = 256;
    const gpu::File file = ring_of(threads);
    wrong[0] = 0;
    const double began = now();
    read_blocks<<<kWarps * 32 / kInBlock, kInBlock>>>(file, {4096, kReads / kWarps, size / 4096, 5, true}, out.get(),
                                                      wrong.get(), nullptr);
    check(cudaDeviceSynchronize(), "cold reads");
    std::printf("cold, ring of %u threads, %u warps: %.4f M reads/s, wrong %llu\n", threads, kWarps,
                kReads / (now() - began) / 1e6, wrong[0]);
    all_wrong += wrong[0];
  }
  void ring(unsigned threads) {
    const gpu::File file = ring_of(threads);
    for (const unsigned warps : {32u, 256u, 1024u}) {
      char what[64];
      std::snprintf(what, sizeof what, "ring, %u threads", threads);
      row(what, 4096, warps, measure(task(4096), warps, wrong, [&](const Task& one) {
            read_blocks<<<warps * 32 / kInBlock, kInBlock>>>(file, one, out.get(), wrong.get(), nullptr);
          }));
    }
  }
  void latency(const char* what, const gpu::File& file, unsigned bytes) {
    constexpr unsigned kReads = 20000;
    Memory<unsigned> times(kReads, false);
    wrong[0] = 0;
    read_blocks<<<1, 32>>>(file, {bytes, kReads, size / bytes, 3, true}, out.get(), wrong.get(), times.get());
    check(cudaDeviceSynchronize(), "latencies");
    std::sort(times.get(), times.get() + kReads);
    std::printf("%-34s %6u B, one warp: p50 %.1f us, p99 %.1f us, wrong %llu\n", what, bytes, times[kReads / 2] / 1e3,
                times[kReads / 100 * 99] / 1e3, wrong[0]);
    all_wrong += wrong[0];
  }
  void tell(const char* what) const {
    const penstock_gpu_info info = opened.info();
    std::printf(
        "%s: reason %s (%d), leased %u, %.2f GB of %.2f resident; reads: %llu resident, %llu by ring, "
        "%llu repeated, %llu failed\n",
        what, penstock_reason_name(info.reason), info.detail, info.is_leased, info.resident_bytes / 1e9,
        info.size / 1e9, (unsigned long long)info.resident_reads, (unsigned long long)info.ring_reads,
        (unsigned long long)info.repeated_reads, (unsigned long long)info.failed_reads);
  }
  void counters() const {
    penstock_counter counters[64] = {};
    counters[0].struct_size = sizeof counters[0];
    std::uint32_t count = 0;
    check(penstock_counters(opened.session(), counters, 64, &count));
    for (std::uint32_t i = 0; i < std::min(count, 64u); ++i) {
      std::printf("counter %s, %s: %llu reads, %llu bytes\n", penstock_path_name(counters[i].path),
                  penstock_reason_name(counters[i].reason), (unsigned long long)counters[i].read_operations,
                  (unsigned long long)counters[i].read_bytes);
    }
  }
};

// Reads of the drive at random, past the page cache: by the ring, and by as many threads as it has with pread.
bool run_cold(const std::string& path, std::uint64_t size) {
  write_file(path, size);
  Bench bench{path, size};
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0) fail("open with O_DIRECT", path.c_str());
  const auto drop = [&] { (void)(::fsync(fd) != 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0); };
  for (const unsigned threads : {8u, 32u, 64u}) {
    for (int turn = 0; turn < 3; ++turn) {
      drop();
      bench.by_direct_preads(fd, threads);
      drop();
      bench.cold_ring(threads);
    }
  }
  ::close(fd);
  return bench.all_wrong == 0;
}

bool run(const std::string& path, std::uint64_t size) {
  write_file(path, size);
  Bench bench{path, size};
  const double began = now();
  const gpu::File leased = bench.opened.open();
  std::printf("opened for the GPU in %.2f s\n", now() - began);
  bench.tell("opened");
  if (bench.opened.info().resident_bytes == size) {
    bench.resident("resident, under the lease", leased);
    bench.resident_ahead(leased);
    bench.latency("resident, under the lease", leased, 4096);
    bench.tell("under the lease");
    const int writer = ::open(path.c_str(), O_WRONLY);  // So that there is no lease, and nothing to look at.
    const gpu::File stale = bench.opened.open({.may_be_stale = 1});
    bench.resident("resident, may be stale", stale);
    bench.tell("without a lease");
    bench.opened.close();
    ::close(writer);
    bench.plain_loads();
  } else {
    std::printf("NOT MEASURED: resident, since not all of the file is\n");
  }
  bench.looks();
  for (const unsigned threads : {1u, 4u, 8u}) bench.ring(threads);
  bench.latency("ring, 8 threads", bench.opened.open({.threads = 8, .ring_only = 1}), 4096);
  bench.latency("ring, 1 thread", bench.opened.open({.threads = 1, .slots = 32, .ring_only = 1}), 4096);
  bench.tell("by ring");
  const double cpu = cpu_seconds(), idle = now();
  ::sleep(1);
  std::printf("ring, 1 thread, nothing asked: %.3f CPUs\n", (cpu_seconds() - cpu) / (now() - idle));
  bench.counters();
  std::printf(bench.all_wrong == 0 ? "all bytes right\n" : "WRONG BYTES\n");
  return bench.all_wrong == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--rewrite") == 0) {  // Of the self-check.
    write_file(argv[2], std::strtoull(argv[3], nullptr, 10), 1);
    return 0;
  }
  if (argc == 3 && (std::strcmp(argv[1], "--trap") == 0 || std::strcmp(argv[1], "--reset") == 0)) {
    return lose_the_context(argv[2], std::strcmp(argv[1], "--trap") == 0) ? 0 : 1;
  }
  const std::string task = argc > 1 && argv[1][0] == '-' ? argv[1] : "";
  const int first = task.empty() ? 1 : 2;
  if (argc <= first) {
    std::printf("usage: gpu_reads [--self-check | --small-check | --rows | --bfs | --cold] FOLDER [MIB]\n"
                "       gpu_reads --races FOLDER CHANGES\n");
    return 2;
  }
  const std::string path = std::string(argv[first]) + "/gpu_reads." + std::to_string(::getpid());
  const std::uint64_t number = argc > first + 1 ? std::strtoull(argv[first + 1], nullptr, 10) : 2048;
  const std::uint64_t size = number << 20;
  check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "choose how to wait");  // Without a CPU that spins.
  const bool is_right = task == "--self-check"    ? check_reads(path, false)
                        : task == "--small-check" ? check_reads(path, true)
                        : task == "--races"       ? run_races(path, static_cast<unsigned>(number))
                        : task == "--rows"        ? run_rows(path, size)
                        : task == "--bfs"         ? run_bfs(path, size)
                        : task == "--cold"        ? run_cold(path, size)
                                                  : run(path, size);
  ::unlink(path.c_str());
  return is_right ? 0 : 1;
}
