# SPDX-License-Identifier: Apache-2.0

"""Terminal input and output of commands.

Every command prints by `say`, `say_json`, `say_result` and `complain`. File names and texts of servers and other
programs are untrusted: they must not move the cursor, set a title, reverse text or begin a new line.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Any, TextIO

from penstock.progress import Progress

# Control characters, also C1; line separators; characters that reverse text; bytes that are not UTF-8. As in
# src/base/printable.cc.
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

BAR_MIN, BAR_MAX = 10, 40  # Letters.
BAR_S = 0.1  # Seconds between two drawings.


def printable(text: str) -> str:
    """The text with every byte of what is none, or may do harm on a terminal, as \\x1b."""
    return HARMFUL.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in _bytes_of(found[0])), text)


def _bytes_of(letter: str) -> bytes:
    is_lone_byte = "\udc80" <= letter <= "\udcff"  # As Python decodes file names (surrogateescape).
    return letter.encode(errors="surrogateescape" if is_lone_byte else "surrogatepass")


def say(*lines: str) -> None:
    """Prints to standard output, always as one line."""
    _write(sys.stdout, [printable(line) for line in lines])


def say_json(document: Any) -> None:
    """For programs: ASCII JSON, safe on a terminal. Bytes are hexadecimal."""
    text = json.dumps(document, indent=1, default=lambda value: value.hex())
    _write(sys.stdout, [text.replace("\x7f", "\\u007f")])


def say_result(as_json: bool, document: dict[str, object], *lines: str) -> int:
    """Prints what a command has found, in the form that was asked for. Returns the exit code of success."""
    if as_json:
        say_json(document)
    else:
        say(*lines)
    return 0


def complain(text: str, command: str = "penstock") -> None:
    """Prints to standard error, with our name in front."""
    _write(sys.stderr, [f"{command}: {printable(text)}"])


def _write(to: TextIO | None, lines: list[str]) -> None:
    if to is None:
        return  # The program was started without standard error.
    encoding = to.encoding or "utf-8"
    print("\n".join(lines).encode(encoding, "backslashreplace").decode(encoding), file=to)


def flush() -> None:
    """Flushes; raises write errors, but does nothing if standard output is closed."""
    print(end="", flush=True)


def stop_output() -> None:
    """The reader closed the pipe: drops the rest, so that it is not written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def columns() -> int:
    """The width of a page of text: the terminal's, within limits; 100 elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


class Parser(argparse.ArgumentParser):
    """Escapes wrong arguments in messages, since shell patterns may turn file names into arguments."""

    def error(self, message: str) -> Any:
        super().error(printable(message))


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(self.format(record))


def show_all_else() -> None:
    """Routes log messages and uncaught exceptions of our commands through these functions, too."""
    logging.basicConfig(handlers=[_Log()], format="%(message)s")
    sys.excepthook = _show_failure


def _show_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    lines = "".join(traceback.format_exception(kind, error, trace)).splitlines()
    _write(sys.stderr, [printable(line) for line in lines])


def positive(text: str) -> int:
    """A number, for argparse."""
    number = int(text)
    if number <= 0:
        raise ValueError
    return number


def bar(progress: Progress, done: str, width: int) -> str:
    """One line of so many letters: a bar where there is room for it, and numbers."""
    share = progress.bytes_done / progress.bytes_total if progress.bytes_total else 1.0
    text = (f"{share:4.0%} {progress.bytes_done} of {progress.bytes_total} bytes {done}, "
            f"{progress.gb_per_s:.2f} GB/s")
    room = min(BAR_MAX, width - len(text) - 3)
    drawn = f"[{'#' * int(share * room):{room}}] " if room >= BAR_MIN else ""
    return f"{drawn}{text}"[:width].ljust(width)


@contextmanager
def progress_shown(done: str) -> Iterator[Callable[[Progress], None] | None]:
    """On a terminal a callback for `on_progress` that draws a bar there, with a newline at the end; elsewhere None.
    done: a verb such as "read"."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return

    drawn = 0.0

    def show(progress: Progress) -> None:
        nonlocal drawn
        if progress.bytes_done < progress.bytes_total and monotonic() - drawn < BAR_S:
            return
        drawn = monotonic()
        with suppress(OSError):  # A terminal that is gone fails nothing.
            width = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
            print(f"\r{bar(progress, done, width)}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        with suppress(OSError):
            print(file=sys.stderr)
