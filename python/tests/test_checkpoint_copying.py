# SPDX-License-Identifier: Apache-2.0

"""Batches that are copied beside a trainer: what is begun at once, what is set aside, and who waits, by a lane that
stands in for a GPU."""

import threading

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")

from penstock.checkpoint import copying
from penstock.checkpoint.lanes import HostLane
from waiting import SECONDS_MAX


class Scripted(HostLane):
    """A GPU with room to set aside. Its copies are made when somebody waits for them."""

    def __init__(self, room):
        self.spare_bytes, self.calls = room, []

    def begin(self, batches):
        for batch in batches:
            self.calls.append(("begin", value_of(batch)))
            batch.event = True

    def finish(self, batch):
        super().begin([batch])
        self.calls.append(("finish", value_of(batch)))
        batch.end()

    def set_aside(self, batch):
        self.calls.append(("aside", value_of(batch)))
        batch.moves, batch.after = [(found.copy(), copy) for found, copy in batch.moves], True

    def is_freed(self, batch):
        batch.behind.add(self.stream())
        return batch.after or batch.event is not None

    def told(self, *kinds):
        return [value for kind, value in self.calls if kind in kinds]


def value_of(batch):
    return int(batch.moves[0][0][0])


def batch_on(lane, owner, value):
    found = numpy.full(100, value, "u1")
    copy = numpy.zeros(100, "u1")
    return copying.batches_of([(lane, frozenset([owner]), (found, copy))])[0]


def test_all_is_begun_at_once_but_what_there_is_room_to_set_aside():
    for room, begun in ((0, [0, 1, 2]), (99, [0, 1, 2]), (250, [0]), (300, [])):
        lane = Scripted(room)
        copying.Copying([batch_on(lane, 1, value) for value in range(3)])
        assert lane.told("begin") == begun


def test_each_device_has_its_own_room():
    lanes = Scripted(0), Scripted(200)
    copying.Copying([batch_on(lane, 1, value) for value in range(3) for lane in lanes])
    assert [lane.told("begin") for lane in lanes] == [[0, 1, 2], [0]]


def test_who_changes_what_a_gpu_copies_does_not_wait_and_the_rest_is_set_aside():
    lane = Scripted(room=200)
    batches = [batch_on(lane, 1, value) for value in range(3)]
    sources = [batch.moves[0][0] for batch in batches]
    copies = copying.Copying(batches)

    copies.before(1)

    assert lane.told("aside") == [1, 2] and all(batch.behind for batch in batches)
    for source in sources[1:]:
        source[:] = 99
    copies.run()
    assert [batch.moves[0][1][0] for batch in batches] == [0, 1, 2]


def test_copies_of_what_was_set_aside_are_begun_little_by_little():
    """Who waits for the whole device waits for what is begun."""
    lane = Scripted(room=300)
    lane.ahead_bytes = 150
    copies = copying.Copying([batch_on(lane, 1, value) for value in range(3)])
    copies.before(1)
    assert lane.told("begin") == []
    copies.run()
    assert lane.calls[3:] == [("begin", 0), ("begin", 1), ("finish", 1), ("finish", 0), ("begin", 2), ("finish", 2)]


def test_nothing_is_set_aside_of_what_somebody_else_changes():
    lane = Scripted(room=200)
    copies = copying.Copying([batch_on(lane, owner, owner) for owner in (1, 2)])
    copies.before(2)
    assert lane.told("aside") == [2]
    copies.run()
    assert lane.told("begin") == [1, 2]


def test_what_nobody_changes_is_begun_when_the_device_is_done_with_the_rest():
    lane = Scripted(room=200)
    copying.Copying([batch_on(lane, 1, value) for value in range(3)]).run()
    assert lane.calls == [("begin", 0), ("finish", 0), ("begin", 1), ("finish", 1), ("begin", 2), ("finish", 2)]


def test_the_newest_copy_is_waited_for_first():
    """The others are done by then."""
    lane = Scripted(room=0)
    copying.Copying([batch_on(lane, 1, value) for value in range(3)]).run()
    assert lane.told("finish") == [2, 1, 0]


@pytest.mark.parametrize("is_begun", [False, True])
def test_what_an_interrupted_wait_had_taken_is_copied_all_the_same(is_begun):
    """Ctrl-C within before()."""
    class Interrupted(Scripted):
        def set_aside(self, batch):
            if is_begun:
                super().set_aside(batch)
            raise KeyboardInterrupt

    batch = batch_on(Interrupted(room=100), 1, 5)
    copies = copying.Copying([batch])
    with pytest.raises(KeyboardInterrupt):
        copies.before(1)
    copies.run()
    assert batch.is_whole and batch.moves[0][1][0] == 5


def test_who_asks_again_after_an_interrupted_wait_gets_an_answer():
    """Ctrl-C within before(), which the program catches; then it goes on to its update, while the thread copies."""
    class InterruptedOnce(Scripted):
        def set_aside(self, batch):
            if not self.calls:
                self.calls.append(("aside", value_of(batch)))
                raise KeyboardInterrupt
            super().set_aside(batch)

    batch = batch_on(InterruptedOnce(room=100), 1, 5)
    copies = copying.Copying([batch])
    with pytest.raises(KeyboardInterrupt):
        copies.before(1)
    update = threading.Thread(target=copies.before, args=(1,), daemon=True)
    update.start()
    thread = threading.Thread(target=copies.run, daemon=True)
    thread.start()
    update.join(SECONDS_MAX)
    thread.join(SECONDS_MAX)
    assert not update.is_alive() and batch.is_whole and batch.moves[0][1][0] == 5


def test_the_processors_copies_are_waited_for():
    """The thread has begun one when the trainer asks for it."""
    class Slow(HostLane):
        def begin(self, batches):
            if value_of(batches[0]) == 0:
                trainer.start()
                assert asked.wait(SECONDS_MAX)
            super().begin(batches)

        def is_freed(self, batch):
            asked.set()
            return super().is_freed(batch)

    def change():
        copies.before(1)
        source[:] = 9

    asked, trainer = threading.Event(), threading.Thread(target=change)
    batch = batch_on(Slow(), 1, 0)
    source, copy = batch.moves[0]
    copies = copying.Copying([batch])

    copies.run()

    trainer.join()
    assert source[0] == 9 and copy[0] == 0


def test_who_waits_is_let_go_when_the_copy_fails():
    class Broken(HostLane):
        def begin(self, batches):
            trainer.start()
            raise OSError("the GPU is gone")

    copies = copying.Copying([batch_on(Broken(), 1, 5)])
    trainer = threading.Thread(target=copies.before, args=(1,))
    with pytest.raises(OSError, match="the GPU is gone"):
        copies.run()
    trainer.join()
