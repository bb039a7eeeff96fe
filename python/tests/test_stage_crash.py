# SPDX-License-Identifier: Apache-2.0

"""A machine stops at any moment of staging: what has its name is whole, and the same call makes the rest."""

import random

import pytest
from disks import DISKS_EACH, disks, record_of

import penstock
from penstock import stage

PART = 4096
CONTENTS = {"a": random.Random(1).randbytes(5 * PART + 700), "b/c": random.Random(2).randbytes(2 * PART), "b/e": b""}

PROGRAM = f"""
import sys
import penstock
from penstock import stage

mark("begun")
stage.stage([sys.argv[1] + "/../source"], [sys.argv[1] + "/to"], part_bytes={PART}, parallel=2,
            session=penstock.Session(device="host"))
mark("done")
open(sys.argv[1] + "/end", "w").close()
"""


@pytest.fixture
def source(tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(content)
    return tmp_path / "source"


def test_after_any_moment_names_are_of_whole_files_and_the_rest_is_made(tmp_path, source):
    root, record = record_of(tmp_path, PROGRAM)
    fetched = set()
    with penstock.Session(device="host") as session:
        for count, (said, disk) in enumerate(disks(tmp_path, root, record)):
            there = {name for name in CONTENTS if (disk / "to" / name).exists()}
            assert all((disk / "to" / name).read_bytes() == CONTENTS[name] for name in there)
            if said == "done":
                assert there == set(CONTENTS) and stage.check([disk / "to"], session=session).bad == {}
            if count % DISKS_EACH == count // DISKS_EACH % DISKS_EACH:  # One of each moment: it takes a while.
                done = stage.stage([source], [disk / "to"], part_bytes=PART, parallel=2, session=session)
                assert {name: (disk / "to" / name).read_bytes() for name in CONTENTS} == CONTENTS
                assert stage.check([disk / "to"], session=session).bad == {}
                fetched.add(done.fetched)
    total = sum(map(len, CONTENTS.values()))
    assert max(fetched) == total and any(0 < each < total for each in fetched)
