# SPDX-License-Identifier: Apache-2.0

"""The processes of the other ranks on this host, which are seen to end while they are waited for."""

from __future__ import annotations

import os
import select
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from penstock.weights.tensors import WeightsError

GRACE_SECONDS = 2.0   # What a rank had sent before it ended still arrives.
BUSY_SECONDS = 0.002  # Most exchanges take less: they are looked at without pause.


class Processes:
    """own: what identifies this process to those that see it."""

    def __init__(self) -> None:
        self.own = ("", 0)
        with suppress(OSError):
            boot = Path("/proc/sys/kernel/random/boot_id").read_text()
            self.own = f"{boot.strip()} {os.readlink('/proc/self/ns/pid')}", os.getpid()
        self._ranks: dict[int, int] = {}  # By a descriptor of the process.
        self._ended = select.poll()
        weakref.finalize(self, _close, self._ranks.keys())

    def watch(self, processes: Mapping[int, tuple[str, int]]) -> None:
        """processes: what ranks gave as their own."""
        for rank, (where, pid) in processes.items():
            if where == self.own[0] != "":
                with suppress(OSError, AttributeError):  # A Python that was built for old kernels has no pidfd_open.
                    descriptor = os.pidfd_open(pid)
                    self._ranks[descriptor] = rank
                    self._ended.register(descriptor, select.POLLIN)

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Raises WeightsError if one has ended, and it is not done."""
        began, end = time.monotonic(), None
        while not is_done():
            now = time.monotonic()
            ended = self._ended.poll(0 if now - began < BUSY_SECONDS else 1)
            if not ended:
                continue
            end = end or now + GRACE_SECONDS
            if now > end:
                raise WeightsError(f"rank {self._ranks[ended[0][0]]} of the group ended while the ranks loaded")
            time.sleep(0.001)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
