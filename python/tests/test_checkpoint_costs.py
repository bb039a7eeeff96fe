# SPDX-License-Identifier: Apache-2.0

"""What a Saver reports of a save: which times, of which bytes, and in the log."""

import contextlib
import logging
import subprocess
import threading

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import penstock
from penstock import checkpoint, launcher
from penstock.checkpoint import copying, costs, states
from waiting import SECONDS_MAX, wait_until


class Clock:
    """Seconds pass where a step of a save is said to take some."""

    def __init__(self, patch):
        self.now, self._patch = 0.0, patch
        patch.setattr(costs, "monotonic", lambda: self.now)

    def takes(self, owner, name, seconds):
        call = getattr(owner, name)

        def longer(*given, **more):
            self.now += seconds
            return call(*given, **more)

        self._patch.setattr(owner, name, longer)


@pytest.fixture
def clock(monkeypatch):
    made = Clock(monkeypatch)
    made.takes(states.Storing, "write", 10)
    made.takes(states.Storing, "finish", 20)
    made.takes(states, "publish", 5)
    return made


def state():
    return {"weights": numpy.arange(1000.0), "moments": [numpy.zeros(500)], "counts": numpy.arange(5), "step": 3}


NBYTES = 8000 + 4000 + 40


@pytest.mark.parametrize(("staging", "stood"), [("staged", 0), ("windowed", 10)])
def test_each_second_of_a_save_is_told_once(staging, stood, clock, tmp_path):
    with checkpoint.Saver(staging) as saver:
        assert saver.report() is None
        saving = saver.save(state(), tmp_path / "a")
        saving.result(60)
        assert saver.report() == checkpoint.SaveReport(
            folder=tmp_path / "a", stood_s=saving.stopped_s, waited_s=0, hidden_s=0, hidden_bytes=0, given_way_s=0,
            written_s=10, written_bytes=NBYTES, flushed_s=25, flushed_bytes=NBYTES, whole_after_s=35, copied_at_once=())
        assert saving.stopped_s >= stood


def test_copies_beside_the_trainer_are_hidden_but_for_what_it_waited(clock, tmp_path, monkeypatch):
    """What nobody named may change at any time, and is named in the report."""
    is_copying, goes_on = threading.Event(), threading.Event()
    run, before = copying.Copying.run, copying.Copying.before

    def late(self):
        clock.now += 7
        is_copying.set()
        assert goes_on.wait(SECONDS_MAX)
        run(self)

    def waits(self, owner):
        clock.now += 2
        before(self, owner)

    monkeypatch.setattr(copying.Copying, "run", late)
    monkeypatch.setattr(copying.Copying, "before", waits)
    with contextlib.closing(checkpoint.Saver("overlapped", durable=False)) as saver:
        saved = state()
        saving = saver.save(saved, tmp_path / "a", until_update=[saved["weights"], saved["moments"]])
        assert is_copying.wait(SECONDS_MAX)
        begun = saver.report()
        saver.before_update()
        goes_on.set()
        saving.result(60)
        saver.before_update()  # Nothing is left to wait for.
        report = saver.report()
    assert begun.whole_after_s is None and begun.written_bytes == 0 and "not whole yet" in str(begun)
    assert (report.waited_s, report.hidden_s, report.hidden_bytes) == (2, 7, 12000)
    assert (report.written_bytes, report.flushed_bytes, report.whole_after_s) == (NBYTES, 0, 7 + 2 + 35)
    assert report.copied_at_once == ("counts",) and saving.stopped_s == report.stood_s + 2


def test_one_line_of_the_log_has_each_save_and_few_of_its_names(tmp_path, caplog):
    caplog.set_level(logging.INFO, "penstock.checkpoint")
    many = {f"part\n{number}": numpy.ones(3) for number in range(500)}
    with checkpoint.Saver("overlapped") as saver:
        for number in range(2):
            saver.save(many, tmp_path / f"{number}").result(60)
        assert len(saver.report().copied_at_once) == 500
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and all(len(line) < 500 + len(str(tmp_path)) and "\n" not in line for line in lines)
    assert lines[1].startswith(f"{tmp_path}/1: stood ") and lines[1].endswith(" and 497 more")


def test_a_save_that_failed_is_not_said_to_be_whole(tmp_path, caplog, monkeypatch):
    def fail(self):
        raise OSError("the drive is gone")

    caplog.set_level(logging.INFO, "penstock.checkpoint")
    monkeypatch.setattr(states.Storing, "finish", fail)
    saver = checkpoint.Saver()
    with pytest.raises(OSError, match="the drive is gone"):
        saver.save(state(), tmp_path / "a").result(60)
    assert saver.report().whole_after_s is None and not caplog.records


@pytest.mark.skipif(not launcher.has_tool(), reason="the tool is not here, which watches the node")
def test_who_watches_the_node_sees_what_saves_cost(tmp_path):
    def told():
        return dict(line.rsplit(" ", 1) for line in page.read_text().splitlines() if "_save" in line)

    page, part = tmp_path / "penstock.prom", "penstock_node_save_seconds_total{part=\"%s\"}"
    command = [launcher.tool(), "serve", "--listen", "none", "--textfile", tmp_path, "--interval", "1"]
    watcher = subprocess.Popen(command)
    try:
        wait_until(page.exists, "first look")
        with penstock.Session(device="host") as session, checkpoint.Saver(session=session) as saver:
            for name in ("a", "b"):
                saver.save(state(), tmp_path / name).result()
            wait_until(lambda: float(told().get("penstock_node_saves_total", 0)) >= 2, "look at two saves")
    finally:
        watcher.terminate()
        watcher.wait()
    # Other programs on the node may save, too: what two saves are exactly, the tests of the totals say.
    assert float(told()["penstock_node_save_bytes_total"]) >= 2 * NBYTES
    assert all(float(told()[part % each]) > 0 for each in ("stood", "written", "flushed"))
