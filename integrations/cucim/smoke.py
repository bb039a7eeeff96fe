# SPDX-License-Identifier: Apache-2.0

"""cuCIM's file driver on our library: cucim.clara.filesystem, which reads image tiles into GPU memory."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness


def body(smoke):
    memory = harness.new_memory(smoke, may_be_host=False)
    import cucim
    from cucim.clara import filesystem

    smoke.version = cucim.__version__
    smoke.check("cuCIM finds GPUDirect Storage", filesystem.is_gds_available())
    data = harness.content(harness.FILE_SIZE)
    path = smoke.path("data")
    harness.write_file(path, data)
    # cuCIM gives whole requests to cuFile, aligned or not, for files that it opened with O_DIRECT, its default.
    file = filesystem.open(path, "r")
    read = harness.check_reads(
        smoke, "read", memory, data, lambda size, at, to: file.pread(memory, size, at, to), tuple(harness.RANGES))
    filesystem.close(file)
    file = filesystem.open(path, "r+")
    written = harness.check_writes(
        smoke, "write", memory, path, lambda size, at, to: file.pwrite(memory, size, at, to))
    filesystem.close(file)
    smoke.check_moved(read, written)


harness.run("cucim", body)
