# SPDX-License-Identifier: Apache-2.0

"""The id of a save, by which later saves sort after earlier ones, and the lease that shows that it is running."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout
from penstock.checkpoint.leases import ID, Lease, take
from penstock.checkpoint.reading import content_of, is_whole, names_if_readable, read_summary
from penstock.folders import make_folder

SAID_ID = re.compile(rb'"save_id":"([0-9]{20})-[0-9a-f]{8}"')
SAID_WITHIN = 200  # The id is in the first bytes of checkpoint.json.
CLOCK_MAX = (1 << 63) - 1  # Nanoseconds that the system's clock can tell.
TRIES = 10


def new_save_id(folder: Path) -> str:
    """Ids are unique, and later ones sort after earlier ones, also if the clock was set back since the checkpoints in
    `folder` and its neighbours were made. Other names there do not affect it."""
    number = time.time_ns()
    for said, place in _numbers_in(folder.parent):
        with contextlib.suppress(OSError, CheckpointError):
            if said >= number and is_whole(place, read_summary(place)):
                number = min(said + 1, CLOCK_MAX)
    return f"{number:020}-{secrets.token_hex(4)}"


def _numbers_in(root: Path) -> Iterator[tuple[int, Path]]:
    """What the checkpoints say themselves, which nobody has looked at yet; numbers of no clock are left out. None where
    the folder cannot be read, into which one may save nevertheless."""
    for place in (root / name for name in names_if_readable(root)):
        with contextlib.suppress(OSError, CheckpointError):
            said = SAID_ID.search(content_of(place / NAME, SAID_WITHIN))
            if said is not None and int(said[1]) <= CLOCK_MAX:
                yield int(said[1]), place


def whole_beside(folder: Path) -> Iterator[tuple[Path, Layout]]:
    """The whole checkpoints in the folder and its neighbours, the newest first, with their summaries."""
    for _, place in sorted(_numbers_in(folder.parent), reverse=True):
        with contextlib.suppress(OSError, CheckpointError):
            layout = read_summary(place)
            if is_whole(place, layout):
                yield place, layout


def order_of(place: Path, layout: Layout) -> tuple[int, int, str]:
    """The sort key: the id, or the file's time if no clock can have made the id."""
    number = int(layout.save_id[:20]) if re.fullmatch(ID, layout.save_id) else CLOCK_MAX + 1
    if number < CLOCK_MAX:
        return number, 0, layout.save_id
    written = (place / NAME).stat().st_mtime_ns
    return (number, written, "") if number == CLOCK_MAX else (written, 0, layout.save_id)


def new_lease(folder: Path, *, beside: Path | None = None, durable: bool = True) -> Lease:
    """The lease of a new save to the folder. beside: the folder of its files until the end."""
    return hold(beside or folder, new_save_id(folder), durable=durable)


def hold(folder: Path, save_id: str, *, durable: bool = True) -> Lease:
    """Takes its lease. Creates the folder again if others have removed it because it was empty."""
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):
            return take(folder, save_id)
        make_folder(folder, durable=durable)
    return take(folder, save_id)
