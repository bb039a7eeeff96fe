# SPDX-License-Identifier: Apache-2.0

"""How a save gives way to steps: the governor by a clock of its own, and what a Saver tells it."""

import subprocess
import sys

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")

from penstock import checkpoint
from penstock.checkpoint import governing
from penstock.checkpoint.governing import ALONE_BYTES, TURN, Governor, Pace
from penstock.checkpoint.layout import REQUEST_BYTES


class Trainer:
    """Steps by a clock that passes in steps and pauses alone, and a writer who would work in each of them."""

    def __init__(self):
        self.now = 0.0
        self.governor = Governor(lambda: self.now, lambda seconds: None)

    def step(self, seconds=1.0, slowed=None, owner=None):
        """Whether the writer worked in it; slowed: how long the step takes then."""
        self.governor.step_begins(owner)
        works = not self.governor._must_pause()
        if works:
            self.governor.give_way()
        self.now += slowed if works and slowed else seconds
        self.governor.step_ends(owner)
        return works

    def steps(self, count, seconds=1.0, slowed=None):
        return [self.step(seconds, slowed) for _ in range(count)]


@pytest.fixture
def trainer():
    """It has made some steps of a second each."""
    made = Trainer()
    made.steps(8)
    return made


def beside(trainer, count, seconds=1.0, slowed=None):
    return trainer.governor.beside(lambda: trainer.steps(count, seconds, slowed))


def test_steps_that_are_as_before_slow_nobody(trainer):
    assert beside(trainer, 30, slowed=1.04) == [True] * 30
    assert trainer.governor.request_bytes == REQUEST_BYTES


def test_where_steps_are_slower_writers_work_in_each_third(trainer):
    worked = beside(trainer, 30, slowed=2)
    assert worked[:3] == [True] * 3 and sum(worked[3:]) == 9
    assert worked[5:8] in ([True, False, False], [False, True, False], [False, False, True])
    assert trainer.governor.request_bytes == ALONE_BYTES


def test_the_next_save_begins_as_the_last_one_ended(trainer):
    beside(trainer, 30, slowed=2)
    trainer.steps(3)
    assert sum(beside(trainer, 30, slowed=2)) == 10


def test_where_it_is_not_the_writers_that_slow_steps_they_work_on(trainer):
    """Another program takes the processors."""
    worked = beside(trainer, 60, seconds=2)
    assert worked[-40:] == [True] * 40
    assert sum(beside(trainer, 30, slowed=2)) < 15  # The next time it may be them.


def test_steps_beside_a_save_are_no_measure_of_those_without(trainer):
    for _ in range(5):
        beside(trainer, 40, slowed=2)
    assert trainer.governor._usual() == 1


def pauses_after(trainer, seconds):
    def save():
        trainer.steps(4, slowed=2)
        while not trainer.governor._must_pause():
            trainer.step(slowed=2)
        trainer.now += seconds
        return trainer.governor._must_pause()

    return trainer.governor.beside(save)


def test_a_trainer_that_makes_no_steps_is_given_no_way(trainer):
    """It waits for the save, evaluates, or has ended."""
    assert pauses_after(trainer, 2) and not pauses_after(trainer, governing.IDLE_STEPS + 1)


def test_where_no_steps_are_told_of_or_too_few_nothing_is_slowed():
    trainer = Trainer()
    assert trainer.governor.beside(trainer.governor.give_way) == 0
    trainer.steps(2)
    assert beside(trainer, 10, slowed=9) == [True] * 10


def test_of_several_optimizers_one_tells_of_steps():
    trainer = Trainer()
    for _ in range(5):
        trainer.step(1, owner=1)
        trainer.step(0.1, owner=2)
    assert trainer.governor._usual() == pytest.approx(1)


def test_steps_that_differ_much_by_themselves_slow_nobody():
    trainer = Trainer()
    for number in range(15):
        trainer.step(2 if number % 3 == 0 else 1)
    worked = trainer.governor.beside(lambda: [trainer.step(2 if number % 3 == 0 else 1) for number in range(15)])
    assert worked == [True] * 15


def test_a_step_beside_which_nobody_wrote_slows_nobody(trainer):
    """It waited for copies."""
    def save():
        trainer.governor.step_begins(None)
        trainer.now += 3
        trainer.governor.step_ends(None)
        return trainer.governor.request_bytes

    assert trainer.governor.beside(save) == REQUEST_BYTES


def test_what_is_no_part_of_a_step_does_not_count(trainer):
    def save():
        trainer.governor.step_begins(None)
        trainer.governor.give_way()
        trainer.now += 3  # In save().
        trainer.governor.stood()
        trainer.now += 1
        trainer.governor.step_ends(None)
        return trainer.governor.request_bytes

    assert trainer.governor.beside(save) == REQUEST_BYTES


def test_pieces_are_whole_and_pauses_are_added_up(monkeypatch):
    memory = numpy.arange(5 << 20, dtype="u1")
    monkeypatch.setattr(Governor, "give_way", lambda self: 0.5)
    monkeypatch.setattr(Governor, "request_bytes", ALONE_BYTES)
    pace = Pace(Governor())
    assert [(at, each.nbytes) for at, each in pace.pieces(memory)] == [(0, 2 << 20), (2 << 20, 2 << 20),
                                                                      (4 << 20, 1 << 20)]
    assert pace.given_way_s == 1.5
    assert [each.nbytes for _, each in Pace().pieces(memory)] == [memory.nbytes]


@pytest.mark.parametrize("staging", ["staged", "overlapped"])
def test_torchs_optimizers_tell_of_steps(staging, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
    with checkpoint.Saver(staging) as saver:
        for _ in range(5):
            optimizer.step()
        assert len(saver._governor._alone) == 4


def test_a_staged_saver_loads_nothing_for_a_program_without_optimizers(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    program = ("import sys, torch; from penstock import checkpoint\n"
               "with checkpoint.Saver() as saver: saver.save({'a': torch.ones(3)}, sys.argv[1]).result()\n"
               "assert 'torch._dynamo' not in sys.modules")
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=True)


@pytest.mark.parametrize("staging", ["staged", "overlapped"])
def test_a_loop_tells_of_steps_and_a_save_that_gave_way_says_for_how_long(staging, tmp_path, monkeypatch):
    monkeypatch.setattr(Governor, "give_way", lambda self: 0.5)
    weights = {"weights": numpy.ones(1000), "more": numpy.ones(10)}
    with checkpoint.Saver(staging, durable=False) as saver:
        for number in range(3):
            saver.before_update()
            saver.save(weights, tmp_path / f"{number}", until_update=weights).result(60)
        assert saver._governor._alone and saver.report().given_way_s == 1
