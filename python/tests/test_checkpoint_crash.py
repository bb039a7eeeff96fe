# SPDX-License-Identifier: Apache-2.0

"""A machine that stops at any moment of a save has a whole checkpoint on its disk, the old one or the new one.

Each disk is one that the machine may find: see disks.py.
"""

import json
import os
import random

import pytest
from disks import disk_of, disks, make_disk, moments, record_of

torch = pytest.importorskip("torch", reason="torch is not installed")

pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")
load_file = pytest.importorskip("safetensors.torch", reason="safetensors is not installed").load_file

import torch.distributed.checkpoint as dcp

from penstock import checkpoint, weights
from penstock.checkpoint.distributed import Reader

PROGRAM = """
import os, sys, torch
from pathlib import Path
from penstock import checkpoint

def state(number):
    torch.manual_seed(number)
    return {"weights": {f"{i}": torch.randn(50 + 13 * i, 7) for i in range(4)}, "number": number}

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

CHANGES = """
from penstock.checkpoint import pieces, storing

pieces.PIECE_BYTES, storing.FILE_BYTES_MIN = 512, 1500  # Several pieces of a tensor, and several files.
for number in (1, 2, 3, 4):
    saved = {**state(1), "last": state(number)["weights"]["0"], "number": number}
    checkpoint.save(saved, root / f"step-{number}", changed_only=True, durable=number % 2 == 0)
    mark(number if number % 2 == 0 else number - 1)
    checkpoint.retain(root, 2)
"""

SAFETENSORS = """
import torch.distributed.checkpoint as dcp
from penstock.checkpoint import safetensors

safetensors.FILE_BYTES_MIN = 3000  # Several files.
for number in (1, 2, 3):
    tensors = {**state(number)["weights"], "number": torch.tensor(number)}
    dcp.save(tensors, storage_writer=safetensors.SafetensorsWriter(root / "same"), no_dist=True)
    mark(number)
"""


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


def check_number(found):
    """Of tensors that safetensors hold. The number of the state that they all are of."""
    number = int(found["number"])
    expected = {**state(number)["weights"], "number": torch.tensor(number)}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    return number


def number_with_links(place):
    try:
        found = checkpoint.load(place)
    except FileNotFoundError:
        return None
    last = found.pop("last")
    number, found["number"] = found["number"], 1
    assert torch.equal(last, state(number)["weights"]["0"])
    assert all(torch.equal(found["weights"][name], tensor) for name, tensor in state(1)["weights"].items())
    return number


def loaded_safetensors(place):
    """As all readers agree, of which only Penstock's know checkpoint.json. For these there is no folder but a whole
    one."""
    if not place.exists():
        return None
    index = json.loads((place / weights.INDEX).read_text())["weight_map"]
    assert {*index.values(), weights.INDEX, "checkpoint.json"} == {path.name for path in place.iterdir()}
    by_index = check_number({name: load_file(place / file)[name] for name, file in index.items()})
    read = {**{name: torch.zeros_like(tensor) for name, tensor in state(1)["weights"].items()},
            "number": torch.tensor(0)}
    dcp.load(read, storage_reader=Reader(place), no_dist=True)
    checkpoint.verify(place)
    assert by_index == check_number(read) == check_number(weights.Weights(place).plan().load())
    return by_index


def test_a_folder_that_is_saved_to_again_has_the_old_checkpoint_or_the_new_one(tmp_path):
    root, record = record_of(tmp_path, PROGRAM + SAVES)
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
    root, record = record_of(tmp_path, PROGRAM + KEEPS)
    for said, disk in disks(tmp_path, root, record):
        newest = checkpoint.latest(disk)
        number = None if newest is None else loaded(newest)
        before = 3 if said == "kept" else int(said or 0)
        assert number in ({None, 1} if before == 0 else {before, min(before + 1, 3)}), said
        for place in disk.iterdir():
            assert loaded(place) in (None, int(place.name[-1]))
    # The one that was verified outlives older ones.
    assert sorted(path.name for path in root.iterdir()) == ["step-2", "step-3"]


def test_a_save_that_links_what_did_not_change_is_whole_or_not_there(tmp_path):
    """What saves before did not flush, one that is durable has on the disk all the same."""
    root, record = record_of(tmp_path, PROGRAM + CHANGES)
    seen = set()
    for said, disk in disks(tmp_path, root, record):
        durable = [place for place in disk.iterdir() if place.name in ("step-2", "step-4")]
        found = {number_with_links(place) for place in durable} - {None}
        seen.add((said, *sorted(found)))
        assert int(said or 0) in found | {0}, said
    assert {("",), ("0",), ("0", 2), ("2", 2), ("2", 2, 4), ("4", 2, 4), ("4", 4)} <= seen
    assert {path.stat().st_nlink for path in (root / "step-4").glob("*.data")} == {1, 2}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_folder_of_safetensors_is_the_old_one_or_the_new_one_for_every_reader(tmp_path):
    root, record = record_of(tmp_path, PROGRAM + SAFETENSORS)
    seen = set()
    for said, disk in disks(tmp_path, root, record):
        number = loaded_safetensors(disk / "same")
        seen.add((said, number))
        before = int(said or 0)
        assert number in ({None, 1} if before == 0 else {before, min(before + 1, 3)}), said
    assert {("", None), ("", 1), ("1", 1), ("1", 2), ("2", 2), ("2", 3), ("3", 3)} <= seen
    assert len(list((root / "same").glob("*.safetensors"))) > 1 and os.listdir(root) == ["same"]


def test_what_was_flushed_alone_is_what_the_disk_must_have(tmp_path):
    """The replay can fail: without the flushes that were written down, what comes of it is damaged or missing."""
    root, record = record_of(tmp_path, PROGRAM + SAVES)
    outcome, bad = random.Random(7), 0
    for count, moment in enumerate(moments(record)):
        moment.flushed.clear()
        place = tmp_path / f"disk-{count}"
        make_disk(disk_of(moment, root.stat().st_ino, outcome), place)
        try:
            bad += moment.mark == "3" and loaded(place / "same") != 3
        except checkpoint.CheckpointError:
            bad += 1
    assert bad > 0
