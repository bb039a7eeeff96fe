# SPDX-License-Identifier: Apache-2.0

"""What keeps a store from writing: a drive that has become slow, and the bytes that may be written to it in a day."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from penstock.regular import read_regular

__all__ = ["Budget", "Health"]

_SLOWER = 10.0  # Than it usually is, for as many bytes.
_LONG_S = 1.0  # What is over sooner harms nobody: a page cache that is full makes writes ten times as long, too.
_IN_A_ROW = 4
_PAUSE_S = 30.0
_NEWEST = 0.05  # The share of the newest request in what is usual.


class Health:
    """Whether a drive has become slow: then nothing is written to it for half a minute. Any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._usual: dict[int, float] = {}
        self._slow_ones = 0
        self._until = 0.0
        self.reason = ""  #: Why it was last taken for slow.

    def add(self, nbytes: int, seconds: float) -> None:
        if nbytes <= 0:
            return
        size, now = nbytes.bit_length(), seconds / nbytes
        usual = self._usual.get(size, now)
        is_slow = seconds > _LONG_S and now > _SLOWER * usual
        self._slow_ones = self._slow_ones + 1 if is_slow else 0
        if not is_slow:
            self._usual[size] = usual + _NEWEST * (now - usual)
        if self._slow_ones < _IN_A_ROW:
            return
        self._slow_ones = 0
        self._until = self._clock() + _PAUSE_S
        self.reason = (f"{_IN_A_ROW} writes in a row took over {_SLOWER:.0f} times as long as is usual for so many "
                       f"bytes ({1e-9 / now:.3f} GB/s, usually {1e-9 / usual:.3f}): nothing is put there for "
                       f"{_PAUSE_S:.0f} s")

    @property
    def is_slow(self) -> bool:
        return self._clock() < self._until


class Budget:
    """Bytes that may be written in a day (UTC), counted on through restarts by a file in the folder. Any thread."""

    def __init__(self, folder: Path, bytes_a_day: int | None, clock: Callable[[], float] = time.time) -> None:
        self._file = folder / "written"
        self._most = bytes_a_day
        self._clock = clock
        self._day, self.written = self._today(), 0
        try:
            day, written = read_regular(self._file, 100, follow=False).decode().split()
            if day == self._day:
                self.written = max(int(written), 0)
        except (OSError, ValueError):  # There is none yet, or it is not ours: then the day begins with nothing.
            pass

    def _today(self) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self._clock()))

    def take(self, nbytes: int) -> bool:
        """False, and nothing is counted, where the day has not so much left."""
        if self._today() != self._day:
            self._day, self.written = self._today(), 0
        if self._most is not None and self.written + nbytes > self._most:
            return False
        self.written += nbytes
        return True

    def save(self) -> None:
        if self._most is None:
            return
        temporary = self._file.with_name(f".written-{secrets.token_hex(8)}")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, f"{self._day} {self.written}\n".encode())
        finally:
            os.close(fd)
        os.replace(temporary, self._file)
