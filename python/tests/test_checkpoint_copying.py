# SPDX-License-Identifier: Apache-2.0

"""Batches that are copied beside a trainer: what it waits for, and what is set aside, by a lane that stands in for
a GPU."""

import threading

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")

from penstock.checkpoint import copying
from penstock.checkpoint.lanes import HostLane
from waiting import SECONDS_MAX, wait_until


class Scripted(HostLane):
    """A GPU that has reached what was queued when it is told, with room to set aside."""

    ahead_bytes = 0

    def __init__(self, room):
        self.room, self.is_reached, self.asked = room, False, threading.Event()

    def mark(self):
        def is_reached():
            self.asked.set()
            return self.is_reached
        return is_reached

    def set_aside(self, batch):
        if self.room < batch.nbytes:
            return False
        self.room -= batch.nbytes
        batch.moves = [(found.copy(), copy) for found, copy in batch.moves]
        batch.is_free = True
        return True


def batch_on(lane, owner, value):
    found = numpy.full(100, value, "u1")
    copy = numpy.zeros(100, "u1")
    return copying.batches_of([(lane, frozenset([owner]), (found, copy))])[0]


def test_a_gpu_that_has_work_is_not_asked_to_set_anything_aside():
    lane = Scripted(room=1000)
    batches = [batch_on(lane, 1, value) for value in range(3)]
    copies = copying.Copying(batches)
    trainer = threading.Thread(target=copies.before, args=(1,))
    trainer.start()
    assert lane.asked.wait(SECONDS_MAX)

    copies.run()

    trainer.join()
    assert lane.room == 1000 and all(batch.moves[0][1].tolist() == batch.moves[0][0].tolist() for batch in batches)


def test_a_gpu_that_is_done_sets_aside_what_there_is_room_for_and_waits_for_the_rest():
    lane = Scripted(room=250)
    lane.is_reached = True
    batches = [batch_on(lane, 1, value) for value in range(3)]
    sources = [batch.moves[0][0] for batch in batches]
    copies = copying.Copying(batches)
    trainer = threading.Thread(target=copies.before, args=(1,))
    trainer.start()
    wait_until(lambda: lane.room == 50 and len(copies._waiting) == 3, "batches set aside")
    assert trainer.is_alive() and [batch.is_free for batch in batches] == [True, True, False]
    for source in sources[:2]:
        source[:] = 99

    copies.run()

    trainer.join()
    assert [batch.moves[0][1][0] for batch in batches] == [0, 1, 2]


def test_what_an_interrupted_wait_had_taken_is_copied_all_the_same():
    """Ctrl-C within before()."""
    class Interrupted(Scripted):
        def set_aside(self, batch):
            raise KeyboardInterrupt

    lane = Interrupted(room=0)
    lane.is_reached = True
    batch = batch_on(lane, 1, 5)
    copies = copying.Copying([batch])
    with pytest.raises(KeyboardInterrupt):
        copies.before(1)
    copies.run()
    assert batch.is_whole and batch.moves[0][1][0] == 5


def test_who_waits_is_let_go_when_the_copy_fails():
    class Broken(Scripted):
        def begin(self, batch):
            raise OSError("the GPU is gone")

    copies = copying.Copying([batch_on(Broken(room=0), 1, 5)])
    trainer = threading.Thread(target=copies.before, args=(1,))
    trainer.start()
    with pytest.raises(OSError, match="the GPU is gone"):
        copies.run()
    trainer.join()
