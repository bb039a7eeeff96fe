# SPDX-License-Identifier: Apache-2.0

"""The smallest ways to foreign chunks that no_foreign_token.py found: what one engine stored is given to another one
whose bytes have another meaning or order, under the same hash of tokens in the same folder.

    PYTHONPATH=PENSTOCK:CLIENTS:TESTS:bench/python other_world.py [penstock]
"""

import sys
import tempfile

import numpy as np

from kv_sides import KINDS, World

CASES = [("vllm", World(is_other_layout=True), "another layout of the KV cache (vllm#55904)"),
         ("vllm", World(ranks=2), "two tensor-parallel ranks instead of one (vllm#55191)"),
         ("sglang", World(dtype="float16"), "another dtype of the KV cache (sglang#33268)"),
         ("sglang", World(is_other_layout=True), "another layout of the host memory (sglang#24758)"),
         ("sglang", World(model="org-model"), "model org-model, after org/model (no issue known)"),
         ("lmcache", World(is_other_layout=True), "other layers of the model (no issue known)"),
         ("lmcache", World(model="org-model"), "model org-model, beside org/model (no issue known)")]
SAID = ["not wrong", "WRONG: it gets the other one's bytes"]
FIRST, SECOND = (np.full((1, 4096), value, dtype=np.uint8) for value in (1, 2))

def tried(kind, folder, other, is_ours):
    sides = [kind(folder, 4096, 4096, is_ours, world, 64 << 20) for world in (World(), other)]
    sides[0].put(sides[0].keys([7]), FIRST)
    sides[0].settle()
    if kind is KINDS["lmcache"]:  # Each engine has an index in its memory of what it stored, and the files are shared.
        sides[1].put(sides[1].keys([7]), SECOND)
        return sides[0], FIRST[0]
    return sides[1], None

for host, other, said in CASES:
    with tempfile.TemporaryDirectory() as folder:
        side, right = tried(KINDS[host], folder, other, sys.argv[1:] == ["penstock"])
        row, = side.get(side.keys([7]))
        print(f"{host:<8} {said}: {SAID[row is not None and not np.array_equal(row, right)]}", flush=True)
