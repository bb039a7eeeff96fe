# SPDX-License-Identifier: Apache-2.0

"""A machine stops at any moment of a store's life: what was committed is there, and nothing but what was put."""

import json

import numpy as np
import pytest
from disks import disks, record_of

import penstock
from penstock import kv

SETTINGS = {"model": "m", "capacity_bytes": 256 << 10, "extent_bytes": 128 << 10, "commit_s": 3600}
CHUNK = 12_000
KEYS = 40  # Twice as many as fit.

PROGRAM = f"""
import json, sys
import numpy as np
import penstock
from penstock import kv

store = kv.Store(sys.argv[1] + "/kv", session=penstock.Session(device="host"), host_bytes=HOST_BYTES, **{SETTINGS!r})
there = []
for key in range({KEYS}):
    assert store.put([str(key)], [np.random.default_rng(key).integers(0, 256, {CHUNK}, dtype=np.uint8)]) == [0]
    if key % 9 == 5:
        store.delete([str(key - 2)])
    if key % 4 == 3:
        store.commit()
        mark(len(there))
        there.append(store.lookup([str(key) for key in range({KEYS})]))
store.close()
mark(len(there))
there.append(there[-1])
open(sys.argv[1] + "/../there.json", "w").write(json.dumps(there))
"""


@pytest.mark.parametrize("host_bytes", [0, 128 << 10])  # Of these, less than the drive has.
def test_after_any_moment_what_was_committed_is_there_and_nothing_is_wrong(tmp_path, host_bytes):
    root, record = record_of(tmp_path, PROGRAM.replace("HOST_BYTES", str(host_bytes)))
    there = json.loads((tmp_path / "there.json").read_text())
    keys = [str(key) for key in range(KEYS)]
    contents = [np.random.default_rng(key).integers(0, 256, CHUNK, dtype=np.uint8) for key in range(KEYS)]
    hits = 0
    with penstock.Session(device="host") as session:
        for said, disk in disks(tmp_path, root, record):
            with kv.Store(disk / "kv", session=session, **SETTINGS) as store:
                memories = [np.zeros(CHUNK, dtype=np.uint8) for _ in keys]
                outcomes = store.get(keys, memories)
            before = there[int(said)] if said else [False] * KEYS
            after = there[min(int(said) + 1, len(there) - 1)] if said else before
            for key in range(KEYS):
                if outcomes[key] == kv.Outcome.DONE:
                    assert (memories[key] == contents[key]).all(), (said, key)
                    hits += 1
                # What made room after the last commit may be gone.
                assert outcomes[key] == kv.Outcome.DONE or not (before[key] and after[key]), (said, key, outcomes[key])
    assert hits > 1000
