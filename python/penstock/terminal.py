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
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

from penstock.progress import Progress

# Control characters, also C1; line separators; characters that reverse text; bytes that are not UTF-8. As in
# src/base/printable.cc.
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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


@contextmanager
def progress_shown(done: str) -> Iterator[Callable[[Progress], None] | None]:
    """On a terminal a callback for `on_progress`, with a newline at the end; elsewhere None. done: a verb such as
    "read"."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(progress: Progress) -> None:
        print(f"\r{progress.bytes_done} of {progress.bytes_total} bytes {done}, {progress.gb_per_s:.2f} GB/s ", end="",
              file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print(file=sys.stderr)
