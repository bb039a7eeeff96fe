# SPDX-License-Identifier: Apache-2.0

"""Shared by the programs of this folder whose sides take turns: the turns, the figures and the page cache."""

import os
import platform
import statistics
from datetime import datetime, timezone


def machine(gpu):
    return f"{datetime.now(timezone.utc):%F}, {gpu}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def there_and_back(sides, turns):
    """Yields the number of the turn and a side, in every second turn in the opposite order."""
    for number in range(turns):
        for side in sides if number % 2 == 0 else reversed(sides):
            yield number, side


def figure(samples, unit="", digits=2, width=0):
    """The median, with the lowest and highest behind it."""
    low, high = (f"{end(samples):.{digits}f}" for end in (min, max))
    return f"{statistics.median(samples):{width}.{digits}f}{unit} [{low} {high}]"


def drop(paths):
    """Flushes the files and takes them out of the page cache."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
