// SPDX-License-Identifier: Apache-2.0

// What a side can be asked to measure. Each task makes everything ready, calls the gate, works under the clock, and
// compares bytes after it.
#pragma once

#include "bench/versus/fixture.h"
#include "bench/versus/task.h"

namespace penstock::versus {

// What is done before and after turns; the samples are empty.
Sample load_memory(Fixture& fixture, const Task& task, const Gate& gate);  // What the file has, for write_whole().
Sample open_kept(Fixture& fixture, const Task& task, const Gate& gate);
Sample close_kept(Fixture& fixture, const Task& task, const Gate& gate);

// Whole files.
Sample read_whole(Fixture& fixture, const Task& task, const Gate& gate);   // By the file's kept handle, or a fresh one.
Sample write_whole(Fixture& fixture, const Task& task, const Gate& gate);  // What device memory has.
Sample copy_pinned(Fixture& fixture, const Task& task, const Gate& gate);  // No file: the link's ceiling.

// By one process with `threads` GPUs: each reads the whole of its rank's file, of `depth` ranks, on its own thread.
Sample read_on_gpus(Fixture& fixture, const Task& task, const Gate& gate);

// Small reads at random offsets.
Sample read_latency(Fixture& fixture, const Task& task, const Gate& gate);
Sample time_copies(Fixture& fixture, const Task& task, const Gate& gate);  // pread, copy, wait: no library.
Sample read_batches(Fixture& fixture, const Task& task, const Gate& gate);
Sample read_in_threads(Fixture& fixture, const Task& task, const Gate& gate);  // cuFileRead.
Sample read_in_queues(Fixture& fixture, const Task& task, const Gate& gate);   // Penstock's queues.
Sample read_and_copy_in_threads(Fixture& fixture, const Task& task,
                                const Gate& gate);  // pread, copy, wait: no library.

// Ranges of the file to and from pieces that lie all over device memory.
Sample move_paged_chunks(Fixture& fixture, const Task& task,
                         const Gate& gate);  // A request for many: Penstock's queues.
Sample move_paged_pieces(Fixture& fixture, const Task& task, const Gate& gate);  // A call for each.

// The first of its kind in a process.
Sample tell_driver_open(Fixture& fixture, const Task& task,
                        const Gate& gate);  // cuFileDriverOpen, with the GPU's context.
Sample register_first(Fixture& fixture, const Task& task, const Gate& gate);  // open(2) and cuFileHandleRegister.
Sample read_first(Fixture& fixture, const Task& task, const Gate& gate);      // cuFileRead of a small block.

// Reads that are queued on streams. read_on_stream() waits for each, the others for many on `threads` streams.
Sample read_on_stream(Fixture& fixture, const Task& task, const Gate& gate);
Sample read_on_many_streams(Fixture& fixture, const Task& task, const Gate& gate);
Sample copy_on_many_streams(Fixture& fixture, const Task& task, const Gate& gate);  // pread and copy: no library.

}  // namespace penstock::versus
