# SPDX-License-Identifier: Apache-2.0

"""Limits of a store's writes: slow drives, and the write budget per day."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from penstock.regular import read_regular

__all__ = ["Budget", "Health"]

_SLOWER = 10.0  # A request this many times slower than usual for its size is slow.
_LONG_S = 1.0  # Faster requests never count as slow: a full page cache makes writes ten times as long, too.
_IN_A_ROW = 4
_PAUSE_S = 30.0
_DAY_S = 86_400
_NEWEST = 0.05  # The weight of the newest request in the average.


class Health:
    """Detects a slow drive, to which nothing is written for half a minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._usual: dict[int, float] = {}
        self._slow_ones = 0
        self._until = 0.0
        self.reason = ""  #: Why it last counted as slow.

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
    """The bytes that may be written per day (UTC); a file in the folder keeps the count across restarts.
    Thread-safe."""

    def __init__(self, folder: Path, bytes_a_day: int | None, clock: Callable[[], float] = time.time) -> None:
        self._file = folder / "written"
        self._most = bytes_a_day
        self._clock = clock
        self._day, self.written = self._today(), 0
        try:
            day, written = read_regular(self._file, 100, follow=False).decode().split()
            if day == _date(self._day):
                self.written = max(int(written), 0)
        except (OSError, ValueError):  # The file is missing or not ours: the count starts at 0.
            pass

    def _today(self) -> int:
        return int(self._clock() // _DAY_S)

    def take(self, nbytes: int) -> bool:
        """Returns False, without counting, if the day's rest is smaller."""
        today = self._today()
        if today != self._day:
            self._day, self.written = today, 0
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
            os.write(fd, f"{_date(self._day)} {self.written}\n".encode())
        finally:
            os.close(fd)
        os.replace(temporary, self._file)


def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * _DAY_S))
