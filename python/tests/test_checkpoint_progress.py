# SPDX-License-Identifier: Apache-2.0

"""How loads and verifications tell what was read, by which path, and how far they are."""

import logging
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed.checkpoint as dcp

import penstock
from penstock import checkpoint, terminal
from penstock.checkpoint.distributed import Reader, Writer
from penstock.progress import Progress
from waiting import SECONDS_MAX

NBYTES = 4 * (40 << 20) + 4 * 9


def state():
    return {"large": torch.arange(40 << 20, dtype=torch.int32), "small": torch.ones(3, 3), "step": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("saved") / "step-3"
    checkpoint.save(state(), made, durable=False)
    return made


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, "penstock.checkpoint")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_load_logs_bytes_rate_and_paths(folder, told):
    calls = []
    checkpoint.load(folder, on_progress=lambda progress: calls.append(progress.bytes_done))
    line, = told()
    assert line.startswith(f"{folder}: loaded {NBYTES} bytes in ") and "GB/s" in line and f"{NBYTES} by path " in line
    assert calls == sorted(calls) and calls[-1] == NBYTES and len(calls) > 2


def test_a_load_into_tensors_logs_the_same(folder, told):
    checkpoint.load_into({"small": torch.zeros(3, 3)}, folder)
    line, = told()
    assert line.startswith(f"{folder}: loaded ") and "by path" in line


def test_a_better_path_that_was_refused_is_told_with_the_reason(folder, told):
    """A stand-in for a GPU, whose memory no drive reaches."""
    with penstock.Session(device="host") as session:
        memory = session.allocate(1 << 20)
        with session.open(max(folder.glob("*.data"), key=os.path.getsize)) as file:
            report = file.read(memory)
    done = Progress(report.bytes)
    done.count(report, 0.5)
    assert report.reason is not None and done.bytes_by_reason == {report.reason: 1 << 20}
    assert f"{1 << 20} not by a better path: {report.reason}" in str(done)


def test_a_reader_has_the_progress_of_its_rank(tmp_path, told):
    """Of whole rows, of columns, and of an object."""
    saved = {"rows": torch.rand(64, 8), "columns": torch.rand(8, 64), "names": ["a", "b"]}
    dcp.save(saved, storage_writer=Writer(tmp_path / "a", durable=False), no_dist=True)
    reader = Reader(tmp_path / "a")
    assert reader.progress.bytes_done == 0
    dcp.load({"rows": torch.zeros(64, 8), "names": []}, storage_reader=reader, no_dist=True)
    first = reader.progress
    dcp.load({"rows": torch.zeros(64, 8), "columns": torch.zeros(8, 64, dtype=torch.float64), "names": []},
             storage_reader=reader, no_dist=True)
    assert first.bytes_done == first.bytes_total == sum(first.bytes_by_path.values()) > 64 * 8 * 4
    assert reader.progress.bytes_done >= first.bytes_done + 8 * 64 * 4
    assert [line.startswith(f"{tmp_path}/a: loaded ") for line in told()] == [True, True]


def test_verify_tells_how_far_it_is(folder):
    calls = []
    checkpoint.verify(folder, on_progress=lambda progress: calls.append((progress.bytes_done, progress.bytes_total)))
    assert calls[-1] == (NBYTES, NBYTES) and len(calls) > 10


@pytest.mark.parametrize(("nbytes", "width", "drawn"), [
    (0, 59, "[{:20}]   0% 0 of 2000 bytes read, 0.00 GB/s".format("")),
    (1000, 62, "[{:20}]  50% 1000 of 2000 bytes read, 0.00 GB/s".format("#" * 10)),
    (2000, 49, "100% 2000 of 2000 bytes read, 0.00 GB/s          "), (1000, 20, " 50% 1000 of 2000 by")])
def test_a_bar_fills_the_line_and_no_more(nbytes, width, drawn):
    assert terminal.bar(Progress(2000, nbytes), "read", width) == drawn


def test_a_bar_of_nothing_is_full():
    assert "100%" in terminal.bar(Progress(0), "read", 79)


def test_verify_draws_on_a_terminal_and_only_there(folder):
    leader, follower = os.openpty()
    done = subprocess.run([sys.executable, "-m", "penstock", "checkpoint", "verify", str(folder)], stderr=follower,
                          stdout=subprocess.PIPE, text=True, timeout=SECONDS_MAX)
    os.close(follower)
    said = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert done.returncode == 0 and f"100% {NBYTES} of {NBYTES} bytes verified" in said
    piped = subprocess.run([sys.executable, "-m", "penstock", "checkpoint", "verify", str(folder)],
                           capture_output=True, text=True, timeout=SECONDS_MAX)
    assert piped.stdout == done.stdout and piped.stderr == ""
