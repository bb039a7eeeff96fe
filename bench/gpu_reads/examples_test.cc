// SPDX-License-Identifier: Apache-2.0

// The examples of kernels' own reads, on the host and in small.
#include <cstring>
#include <numeric>
#include <random>

#include "bench/gpu_reads/bfs.cuh"
#include "bench/gpu_reads/rows.cuh"
#include "fakes/gpu_file_fixture.h"

namespace penstock::core {
namespace {

// By way of the cache or without, out of registered pages or by the ring.
class GpuExamples : public GpuFileFixture, public testing::WithParamInterface<GpuFile::Terms> {};

TEST_P(GpuExamples, RowsAreGathered) {
  open(GetParam());
  constexpr unsigned kRow = 64, kCount = 300;
  std::minstd_rand random(3);
  std::vector<unsigned> rows(kCount);
  for (unsigned& row : rows) row = static_cast<unsigned>(random() % (random() % 2 == 0 ? 9 : kBytes / kRow));
  std::vector<unsigned char> out(kCount * kRow);
  std::atomic<unsigned> failed{0};
  for (unsigned first = 0; first < 3; ++first) {
    kernels_.launch(2, [&, first](const Lane& lane) {
      failed += examples::gather_rows(lane, value_, kRow, rows.data(), kCount, first, 3, out.data());
    });
  }
  kernels_.wait();
  EXPECT_EQ(failed, 0u);
  for (unsigned i = 0; i < kCount; ++i) {
    std::uint64_t words[kRow / 8];
    std::memcpy(words, &out[i * kRow], kRow);
    for (unsigned k = 0; k < kRow / 8; ++k) ASSERT_EQ(words[k], word(std::uint64_t{rows[i]} * kRow / 8 + k, 0)) << i;
  }
}

struct Csr {
  std::vector<std::uint64_t> begins{0};
  std::vector<unsigned> targets;

  std::vector<unsigned> levels() const {
    std::vector<unsigned> found(begins.size() - 1, examples::kNotSeen), queue{0};
    found[0] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (std::uint64_t edge = begins[queue[i]]; edge < begins[queue[i] + 1]; ++edge) {
        if (found[targets[edge]] != examples::kNotSeen) continue;
        found[targets[edge]] = found[queue[i]] + 1;
        queue.push_back(targets[edge]);
      }
    }
    return found;
  }
};

// Some nodes have more edges than are read at once, some none, and some are not reached.
Csr random_graph(unsigned nodes) {
  Csr graph;
  std::minstd_rand random(9);
  for (unsigned node = 0; node < nodes; ++node) {
    const unsigned edges = node % 50 == 0 ? 150 : static_cast<unsigned>(random() % 3);
    for (unsigned i = 0; i < edges; ++i) graph.targets.push_back(static_cast<unsigned>(random() % nodes));
    graph.begins.push_back(graph.targets.size());
  }
  return graph;
}

TEST_P(GpuExamples, AGraphIsSearchedBreadthFirst) {
  constexpr unsigned kNodes = 200, kGroups = 3;
  const Csr csr = random_graph(kNodes);
  {
    const UniqueFd fd = open_as(O_WRONLY | O_TRUNC);
    const auto begins = static_cast<ssize_t>(csr.begins.size() * 8),
               targets = static_cast<ssize_t>(csr.targets.size() * 4);
    ASSERT_EQ(::write(fd.get(), csr.begins.data(), csr.begins.size() * 8), begins);
    ASSERT_EQ(::write(fd.get(), csr.targets.data(), csr.targets.size() * 4), targets);
  }
  open(GetParam());
  std::vector<unsigned> levels(kNodes, examples::kNotSeen), frontier{0}, next(kNodes);
  levels[0] = 0;
  std::atomic<unsigned> failed{0};
  for (unsigned level = 1; !frontier.empty(); ++level) {
    unsigned found = 0;
    const examples::Search search{levels.data(), frontier.data(), static_cast<unsigned>(frontier.size()),
                                  next.data(),   &found,          level};
    examples::Scratch scratch[kGroups];
    for (unsigned first = 0; first < kGroups; ++first) {
      kernels_.launch(2, [&, first](const Lane& lane) {
        failed += examples::visit(lane, {value_, kNodes}, search, first, kGroups, scratch[first]);
      });
    }
    kernels_.wait();
    frontier.assign(next.begin(), next.begin() + found);
  }
  EXPECT_EQ(failed, 0u);
  EXPECT_EQ(levels, csr.levels());
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GpuExamples,
    testing::Values(GpuFile::Terms{}, GpuFile::Terms{.resident_bytes_max = 0},
                    GpuFile::Terms{.ring = {.slot_bytes = 512}, .cache_bytes = 9000},
                    GpuFile::Terms{.ring = {.slot_bytes = 512}, .resident_bytes_max = 0, .cache_bytes = 9000}),
    [](const auto& one) { return std::string(1, static_cast<char>('A' + one.index)); });

}  // namespace
}  // namespace penstock::core
