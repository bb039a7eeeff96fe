# SPDX-License-Identifier: Apache-2.0

"""Stages files by several threads, each with memory for one part; and checks staged files."""

from __future__ import annotations

import collections
import contextlib
import mmap
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.progress import OnProgress, Shared
from penstock.regular import open_regular
from penstock.sessions import Session, default_session
from penstock.stage.failures import ChangedError, StageError, TransientError, failure_of, patiently
from penstock.stage.jobs import GO_ON, Job, Settings
from penstock.stage.manifest import Entry, parts_of, publish_manifest, read_manifest
from penstock.stage.names import MANIFEST, facts_of, folder_of
from penstock.stage.planning import PART_BYTES, AnyPath, check_room, itemized, listed, opened, rooms_of
from penstock.threads import Event, Threads, for_each

PARALLEL = 8
ATTEMPTS = 3  # Attempts for a file whose source changes.


@dataclass(frozen=True)
class Staged:
    files: dict[str, Path]  # The path of each file.
    nbytes: int             # Total bytes.
    fetched: int            # Bytes that this call has fetched.
    skipped: int            # Files that existed already.


@dataclass(frozen=True)
class Checked:
    files: int
    nbytes: int
    bad: dict[str, str]     # The path of each damaged file, and its fault.


def stage(sources: Iterable[AnyPath], folders: Iterable[AnyPath], *, gpu: int | None = None, parallel: int = PARALLEL,
          part_bytes: int = PART_BYTES, verify: bool = True, page_cache: bool = False,
          options: dict[str, Any] | None = None, session: Session | None = None,
          on_progress: OnProgress | None = None) -> Staged:
    """Copies the files of all sources into the folders, spread by size; returns when all are whole and on the drives.

    sources: local paths, or URLs supported by fsspec; files, folders (recursively), or patterns. gpu: only use the
    folders nearest to this GPU. parallel: parts fetched at a time; each takes `part_bytes` of memory. verify: read each
    part back from the drive and compare it. page_cache: leave the files in it. options: for fsspec's file system, such
    as `{"anon": True}`.

    Raises StageError, before the first byte if the files do not fit or a name is refused.
    """
    session = session or default_session()
    found = listed(sources, options)
    with opened(folders, gpu, is_dry=False) as places:
        items = itemized(found, places, part_bytes)
        check_room(rooms_of(items, part_bytes))
        lacking = [item for item in items if item.lacking is not None]
        counter = Shared(sum(item.lacking or 0 for item in lacking), on_progress)
        settings = Settings(session, part_bytes, verify, not page_cache, counter)
        _Run([Job(item, settings) for item in lacking]).run(max(1, parallel))
        for place in places:
            place.flush()
            if place.entries:
                publish_manifest(session, place.path, place.entries)
            if place.journal is not None:
                place.journal.remove()
        return Staged({item.found.name: item.path for item in items}, sum(item.found.size for item in items),
                      counter.progress.bytes_done, len(items) - len(lacking))


class _Run:
    """The threads end at the first failure; recorded parts stay."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = collections.deque(jobs)
        self._lock, self._stop = threading.Lock(), Event()
        self._failure: BaseException | None = None

    def run(self, count: int) -> None:
        threads = Threads()
        try:
            for _ in range(count):
                threads.start(self._work)
            threads.wait(count)
        except BaseException:
            self._stop.set()
            threads.wait()
            raise
        if self._failure is not None:
            raise self._failure

    def _next(self) -> tuple[Job, int] | None:
        with self._lock:
            while self._jobs and not self._stop.is_set():
                job = self._jobs[0]
                if job.is_over or job.drawn == job.count:
                    self._jobs.popleft()
                    continue
                job.drawn += 1
                return job, job.drawn - 1
        return None

    def _work(self) -> None:
        try:
            memory: mmap.mmap | None = None
            while (drawn := self._next()) is not None:
                memory = memory or mmap.mmap(-1, drawn[0].settings.part_bytes)  # Aligned for direct I/O.
                self._part(*drawn, memoryview(memory))
        except BaseException as error:
            with self._lock:
                if self._failure is None:
                    self._failure = error
            self._stop.set()

    def _part(self, job: Job, part: int, memory: memoryview) -> None:
        if not job.enter():
            return
        found = job.item.found
        begin, size = job.extent_of(part)
        try:
            if size and not job.has(part, memory):
                try:
                    patiently(lambda: found.source.fetch(found, begin, memory[:size], self._stop), self._wait)
                except (OSError, TransientError) as error:
                    raise failure_of(f"fetch {found.shown} from byte {begin}", error, found.path) from None
                job.put(part, memory)
            if job.part_is_done():
                job.finish(memory)
        except ChangedError:
            self._again(job)
        except BaseException:
            job.is_over = True
            raise
        finally:
            job.leave()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StageError("stopped")  # Another thread's failure is reported.

    def _again(self, job: Job) -> None:
        """Starts the file again, with the source's current version."""
        with self._lock:
            if job.is_over:
                return
            job.is_over = True
        found = job.item.found
        if job.attempt == ATTEMPTS:
            raise StageError(f"fetch {found.shown}: it changed while it was fetched, {ATTEMPTS} times: see that "
                             f"nothing writes to it meanwhile, and {GO_ON}")
        try:
            now = patiently(lambda: found.source.again(found), self._wait)
        except (OSError, TransientError) as error:
            raise failure_of(f"look at {found.shown} again, which changed while it was fetched", error,
                             found.path) from None
        with self._lock:
            self._jobs.appendleft(Job(replace(job.item, found=now), job.settings, job.attempt + 1))


def check(folders: Iterable[AnyPath], *, parallel: int = PARALLEL, session: Session | None = None,
          on_progress: OnProgress | None = None) -> Checked:
    """Reads every staged file of the folders, and compares sizes and checksums with their manifests.

    Raises StageError if there is no manifest.
    """
    session = session or default_session()
    bad: dict[str, str] = {}
    entries: list[tuple[Path, int, str, Entry]] = []

    def look(each: tuple[Path, int, str, Entry]) -> None:
        path, root, name, entry = each
        try:
            if (why := _fault_of(session, root, name, entry, counter)) is not None:
                bad[str(path / name)] = why
        except OSError as error:
            bad[str(path / name)] = str(error)

    with contextlib.ExitStack() as stack:
        for path in map(Path, folders):
            root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, root)
            files = read_manifest(root, path)
            if not files and not (path / MANIFEST).exists():
                raise StageError(f"check {path}: it has no {MANIFEST}: no stage to it has ended, or the name is wrong")
            entries += [(path, root, name, entry) for name, entry in files.items()]
        counter = Shared(sum(entry.size for *_, entry in entries), on_progress)
        for_each(look, entries, parallel)
    return Checked(len(entries), sum(entry.size for *_, entry in entries), dict(sorted(bad.items())))


def _fault_of(session: Session, root: int, name: str, entry: Entry, counter: Shared) -> str | None:
    facts = facts_of(root, name)
    if facts is None:
        return "it is gone"
    if facts.st_size != entry.size:
        return f"it has {facts.st_size} bytes, and {entry.size} were staged"
    memory = memoryview(mmap.mmap(-1, max(1, min(entry.part_bytes, entry.size))))
    with folder_of(root, name) as folder:
        fd = open_regular(name.split("/")[-1], follow=False, dir_fd=folder, shown=name)
    try:
        with session.open(fd) as file:
            for expected, (begin, size) in zip(entry.sums, parts_of(entry.size, entry.part_bytes), strict=True):
                report = file.read(memory[:size], begin)
                counter.count(report)
                if report.bytes != size or session.crc32c(memory[:size])[0] != expected:
                    return f"bytes {begin} to {begin + size} are not those that were staged"
    finally:
        os.close(fd)
    return None
