// SPDX-License-Identifier: Apache-2.0

// The tasks of a side. Each prepares everything, calls the gate, works while the clock runs, and then compares bytes.
#pragma once

#include "bench/versus/fixture.h"
#include "bench/versus/task.h"

namespace penstock::versus {

// Tasks before and after turns; their samples are empty.
Sample load_memory(Fixture& fixture, const Task& task, const Gate& gate);  // Loads the file's bytes, for write_whole().
Sample open_kept(Fixture& fixture, const Task& task, const Gate& gate);
Sample close_kept(Fixture& fixture, const Task& task, const Gate& gate);

// Whole files.
Sample read_whole(Fixture& fixture, const Task& task, const Gate& gate);   // Uses the file's kept handle, or a new one.
Sample write_whole(Fixture& fixture, const Task& task, const Gate& gate);  // Writes the bytes of device memory.
Sample copy_pinned(Fixture& fixture, const Task& task, const Gate& gate);  // Without a file: the link's limit.

// One process with `threads` GPUs: each reads its rank's whole file, of `depth` ranks, on its own thread.
Sample read_on_gpus(Fixture& fixture, const Task& task, const Gate& gate);

// Small reads at random offsets.
Sample read_latency(Fixture& fixture, const Task& task, const Gate& gate);
Sample time_copies(Fixture& fixture, const Task& task, const Gate& gate);  // pread, copy and wait, without a library.
Sample read_batches(Fixture& fixture, const Task& task, const Gate& gate);
Sample read_in_threads(Fixture& fixture, const Task& task, const Gate& gate);  // cuFileRead.
Sample read_in_queues(Fixture& fixture, const Task& task, const Gate& gate);   // Penstock's queues.
Sample read_and_copy_in_threads(Fixture& fixture, const Task& task,
                                const Gate& gate);  // pread, copy and wait, without a library.

// Ranges of the file to and from pieces scattered over device memory.
Sample move_paged_chunks(Fixture& fixture, const Task& task,
                         const Gate& gate);  // One request for many pieces: Penstock's queues.
Sample move_paged_pieces(Fixture& fixture, const Task& task, const Gate& gate);  // One call for each piece.

// The first call of each kind in a process.
Sample tell_driver_open(Fixture& fixture, const Task& task,
                        const Gate& gate);  // cuFileDriverOpen, with the GPU's context.
Sample register_first(Fixture& fixture, const Task& task, const Gate& gate);  // open(2) and cuFileHandleRegister.
Sample read_first(Fixture& fixture, const Task& task, const Gate& gate);      // cuFileRead of a small block.

// Reads queued on streams. read_on_stream() waits for each, the others for many on `threads` streams.
Sample read_on_stream(Fixture& fixture, const Task& task, const Gate& gate);
Sample read_on_many_streams(Fixture& fixture, const Task& task, const Gate& gate);
// pread and copy, without a library.
Sample copy_on_many_streams(Fixture& fixture, const Task& task, const Gate& gate);

}  // namespace penstock::versus
