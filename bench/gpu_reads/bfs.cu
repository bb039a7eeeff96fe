// SPDX-License-Identifier: Apache-2.0

// A breadth-first search of a graph in a file that is in the page cache, by penstock/gpu.cuh, beside the same by plain
// loads of managed memory that is filled from the file.
#include <cstring>
#include <thread>

#include "bfs.cuh"
#include "measure.cuh"

namespace {

using namespace penstock::examples;

constexpr unsigned kWarpsInBlock = kInBlock / 32;

unsigned edges_of(std::uint64_t node) { return 8 + static_cast<unsigned>(mix(node) % 33); }

// Writes a random graph of about so many bytes; returns its nodes.
std::uint64_t write_graph(const std::string& path, std::uint64_t size) {
  const std::uint64_t nodes = size / (8 + 4 * 24);
  std::vector<std::uint64_t> begins(nodes + 1);
  for (std::uint64_t i = 0; i < nodes; ++i) begins[i + 1] = begins[i] + edges_of(i);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto write_at = [fd, &path](const void* from, std::uint64_t bytes, std::uint64_t at) {
    while (bytes > 0) {
      const ssize_t put = ::pwrite(fd, from, bytes, static_cast<off_t>(at));
      if (put <= 0) fail("write", path.c_str());
      from = static_cast<const char*>(from) + put;
      bytes -= static_cast<std::uint64_t>(put);
      at += static_cast<std::uint64_t>(put);
    }
  };
  write_at(begins.data(), begins.size() * 8, 0);
  std::vector<unsigned> targets(1u << 20);
  for (std::uint64_t at = 0; at < begins[nodes]; at += targets.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(targets.size(), begins[nodes] - at);
    for (std::uint64_t i = 0; i < count; ++i) targets[i] = static_cast<unsigned>(mix(at + i + 1) % nodes);
    write_at(targets.data(), count * 4, (nodes + 1) * 8 + at * 4);
  }
  ::close(fd);
  return nodes;
}

__global__ void __launch_bounds__(kInBlock, 4) visit_by_file(Graph graph, Search search, unsigned long long* failed) {
  __shared__ Scratch scratch[kWarpsInBlock];
  const unsigned bad =
      visit(gpu::Warp(), graph, search, warp_number(), gridDim.x * kWarpsInBlock, scratch[threadIdx.x / 32]);
  if (bad != 0 && threadIdx.x % 32 == 0) atomicAdd(failed, bad);
}

__global__ void visit_by_loads(const gpu::Long* begins, const unsigned* targets, Search search) {
  for (unsigned i = warp_number(); i < search.frontier_count; i += gridDim.x * kWarpsInBlock) {
    const gpu::Long begin = begins[search.frontier[i]], end = begins[search.frontier[i] + 1];
    for (gpu::Long edge = begin + threadIdx.x % 32; edge < end; edge += 32) find(search, targets[edge]);
  }
}

struct Bfs {
  std::uint64_t nodes;
  Memory<unsigned> levels{nodes, true}, frontiers{2 * nodes, true};
  Memory<unsigned> found{1, true};

  // Returns the levels that there are.
  template <typename Visit>
  unsigned search(Visit visit) {
    const unsigned zero = 0;
    check(cudaMemset(levels.get(), 0xff, nodes * 4), "clear");
    check(cudaMemset(frontiers.get(), 0, 4), "clear");
    check(cudaMemcpy(levels.get(), &zero, 4, cudaMemcpyHostToDevice), "begin");
    unsigned count = 1, level = 0;
    for (unsigned side = 0; count > 0; side ^= 1) {
      check(cudaMemset(found.get(), 0, 4), "clear");
      visit(Search{levels.get(), frontiers.get() + side * nodes, count, frontiers.get() + (side ^ 1) * nodes,
                   found.get(), ++level});
      check(cudaMemcpy(&count, found.get(), 4, cudaMemcpyDeviceToHost), "a level");
    }
    return level;
  }
  std::vector<unsigned> result() const {
    std::vector<unsigned> host(nodes);
    check(cudaMemcpy(host.data(), levels.get(), nodes * 4, cudaMemcpyDeviceToHost), "copy");
    return host;
  }
};

bool all_right = true;
std::vector<unsigned> expected;

void tell(const char* what, const Bfs& bfs, double opening, double searching, unsigned levels, std::uint64_t bytes) {
  const bool is_right = bfs.result() == expected;
  all_right &= is_right;
  std::printf("%-44s %.3f s, and %.3f s before it; %u levels, %5.1f GB/s of the file, %s\n", what, searching, opening,
              levels, bytes / searching / 1e9, is_right ? "levels right" : "WRONG LEVELS");
  std::fflush(stdout);
}

void by_managed_memory(const std::string& path, std::uint64_t size, Bfs& bfs) {
  double began = now();
  char* memory = nullptr;
  check(cudaMallocManaged(&memory, size), "allocate");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const unsigned count = std::thread::hardware_concurrency();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([=] {
      const std::uint64_t end = size / count * (i + 1) + (i + 1 == count ? size % count : 0);
      for (std::uint64_t at = size / count * i; at < end;) {
        const std::uint64_t some = std::min<std::uint64_t>(end - at, 1u << 20);
        const ssize_t got = ::pread(fd, memory + at, some, static_cast<off_t>(at));
        if (got <= 0) fail("read", "the graph");
        at += static_cast<std::uint64_t>(got);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  ::close(fd);
  const double filled = now() - began;
  began = now();
  const auto* const begins = reinterpret_cast<const gpu::Long*>(memory);
  const auto* const targets = reinterpret_cast<const unsigned*>(memory + (bfs.nodes + 1) * 8);
  const unsigned levels =
      bfs.search([&](const Search& search) { visit_by_loads<<<2112, kInBlock>>>(begins, targets, search); });
  const double searched = now() - began;
  if (expected.empty()) expected = bfs.result();
  tell("managed memory, filled by all CPUs", bfs, filled, searched, levels, size);
  cudaFree(memory);
}

void by_file(const char* what, Opened& opened, penstock_gpu_options options, std::uint64_t size, Bfs& bfs) {
  Memory<unsigned long long> failed(1, false);
  double began = now();
  const gpu::File file = opened.open(options);
  const double opening = now() - began;
  for (int round = 0; round < 2; ++round) {
    began = now();
    const unsigned levels = bfs.search([&](const Search& search) {
      visit_by_file<<<2112, kInBlock>>>(Graph{file, bfs.nodes}, search, failed.get());
    });
    tell(what, bfs, round == 0 ? opening : 0, now() - began, levels, size);
  }
  std::printf("  ");
  opened.print_ways();
  all_right &= failed[0] == 0;
  opened.close();
}

}  // namespace

bool run_bfs(const std::string& path, std::uint64_t size) {
  Bfs bfs{write_graph(path, size)};
  Opened opened(path);
  penstock_gpu_info facts{};
  opened.open();
  facts = opened.info();
  opened.close();
  std::printf("%llu nodes, %.2f GB\n", (unsigned long long)bfs.nodes, facts.size / 1e9);
  by_managed_memory(path, facts.size, bfs);
  by_managed_memory(path, facts.size, bfs);
  by_file("resident", opened, {}, facts.size, bfs);
  penstock_gpu_options options{};
  options.slot_bytes = 512;
  options.cache_bytes = facts.size / 4;
  by_file("cached, a quarter; pages registered", opened, options, facts.size, bfs);
  options.slot_bytes = 4096;
  options.threads = 8;
  options.slots = 4096;
  options.ring_only = 1;
  by_file("cached, a quarter; ring, 8 threads", opened, options, facts.size, bfs);
  std::printf(all_right ? "all levels right\n" : "WRONG LEVELS\n");
  return all_right;
}
