# SPDX-License-Identifier: Apache-2.0

"""A GPU that stands in for one: its streams do nothing until a test lets them, and then the test says which goes first
wherever no event holds it up. It has as much of torch as penstock.checkpoint.lanes asks for."""

import contextlib
from types import SimpleNamespace

import numpy


class Stream:
    def __init__(self, gpu):
        self.gpu, self.work, self.waits = gpu, [], 0
        gpu.streams.append(self)

    def give(self, call, is_ready=lambda: True):
        self.work.append((is_ready, call))

    def wait_event(self, event):
        self.waits += 1
        self.give(lambda: None, lambda: event.is_reached)

    def wait_stream(self, other):
        event = Event(self.gpu)
        event.record(other)
        self.wait_event(event)

    def synchronize(self):
        self.gpu.play()


class Event:
    def __init__(self, gpu):
        self.gpu, self.is_reached = gpu, False

    def record(self, stream):
        stream.give(self.reach)

    def reach(self):
        self.is_reached = True

    def query(self):
        self.gpu.play()
        return self.is_reached


class Memory:
    """Bytes that the GPU changes and copies in the order of its current stream."""

    is_cuda, device = True, "gpu"

    def __init__(self, gpu, array):
        self.gpu, self.array, self.nbytes = gpu, array, array.nbytes

    def __getitem__(self, part):
        return Memory(self.gpu, self.array[part])

    def copy_(self, other, non_blocking=False):
        self.gpu.current.give(lambda: numpy.copyto(self.array, other.array))

    def fill(self, value):
        self.gpu.current.give(lambda: self.array.fill(value))

    def data_ptr(self):
        return self.array.ctypes.data


class Gpu:
    """torch: stands in for the module."""

    def __init__(self):
        self.streams = []
        self.current = self.default = Stream(self)
        cuda = SimpleNamespace(Stream=lambda device, priority: Stream(self), Event=lambda: Event(self),
                               current_stream=lambda device: self.current, stream=self.on)
        self.torch = SimpleNamespace(cuda=cuda, uint8="u1", empty=self._empty, _foreach_copy_=self._copy)

    @contextlib.contextmanager
    def on(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def memory(self, nbytes, value):
        return Memory(self, numpy.full(nbytes, value, "u1"))

    def play(self, *first):
        """Does all work: at each step that of the first stream that nothing holds up."""
        order = [*first, *self.streams]
        while ready := next((stream for stream in order if stream.work and stream.work[0][0]()), None):
            ready.work.pop(0)[1]()
        assert not any(stream.work for stream in self.streams), "streams wait for each other"

    def _empty(self, nbytes, dtype, device=None, pin_memory=False):
        return self.memory(nbytes, 0)

    def _copy(self, targets, sources, non_blocking):
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)
