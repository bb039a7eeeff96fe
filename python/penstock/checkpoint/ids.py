# SPDX-License-Identifier: Apache-2.0

"""What a save is called, by which later ones sort behind earlier ones, and the lease that says that it lives."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout
from penstock.checkpoint.leases import ID, Lease, take
from penstock.checkpoint.reading import content_of, is_whole, names_in, read_summary
from penstock.folders import make_folder

SAID_ID = re.compile(rb'"save_id":"([0-9]{20})-[0-9a-f]{8}"')
SAID_WITHIN = 200  # Bytes of checkpoint.json: it is the first thing there.
CLOCK_MAX = (1 << 63) - 1  # Nanoseconds that the system's clock can tell.
TRIES = 10


def new_save_id(folder: Path) -> str:
    """Later ones sort behind earlier ones, and no two are the same; also where a clock was put back since the whole
    checkpoints that `folder` and its neighbours have. No other name there moves it."""
    number = time.time_ns()
    for place in (folder.parent / name for name in names_in(folder.parent)):
        with contextlib.suppress(OSError, CheckpointError):
            said = SAID_ID.search(content_of(place / NAME, SAID_WITHIN))
            if said is not None and number <= int(said[1]) <= CLOCK_MAX and is_whole(place, read_summary(place)):
                number = min(int(said[1]) + 1, CLOCK_MAX)
    return f"{number:020}-{secrets.token_hex(4)}"


def order_of(place: Path, layout: Layout) -> tuple[int, int, str]:
    """By its id; an id that no clock can have made says nothing, and then the file's time does."""
    number = int(layout.save_id[:20]) if re.fullmatch(ID, layout.save_id) else CLOCK_MAX + 1
    if number < CLOCK_MAX:
        return number, 0, layout.save_id
    written = (place / NAME).stat().st_mtime_ns
    return (number, written, "") if number == CLOCK_MAX else (written, 0, layout.save_id)


def new_lease(folder: Path, *, beside: Path | None = None, durable: bool = True) -> Lease:
    """Of a new save to the folder. beside: where its files are until the end."""
    return hold(beside or folder, new_save_id(folder), durable=durable)


def hold(folder: Path, save_id: str, *, durable: bool = True) -> Lease:
    """Its lease. The folder is made again where others have removed it since, for it was empty."""
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):
            return take(folder, save_id)
        make_folder(folder, durable=durable)
    return take(folder, save_id)
