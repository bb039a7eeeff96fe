# SPDX-License-Identifier: Apache-2.0

"""Updates on several streams of a GPU beside a save: whichever of them is ahead, the copies and their checksums are of
the moment of the save. By a GPU that stands in, and by a true one where there is one."""

import itertools
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

from late_gpu import Gpu, Stream
from penstock import checkpoint
from penstock.checkpoint import hostcopies
from penstock.checkpoint.hostcopies import HostCopies
from tensors import DEVICES

ONE, OTHER = 1, 2  # Optimizers.
OWNERS = {"one": [ONE], "other": [OTHER], "shared": [ONE, OTHER], "average": []}
NBYTES = 100
ROOMS = [0, 2 * NBYTES, 4 * NBYTES]  # To set aside nothing, of what is owned two thirds, and all of it.


class World:
    """Tensors of two optimizers, one that both have, and one that may change at any time; of each all bytes are 5."""

    def __init__(self, room):
        self.gpu = Gpu()
        self.tensors = {name: self.gpu.memory(NBYTES, 5) for name in OWNERS}
        self._copies, self._summed = HostCopies(room), []

    def save(self):
        held = SimpleNamespace(owners=lambda tensor: next(frozenset(OWNERS[name]) for name, each in self.tensors.items()
                                                          if each is tensor))
        self._taken = self._copies.take({Piece(name): tensor for name, tensor in self.tensors.items()}, held,
                                        self, are_summed=False)
        self.copying = self._taken.copying

    def crc32c_begin(self, buffers, piece_bytes, stream):
        """As a session does: in the order of the stream."""
        for each in buffers:
            stream.give(lambda each=each: self._summed.append(each.array.copy()))
        return SimpleNamespace(result=lambda: range(100))

    def update(self, stream, owner):
        with self.gpu.on(stream):
            self.copying.before(owner)
            for name, tensor in self.tensors.items():
                if owner is None or owner in OWNERS[name]:
                    tensor.fill(9)

    def end(self, *first):
        """What was copied and what was summed, where these streams are ahead of all others."""
        self.gpu.play(*first)
        self.copying.run()
        return {int(value) for found in [*(copy.array for copy in self._taken.memory.values()), *self._summed]
                for value in found}


class Piece(str):
    nbytes = NBYTES


@pytest.fixture(params=ROOMS)
def world(request, monkeypatch):
    made = World(request.param)
    monkeypatch.setitem(sys.modules, "torch", made.gpu.torch)
    monkeypatch.setattr(hostcopies, "bytes_of", lambda tensor: tensor)
    return made


def test_an_update_on_another_stream_than_the_saves_waits_there(world):
    stream = Stream(world.gpu)
    world.save()
    world.update(stream, ONE)
    assert world.end(stream) == {5}


def test_a_save_on_a_stream_of_its_own_is_before_updates_on_the_default_one(world):
    with world.gpu.on(Stream(world.gpu)):
        world.save()
    world.update(world.gpu.default, ONE)
    world.update(world.gpu.default, OTHER)
    assert world.end(world.gpu.default) == {5}


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_two_optimizers_on_two_streams_wait_each_also_for_what_both_change(world, order):
    streams = [Stream(world.gpu) for _ in range(2)]
    world.save()
    world.update(streams[0], ONE)
    world.update(streams[1], OTHER)
    assert world.end(*[[*streams, world.gpu.default][i] for i in order]) == {5}


def test_a_loop_that_updates_all_on_two_streams_has_both_wait(world):
    streams = [world.gpu.default, Stream(world.gpu)]
    world.save()
    for stream in streams:
        world.update(stream, None)
    assert world.end(streams[1]) == {5}


def test_who_owns_nothing_of_the_save_comes_behind_what_may_change_at_any_time(world):
    """An optimizer that had made no step before: its tensors are copied in the order of the save's stream."""
    stream = Stream(world.gpu)
    world.save()
    with world.gpu.on(stream):
        world.copying.before(3)
        world.tensors["average"].fill(9)
    assert world.end(stream) == {5}


def test_each_stream_waits_once_for_each_save(world):
    streams = [Stream(world.gpu) for _ in range(2)]
    world.save()
    for stream in streams:
        world.update(stream, ONE)
    waits = [stream.waits for stream in streams]
    assert 0 < waits[0] <= 3 and 0 < waits[1] <= 3  # For the end of save(), and for two batches.
    for stream in streams:
        world.update(stream, ONE)
    assert [stream.waits for stream in streams] == waits
    assert world.end(*streams) == {5}


def test_an_update_behind_the_end_of_a_save_waits_for_nothing(world):
    stream = Stream(world.gpu)
    world.save()
    assert world.end() == {5}
    world.update(stream, None)
    assert stream.waits == 0


def test_updates_during_the_copies_of_what_was_set_aside_change_nothing(world):
    streams = [Stream(world.gpu) for _ in range(2)]
    world.save()
    world.update(streams[0], ONE)
    world.copying._begin_some()
    world.update(streams[1], OTHER)
    world.update(streams[1], ONE)
    assert world.end(streams[1]) == {5}


LATE = 1_000_000_000  # Cycles, of which a GPU makes some two for each nanosecond.


class Tied:
    """Two optimizers on a GPU that share a tensor; each has made a step since the Saver was made."""

    def __init__(self):
        self.weights = [torch.nn.Parameter(torch.full((1 << 20,), 5.0, device="cuda")) for _ in range(3)]
        for each in self.weights:
            each.grad = torch.ones_like(each)
        self.optimizers = [torch.optim.SGD(self.weights[:2], lr=1.0), torch.optim.SGD(self.weights[1:], lr=1.0)]
        for optimizer in self.optimizers:
            optimizer.step()
        torch.cuda.synchronize()


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
@pytest.mark.parametrize("mib", [0, 4, 64])
@pytest.mark.parametrize("save, updates", [(0, [0, 0]), (0, [1, 1]), (1, [0, 0]), (0, [1, 2]), (1, [2, 0])])
def test_on_a_true_gpu_updates_of_any_stream_come_behind_the_save(tmp_path, mib, save, updates):
    """The stream of the save is late: whoever does not wait is ahead of it."""
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    with checkpoint.Saver("overlapped", durable=False, device_budget_mib=mib) as saver:
        tied = Tied()
        saver.save(tied.weights, tmp_path / "first").result(60)  # Allocates, and loads what the GPU runs.
        with torch.cuda.stream(streams[save]):
            torch.cuda._sleep(LATE)
            saving = saver.save(tied.weights, tmp_path / "a")
        for optimizer, number in zip(tied.optimizers, updates, strict=True):
            with torch.cuda.stream(streams[number]):
                optimizer.step()
        saving.result(60)
    torch.cuda.synchronize()
    values = [4.0, 3.0, 4.0]
    assert [each.unique().tolist() for each in checkpoint.load(tmp_path / "a")] == [[value] for value in values]
    assert tied.weights[0].unique().tolist() == [3.0] and tied.weights[2].unique().tolist() == [3.0]
