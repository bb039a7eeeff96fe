# SPDX-License-Identifier: Apache-2.0

"""Leases: a running save holds a lock (flock) on a file `.SAVE-ID.lease` in its folder. The kernel releases it when the
process ends in any way. No clock is involved.

A save has a shared lock; the removal of a dead save's files takes an exclusive one. A lease that nobody holds belongs
to a save that has ended. If that cannot be known the save counts as running: if the file system has no locks, or
another machine made the lease and locks may be local to one machine.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import resource
import stat
import sys
import time
from pathlib import Path

ID = "[0-9]{20}-[0-9a-f]{8}"  # The id of a save: nanoseconds since 1970, and a random part.
LEASE = re.compile(rf"\.({ID})\.lease")
TRIES = 100
SPARE_DESCRIPTORS = 64
NBYTES_MAX = 1 << 22  # Limit of a lease's contents.
EMPTY_S = 3600
LOCAL = frozenset(("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs",
                   "zfs"))  # File systems that are local to one machine.
# File systems whose locks work across machines, except with such an option:
SHARED = frozenset(("ceph", "lustre", "nfs", "nfs4"))
ONE_MACHINE = ("local_lock=flock", "local_lock=all", "nolock", "localflock")


def _machine() -> str:
    """Identifies this boot: older locks are gone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:100]
    except OSError:
        return ""


class Lease:
    """A lock that this process holds until end() or close(), or until the object is garbage-collected."""

    def __init__(self, path: Path, fd: int) -> None:
        self._open = [fd]  # The thread that closes it takes the descriptor out; only one can.
        self._path, self._fd, self._pid = path, fd, os.getpid()
        self.save_id = path.name[1:].removesuffix(".lease")

    def note(self, names: set[str]) -> None:
        """Records the names to remove once the save is the checkpoint; others remove them if this process dies."""
        with contextlib.suppress(OSError):  # A failure only costs space.
            if names and os.fstat(self._fd).st_size > 0:  # An empty lease lists nothing.
                os.write(self._fd, "".join(f"{name}\n" for name in sorted(names)).encode())

    def noted(self) -> set[str]:
        return set(os.pread(self._fd, NBYTES_MAX, 0).decode(errors="replace").split("\n")[1:-1])

    def end(self) -> None:
        """Call it when no file of the save is left except those of its checkpoint."""
        if self._open and self._pid == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self.close()

    def close(self) -> None:
        """The next sweep removes leftover files."""
        with contextlib.suppress(IndexError, AttributeError):  # If the constructor failed.
            fd = self._open.pop()
            if self._pid == os.getpid():  # A forked child has the descriptor, too, but does not own the lock.
                with contextlib.suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), os.lstat(self._path))
        except OSError:
            return False

    def _hold(self) -> bool:
        """Returns False if another process is removing it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)  # Without locks the file stays empty.
        if not self._is_there():
            return False
        if os.fstat(self._fd).st_size == 0:
            os.write(self._fd, f"{_machine()}\n".encode())
        return True

    def _is_dead(self) -> bool:
        facts = os.fstat(self._fd)
        if not stat.S_ISREG(facts.st_mode):
            return False
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if facts.st_size == 0:  # The save was killed between two calls, or runs on a file system without locks.
            return self._is_there() and time.time() - facts.st_mtime > EMPTY_S
        machine = os.pread(self._fd, NBYTES_MAX, 0).partition(b"\n")[0].decode(errors="replace")
        return self._is_there() and (machine == _machine() != "" or _locks_reach(self._path.parent))


def room_for_leases() -> int:
    """How many leases may be held at once, so that descriptors are left: a job may have more ranks."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(limit - len(os.listdir("/proc/self/fd")) - SPARE_DESCRIPTORS, 0)


def take(folder: Path, save_id: str) -> Lease:
    """Holds the lease of a save; its file may exist."""
    path = folder / f".{save_id}.lease"
    for attempt in range(TRIES):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        lease = Lease(path, fd)
        if lease._hold():
            return lease
        lease.close()
        time.sleep(attempt / 1000)  # One that looks whether it is dead holds it for a moment.
    raise OSError(errno.EBUSY, "what an earlier save left is being removed just now: try again", str(path))


def take_over(path: Path) -> Lease | None:
    """Takes the lease of a dead save, so that nobody else removes its files meanwhile. None if the save runs, or may
    run."""
    try:
        lease = Lease(path, os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if lease._is_dead():
            return lease
    lease.close()
    return None


def _locks_reach(folder: Path) -> bool:
    """Whether locks of all machines that use the folder are visible here."""
    try:
        place, best, found = os.path.realpath(folder), "", ("", "")
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for mount, kind, options in map(_mount_of, mounts):
                if len(mount) >= len(best) and (place == mount or place.startswith(mount.rstrip("/") + "/")):
                    best, found = mount, (kind, options)  # A later mount at the same place hides earlier ones.
    except (OSError, ValueError, IndexError):
        return False
    kind, options = found
    return kind in LOCAL or (kind in SHARED and not set(options.split(",")) & set(ONE_MACHINE))


def _mount_of(line: str) -> tuple[str, str, str]:
    """The mount's place, type and options (of mount and file system)."""
    words = line.split()
    dash = words.index("-", 6)
    mount = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4])
    return mount, words[dash + 1], f"{words[5]},{words[dash + 3]}"
