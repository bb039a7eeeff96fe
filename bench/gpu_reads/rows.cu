// SPDX-License-Identifier: Apache-2.0

// Random rows of 512 B of a table in the page cache, most of them of few rows (Zipf, 0.99), by the ways of
// penstock/gpu.cuh, beside a gather by all CPUs into pinned memory and one copy; and what hits of the cache cost.
#include <fcntl.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "measure.cuh"
#include "rows.cuh"

namespace {

using penstock::examples::gather_rows;

constexpr unsigned kRow = 512, kBatch = 1u << 18, kBatches = 16;

// A read with all its ways takes 128 registers.
__global__ void __launch_bounds__(256, 2)
    gather(gpu::File table, const unsigned* rows, unsigned char* out, unsigned long long* wrong) {
  const unsigned warps = gridDim.x * blockDim.x / 32;
  const unsigned failed = gather_rows(gpu::Warp(), table, kRow, rows, kBatch, warp_number(), warps, out);
  if (failed != 0 && threadIdx.x % 32 == 0) atomicAdd(wrong, failed);
}

__global__ void compare(const unsigned* rows, const unsigned char* out, unsigned long long* wrong) {
  const unsigned i = warp_number();
  const auto* const got = reinterpret_cast<const uint4*>(out + std::size_t{i} * kRow);
  const unsigned bad = wrong_words(got, std::uint64_t{rows[i]} * kRow, kRow, threadIdx.x % 32);
  if (bad != 0) atomicAdd(wrong, bad);
}

template <typename Work>
void on_all_cpus(Work work) {
  const unsigned count = std::thread::hardware_concurrency();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([=] { work(i, count); });
  for (std::thread& each : threads) each.join();
}

// The k-th most wanted row is wanted k^-0.99 times as often as the first. Neighbours of the table are not alike.
void draw(unsigned rows, unsigned* drawn) {
  std::vector<double> sums(rows);
  double sum = 0;
  for (unsigned i = 0; i < rows; ++i) sums[i] = sum += std::pow(i + 1, -0.99);
  on_all_cpus([&, drawn](unsigned first, unsigned step) {
    for (unsigned i = first; i < kBatch * kBatches; i += step) {
      const double chance = static_cast<double>(mix(i + 1) >> 11) / 9007199254740992.0 * sum;
      const auto rank = std::lower_bound(sums.begin(), sums.end(), chance) - sums.begin();
      drawn[i] = static_cast<unsigned>(mix(static_cast<std::uint64_t>(rank)) % rows);
    }
  });
}

struct Rows {
  std::string path;
  std::uint64_t size;
  Opened opened{path};
  Memory<unsigned> drawn{kBatch * kBatches, false}, rows{kBatch * kBatches, true};
  Memory<unsigned char> out{std::size_t{kBatch} * kRow, true};
  Memory<unsigned long long> wrong{1, false};
  unsigned long long all_wrong = 0;

  // gather(batch): once for all batches, compared; then three rounds of all, whose time counts.
  template <typename Gather>
  void row(const char* what, Gather gather) {
    wrong[0] = 0;
    for (unsigned batch = 0; batch < kBatches; ++batch) {
      gather(batch);
      compare<<<kBatch / 8, 256>>>(rows.get() + batch * kBatch, out.get(), wrong.get());
      check(cudaDeviceSynchronize(), what);
    }
    Rate rate{0, 1e30};
    rate.wrong = wrong[0];
    const double cpu = cpu_seconds(), start = now();
    for (int round = 0; round < 3; ++round) {
      const double began = now();
      for (unsigned batch = 0; batch < kBatches; ++batch) gather(batch);
      check(cudaDeviceSynchronize(), what);
      const double rate_now = double{kBatch} * kBatches / (now() - began);
      rate.best = std::max(rate.best, rate_now);
      rate.least = std::min(rate.least, rate_now);
    }
    rate.cpus = (cpu_seconds() - cpu) / (now() - start);
    print(what, kRow, 0, rate);
    all_wrong += rate.wrong;
  }
  void by_kernels(const char* what, const penstock_gpu_options& options, unsigned blocks) {
    const gpu::File table = opened.open(options);
    row(what,
        [&](unsigned batch) { gather<<<blocks, 256>>>(table, rows.get() + batch * kBatch, out.get(), wrong.get()); });
    std::printf("  %.2f GB cache; ", opened.info().cache_bytes / 1e9);
    opened.print_ways();
    opened.close();
  }
  void by_cpus() {
    const int fd = ::open(path.c_str(), O_RDONLY);
    const auto* const table =
        static_cast<const char*>(mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0));
    Memory<unsigned char> pinned(std::size_t{kBatch} * kRow, false);
    row("all CPUs, pinned memory, one copy", [&](unsigned batch) {
      const unsigned* const wanted = drawn.get() + batch * kBatch;
      on_all_cpus([&, wanted](unsigned first, unsigned step) {
        const unsigned begin = kBatch / step * first, end = first + 1 == step ? kBatch : begin + kBatch / step;
        for (unsigned i = begin; i < end; ++i) {
          std::memcpy(pinned.get() + std::size_t{i} * kRow, table + std::size_t{wanted[i]} * kRow, kRow);
        }
      });
      check(cudaMemcpy(out.get(), pinned.get(), std::size_t{kBatch} * kRow, cudaMemcpyHostToDevice), "copy");
    });
    munmap(const_cast<char*>(table), size);
    ::close(fd);
  }
};

__global__ void __launch_bounds__(kInBlock, 4)
    read_through(gpu::File file, Task task, uint4* out, unsigned long long* wrong) {
  const gpu::Warp warp;
  read_each(task, out, wrong, [&](unsigned, unsigned, std::uint64_t place, uint4* own) {
    return file.read(warp, place, task.bytes, own).bytes == task.bytes;
  });
}
__global__ void load_here(const uint4* memory, Task task, uint4* out, unsigned long long* wrong) {
  read_each(task, out, wrong, [&](unsigned, unsigned, std::uint64_t place, uint4* own) {
    for (unsigned at = threadIdx.x % 32; at < task.bytes / 16; at += 32) own[at] = memory[place / 16 + at];
    return true;
  });
}

// The first 256 MiB, all of them in the cache, and the same bytes in plain device memory. Without a lease nobody looks
// whether the file has changed.
void run_hits(Rows& bench, bool has_lease) {
  const int writer = has_lease ? -1 : ::open(bench.path.c_str(), O_WRONLY | O_CLOEXEC);
  const std::uint64_t size = std::min<std::uint64_t>(bench.size, 256u << 20);
  Memory<uint4> out(std::size_t{8448} * 4096 / 16, true), plain(size / 16, true);
  std::vector<std::uint64_t> words(size / 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(8 * i);
  check(cudaMemcpy(plain.get(), words.data(), size, cudaMemcpyHostToDevice), "copy");
  for (const unsigned bytes : {512u, 4096u}) {
    penstock_gpu_options options{};
    options.slot_bytes = bytes;
    options.cache_bytes = 2 * size;
    options.may_be_stale = 1;
    const gpu::File file = bench.opened.open(options);
    for (const unsigned warps : {512u, 2112u, 8448u}) {
      const auto row = [&](const char* what, auto launch) {
        Task task{bytes, 0, size / bytes, 5, false};
        task.per_warp = static_cast<unsigned>(4 * task.blocks / warps);  // Once, so that all of it is in the cache.
        launch(task);
        const Rate rate = measure(task, warps, bench.wrong, launch);
        print(what, bytes, warps, rate);
        bench.all_wrong += rate.wrong;
      };
      row(has_lease ? "cached, hits" : "cached, hits, no lease", [&](const Task& task) {
        read_through<<<warps * 32 / kInBlock, kInBlock>>>(file, task, out.get(), bench.wrong.get());
      });
      row("plain loads of device memory", [&](const Task& task) {
        load_here<<<warps * 32 / kInBlock, kInBlock>>>(plain.get(), task, out.get(), bench.wrong.get());
      });
    }
    const penstock_gpu_info info = bench.opened.info();
    std::printf("  %llu cached reads, %llu blocks fetched of %llu\n", (unsigned long long)info.cached_reads,
                (unsigned long long)info.fetched_blocks, (unsigned long long)(size / bytes));
    bench.opened.close();
  }
  ::close(writer);
}

}  // namespace

bool run_rows(const std::string& path, std::uint64_t size) {
  write_file(path, size);
  Rows bench{path, size};
  draw(static_cast<unsigned>(size / kRow), bench.drawn.get());
  check(cudaMemcpy(bench.rows.get(), bench.drawn.get(), sizeof(unsigned) * kBatch * kBatches, cudaMemcpyHostToDevice),
        "copy");
  const auto options = [&](std::uint64_t cache, bool ring_only) {
    penstock_gpu_options made{};
    made.threads = ring_only ? 8 : 1;
    made.slots = ring_only ? 4096 : 1024;
    made.slot_bytes = kRow;
    made.cache_bytes = cache;
    made.ring_only = ring_only;
    return made;
  };
  bench.by_cpus();
  bench.by_kernels("resident", options(0, false), 528);
  bench.by_kernels("cached, a quarter; pages registered", options(size / 4, false), 528);
  bench.by_kernels("ring, 8 threads", options(0, true), 264);
  bench.by_kernels("cached, a quarter; ring, 8 threads", options(size / 4, true), 264);
  for (const bool has_lease : {true, false}) run_hits(bench, has_lease);
  std::printf(bench.all_wrong == 0 ? "all bytes right\n" : "WRONG BYTES\n");
  return bench.all_wrong == 0;
}
