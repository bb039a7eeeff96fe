# SPDX-License-Identifier: Apache-2.0

"""Has system calls of Python programs fail, one in each run, by each error that it can give: what each page of the
guide shows, and each way to save a checkpoint.

    penstock_refuse_calls python refused_calls.py [--every N] [--part I/N] [--list] [JOB...]

With --every only one in N of a page's calls fails, and about so many fewer of a save's; with --part every N-th from the
I-th on, as another process takes the others. A page may end with an error of the system's; it must not die, hang, end
with another error or leave descriptors open, and it must succeed when nothing fails any more. A save leaves the old
checkpoint or the new one, and the new one if it succeeded.
"""

import argparse
import contextlib
import ctypes
import errno
import faulthandler
import gc
import io
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # torch's threads are not ours.

try:
    from penstock import checkpoint
    from penstock.checkpoint import pieces

    PIECE_BYTES = pieces.PIECE_BYTES  # interruptions.py has smaller ones, of which a page's tensors have thousands.
    import torch
    from interruptions import WAYS, Tally, at_each_point
    from torch.distributed.checkpoint.api import CheckpointException

    SMALL_PIECE_BYTES = pieces.PIECE_BYTES
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BEGIN, END, COUNT = -0x50454E, -0x50454F, -0x504550  # test/failures/calls.h
SPARES_MEMORY = 2  # CPython 3.11 loses a thread's frames where it finds none for the next one.
# Less of the same in a page: fewer bytes, and steps of a training.
SHORTER = {"(4, 1 << 20)": "(4, 1 << 12)", "64 << 20": "8 << 20", "16 << 20": "2 << 20", "step < 300": "step < 30",
           "step % 100": "step % 10"}
FAULTS_TOLD = 20
ERRORS = {os.strerror(number) for number in errno.errorcode}
ROUNDS = 3


def mark(*values):
    return ctypes.CDLL(None).syscall(*map(ctypes.c_long, (3, *values)))  # close()


class Refused:
    """The number-th call fails, counted from 1; 0: none does. more: the error comes 16 times, or all behind it fail."""

    def __init__(self, number, error, *, more=False):
        self.number, self.error, self.more, self.reached, self.errors = number, error, more, 0, 1

    def __enter__(self):
        if mark(BEGIN, (self.number or 1 << 40) - 1, self.error, self.more | SPARES_MEMORY) != 0:
            sys.exit("refused_calls: it needs penstock_refuse_calls before it")
        return self

    def __exit__(self, *_):
        told = mark(END)
        self.errors, self.reached = max(told % 16, 1), mark(COUNT)


def is_meant(error):
    if isinstance(error, CheckpointException):  # torch's: what failed of each rank, and its own words of what it lacks.
        return all(is_meant(each) or "[Errno" in str(each) or is_unread(each) for each, _ in error.failures.values())
    text = str(error)
    if isinstance(error, checkpoint.CheckpointError) and "it cannot be known" in text:  # Of a lease that is not read.
        return True
    return (isinstance(error, (OSError, MemoryError, ImportError)) or "can't start new thread" in text
            or (isinstance(error, RuntimeError) and is_meant_by_torch(text)))


def is_unread(error):
    """Some versions of torch keep to themselves why a checkpoint's description could not be read."""
    return isinstance(error, AssertionError) and str(error).startswith("metadata is None")


def is_meant_by_torch(text):
    """An error of the system's in torch's words, or in those of the C++ library, by which it reads its own files."""
    number = re.search(r"\((\d+)\)$", text)
    words = re.search(r"strerror: (.+)$", text)
    return ((number is not None and os.strerror(int(number[1])) in text)
            or (words is not None and words[1] in ERRORS) or text == "basic_ios::clear: iostream error")


def run_page(program, root, refused):
    """In a folder of its own. Returns what it ended with."""
    os.chdir(tempfile.mkdtemp(dir=root))
    with refused, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(program, {"__name__": "__main__"})
        except (Exception, CheckpointException) as error:
            # It holds the frames, and with them all that the page had open.
            return error.with_traceback(None)
        finally:
            gc.collect()
    return None


def descriptors():
    """How many are open, but for torch's shared memory, which it leaves where it cannot make or remove a part of it."""
    places = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return sum(os.path.islink(each) and not os.readlink(each).startswith("/dev/shm/torch_") for each in places)


def suffer(program, root, failure, kept):
    """In a child, which has `kept` descriptors where nothing is left open. Returns how many errors the call has, 0 if
    so many calls were not made, and what is wrong."""
    left, errors = [], 0
    while not left or (left[-1] > kept and len(left) < ROUNDS):
        refused = Refused(**failure)
        ended = run_page(program, root, refused)
        errors = refused.errors if refused.reached >= refused.number else 0
        if ended and not is_meant(ended):
            return errors, f"it ended with {type(ended).__name__}: {ended}"
        if ended := run_page(program, root, contextlib.nullcontext()):
            return errors, f"when nothing failed any more it ended with {type(ended).__name__}: {ended}"
        left.append(descriptors())
    # What is kept once, such as an open log, is not left open.
    return errors, "descriptors were left open" if len(left) == ROUNDS and left == sorted(set(left)) else ""


def in_child(work, runs=1):
    """What a child returns by work(), or how it died. runs: how many it makes, about."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        faulthandler.register(signal.SIGALRM, chain=True)  # Says where it hangs.
        signal.alarm(words.patience * runs)
        try:
            told = repr(work())
        except BaseException as error:
            told = repr((1, f"{type(error).__name__}: {error}"))
        with open(writer, "wb") as pipe:
            pipe.write(told.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return eval(told) if status == 0 else (1, "it hung" if status == -signal.SIGALRM else f"it died with {status}")


def load(program, root):
    """What a page imports: what an import opens is Python's. Returns how many descriptors a page keeps, or a fault."""

    def first():
        for _ in range(2):
            if ended := run_page(program, root, contextlib.nullcontext()):
                return 0, f"as it stands: {ended}"
        return descriptors(), sorted(sys.modules)

    kept, modules = in_child(first)
    if isinstance(modules, str):
        return kept, modules
    for module in modules:
        with contextlib.suppress(Exception):
            __import__(module)
    torch.nn.Linear(2, 2)(torch.ones(2, 2))  # It looks at the processor then, and dies where it cannot.
    gc.collect()
    gc.freeze()  # No run has to look at it again.
    return kept, ""


def fail_page(name, root):
    """Returns how many runs there were, and the faults."""
    pieces.PIECE_BYTES = PIECE_BYTES
    text = "\n".join(BLOCK.findall((GUIDE / name).read_text(encoding="utf-8")))
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    program = compile(text, name, "exec")
    kept, fault = load(program, root)
    if fault:
        print(name, fault, sep=": ", flush=True)
        return 1, [fault]
    runs, faults = 0, []
    for more in (False, True):
        errors = 1
        for number in itertools.count(1 + words.part * words.every, words.parts * words.every):
            if errors == 0 or len(faults) >= FAULTS_TOLD:
                break
            error = number // words.every if words.every > 1 else 0
            while True:
                failure = {"number": number, "error": error, "more": more}
                errors, fault = in_child(lambda failure=failure: suffer(program, root, failure, kept))
                runs += 1
                if fault:
                    faults.append(f"call {number}, error {error}{', and more' if more else ''}: {fault}")
                    print(name, faults[-1], sep=": ", flush=True)
                for each in Path(root).iterdir():
                    shutil.rmtree(each, ignore_errors=True)
                error += 1
                if words.every > 1 or error >= errors:
                    break
    return runs, faults


class EachCall:
    """Each call of a save fails, by each of its errors; with --every about one in so many of 600."""

    def __init__(self, more):
        self.more, self.refused = more, None

    def points(self, end):
        step = words.parts if words.every == 1 else max(end * words.every // 600, 1)
        for number in range(1 + words.part, end, step):
            error = 0 if words.every == 1 else number
            while True:
                self.refused = Refused(number, error, more=self.more)
                yield number
                error += 1
                if words.every > 1 or error >= self.refused.errors:
                    break

    def fail(self, number):
        return self.refused if number else Refused(0, 0)


def fail_saves(way, root):
    pieces.PIECE_BYTES = SMALL_PIECE_BYTES

    def work():
        sys.stderr = io.StringIO()  # The library tells there of what could not be done.
        tally = Tally()
        for more in (False, True):
            calls = EachCall(more)
            at_each_point(way, Path(tempfile.mkdtemp(dir=root)), calls.fail, tally, points=calls.points)
        return tally.tries, tally.lost

    runs, lost = in_child(work, runs=10)
    lost = [lost] if isinstance(lost, str) else lost
    for each in lost:
        print(each, flush=True)
    return runs, lost


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--list", action="store_true", help="print the jobs' names")
    parser.add_argument("--patience", type=int, default=300, help="seconds after which a run hangs")
    parser.add_argument("jobs", nargs="*")
    words = parser.parse_args()
    words.part, words.parts = map(int, words.part.split("/"))
    return words


def main():
    warnings.simplefilter("ignore")
    pages = [page.name for page in sorted(GUIDE.glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]
    if words.list:
        print(*WAYS, *pages, sep="\n")
        return
    found = 0
    for fail, names in ((fail_saves, WAYS), (fail_page, pages)):
        for name in names:
            if words.jobs and name not in words.jobs:
                continue
            with tempfile.TemporaryDirectory() as root:
                runs, faults = fail(name, root)
                os.chdir("/")
            found += len(faults)
            print(f"{name}: {runs} runs, {len(faults)} faults", flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    words = parsed()
    main()
