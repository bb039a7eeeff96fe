# SPDX-License-Identifier: Apache-2.0

"""What commands take from a terminal, and show there.

Every command prints by `say`, `say_json` and `complain`. Names of files, texts of servers and of other programs come
from strangers: they move no cursor, set no title, turn no text around and begin no line of their own.
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

# Control characters, C1 ones too; separators of lines; what turns text around; bytes that are no UTF-8. As in
# src/base/printable.cc.
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with every byte of what is none, or may do harm on a terminal, as \\x1b."""
    return HARMFUL.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in _bytes_of(found[0])), text)


def _bytes_of(letter: str) -> bytes:
    is_lone_byte = "\udc80" <= letter <= "\udcff"  # As Python reads names of files.
    return letter.encode(errors="surrogateescape" if is_lone_byte else "surrogatepass")


def say(*lines: str) -> None:
    """To standard output. A line is one line there, whatever it has."""
    _write(sys.stdout, [printable(line) for line in lines])


def say_json(document: Any) -> None:
    """For programs: JSON that is ASCII, and that a terminal shows as it is. Bytes are hexadecimal."""
    text = json.dumps(document, indent=1, default=lambda value: value.hex())
    _write(sys.stdout, [text.replace("\x7f", "\\u007f")])


def complain(text: str) -> None:
    """To standard error, with our name before it."""
    _write(sys.stderr, [f"penstock: {printable(text)}"])


def _write(to: TextIO | None, lines: list[str]) -> None:
    if to is None:
        return  # The program was begun without it.
    encoding = to.encoding or "utf-8"
    print("\n".join(lines).encode(encoding, "backslashreplace").decode(encoding), file=to)


def flush() -> None:
    """Raises what writing the rest raises; nothing where standard output is closed."""
    print(end="", flush=True)


def stop_output() -> None:
    """Whoever reads has seen enough: what is left to print is not tried at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def columns() -> int:
    """How wide a page of text is: as the terminal, within reason; 100 elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


class Parser(argparse.ArgumentParser):
    """A shell's pattern makes names of files into words, and wrong words are told."""

    def error(self, message: str) -> Any:
        super().error(printable(message))


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(self.format(record))


def show_all_else() -> None:
    """Of a program that is one of our commands: what is logged and what nobody catches goes the same way."""
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
    """On a terminal, what an `on_progress` takes, and a new line at the end; elsewhere None. done: as "read"."""
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
