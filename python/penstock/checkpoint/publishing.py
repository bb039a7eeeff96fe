# SPDX-License-Identifier: Apache-2.0

"""A checkpoint exists from the moment when checkpoint.json gets its name.

Data files are flushed before, and have names unique to their save: so the previous checkpoint stays whole until then,
and a crash leaves one or the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout, encode
from penstock.checkpoint.leases import Lease, room_for_leases, take
from penstock.checkpoint.leftovers import DATA_FILE, files_of_checkpoint, give_up, remove_behind
from penstock.checkpoint.reading import has_size
from penstock.sessions import Session, default_session


def publish(folder: Path, layout: Layout, lease: Lease, session: Session | None = None, *,
            durable: bool = True) -> None:
    """Makes it the folder's checkpoint. The previous data files are removed in the background, and the lease ends then,
    or here if the save fails."""
    try:
        others = _other_ids(layout, lease)
        with _all_leases(folder, others) as leases:
            earlier = files_of_checkpoint(folder) - set(layout.files)
            lease.note(earlier)
            give_name(folder, layout, session, durable)
            for each in leases:
                each.end()
        for save_id in others[len(leases):]:
            with contextlib.suppress(OSError):  # Harmless: a later sweep removes the lease's file.
                take(folder, save_id).end()
        remove_behind([folder / name for name in earlier], lease)
    except BaseException:
        give_up(folder, layout.files, lease)
        raise


def _other_ids(layout: Layout, own: Lease) -> list[str]:
    """The save ids of all other ranks."""
    found = {match[1] for name in layout.files if (match := DATA_FILE.fullmatch(name))}
    return sorted(found - {own.save_id})


@contextlib.contextmanager
def _all_leases(folder: Path, save_ids: list[str]) -> Iterator[list[Lease]]:
    """Takes the leases of ranks whose processes may die from now on: as many as there is room for."""
    with contextlib.ExitStack() as held:
        found = []
        for save_id in save_ids[:room_for_leases()]:
            found.append(take(folder, save_id))
            held.callback(found[-1].close)
        yield found


def give_name(folder: Path, layout: Layout, session: Session | None, durable: bool) -> None:
    gone = [name for name, size in layout.files.items() if not has_size(folder / name, size)]
    if gone:
        raise CheckpointError(f"{folder / gone[0]}: it was removed or cut before the save ended: save again")
    if durable:
        with (session or default_session()).create(folder / NAME, replace=True) as file:
            file.write(encode(layout))
    else:
        temporary = folder / f".{layout.save_id}"
        try:
            temporary.write_bytes(encode(layout))
            temporary.rename(folder / NAME)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
