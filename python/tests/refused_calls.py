# SPDX-License-Identifier: Apache-2.0

"""Has system calls of Python programs fail, one in each run, by each error that it can give: what each page of the
guide shows, and each way to save a checkpoint.

    penstock_refuse_calls python refused_calls.py [--every N] [JOB...]

With --every only one in N of a page's calls fails, and about so many fewer of a save's. A page may end with an error of
the system's; it must not die, hang, end with another error or leave descriptors open, and it must succeed when nothing
fails any more. A save leaves the old checkpoint or the new one, and the new one if it succeeded.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import io
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
    from interruptions import WAYS, Tally, at_each_point
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BEGIN, END, COUNT = -0x50454E, -0x50454F, -0x504550  # test/failures/calls.h
SPARES_MEMORY = 2  # CPython 3.11 loses a thread's frames where it finds none for the next one.
ERRORS_MAX = 4  # Of one call.
FAULTS_TOLD = 20


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
    return isinstance(error, (OSError, MemoryError, ImportError)) or "can't start new thread" in str(error)


def run_page(program, root, refused):
    """In a folder of its own. Returns what it ended with."""
    os.chdir(tempfile.mkdtemp(dir=root))
    with refused, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(program, {"__name__": "__main__"})
        except Exception as error:
            # It holds the frames, and with them all that the page had open.
            return error.with_traceback(None)
        finally:
            gc.collect()
    return None


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def suffer(program, root, number, error, more, rounds):
    """In a child. Returns how many errors the call has, 0 if so many calls were not made, and what is wrong."""
    left, errors = [], 0
    for _ in range(rounds):
        refused = Refused(number, error, more=more)
        ended = run_page(program, root, refused)
        errors = refused.errors if refused.reached >= number else 0
        if ended and not is_meant(ended):
            return errors, f"it ended with {type(ended).__name__}: {ended}"
        if ended := run_page(program, root, contextlib.nullcontext()):
            return errors, f"when nothing failed any more it ended with {type(ended).__name__}: {ended}"
        left.append(descriptors())
    return errors, "descriptors were left open" if len(left) == 3 and left[0] < left[1] < left[2] else ""


def in_child(work):
    """What a child returns by work(), or how it died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        faulthandler.register(signal.SIGALRM, chain=True)  # Says where it hangs.
        signal.alarm(words.patience)
        try:
            told = repr(work())
        except BaseException as error:
            told = repr((0, f"{type(error).__name__}: {error}"))
        with open(writer, "wb") as pipe:
            pipe.write(told.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return eval(told) if status == 0 else (1, "it hung" if status == -signal.SIGALRM else f"it died with {status}")


def fail_page(name, root, every):
    """Returns how many runs there were, and the faults."""
    text = "\n".join(BLOCK.findall((GUIDE / name).read_text(encoding="utf-8")))
    program = compile(text, name, "exec")

    def first():
        ended = run_page(program, root, contextlib.nullcontext())
        return (0, f"as it stands: {ended}") if ended else sorted(sys.modules)

    loaded = in_child(first)
    if isinstance(loaded, tuple):
        print(name, loaded[1], sep=": ", flush=True)
        return 1, [loaded[1]]
    for module in loaded:  # What an import opens is Python's.
        with contextlib.suppress(Exception):
            __import__(module)
    rounds = 3 if every == 1 else 1  # Of one, it cannot be told whether it leaves descriptors open.
    runs, faults = 0, []
    for more in (False, True):
        number, errors = 1, 1
        while errors > 0 and len(faults) < FAULTS_TOLD:
            error = number // every if every > 1 else 0
            while True:
                errors, fault = in_child(lambda: suffer(program, root, number, error, more, rounds))
                runs += 1
                if fault:
                    faults.append(f"call {number}, error {error}{', and more' if more else ''}: {fault}")
                    print(name, faults[-1], sep=": ", flush=True)
                for each in Path(root).iterdir():
                    shutil.rmtree(each, ignore_errors=True)
                error += 1
                if every > 1 or error >= errors:
                    break
            number += every
    return runs, faults


def fail_saves(way, root, every):
    tries = None if every == 1 else max(600 // every, 1)

    def work():
        tally = Tally()
        for first in range(ERRORS_MAX if every == 1 else 1):
            for more in (False, True):
                folder = Path(tempfile.mkdtemp(dir=root))
                at_each_point(way, folder, lambda number: Refused(number, first + number, more=more), tally, tries)
        return tally.tries, tally.lost

    runs, lost = in_child(work)
    lost = [lost] if isinstance(lost, str) else lost
    for each in lost:
        print(each, flush=True)
    return runs, lost


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--patience", type=int, default=1500, help="seconds after which a run hangs")
    parser.add_argument("jobs", nargs="*")
    return parser.parse_args()


def main():
    warnings.simplefilter("ignore")
    pages = [page.name for page in sorted(GUIDE.glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]
    found = 0
    for fail, names in ((fail_saves, WAYS), (fail_page, pages)):
        for name in names:
            if words.jobs and name not in words.jobs:
                continue
            with tempfile.TemporaryDirectory() as root:
                runs, faults = fail(name, root, words.every)
                os.chdir("/")
            found += len(faults)
            print(f"{name}: {runs} runs, {len(faults)} faults", flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    words = parsed()
    main()
