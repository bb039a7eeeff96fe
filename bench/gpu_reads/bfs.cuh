// SPDX-License-Identifier: Apache-2.0

// A breadth-first search of a graph in a file, by a kernel for each level. Compiled for a GPU and for the host.
//
// The file has, for each node, where its edges begin, and once more where the last one's end (64-bit numbers); then the
// node that each edge leads to (32-bit numbers).
#pragma once

#include "penstock/gpu.cuh"

namespace penstock::examples {

constexpr unsigned kNotSeen = 0xffffffffu;
constexpr unsigned kEdgesAtOnce = 64;

struct Graph {
  gpu::File file;
  gpu::Long nodes = 0;
};

// In memory of the GPU.
struct Search {
  unsigned* levels;  // Of each node; kNotSeen at first.
  const unsigned* frontier;
  unsigned frontier_count;
  unsigned* next;
  unsigned* next_count;
  unsigned level;  // Of the nodes that are found now.
};

// What one group uses by itself.
struct Scratch {
  gpu::Long begin_and_end[2];
  unsigned targets[kEdgesAtOnce];
};

PENSTOCK_GPU_INLINE unsigned count_up(unsigned* at) {
#if defined(__CUDACC__)
  return atomicAdd(at, 1u);
#else
  return __atomic_fetch_add(at, 1u, __ATOMIC_RELAXED);
#endif
}

PENSTOCK_GPU_INLINE void find(const Search& search, unsigned node) {
  if (gpu::detail::look(search.levels + node) != kNotSeen) return;
  if (gpu::detail::exchange(search.levels + node, kNotSeen, search.level))
    search.next[count_up(search.next_count)] = node;
}

// Visits every step-th node of the frontier from the first on. Returns how many reads failed.
template <typename Group>
PENSTOCK_GPU_INLINE unsigned visit(const Group& group, const Graph& graph, const Search& search, unsigned first,
                                   unsigned step, Scratch& own) {
  unsigned failed = 0;
  for (unsigned i = first; i < search.frontier_count; i += step) {
    failed += graph.file.read(group, gpu::Long{search.frontier[i]} * 8, 16, own.begin_and_end).bytes != 16;
    const gpu::Long begin = own.begin_and_end[0], end = own.begin_and_end[1];
    for (gpu::Long edge = begin; failed == 0 && edge < end; edge += kEdgesAtOnce) {
      const gpu::Long count = end - edge < kEdgesAtOnce ? end - edge : kEdgesAtOnce;
      group.sync();
      failed += graph.file.read(group, (graph.nodes + 1) * 8 + edge * 4, count * 4, own.targets).bytes != count * 4;
      for (gpu::Long k = group.thread_rank(); failed == 0 && k < count; k += group.size()) find(search, own.targets[k]);
    }
    group.sync();
  }
  return failed;
}

}  // namespace penstock::examples
