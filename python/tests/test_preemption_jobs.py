# SPDX-License-Identifier: Apache-2.0

"""Jobs that are told to go, or are killed: what the next one goes on from is whole, and of one moment."""

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from penstock.checkpoint.preemption import resume
from preemption_job import save_forever, stop_together
from waiting import SECONDS_MAX, wait_until

NAMES = ("model", "optimizer", "loop")
KILLS = 12


def trainer(root):
    command = [sys.executable, "-B", str(Path(__file__).with_name("preemption_job.py")), str(root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines_until(process, word):
    """Those that it says, up to the first that begins with the word."""
    lines = []
    for line in process.stdout:
        lines.append(line.split())
        if lines[-1][0] == word:
            return lines
    raise AssertionError(f"it ended, and never said {word}: {lines}")


def test_a_trainer_that_gets_sigterm_saves_and_the_next_goes_on(tmp_path):
    before = None
    for _ in range(2):  # Each imports torch anew, for seconds.
        process = trainer(tmp_path)
        said = lines_until(process, "step")
        if before:
            assert said[0] == ["resumed", *before]
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        last = lines_until(process, "left")[-1]
        assert last[1] == "SIGTERM" and last[4] == ",".join(NAMES)
        assert process.wait(SECONDS_MAX) == 143
        assert before is None or int(last[2]) > int(before[0])
        before = last[2:4]
    assert len(list(tmp_path.glob("generation-*"))) == 2


class Job:
    """A process that was forked, and what it tells."""

    def __init__(self, target, *arguments):
        context = multiprocessing.get_context("fork")
        self.told, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=target, args=(*arguments, sender.send))
        self.process.start()
        sender.close()

    def next(self):
        assert self.told.poll(SECONDS_MAX), "the job says nothing"
        return self.told.recv()

    def rest(self):
        found = []
        with contextlib.suppress(EOFError):
            while self.told.poll(SECONDS_MAX):
                found.append(self.told.recv())
        self.process.join(SECONDS_MAX)
        return found


def progress(root):
    """What can be seen of a save: every name under the newest generation."""
    newest = max((each.name for each in root.glob("generation-*")), default="none")
    return newest, sorted(str(path) for path in (root / newest).rglob("*"))


def test_after_a_kill_at_any_moment_what_is_there_is_whole_and_of_one_moment(tmp_path):
    chance, number, partial = random.Random(7), 0, 0
    for kill in range(KILLS):
        job = Job(save_forever, tmp_path, number + 1)
        pid = job.next()
        if kill % 2:
            os.kill(pid, signal.SIGTERM)
        assert job.next() == number + 1
        for _ in range(chance.randrange(1, 12)):
            before = progress(tmp_path)
            wait_until(lambda: progress(tmp_path) != before, "progress of the save")
        job.process.kill()
        complete = max([number + 1, *job.rest()])
        assert job.process.exitcode == -signal.SIGKILL

        found = resume(tmp_path, verified=True)
        numbers = {int(each) for name in found.parts for each in found.load(name, framework="np")["w"]}
        assert len(numbers) == 1, f"{found} is of several moments"
        # What is missing is what comes last.
        assert found.missing == NAMES[len(found.parts):]
        assert complete <= max(numbers) <= complete + 1
        partial += bool(found.missing)
        whole = resume(tmp_path, need=NAMES, verified=True)
        assert complete <= int(whole.load("loop", framework="np")["w"][0]) <= max(numbers)
        number = max(numbers)
    assert 0 < partial < KILLS  # The kills came before and behind parts.


@pytest.mark.parametrize("every, step", [(1, 7), (5, 10)])
def test_a_notice_to_one_rank_stops_all_at_the_same_step(tmp_path, every, step):
    jobs = [Job(stop_together, rank, 2, tmp_path / "rendezvous", tmp_path / "root", every) for rank in range(2)]
    first, second = (job.rest() for job in jobs)
    assert [job.process.exitcode for job in jobs] == [0, 0]
    assert first == [("model",), (step, "a notice of another rank", True)] and second == [(step, "SIGTERM", True)]
    assert resume(tmp_path / "root").load("model")["w"].tolist() == [step] * 10
