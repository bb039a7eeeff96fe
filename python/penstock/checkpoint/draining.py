# SPDX-License-Identifier: Apache-2.0

"""Copies checkpoints from a node's drives to shared storage, and verifies their checksums on the way."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.checkpoint.ids import hold
from penstock.checkpoint.layout import NAME, PIECE_BYTES, CheckpointError, Extent, Layout, encode
from penstock.checkpoint.leases import ID, room_for_leases
from penstock.checkpoint.leftovers import DATA_FILE, sweep
from penstock.checkpoint.reading import folder_of, has_size, read_layout
from penstock.checkpoint.restoring import Wanted, restore
from penstock.checkpoint.stock import index_of
from penstock.checkpoint.storing import check_room
from penstock.folders import make_folder
from penstock.progress import OnProgress, Shared
from penstock.sessions import Session, default_session
from penstock.threads import for_each
from penstock.weights.headers import INDEX

FILES_AT_ONCE = 4
BATCH_BYTES = 64 << 20  # Bytes of each file in memory at a time.

AnyPath = str | os.PathLike[str]


def drain(folder: AnyPath | Iterable[AnyPath], to: AnyPath, *, session: Session | None = None,
          on_progress: OnProgress | None = None) -> Path:
    """Copies a checkpoint into the folder `to`, under its own name, and returns its new path.

    folder: its path; for a save by several nodes to their own drives, all of the folders, one of which has
    checkpoint.json. Every checksum is compared on the way. checkpoint.json is written last, so that `latest(to)` finds
    the checkpoint only when it is whole and on the disk. Files that are there already, by size and checksum, are kept:
    a new call after a killed one continues.

    Raises CheckpointError if a file is damaged or missing, or another checkpoint has the name, and OSError (ENOSPC)
    before the first byte if it does not fit.
    """
    session = session or default_session()
    is_one = isinstance(folder, (str, os.PathLike)) or not isinstance(folder, Iterable)
    folders = [folder_of(each) for each in ([folder] if is_one else folder)]  # type: ignore[union-attr, arg-type]
    home, layout = _find(folders)
    target = Path(to) / home.resolve().name
    is_there = _check_target(target, folders, layout)
    sources = {file: _source_of(file, size, folders) for file, size in layout.files.items()}
    extents: dict[str, list[tuple[str, Extent]]] = {file: [] for file in layout.files}
    for name, extent in layout.extents():
        extents[extent.file].append((name, extent))
    lacking = [file for file in layout.files if not _is_whole(session, target, file, layout.files[file], extents[file])]
    make_folder(Path(to))
    check_room(Path(to), sum(layout.files[file] for file in lacking) + len(encode(layout)))
    with _leases_of(target, layout):
        _copy_all(session, sources, target, layout, lacking, extents, on_progress)
        _publish(session, target, layout, is_there)
    return target


@contextlib.contextmanager
def _leases_of(target: Path, layout: Layout) -> Iterator[None]:
    """The leases for the copy. After a failure the copied files stay, and the next call continues with them."""
    ids = {found[1] for name in layout.files if (found := DATA_FILE.fullmatch(name))}
    ids |= {layout.save_id} if re.fullmatch(ID, layout.save_id) else set()
    with contextlib.ExitStack() as held:
        for save_id in sorted(ids)[:room_for_leases()]:  # Files without a lease are kept for an hour.
            held.callback(hold(target, save_id).end)
        yield


def _copy_all(session: Session, sources: dict[str, Path], target: Path, layout: Layout, lacking: list[str],
              extents: dict[str, list[tuple[str, Extent]]], on_progress: OnProgress | None) -> None:
    counter = Shared(sum(extent.nbytes for file in lacking for _, extent in extents[file]), on_progress)

    def copy(file: str) -> None:
        _copy(session, sources[file], target, file, layout.files[file], extents[file], counter)

    for_each(copy, lacking, FILES_AT_ONCE)


def _find(folders: list[Path]) -> tuple[Path, Layout]:
    """The folder with checkpoint.json."""
    found = [each for each in folders if (each / NAME).exists()]
    if not found:
        raise CheckpointError(f"there is no {NAME} in {', '.join(map(str, folders)) or 'no folder'}: no save has ended "
                              "there, or rank 0 saved to another folder: name that, too")
    layouts = [read_layout(each) for each in found]
    for place, layout in zip(found[1:], layouts[1:], strict=True):
        if layout.save_id != layouts[0].save_id:
            raise CheckpointError(f"{found[0]} and {place} have different checkpoints: drain them one by one")
    return found[0], layouts[0]


def _check_target(target: Path, folders: list[Path], layout: Layout) -> bool:
    """Whether the checkpoint is published there. Raises CheckpointError if another one is."""
    for each in folders:
        if target.exists() and target.samefile(each):
            raise CheckpointError(f"{target}: this is what would be copied: name another folder for it to go to")
    try:
        there = read_layout(target)
    except FileNotFoundError:
        return False
    if encode(there) != encode(layout):
        raise CheckpointError(f"{target}: another checkpoint has this name, of save {there.save_id}, and "
                              f"{layout.save_id} is to come: remove that one, or name another folder")
    return True


def _source_of(file: str, size: int, folders: list[Path]) -> Path:
    """The folder that has a data file: each rank writes to only one of them."""
    sizes: dict[Path, int | None] = {}
    unknown: OSError | None = None
    for each in folders:
        try:
            sizes[each] = _size_of(each / file)
        except OSError as error:
            unknown = unknown or error
    for folder, found in sizes.items():
        if found is not None and found >= size:
            return folder
    if unknown is not None:
        raise unknown
    for folder, found in sizes.items():
        if found is not None:
            raise CheckpointError(f"{folder / file}: it has {found} bytes, and {size} are expected: it was cut. Drain "
                                  "an older checkpoint")
    raise CheckpointError(f"{file} is part of the checkpoint, and in none of {', '.join(map(str, folders))}: name the "
                          "folders of all nodes that saved it")


def _size_of(path: Path) -> int | None:
    """The size of a regular file; None if there is none, or it is a link. Raises OSError if that cannot be known."""
    try:
        facts = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def _batches(extents: list[tuple[str, Extent]]) -> Iterator[list[tuple[str, Extent, int, int]]]:
    """Yields (name, extent, begin, size) of pieces that are read together. Pieces begin where checksums do."""
    batch: list[tuple[str, Extent, int, int]] = []
    nbytes = 0
    for name, extent in sorted(extents, key=lambda each: each[1].offset):
        for begin in range(0, extent.nbytes, PIECE_BYTES):
            size = min(PIECE_BYTES, extent.nbytes - begin)
            if batch and nbytes + size > BATCH_BYTES:
                yield batch
                batch, nbytes = [], 0
            batch.append((name, extent, begin, size))
            nbytes += size
    if batch:
        yield batch


def _contents(session: Session, folder: Path, extents: list[tuple[str, Extent]]) -> Iterator[tuple[int, memoryview]]:
    """The contents of one file with their places. Raises CheckpointError if a checksum is wrong."""
    for batch in _batches(extents):
        memory, at, wanted = memoryview(bytearray(sum(size for *_, size in batch))), 0, []
        for name, extent, begin, size in batch:
            wanted.append(Wanted(name, extent, begin, memory[at:at + size]))
            at += size
        restore(folder, wanted, session)
        for each in wanted:
            yield each.extent.offset + each.begin, each.target


def _is_whole(session: Session, target: Path, file: str, size: int, extents: list[tuple[str, Extent]]) -> bool:
    """Raises CheckpointError if the name belongs to something that is not a replaceable file."""
    found = _size_of(target / file)
    if found is None and os.path.lexists(target / file):
        raise CheckpointError(f"{target / file}: this is no regular file: remove it, and drain again")
    if found != size:
        return False
    try:
        for _ in _contents(session, target, extents):
            pass
    except CheckpointError:
        return False
    return True


def _copy(session: Session, folder: Path, target: Path, file: str, size: int, extents: list[tuple[str, Extent]],
          counter: Shared) -> None:
    with session.create(target / file, replace=True) as opened:
        for offset, content in _contents(session, folder, extents):
            counter.count(opened.write(content, offset))
        if size > max((extent.offset + extent.nbytes for _, extent in extents), default=0):
            opened.write(b"\0", size - 1)  # The gap at the end has no contents, but the size is part of the checkpoint.


def _publish(session: Session, target: Path, layout: Layout, is_there: bool) -> None:
    index = index_of(layout)
    if index is not None:
        with session.create(target / INDEX, replace=True) as file:
            file.write(index)
    gone = [file for file, size in layout.files.items() if not has_size(target / file, size)]
    if gone:
        raise CheckpointError(f"{target / gone[0]}: it was removed or cut before the copy ended: drain again")
    if not is_there:
        with session.create(target / NAME) as file:
            file.write(encode(layout))
    sweep(target)
