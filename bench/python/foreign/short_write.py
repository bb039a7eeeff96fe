# SPDX-License-Identifier: Apache-2.0

"""The smallest way to a torn chunk that no_foreign_token.py found in LMCache's LocalDiskBackend (near LMCache#3292):
of a write that ends early, as on a full disk, the rest is lost without a word, the key is a hit, and behind the part
that was written the engine gets what was in its memory.

    PYTHONPATH=PENSTOCK:CLIENTS:bench/python short_write.py [penstock]
"""

import os
import resource
import signal
import sys
import tempfile

import numpy as np

from kv_sides import LMCache, World

CHUNK = 16384

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with tempfile.TemporaryDirectory() as folder:
    side = LMCache(folder, CHUNK, 64, sys.argv[1:] == ["penstock"], World(), 64 << 20)
    keys = side.keys([7])
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK // 2, resource.RLIM_INFINITY))  # No file gets longer.
    side.both(keys, np.full((1, CHUNK), 1, dtype=np.uint8), [], seconds=2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    row, = side.get(keys)
    print("not wrong: a miss" if row is None else "not wrong" if row.all() else
          f"WRONG: of {CHUNK} bytes {(row == 1).sum()} are the chunk's", flush=True)
    os._exit(0)  # LMCache's threads may wait for what does not come.
