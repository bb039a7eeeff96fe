# SPDX-License-Identifier: Apache-2.0

"""Saves that write what changed, and link the rest: what is written, and what a folder has without its neighbours."""

import errno
import logging
import os
import random
import shutil
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import torch.distributed.checkpoint as dcp

from penstock import _native, checkpoint, stage, threads, weights
from penstock.checkpoint import changes, copying, layout, leftovers, pieces, publishing, starting, storing
from penstock.checkpoint.distributed import Reader
from waiting import SECONDS_MAX

PIECE = 4096
ROWS = 40  # Pieces of a large tensor below.
STAGINGS = ["staged", "windowed", "overlapped"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that a small state has many, in several files."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(storing, "FILE_BYTES_MIN", 4 * PIECE)


def state(number, rows=()):
    """Of which those rows have the number, and the small one."""
    large = torch.arange(ROWS * 1024, dtype=torch.float32).reshape(ROWS, 1024)
    for row in rows:
        large[row] = number
    return {"frozen": torch.arange(3000.0).half(), "large": large, "small": torch.full((5,), number),
            "odd": (numpy.arange(5000).reshape(2, 2500)[:, ::2], torch.zeros(0, 3)), "number": number}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        ours, theirs = (found[name], value) if isinstance(value, tuple) else ([found[name]], [value])
        assert all(numpy.array_equal(numpy.asarray(one), numpy.asarray(other))
                   for one, other in zip(ours, theirs, strict=True)), name


def save(number, place, staging="staged", rows=(), **options):
    """What the report says of the links."""
    with checkpoint.Saver(staging, changed_only=True, **options) as saver:
        saver.save(state(number, rows), place).result()
        return saver.report()


def described(place):
    return layout.decode((place / layout.NAME).read_bytes())


SMALL = 5 * 8  # Bytes of the one that differs in each state.


@pytest.mark.parametrize("staging", STAGINGS)
def test_what_did_not_change_is_linked_and_a_folder_is_whole_without_the_others(tmp_path, staging):
    first = save(1, tmp_path / "a" / "step-1", staging)
    second = save(2, tmp_path / "a" / "step-2", staging, rows=(3, 20))
    assert first.links == checkpoint.Links(0, 0, "there is no checkpoint beside it")
    assert second.written_bytes == 2 * PIECE + SMALL and second.links.why_not is None
    assert second.links.nbytes == first.written_bytes - second.written_bytes and second.links.files > 1
    assert f"{second.links.nbytes} bytes linked in {second.links.files} files" in str(second)
    shutil.rmtree(tmp_path / "a" / "step-1")
    (tmp_path / "a").rename(tmp_path / "b")
    shutil.copytree(tmp_path / "b" / "step-2", tmp_path / "moved")
    shutil.rmtree(tmp_path / "b")
    assert_same(checkpoint.load(tmp_path / "moved"), state(2, (3, 20)))


def test_every_reader_reads_what_lies_in_pieces(tmp_path):
    save(1, tmp_path / "step-1")
    save(2, tmp_path / "step-2", rows=(0, ROWS - 1))
    place, expected = tmp_path / "step-2", state(2, (0, ROWS - 1))
    tensors = {"frozen": expected["frozen"], "large": expected["large"]}

    assert checkpoint.verify(place).nbytes == described(place).nbytes
    assert_same(checkpoint.load(place, framework="np"), expected)
    into = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    checkpoint.load_into(into, place)
    assert_same(into, tensors)
    into = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    dcp.load(into, storage_reader=Reader(place), no_dist=True)
    assert_same(into, tensors)
    assert_same(weights.Weights(place).plan(list(tensors)).load(), tensors)
    assert_same(checkpoint.load(checkpoint.drain(place, tmp_path / "shared")), expected)
    stage.stage([place], [tmp_path / "other" / "staged"])
    assert_same(checkpoint.load(tmp_path / "other" / "staged"), expected)
    assert checkpoint.latest(tmp_path) == place
    checkpoint.remove(tmp_path / "step-1")
    assert checkpoint.retain(tmp_path, 1) == [] and not (tmp_path / "step-1").exists()
    assert_same(checkpoint.load(place), expected)


def test_a_function_saves_so_too_and_logs_what_it_linked(tmp_path, caplog):
    caplog.set_level(logging.INFO, "penstock.checkpoint")
    checkpoint.save(state(1), tmp_path / "a", changed_only=True)
    done = checkpoint.save(state(2), tmp_path / "a", changed_only=True)  # The save before is what this one replaces.
    assert done.bytes_done == SMALL and " bytes linked in " in caplog.text
    assert_same(checkpoint.load(tmp_path / "a"), state(2))
    leftovers.wait_for_removals()
    assert {path.name[:20] for path in (tmp_path / "a").glob("*.data")} == {described(tmp_path / "a").save_id[:20]}
    checkpoint.save(state(3), tmp_path / "a")  # Not asked for: nothing is linked.
    leftovers.wait_for_removals()
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "a").glob("*.data"))


def test_a_state_of_small_tensors_is_version_1_as_before(tmp_path):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "small", changed_only=True)
    save(1, tmp_path / "large")
    assert described(tmp_path / "small").version == 1 and described(tmp_path / "large").version == 2


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_where_links_cannot_be_had_all_is_written_and_the_report_says_so(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    whole = save(1, tmp_path / "step-1").written_bytes
    monkeypatch.setattr(os, "link", refuse)
    report = save(2, tmp_path / "step-2")
    assert report.written_bytes == whole and report.links.nbytes == report.links.files == 0
    assert os.strerror(number) in report.links.why_not and os.strerror(number) in str(report)
    shutil.rmtree(tmp_path / "step-1")
    assert_same(checkpoint.load(tmp_path / "step-2"), state(2))


def test_a_file_that_is_another_one_by_then_is_not_used(tmp_path, monkeypatch):
    link = os.link

    def of_another(source, target, **options):
        shutil.copyfile(source, f"{source}.copy")
        os.replace(f"{source}.copy", source)
        link(source, target, **options)

    save(1, tmp_path / "step-1")
    monkeypatch.setattr(os, "link", of_another)
    report = save(2, tmp_path / "step-2")
    assert report.links.nbytes == 0 and "replaced just now" in report.links.why_not
    assert {path.stat().st_nlink for path in (tmp_path / "step-2").glob("*.data")} <= {1, 2}
    assert_same(checkpoint.load(tmp_path / "step-2"), state(2))


def test_what_this_process_did_not_write_is_written_again_and_so_heals(tmp_path, monkeypatch):
    save(1, tmp_path / "step-1")
    starting._known.clear()  # As in the process that goes on from this checkpoint.
    for file in (tmp_path / "step-1").glob("*.data"):
        damage = bytearray(file.read_bytes())
        damage[0] ^= 1
        file.write_bytes(damage)
    report = save(2, tmp_path / "step-2")
    assert report.links.nbytes == 0 and "no save of this process wrote it" in report.links.why_not
    assert_same(checkpoint.load(tmp_path / "step-2"), state(2))
    assert save(3, tmp_path / "step-3").links.why_not is None


def test_who_fails_beside_the_trainer_leaves_no_link(tmp_path, monkeypatch):
    def fail(self):
        raise MemoryError("no room for the copy")

    with checkpoint.Saver("overlapped", changed_only=True) as saver:
        saver.save(state(1), tmp_path / "step-1").result()
        with monkeypatch.context() as patched, pytest.raises(MemoryError, match="no room for the copy"):
            patched.setattr(copying.Copying, "run", fail)
            saver.save(state(2), tmp_path / "step-2").result()
        assert os.listdir(tmp_path / "step-2") == []
        saver.save(state(3), tmp_path / "step-2").result()
        assert saver.report().links.why_not is None
    assert_same(checkpoint.load(tmp_path / "step-2"), state(3))


def test_a_thread_that_cannot_be_started_leaves_no_link(tmp_path, monkeypatch):
    def none_is_left(call):
        raise RuntimeError("can't start new thread")

    with checkpoint.Saver(changed_only=True) as saver:
        saver.save(state(1), tmp_path / "step-1").result()
        with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="can't start new thread"):
            patched.setattr(checkpoint.staging, "Later", none_is_left)
            saver.save(state(2), tmp_path / "step-2")
        assert os.listdir(tmp_path / "step-2") == []


def test_a_checkpoint_whose_rights_changed_is_still_linked(tmp_path):
    save(1, tmp_path / "step-1")
    for file in (tmp_path / "step-1").glob("*.data"):
        file.chmod(0o440)
    assert save(2, tmp_path / "step-2").links.why_not is None


def test_ctrl_c_when_its_thread_has_begun_leaves_the_save_to_the_thread(tmp_path, monkeypatch):
    """Which has looked that all files are there, and is about to name them."""
    has_looked, goes_on, take_name, begun = threading.Event(), threading.Event(), publishing.take_name, []

    def held_up(*names):
        has_looked.set()
        assert goes_on.wait(SECONDS_MAX)
        take_name(*names)

    def interrupted(call):
        begun.append(threads.Later(call))
        assert has_looked.wait(SECONDS_MAX)
        raise KeyboardInterrupt

    save(1, tmp_path / "a")
    saver = checkpoint.Saver(changed_only=True)
    monkeypatch.setattr(publishing, "take_name", held_up)
    monkeypatch.setattr(checkpoint.staging, "Later", interrupted)
    with pytest.raises(KeyboardInterrupt):
        saver.save(state(2), tmp_path / "a")
    goes_on.set()
    begun[0].result(SECONDS_MAX)
    assert_same(checkpoint.load(tmp_path / "a"), state(2))


def test_what_the_bound_leaves_out_is_told(tmp_path):
    save(1, tmp_path / "step-1")
    changed = range(ROWS - 1)
    report = save(2, tmp_path / "step-2", rows=changed)
    assert report.links.why_not in (None, "files of which little is used are not linked")
    assert (report.links.why_not is None) == (report.written_bytes == len(changed) * PIECE + SMALL)


def test_a_save_before_without_hashes_is_said_to_be_the_reason(tmp_path):
    checkpoint.save(state(1), tmp_path / "step-1")
    assert "step-1 was saved without changed_only" in save(2, tmp_path / "step-2").links.why_not


MASK, GOLDEN = (1 << 64) - 1, 0x9e3779b97f4a7c15


def mixed(value):
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ value >> 27) * 0x94d049bb133111eb & MASK
    return value ^ value >> 31


def numbered_sum(values):
    return sum(mixed(value + number * GOLDEN & MASK) for number, value in enumerate(values, 1)) & MASK


def hash64(content):
    """As docs/reference/checkpoint-format.md has it."""
    blocks = [content[at:at + 65536] for at in range(0, len(content), 65536)]
    words = ([int.from_bytes(block[at:at + 8], "little") for at in range(0, len(block), 8)] for block in blocks)
    return mixed(len(content) + numbered_sum(map(numbered_sum, words)) & MASK)


def test_the_hash_is_what_the_formats_page_says(tmp_path):
    save(1, tmp_path / "a")
    large = numpy.random.default_rng(5).integers(0, 256, 200_003, "u1").tobytes()
    assert _native.fingerprint(large) == (layout.checksum(large), hash64(large))
    for _, extent in described(tmp_path / "a").extents():
        content = (tmp_path / "a" / extent.file).read_bytes()[extent.offset:extent.offset + extent.nbytes]
        assert extent.hash64 == hash64(content)


def test_equal_crcs_alone_are_not_trusted(tmp_path):
    """CRC32C does not see a change that is a multiple of its polynomial."""
    one = numpy.arange(100, dtype="u1")
    other = one.copy()
    other[20:25] ^= numpy.frombuffer(bytes.fromhex("f176ec0501"), "u1")
    checkpoint.save({"a": one}, tmp_path / "step-1", changed_only=True)
    checkpoint.save({"a": other}, tmp_path / "step-2", changed_only=True)
    said = [described(tmp_path / name).tensors["a"].chunks[0].extent for name in ("step-1", "step-2")]
    assert said[0].crc32c == said[1].crc32c and said[0].hash64 != said[1].hash64
    assert (checkpoint.load(tmp_path / "step-2", framework="np")["a"] == other).all()


def test_a_chain_of_saves_takes_at_most_twice_its_bytes_in_a_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "LINKS_MAX", 6)
    chance, rows, written = random.Random(3), set(), 0
    for number in range(1, 60):
        rows = set(chance.sample(range(ROWS), 3))
        written += save(number, tmp_path / f"step-{number}", rows=rows).written_bytes
        files = list((tmp_path / f"step-{number}").glob("*.data"))
        nbytes = described(tmp_path / f"step-{number}").nbytes
        taken = sum(path.stat().st_size for path in files)
        assert taken <= 2 * nbytes + 4096 * len(files) * 2 and len(files) <= 6 + storing.FILES_MAX
        checkpoint.retain(tmp_path, 1)
    assert_same(checkpoint.load(tmp_path / "step-59"), state(59, rows))
    assert written < 0.5 * 59 * nbytes


def test_a_tensor_that_changes_between_its_hash_and_its_copy_fails_the_save(tmp_path, monkeypatch):
    begin = checkpoint.staging.begin_with_links
    changing = state(1)

    def and_then_a_change(*given, **options):
        found = begin(*given, **options)
        changing["large"][7, 7] = -1
        return found

    monkeypatch.setattr(checkpoint.staging, "begin_with_links", and_then_a_change)
    with checkpoint.Saver(changed_only=True) as saver, \
            pytest.raises(checkpoint.CheckpointError, match="'large' changed"):
        saver.save(changing, tmp_path / "a").result()
    assert list((tmp_path / "a").iterdir()) == []


def test_what_does_not_fit_is_told_before_anything_is_linked(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize = 2, 4096

    save(1, tmp_path / "step-1")
    monkeypatch.setattr(os, "statvfs", lambda folder: Full)
    with pytest.raises(OSError, match="of which 8192 are free: nothing was written"):
        save(2, tmp_path / "step-2", rows=(1, 2, 3))
    assert list((tmp_path / "step-2").iterdir()) == []


def test_another_jobs_checkpoint_between_two_saves_hides_nothing(tmp_path):
    other = f"from penstock import checkpoint; checkpoint.save({{'n': 1}}, {str(tmp_path / 'other')!r})"
    first = save(1, tmp_path / "step-1")
    subprocess.run([sys.executable, "-c", other], check=True, timeout=SECONDS_MAX)
    second = save(2, tmp_path / "step-2")
    assert second.written_bytes == SMALL and second.links.nbytes == first.written_bytes - SMALL


JOB = """
import sys, torch
from pathlib import Path
from penstock import checkpoint
from penstock.checkpoint import pieces

root, job, one_folder, pieces.PIECE_BYTES = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True", 4096
for number in range(1, 31):
    state = {"frozen": torch.arange(20_000), "changes": torch.full((3000,), number), "job": job, "number": number}
    place = root / ("same" if one_folder else f"{job}-{number}")
    checkpoint.save(state, place, changed_only=True, durable=number % 2 > 0)
    checkpoint.retain(root, 3)
"""


@pytest.mark.parametrize("one_folder", [False, True])
def test_two_jobs_in_one_folder_are_in_nobodys_way(tmp_path, one_folder):
    jobs = [subprocess.Popen([sys.executable, "-c", JOB, str(tmp_path), job, str(one_folder)]) for job in "ab"]
    assert [job.wait(SECONDS_MAX) for job in jobs] == [0, 0]
    places = list(tmp_path.iterdir())
    assert len(places) == (1 if one_folder else 3)
    for place in places:
        checkpoint.verify(place)
        found = checkpoint.load(place)
        assert_same(found, {"frozen": torch.arange(20_000), "changes": torch.full((3000,), found["number"]),
                            "job": found["job"], "number": found["number"]})
        assert {path.name for path in place.iterdir()} == {layout.NAME, "verified.json", *described(place).files}
    assert found["number"] == 30 or not one_folder
