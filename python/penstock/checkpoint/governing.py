# SPDX-License-Identifier: Apache-2.0

"""How a save gives way to the training steps beside it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, TypeVar

from penstock.checkpoint.layout import REQUEST_BYTES

Result = TypeVar("Result")

SLOWER = 1.05  # The median of steps beside which writers work may be so many times that of those before them,
USUAL = 0.9    # or as long as this part of those.
STEPS_KEPT, STEPS_NEEDED = 16, 3
TURN = 3               # Where steps are slowed, writers work in each third.
IDLE_STEPS = 4         # Who makes no step for so long is not slowed by anybody.
POLL_S = 0.01
ALONE_BYTES = 2 << 20  # The engine shares out larger requests.


class Governor:
    """Watches steps. Where those beside a save are slower than those before it, writers work in each third step and
    pause in the others: the median step is as without a save, which takes longer, and ends. The steps in which they
    pause tell whether it was the writers: where those are as slow, they work on until the next save."""

    def __init__(self, clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._alone: deque[float] = deque(maxlen=STEPS_KEPT)
        self._paused: list[float] = []
        self._worked: list[float] = []
        self._began: float | None = None
        self._owner: object = self
        self._turn = 0
        self._is_saving = self._has_worked = self._gives_way = self._is_innocent = False

    def stood(self) -> None:
        """The trainer goes on after a call that is no part of a step."""
        if self._began is not None:
            self._began = self._clock()

    def step_begins(self, owner: int | None) -> None:
        """The trainer goes on after an update of the owner's (None: of everybody's)."""
        if owner == self._owner:
            self._began, self._turn, self._has_worked = self._clock(), (self._turn + 1) % TURN, False

    def step_ends(self, owner: int | None) -> None:
        """The trainer comes to an update. Of several owners, the first who came tells of steps."""
        if self._owner is self:
            self._owner = owner
        if self._began is None or owner != self._owner:
            return
        took = self._clock() - self._began
        if not self._is_saving:
            self._alone.append(took)
        elif self._has_worked:
            self._worked.append(took)
        elif self._gives_way:  # Copies slow steps, too, and do not end sooner for it.
            self._paused.append(took)
        self._judge()

    def beside(self, save: Callable[[], Result]) -> Result:
        """Makes the call, which goes on beside the trainer's steps."""
        self._paused, self._worked, self._is_innocent, self._is_saving = [], [], False, True
        try:
            return save()
        finally:
            self._is_saving = False

    def give_way(self) -> float:
        """To be called before each piece of work: pauses, and returns for how many seconds."""
        paused, began = 0.0, self._clock()
        while self._must_pause():
            self._sleep(POLL_S)
            paused = self._clock() - began
        self._has_worked = True
        return paused

    @property
    def request_bytes(self) -> int:
        """The largest piece of work: so small, where writers give way, that the thread does it alone."""
        return ALONE_BYTES if self._gives_way else REQUEST_BYTES

    def _must_pause(self) -> bool:
        if not self._gives_way or self._turn == 0 or self._began is None:
            return False
        return self._clock() - self._began <= IDLE_STEPS * self._usual()

    def _judge(self) -> None:
        if len(self._worked) < STEPS_NEEDED or self._is_innocent:
            return
        if not self._gives_way and self._are_slow():
            self._gives_way, self._worked = True, []
        elif self._gives_way and len(self._paused) >= STEPS_NEEDED:
            self._is_innocent = median(self._worked) <= SLOWER * median(self._paused)
            self._gives_way = not self._is_innocent

    def _are_slow(self) -> bool:
        took, alone = median(self._worked), sorted(self._alone)
        return took > SLOWER * self._usual() and took > alone[int(USUAL * len(alone))]

    def _usual(self) -> float:
        """How long a step takes without a save; any time where too few were seen."""
        return median(self._alone) if len(self._alone) >= STEPS_NEEDED else float("inf")


class Pace:
    """How those who save go through their work. given_way_s: for how long they paused, added up."""

    def __init__(self, governor: Governor | None = None) -> None:
        self._governor = governor
        self._pauses: list[float] = []

    @property
    def given_way_s(self) -> float:
        return sum(self._pauses)

    def pieces(self, memory: Any) -> Iterator[tuple[int, Any]]:
        """Places and pieces of memory, each when its turn has come."""
        at = 0
        while at < memory.nbytes:
            if self._governor is not None:
                self._pauses.append(self._governor.give_way())
            piece = memory[at:at + self._most]
            yield at, piece
            at += piece.nbytes

    @property
    def _most(self) -> int:
        return REQUEST_BYTES if self._governor is None else self._governor.request_bytes


FULL = Pace()
