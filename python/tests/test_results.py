# SPDX-License-Identifier: Apache-2.0

"""What every result says: its path, the reason why no better one, its rate, and all of it in one sentence."""

import logging
import re
import threading

import numpy as np
import pytest

from penstock import checkpoint, data, kv
from penstock.kvikio import CuFile
from penstock.progress import Meter, Progress
from penstock.weights import Weights, save_file

SENTENCE = re.compile(r"\d+ bytes in \d+\.\d\d s \(\d+\.\d\d GB/s\): \d+ by path host, \d+ not by a better path: \w+$")


def check(result):
    """Of reads into host memory, which no GPU's path serves."""
    assert result.path == "host" and result.reason == "host_memory" and result.gb_per_s > 0
    assert SENTENCE.search(str(result)), str(result)


def test_a_plan_says_it_and_so_does_the_log(tmp_path, session, caplog):
    save_file({"a": np.ones(5000, np.float32)}, tmp_path / "a.safetensors")
    plan = Weights(tmp_path / "a.safetensors").plan(session=session, framework="np")
    with caplog.at_level(logging.INFO, "penstock.weights"):
        plan.load()
    check(plan.progress)
    assert str(plan.progress) in str(plan) and "1 tensors, 20" in repr(plan)
    assert caplog.messages == [f"loaded {tmp_path / 'a.safetensors'}: {plan.progress}"]


def test_a_prefetcher_says_it(tmp_path, session):
    np.arange(6400, dtype=np.uint16).tofile(tmp_path / "a.bin")
    index = data.RecordIndex.tokens([tmp_path / "a.bin"], 64)
    with data.Prefetcher(index, 10, session=session, shuffle=False) as batches:
        for _ in batches:
            pass
        check(batches.progress)
        told = batches.statistics()
        assert (told["path"], told["reason"], told["bytes"]) == ("host", "host_memory", 12800)
        assert told["gb_per_s"] == batches.progress.gb_per_s
        assert repr(batches) == f"<penstock.data.Prefetcher: epoch 0, batch 10 of 10; {batches.progress}>"


def test_a_store_says_it(tmp_path, session):
    store = kv.Store(tmp_path / "store", model="m", capacity_bytes=1 << 24, extent_bytes=1 << 20, session=session)
    store.put(["a"], [bytearray(100_000)])
    store.get(["a"], [bytearray(100_000)])
    check(store.progress)
    assert store.progress.bytes_done == 200_000
    assert store.state()["bytes_by_reason"] == store.progress.bytes_by_reason
    assert SENTENCE.search(repr(store)[:-1])
    store.close()
    assert repr(store) == "<penstock.kv.Store: closed>"


def test_a_file_with_kvikios_calls_says_it_and_each_future(tmp_path, session, content, path):
    memory = bytearray(4096)
    with CuFile(path, session=session) as file:
        assert file.path is None and "no bytes moved" in str(file)
        assert file.read(memory) == 4096
        check(file)
        future = file.pread(memory, 1000)
        assert future.get() == 1000
        check(future)
        assert future.progress.bytes_done == 1000 and file.progress.bytes_done == 5096
        with pytest.raises(OSError):
            file.write(memory)
        assert file.progress.bytes_done == 5096 and repr(file).startswith("<penstock.kvikio.CuFile: 5096 bytes in ")


def test_seconds_are_those_in_which_a_request_was_under_way(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("penstock.progress.time.monotonic", lambda: now[0])
    meter = Meter()
    meter.begin()
    now[0] += 2
    meter.begin()
    now[0] += 1
    meter.end({"bounce": 5}, {"stand_in": 5}, 3)
    now[0] += 1
    assert meter.progress().seconds == 4.0
    meter.end({"host": 1}, {})
    now[0] += 50
    with meter:
        now[0] += 1
    done = meter.progress()
    assert (done.seconds, done.bytes_done, done.bytes_total, done.bytes_direct) == (5.0, 6, 6, 3)
    assert (done.path, done.reason) == ("bounce", "stand_in")


def test_no_count_is_lost_between_threads():
    meter = Meter()

    def count():
        for _ in range(1000):
            with meter:
                meter.begin()
                meter.end({"host": 1}, {"none": 1})

    threads = [threading.Thread(target=count) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    assert meter.progress().bytes_done == 4000 and meter.progress().bytes_by_reason == {"none": 4000}


def test_a_progress_without_bytes_has_no_path():
    assert (Progress(5).path, Progress(5).reason) == (None, None)
    assert repr(Progress(5)) == "<penstock.Progress: 0 bytes in 0.00 s (0.00 GB/s): no bytes moved>"


def test_a_save_in_the_background_says_where_and_whether_it_ended(tmp_path):
    with checkpoint.Saver() as saver:
        saving = saver.save({"step": 1}, tmp_path / "step-1")
        saving.result()
        assert repr(saving) == f"<penstock.checkpoint.Saving: {tmp_path / 'step-1'}, ended>"
