# SPDX-License-Identifier: Apache-2.0

"""Saves that are interrupted at each moment, each way to save: is the old checkpoint there afterwards, or the new one?

An exception is raised where a signal's handler could raise it: at each line of the package, one after the other. A
drive fails at each call, one after the other (fail_calls.cc). Nothing here depends on how long anything takes.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

import penstock
from penstock import checkpoint, threads
from penstock.checkpoint import pieces, retention
from penstock.checkpoint.distributed import Reader, Writer
from penstock.checkpoint.leftovers import wait_for_removals
from penstock.checkpoint.preemption import Guard, resume
from penstock.checkpoint.safetensors import SafetensorsWriter
from penstock.checkpoint.windowed import EXECUTOR, WindowedWriter

PACKAGE = str(Path(penstock.__file__).parent)
# A line is also where a `with` ends, before it has let go of a lock, at which no signal's handler is called.
LOCKED = {str(each) for each in Path(PACKAGE).rglob("*.py") if "Lock()" in each.read_text(encoding="utf-8")}
TREES = ("trees.py", "layout.py", "arrays.py", "memory.py")  # Of a state and its tensors: many lines, and no file.
SIZE = 3000
pieces.PIECE_BYTES = 8192  # So that a tensor has several.


class Plain:
    """checkpoint.save to one folder, again and again."""

    def __init__(self, root):
        self.root, self.folder = root, root / "same"

    def save(self, number):
        checkpoint.save(state(number), self.folder)

    def load(self):
        return number_of(checkpoint.load(self.folder))

    def end(self):
        """Waits for what goes on behind."""
        wait_for_removals()


class NotFlushed(Plain):
    def save(self, number):
        checkpoint.save(state(number), self.folder, durable=False)


class ByWriter(Plain):
    writer = Writer

    def save(self, number):
        dcp.save(tensors(number), storage_writer=self.writer(self.folder), no_dist=True)

    def load(self):
        found = tensors(0)
        dcp.load(found, storage_reader=Reader(self.folder), no_dist=True)
        return number_of(found)


class BySafetensorsWriter(ByWriter):
    writer = SafetensorsWriter


class ByWindowedWriter(ByWriter):
    def __init__(self, root):
        super().__init__(root)
        self.futures = []

    def save(self, number):
        writer = WindowedWriter(self.folder)
        self.futures.append(dcp.async_save(tensors(number), storage_writer=writer, no_dist=True))
        self.futures[-1].result()

    def end(self):
        for future in self.futures:
            with contextlib.suppress(BaseException):
                future.result()
        while going := [each for each in threading.enumerate() if each.name.startswith(EXECUTOR)]:
            with contextlib.suppress(RuntimeError):  # One that is about to start.
                going[0].join()
        super().end()


class BySaver(Plain):
    staging = "staged"

    def save(self, number):
        self.saver = checkpoint.Saver(self.staging)
        self.saver.save(state(number), self.folder).result()

    def end(self):
        with contextlib.suppress(AttributeError, OSError):
            self.saver.close()
        for each in list(threads._open):
            each._finish()  # Of a save() that was interrupted as it began its thread, the Saver knows nothing.
            threads._open.discard(each)
        super().end()


class ByWindowedSaver(BySaver):
    staging = "windowed"


class ByOverlappedSaver(BySaver):
    """Interrupted also before an update, with copies that are under way."""

    def save(self, number):
        self.saver, saved = checkpoint.Saver("overlapped"), state(number)
        saving = self.saver.save(saved, self.folder, until_update=saved)
        self.saver.before_update()
        saving.result()


class ChangedOnly(Plain):
    """Each to a folder of its own, with links to the one before; two stay."""

    def save(self, number):
        checkpoint.save({**state(number), **frozen()}, self.root / f"step-{number}", changed_only=True)
        checkpoint.retain(self.root, 2)

    def load(self):
        for place in retention.whole(self.root):
            checkpoint.verify(place)
        found = checkpoint.load(checkpoint.latest(self.root))
        assert all(torch.equal(found[name], tensor) for name, tensor in frozen().items())
        return number_of(found)


class ByChangedOnlySaver(BySaver):
    """To one folder, of which each save links what the one before has."""

    def save(self, number):
        self.saver = checkpoint.Saver("staged", changed_only=True)
        self.saver.save({**state(number), "frozen": torch.arange(4 * SIZE)}, self.folder).result()


class OverlappedChangedOnly(ChangedOnly, BySaver):
    """The same beside a trainer, which then updates what is saved."""

    def save(self, number):
        self.saver = checkpoint.Saver("overlapped", changed_only=True)
        saved = {**state(number), **frozen()}
        saving = self.saver.save(saved, self.root / f"step-{number}", until_update=saved)
        self.saver.before_update()
        saved["a"] += 1
        saving.result()
        checkpoint.retain(self.root, 2)


class Drained(Plain):
    """Each from a folder of its own to a root that has those before."""

    def save(self, number):
        self.folder = self.root / "local" / f"step-{number}"
        if not (self.folder / "checkpoint.json").exists():
            traced, _ = sys.gettrace(), sys.settrace(None)
            checkpoint.save(state(number), self.folder)
            sys.settrace(traced)
        checkpoint.drain(self.folder, self.root / "shared")

    def load(self):
        return number_of(checkpoint.load(checkpoint.latest(self.root / "shared")))


class Guarded(Plain):
    """Generations, of which two stay."""

    def save(self, number):
        guard = Guard(self.root, signals=(), keep=1)
        guard.save({"model": state(number), "rest": {"number": number}})

    def load(self):
        generation = resume(self.root)
        return number_of(generation.load("model"))


WAYS = {"save": Plain, "not flushed": NotFlushed, "Writer": ByWriter, "SafetensorsWriter": BySafetensorsWriter,
        "WindowedWriter": ByWindowedWriter, "Saver, staged": BySaver, "Saver, windowed": ByWindowedSaver,
        "Saver, overlapped": ByOverlappedSaver, "changed only": ChangedOnly, "Saver, changed only": ByChangedOnlySaver,
        "overlapped, changed only": OverlappedChangedOnly, "drain": Drained, "Guard": Guarded}


def state(number):
    return {"a": torch.full((SIZE,), number), "b": [torch.full((5,), number)], "number": number}


def frozen():
    return {"frozen": torch.arange(4 * SIZE), "flags": torch.zeros(7)}


def tensors(number):
    return {"a": torch.full((SIZE,), number), "number": torch.tensor(number)}


def number_of(found):
    number = int(found["number"])
    assert (found["a"] == number).all(), f"{number}: its tensors are of another save"
    return number


class Points:
    """Raises `error` when the number-th line of the package is reached by this thread. reached: how many were."""

    def __init__(self, number, error):
        self.number, self.error, self.reached = number, error, 0

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _trace(self, frame, event, argument):
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or name.endswith(TREES) or name in LOCKED:
            return None
        self.reached += 1
        if self.reached == self.number:
            sys.settrace(None)
            raise self.error
        return self._trace


class Calls:
    """The number-th call that changes files fails with EIO. is_done: it is carried out all the same."""

    def __init__(self, number, *, is_done):
        self.number, self.is_done, self.reached = number, is_done, 0
        self._library = ctypes.CDLL(None)

    def __enter__(self):
        self._library.penstock_test_fail(ctypes.c_long(self.number), int(self.is_done))
        return self

    def __exit__(self, *_):
        self.reached = self._library.penstock_test_calls()


class Tally:
    """How many saves were interrupted, and what that cost: neither the checkpoint before is there nor the new one."""

    def __init__(self):
        self.tries, self.interrupted, self.lost = 0, 0, []

    def judge(self, saves, allowed, printed):
        """The number that is there, None where none is."""
        self.tries += 1
        try:
            found = saves.load()
            assert found in allowed, f"{found} is there: expected one of {allowed}"
            return found
        except BaseException as error:
            there = [os.path.relpath(each, saves.root) for each in sorted(saves.root.rglob("*"))]
            self.lost.append(f"{type(saves).__name__}, {printed}: {type(error).__name__}: {error}; there: {there}")
            return None


def at_each_point(way, root, break_at, tally, tries=None, points=None):
    """break_at(number): a context that breaks the save in it at that one of its points; 0: none. All of them are taken,
    or about so many, evenly, or those that points(end) names."""
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    saves = WAYS[way](root)
    saves.save(1)
    saves.end()
    with break_at(0) as whole:
        saves.save(2)
    saves.end()
    last = 2
    end = whole.reached + 20  # What is removed besides makes a few more.
    for point in points(end) if points else range(1, end, 1 if tries is None else max(end // tries, 1)):
        allowed = (last, last + 1)
        with contextlib.suppress(BaseException), break_at(point):
            saves.save(last + 1)
            allowed = (last + 1,)
        saves.end()
        last = tally.judge(saves, allowed, f"point {point} of {whole.reached}") or again(saves, last + 1)


def again(saves, number):
    """Where nothing is left, for the next try."""
    shutil.rmtree(saves.root)
    saves.root.mkdir()
    saves.save(number)
    saves.end()
    return number


def by_ctrl_c(way, root, chance, tries, tally):
    """SIGINT at random moments of saves in this process."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background has it ignored.
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    saves = WAYS[way](root)
    last, seconds = again(saves, 1), 0.1
    for _ in range(tries):
        timer = threading.Timer(chance.uniform(0, 1.3 * seconds), os.kill, (os.getpid(), signal.SIGINT))
        try:
            began = time.monotonic()
            timer.start()
            try:
                saves.save(last + 1)
                seconds = 0.8 * seconds + 0.2 * (time.monotonic() - began)
            finally:
                timer.join()
                time.sleep(0.001)  # Python calls the handler within the next lines.
        except BaseException:
            tally.interrupted += 1
        saves.end()
        last = tally.judge(saves, (last, last + 1), "Ctrl-C") or again(saves, last + 1)
    signal.signal(signal.SIGINT, handler)


def trainer(way, root, tell, ends_by):
    """Says what it finds, and saves on from there for ever."""
    if ends_by == signal.SIGTERM:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    saves = WAYS[way](root)
    number = 0
    if any(root.iterdir()):
        tally = Tally()
        number = tally.judge(saves, range(1 << 30), "the next process") or 0
        tell(f"found {number} {tally.lost}")
        if not number:
            shutil.rmtree(root)
            root.mkdir()
    while True:
        number += 1
        saves.save(number)
        tell(f"saved {number}")


def by_process(way, root, chance, tries, tally, ends_by):
    """A trainer is ended at a random moment by SIGTERM, whose handler calls sys.exit, or by SIGKILL; what does the next
    one find?"""
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    allowed = None
    for _ in range(tries + 1):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                trainer(way, root, lambda line: os.write(writer, f"{line}\n".encode()), ends_by)
            finally:  # Another signal may come at any line of these.
                try:
                    wait_for_removals()
                finally:
                    os._exit(0)
        os.close(writer)
        with open(reader) as printed:
            begun = [line for _, line in zip(range(2 if allowed else 1), printed, strict=False)]
            time.sleep(chance.uniform(0, 0.03))
            os.kill(child, ends_by)
            lines = begun
            for line in printed:  # Python ignores what a handler raises in a callback or in __del__: once more then.
                lines.append(line)
                os.kill(child, ends_by)
        os.waitpid(child, 0)
        found = next((line for line in lines if line.startswith("found")), None)
        if allowed:
            tally.tries += 1
            number = int(found.split(" ", 2)[1]) if found else 0
            if number not in allowed:
                tally.lost.append(f"{way}, {ends_by.name}: {found}: expected one of {allowed}")
        numbers = [int(line.split()[1]) for line in lines if line.startswith("saved")]
        assert numbers, lines
        allowed = (numbers[-1], numbers[-1] + 1)
