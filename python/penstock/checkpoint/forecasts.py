# SPDX-License-Identifier: Apache-2.0

"""Predicts from earlier saves how long each part takes to save, and which parts fit into a budget of seconds."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.layout import CheckpointError
from penstock.checkpoint.notes import publish_note, read_note
from penstock.checkpoint.parts import PARTS_MAX, check_names

VERSION = 1
SAVES_MAX = 3              # The newest saves of a part; the slowest of them counts.
SMALL = 1 << 20            # Smaller saves are not faster: flushes and folders dominate.
SECONDS_MAX = 1e6
BYTES_MAX = 1 << 62

log = logging.getLogger("penstock.checkpoint")


def nbytes_of(state: Any) -> int:
    """The bytes of tensors, arrays and bytes objects, duplicates counted once; text and numbers are negligible."""
    sizes: dict[Any, int] = {}
    seen: set[int] = set()  # Against cycles, which `save` reports.
    waiting = [state]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (bytes, bytearray)) or (hasattr(each, "shape") and hasattr(each, "dtype")):
            sizes |= _size_of(each)
        elif isinstance(each, (Mapping, list, tuple)) and id(each) not in seen:
            seen.add(id(each))
            waiting.extend(each.values() if isinstance(each, Mapping) else each)
    return sum(sizes.values())


def _size_of(each: Any) -> dict[Any, int]:
    try:
        nbytes = len(each) if isinstance(each, (bytes, bytearray)) else int(each.nbytes)
        return {(str(each.device), each.data_ptr(), nbytes) if hasattr(each, "data_ptr") else id(each): nbytes}
    except (RuntimeError, AttributeError, TypeError, NotImplementedError):
        return {}  # A tensor without memory; `save` refuses it by name.


class Rates:
    """The cost of each part's saves: (bytes, seconds), in memory and in a file next to the generations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saves: dict[str, deque[tuple[int, float]]] = {}
        try:
            for name, saves in _read(path).items():
                self._saves[name] = deque(saves, SAVES_MAX)
        except FileNotFoundError:
            pass
        except (CheckpointError, OSError) as error:
            log.warning("%s: the times of earlier saves are unknown, so the next save or drill() measures them "
                        "anew: %s",
                        path, error)

    def note(self, name: str, nbytes: int, seconds: float) -> None:
        saves = self._saves.pop(name, deque(maxlen=SAVES_MAX))  # Moves the name to the end: the latest saved are last.
        saves.append((nbytes, min(max(seconds, 0.0), SECONDS_MAX)))
        self._saves[name] = saves

    def seconds(self, name: str, nbytes: int) -> float | None:
        """None if no save of this part was measured."""
        return max((seconds * max(nbytes, SMALL) / max(before, SMALL)
                    for before, seconds in self._saves.get(name, ())), default=None)

    def keep(self) -> None:
        """Writes them for the next process. A failure is logged, and only loses these measurements."""
        newest = {name: list(saves) for name, saves in list(self._saves.items())[-PARTS_MAX:]}
        try:
            publish_note(self._path, {"penstock.rates": VERSION, "parts": newest})
        except OSError as error:
            log.warning("the time of this save could not be kept for the next process: %s", error)


def _read(path: Path) -> dict[str, list[tuple[int, float]]]:
    said = read_note(path)
    parts = said.get("parts")
    if said.get("penstock.rates") != VERSION or not isinstance(parts, dict):
        raise CheckpointError(f"{path}: it is of another version, or damaged")
    check_names(parts)
    for saves in parts.values():
        if not isinstance(saves, list) or len(saves) > SAVES_MAX or not all(_is_save(save) for save in saves):
            raise CheckpointError(f"{path}: the entry of a part is no list of up to {SAVES_MAX} [bytes, seconds]")
    return {name: [(nbytes, float(seconds)) for nbytes, seconds in saves] for name, saves in parts.items()}


def _is_save(said: Any) -> bool:
    return (isinstance(said, list) and len(said) == 2 and type(said[0]) is int and 0 <= said[0] <= BYTES_MAX
            and type(said[1]) in (int, float) and 0 <= said[1] <= SECONDS_MAX)


@dataclass(frozen=True)
class PartForecast:
    """The forecast of one part. seconds: None if no save of it was measured. fits: None if unknown."""

    name: str
    nbytes: int
    seconds: float | None
    fits: bool | None


@dataclass(frozen=True)
class Forecast:
    """Which parts fit into a budget of seconds, in order of worth; a part that does not fit leaves its time to the
    next."""

    budget_s: float
    parts: tuple[PartForecast, ...]

    @property
    def holds(self) -> bool | None:
        """Whether all parts fit; None if unknown."""
        fits = [part.fits for part in self.parts]
        return False if False in fits else None if None in fits else True

    def __str__(self) -> str:
        fit, over, unknown = ([part for part in self.parts if part.fits is fits] for fits in (True, False, None))
        said = [f"{_listed(fit)} fit{'s' if len(fit) == 1 else ''} into {self.budget_s:g} s"] if fit else []
        if over:
            needed = math.ceil(sum(part.seconds or 0 for part in self.parts))
            said.append(f"{_listed(over)} {'does' if len(over) == 1 else 'do'} not fit into {self.budget_s:g} s: make "
                        f"the state shorter, save to a faster drive, or have a budget_s of {needed}"
                        + (" or more" if unknown else ""))
        if unknown:
            said.append(f"whether {_listed(unknown)} can be saved in {self.budget_s:g} s is unknown: not each part was "
                        "saved here before. drill() measures it")
        return "; ".join(said)


def _listed(parts: list[PartForecast]) -> str:
    return ", ".join(f"{part.name} ({format_bytes(part.nbytes)}, "
                     f"{'unknown' if part.seconds is None else f'{part.seconds:.1f} s'})" for part in parts)


def format_bytes(nbytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"


def forecast(budget_s: float, parts: Mapping[str, tuple[int, float | None]]) -> Forecast:
    """parts: bytes and seconds of each, by name. After a part without measurements, no part surely fits."""
    left, is_known, found = budget_s, True, []
    for name, (nbytes, seconds) in parts.items():
        fits = None if seconds is None else False if seconds > left else True if is_known else None
        if fits:
            left -= seconds or 0
        is_known = is_known and seconds is not None
        found.append(PartForecast(name, nbytes, seconds, fits))
    return Forecast(budget_s, tuple(found))
