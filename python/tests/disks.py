# SPDX-License-Identifier: Apache-2.0

"""Disks as they may be after a machine stopped at any moment of a program.

A child runs, with every change of files and folders and every flush written down (record_writes.cc). Then the disk is
made as it may be after each of them: what was flushed is there, of the rest some is there, some is not, some is torn.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from waiting import SECONDS_MAX

if "record_writes" not in os.environ.get("PENSTOCK_TEST_PRELOAD", ""):
    pytest.skip("record_writes is not there to be preloaded: run these tests by ctest", allow_module_level=True)

DISKS_EACH = 6  # Different outcomes of one and the same moment.
SECTOR = 512

# For programs: how far they are.
MARK = """
def mark(text):
    import os
    with open(os.environ["PENSTOCK_TEST_RECORD"], "ab") as record:
        record.write(f"mark {text}\\n".encode())
"""


@dataclass
class Moment:
    """What was written, named and flushed until then, and how far the program said it was."""

    writes: dict[int, list] = field(default_factory=lambda: defaultdict(list))   # (offset, data), oldest first.
    flushed: dict[int, int] = field(default_factory=lambda: defaultdict(int))    # How many of these.
    changes: list = field(default_factory=list)  # Of folders: (what, the folder and a name, another or the inode).
    kept: dict[int, int] = field(default_factory=lambda: defaultdict(int))       # How many there were at its flush.
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
        numbers = [known.get(int(word), int(word)) for word in words[::2]] if what != "mark" else []
        if what == "new":
            continue
        if what == "write":
            offset, size = int(words[1]), int(words[2])
            moment.writes[numbers[0]].append((offset, content[at:at + size]))
            at += size
        elif what == "flush":
            moment.flushed[numbers[0]], moment.kept[numbers[0]] = len(moment.writes[numbers[0]]), len(moment.changes)
        elif what in ("name", "folder"):
            moment.changes.append(("name", (numbers[0], words[1]), numbers[1]))
            if what == "folder":
                moment.folders.add(numbers[1])
        elif what in ("rename", "exchange"):
            moment.changes.append((what, (numbers[0], words[1]), (numbers[1], words[3])))
        elif what == "remove":
            moment.changes.append((what, (numbers[0], words[1]), None))
        else:
            assert what == "mark"
            moment.mark = words[0]
        yield moment


def folders_of(change):
    what, (folder, _), other = change
    return {folder, other[0]} if what in ("rename", "exchange") else {folder}


def changes_kept(moment, outcome):
    """Those that the disk has. A journal keeps the order of the changes of each folder, and one of two is one change:
    what was flushed is there, and what that comes behind."""
    flushed, must = set(), []
    for i, change in reversed(list(enumerate(moment.changes))):
        is_flushed = any(i < moment.kept[folder] or folder in flushed for folder in folders_of(change))
        if is_flushed:
            flushed |= folders_of(change)
        must.append(is_flushed)
    lost, likely = set(), outcome.random()
    for change, is_flushed in zip(moment.changes, reversed(must), strict=True):
        if is_flushed or (not lost & folders_of(change) and outcome.random() < likely):
            yield change
        else:
            lost |= folders_of(change)


def disk_of(moment, inode, outcome):
    """The folder as it may be found after the machine stopped at that moment: of each path its bytes, or None of a
    folder."""
    entries, found = defaultdict(dict), {}
    for what, (folder, name), other in changes_kept(moment, outcome):
        if what == "name":
            entries[folder][name] = other
        elif what == "remove":
            entries[folder].pop(name, None)
        else:
            there = entries[folder].pop(name)
            if what == "exchange":
                entries[folder][name] = entries[other[0]][other[1]]
            entries[other[0]][other[1]] = there

    def find(inode, place):
        found[place] = None
        for name, there in entries[inode].items():
            if there in moment.folders:
                find(there, os.path.join(place, name))
            else:
                found[os.path.join(place, name)] = content_of(moment, there, outcome)

    find(inode, "")
    return found


def make_disk(disk, place):
    for name, content in disk.items():
        if content is None:
            (place / name).mkdir()
        else:
            (place / name).write_bytes(content)


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


def record_of(tmp_path, program):
    root, record = tmp_path / "root", tmp_path / "record"
    root.mkdir()
    environment = {**os.environ, "LD_PRELOAD": os.environ["PENSTOCK_TEST_PRELOAD"], "PENSTOCK_IO_URING": "off",
                   "PENSTOCK_TEST_RECORD": str(record)}
    subprocess.run([sys.executable, "-c", MARK + program, str(root)], check=True, env=environment, timeout=SECONDS_MAX)
    return root, record


def disks(tmp_path, root, record):
    """(what the program had said, the disk), for each moment several: those that differ from all before. One is gone
    when the next is asked for, so that the machine's own disk need not take them all."""
    outcome = random.Random(7)
    inode, count, seen = root.stat().st_ino, 0, set()
    for moment in moments(record):
        for _ in range(DISKS_EACH):
            disk = disk_of(moment, inode, outcome)
            count += 1
            what = hashlib.sha256(repr((moment.mark, sorted(disk.items()))).encode()).digest()
            if what not in seen:
                seen.add(what)
                place = tmp_path / f"disk-{count}"
                make_disk(disk, place)
                yield moment.mark, place
                shutil.rmtree(place)
    assert count > 100 and len(seen) > 50
