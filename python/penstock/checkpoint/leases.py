# SPDX-License-Identifier: Apache-2.0

"""Leases: that a save goes on is a lock (flock) on a file `.SAVE-ID.lease` in its folder, which the system lets go with
the process, however that ends. No clock is asked.

Who saves has a shared lock; who takes away what dead saves have left takes the lock for itself alone. A lease that
nobody holds belongs to a save that is over. Where that cannot be known it is taken for one that goes on: where the file
system knows no locks, and where another machine has made the lease and locks may hold on one machine alone.
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

ID = "[0-9]{20}-[0-9a-f]{8}"  # Of a save: nanoseconds since 1970, and by chance.
LEASE = re.compile(rf"\.({ID})\.lease")
TRIES = 100
SPARE_DESCRIPTORS = 64
NBYTES_MAX = 1 << 22  # Of what one says.
EMPTY_S = 3600
LOCAL = frozenset(("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs",
                   "zfs"))  # File systems that one machine has alone.
SHARED = frozenset(("ceph", "lustre", "nfs", "nfs4"))  # Whose locks hold on all machines, but with such an option:
ONE_MACHINE = ("local_lock=flock", "local_lock=all", "nolock", "localflock")


def _machine() -> str:
    """Since it was started: locks from before are gone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:100]
    except OSError:
        return ""


class Lease:
    """A lock that this process holds until end() or close(), or until nobody knows of it any more."""

    def __init__(self, path: Path, fd: int) -> None:
        self._open = [fd]  # Taken out by whoever closes it, of several threads one.
        self._path, self._fd, self._pid = path, fd, os.getpid()
        self.save_id = path.name[1:].removesuffix(".lease")

    def note(self, names: set[str]) -> None:
        """What is to be removed when the save has become the checkpoint: also by others, where this process dies."""
        with contextlib.suppress(OSError):  # It costs room alone.
            if names and os.fstat(self._fd).st_size > 0:  # Of an empty one nothing is believed.
                os.write(self._fd, "".join(f"{name}\n" for name in sorted(names)).encode())

    def noted(self) -> set[str]:
        return set(os.pread(self._fd, NBYTES_MAX, 0).decode(errors="replace").split("\n")[1:-1])

    def end(self) -> None:
        """Nothing of the save is left that its checkpoint does not name."""
        if self._open and self._pid == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self.close()

    def close(self) -> None:
        """Whoever looks next takes away what is left."""
        with contextlib.suppress(IndexError, AttributeError):  # Of one that was never made.
            fd = self._open.pop()
            if self._pid == os.getpid():  # A forked child has the descriptor, too, and the lock is not its own.
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
        """False where somebody removes it just now."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)  # Without locks it stays empty.
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
        if facts.st_size == 0:  # Killed between two calls; or it goes on where no locks are known.
            return self._is_there() and time.time() - facts.st_mtime > EMPTY_S
        machine = os.pread(self._fd, NBYTES_MAX, 0).partition(b"\n")[0].decode(errors="replace")
        return self._is_there() and (machine == _machine() != "" or _locks_reach(self._path.parent))


def room_for_leases() -> int:
    """How many may be held at once, so that files can still be opened: a job may have more ranks."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(limit - len(os.listdir("/proc/self/fd")) - SPARE_DESCRIPTORS, 0)


def take(folder: Path, save_id: str) -> Lease:
    """Holds the lease of a save, which may be there already."""
    path = folder / f".{save_id}.lease"
    for _ in range(TRIES):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        lease = Lease(path, fd)
        if lease._hold():
            return lease
        lease.close()
    raise OSError(errno.EBUSY, "what an earlier save left is being removed just now: try again", str(path))


def take_over(path: Path) -> Lease | None:
    """Of a save that is over: nobody else removes what it left meanwhile. None where it goes on, or may go on."""
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
    """Whether a lock of whatever machine uses the folder would be seen here."""
    try:
        place, best, found = os.path.realpath(folder), "", ("", "")
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for mount, kind, options in map(_mount_of, mounts):
                if len(mount) >= len(best) and (place == mount or place.startswith(mount.rstrip("/") + "/")):
                    best, found = mount, (kind, options)  # The last of one place lies over those before.
    except (OSError, ValueError, IndexError):
        return False
    kind, options = found
    return kind in LOCAL or (kind in SHARED and not set(options.split(",")) & set(ONE_MACHINE))


def _mount_of(line: str) -> tuple[str, str, str]:
    """Where it is, of which kind, with which options of both kinds."""
    words = line.split()
    dash = words.index("-", 6)
    mount = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4])
    return mount, words[dash + 1], f"{words[5]},{words[dash + 3]}"
