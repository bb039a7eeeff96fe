# SPDX-License-Identifier: Apache-2.0

"""A machine that stops at any moment of a save has a whole checkpoint on its disk, the old one or the new one.

A child saves, with every change of files and folders and every flush written down (record_writes.cc). Then the disk is
made as it may be after each of them: what was flushed is there, of the rest some is there, some is not, some is torn.
"""

import os
import random
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from penstock import checkpoint

if "record_writes" not in os.environ.get("PENSTOCK_TEST_PRELOAD", ""):
    pytest.skip("record_writes is not there to be preloaded: run these tests by ctest", allow_module_level=True)

DISKS_EACH = 6  # Different outcomes of one and the same moment.
SECTOR = 512

PROGRAM = """
import os, sys, torch
from pathlib import Path
from penstock import checkpoint

def state(number):
    torch.manual_seed(number)
    return {"weights": {f"{i}": torch.randn(50 + 13 * i, 7) for i in range(4)}, "number": number}

def mark(text):
    with open(os.environ["PENSTOCK_TEST_RECORD"], "ab") as record:
        record.write(f"mark {text}\\n".encode())

root = Path(sys.argv[1])
"""

SAVES = """
for number in (1, 2, 3):
    checkpoint.save(state(number), root / "same")
    mark(number)
"""

KEEPS = """
for number in (1, 2, 3):
    checkpoint.save(state(number), root / f"step-{number}")
    mark(number)
checkpoint.verify(root / "step-2")
checkpoint.retain(root, 1)
mark("kept")
"""


@dataclass
class Moment:
    """What was written, named and flushed until then, and how far the program said it was."""

    writes: dict[int, list] = field(default_factory=lambda: defaultdict(list))   # (offset, data), oldest first.
    flushed: dict[int, int] = field(default_factory=lambda: defaultdict(int))    # How many of these.
    names: dict[int, list] = field(default_factory=lambda: defaultdict(list))    # Changes of a folder.
    kept: dict[int, int] = field(default_factory=lambda: defaultdict(int))       # How many of these were flushed.
    folders: set = field(default_factory=set)
    mark: str = ""
    made: int = 0


def moments(record):
    """After each thing that was written down. It is one and the same object, which goes on."""
    moment, known = Moment(), {}
    content, at = record.read_bytes(), 0
    while at < len(content):
        end = content.index(b"\n", at)
        what, *words = content[at:end].decode().split(" ")
        at = end + 1
        if what in ("new", "folder"):  # The numbers of inodes come again; below 0 each is one thing alone.
            moment.made += 1
            known[int(words[-1])] = -moment.made
        if what == "new":
            continue
        if what == "write":
            inode, offset, size = known.get(int(words[0]), int(words[0])), int(words[1]), int(words[2])
            moment.writes[inode].append((offset, content[at:at + size]))
            at += size
        elif what == "flush":
            inode = known.get(int(words[0]), int(words[0]))
            moment.flushed[inode], moment.kept[inode] = len(moment.writes[inode]), len(moment.names[inode])
        elif what in ("name", "folder"):
            folder, name = known.get(int(words[0]), int(words[0])), words[1]
            inode = known.get(int(words[2]), int(words[2]))
            moment.names[folder].append(("add", name, inode))
            if what == "folder":
                moment.folders.add(inode)
        elif what == "remove":
            moment.names[known.get(int(words[0]), int(words[0]))].append(("remove", words[1], 0))
        elif what == "rename":
            assert words[0] == words[2], "a rename within one folder was expected"
            moment.names[known.get(int(words[0]), int(words[0]))].append(("rename", words[1], words[3]))
        else:
            assert what == "mark"
            moment.mark = words[0]
        yield moment


def make_disk(moment, inode, place, outcome):
    """The folder as it may be found after the machine stopped at that moment."""
    changes = moment.names[inode]
    kept = outcome.randint(moment.kept[inode], len(changes))  # A journal keeps their order.
    entries = {}
    for kind, name, what in changes[:kept]:
        if kind == "add":
            entries[name] = what
        elif kind == "rename":
            entries[what] = entries.pop(name)
        else:
            entries.pop(name, None)
    place.mkdir()
    for name, there in entries.items():
        if there in moment.folders:
            make_disk(moment, there, place / name, outcome)
        else:
            (place / name).write_bytes(content_of(moment, there, outcome))


def content_of(moment, inode, outcome):
    content = bytearray()
    for number, (offset, data) in enumerate(moment.writes[inode]):
        if number >= moment.flushed[inode]:
            fate = outcome.random()
            if fate < 0.4:
                continue
            if fate < 0.6:
                data = data[:outcome.randrange(len(data) + 1) // SECTOR * SECTOR]
        content.extend(bytes(max(0, offset + len(data) - len(content))))
        content[offset:offset + len(data)] = data
    return bytes(content)


def state(number):
    torch.manual_seed(number)
    return {"weights": {f"{i}": torch.randn(50 + 13 * i, 7) for i in range(4)}, "number": number}


def loaded(place):
    """The number of the whole state that is there, None where there is no checkpoint."""
    try:
        found = checkpoint.load(place)
    except FileNotFoundError:
        return None
    expected = state(found["number"])
    assert found["weights"].keys() == expected["weights"].keys()
    assert all(torch.equal(found["weights"][name], tensor) for name, tensor in expected["weights"].items())
    return found["number"]


def record_of(tmp_path, program):
    root, record = tmp_path / "root", tmp_path / "record"
    root.mkdir()
    environment = {**os.environ, "LD_PRELOAD": os.environ["PENSTOCK_TEST_PRELOAD"], "PENSTOCK_IO_URING": "off",
                   "PENSTOCK_TEST_RECORD": str(record)}
    subprocess.run([sys.executable, "-c", PROGRAM + program, str(root)], check=True, env=environment, timeout=100)
    return root, record


def disks(tmp_path, root, record):
    """(what the program had said, the disk), for each moment several."""
    outcome = random.Random(7)
    inode, count = root.stat().st_ino, 0
    for moment in moments(record):
        for _ in range(DISKS_EACH):
            place = tmp_path / f"disk-{count}"
            count += 1
            make_disk(moment, inode, place, outcome)
            yield moment.mark, place
    assert count > 100 * DISKS_EACH / 6


def test_a_folder_that_is_saved_to_again_has_the_old_checkpoint_or_the_new_one(tmp_path):
    root, record = record_of(tmp_path, SAVES)
    seen = set()
    for said, disk in disks(tmp_path, root, record):
        number = loaded(disk / "same")
        seen.add((said, number))
        before = int(said or 0)
        assert number in ({None, 1} if before == 0 else {before, min(before + 1, 3)}), said
    # Both outcomes of each save were among them.
    assert {("", None), ("", 1), ("1", 1), ("1", 2), ("2", 2), ("2", 3), ("3", 3)} <= seen
    assert len({path.name.split("-")[0] for path in (root / "same").glob("*.data")}) == 1  # Of the last save alone.


def test_the_newest_whole_one_is_found_whatever_is_being_removed(tmp_path):
    root, record = record_of(tmp_path, KEEPS)
    for said, disk in disks(tmp_path, root, record):
        newest = checkpoint.latest(disk)
        number = None if newest is None else loaded(newest)
        before = 3 if said == "kept" else int(said or 0)
        assert number in ({None, 1} if before == 0 else {before, min(before + 1, 3)}), said
        for place in disk.iterdir():
            assert loaded(place) in (None, int(place.name[-1]))
    # The one that was verified outlives older ones.
    assert sorted(path.name for path in root.iterdir()) == ["step-2", "step-3"]


def test_what_was_flushed_alone_is_what_the_disk_must_have(tmp_path):
    """The replay can fail: without the flushes that were written down, what comes of it is damaged or missing."""
    root, record = record_of(tmp_path, SAVES)
    outcome, bad = random.Random(7), 0
    for count, moment in enumerate(moments(record)):
        moment.flushed.clear()
        place = tmp_path / f"disk-{count}"
        make_disk(moment, root.stat().st_ino, place, outcome)
        try:
            bad += moment.mark == "3" and loaded(place / "same") != 3
        except checkpoint.CheckpointError:
            bad += 1
    assert bad > 0
