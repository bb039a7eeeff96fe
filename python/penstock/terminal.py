# SPDX-License-Identifier: Apache-2.0

"""What commands take from a terminal, and show there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.weights import Progress


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
