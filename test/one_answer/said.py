# SPDX-License-Identifier: Apache-2.0
"""What one program says of a machine, as values that can be compared with what another says.

A statement is about a path at a place (a mount point; "" is the machine as a whole) and names the values that its
words leave possible. Two programs contradict each other where no value is left that both leave possible.
"""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass, field, replace
from typing import Collection, Iterable

DIRECT = ("p2pdma", "nvfs", "vendor")
HOST = ("pagecache", "bounce", "host", "userspace")
BY_NVIDIA_FS = "nvidia-fs"  # Said of nvfs and vendor together.
STATES = ("closed", "unknown", "off", "open")  # A machine's state is the best of its places', in this order.
NOT_OPEN = frozenset(STATES) - {"open"}
NOWHERE = "none"  # Where nothing can move bytes, or the library does not open.
DIRECTLY = frozenset(DIRECT)
BY_HOST = frozenset(HOST)
IN_PART = ("explain",)  # Asked about one place alone, which says nothing of a machine.
SETTINGS = "the settings"  # Speaks for what the test itself has set.


@dataclass(frozen=True)
class Said:
    mouth: str
    place: str
    path: str  # "" where the statement is about all bytes of the place.
    aspect: str  # "state", "reason" or "bytes"
    values: frozenset[str]


@dataclass(frozen=True)
class Danger:
    """A path at a place may corrupt bytes, or at "" on the whole machine, as one of the programs knows."""
    place: str
    path: str


@dataclass
class Answers:
    """All that was said of one machine with one setting."""
    said: list[Said] = field(default_factory=list)
    dangers: set[Danger] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)  # Programs that gave no answer, or one that could not be read.
    # The name of a path's reason by the sentence or the need's code that another program has for it.
    reason_names: dict[tuple[str, str], str] = field(default_factory=dict)

    def say(self, mouth: str, place: str, path: str, aspect: str, values: Collection[str]) -> None:
        if not values:
            raise ValueError(f"{mouth} says nothing of {path} at {place}")
        self.said.append(Said(mouth, place, path, aspect, frozenset(values)))

    def state(self, mouth: str, place: str, path: str, values: Collection[str], reason: str = "") -> None:
        self.say(mouth, place, path, "state", values)
        if reason:
            self.say(mouth, place, path, "reason", {reason})


@dataclass(frozen=True)
class Contradiction:
    kind: str  # "state: check, explain"
    text: str


def best(states: Iterable[frozenset[str]]) -> frozenset[str]:
    """The states that the best of several things may be in."""
    possible: frozenset[str] = frozenset()
    for one in states:
        pairs = itertools.product(possible, one)
        possible = frozenset(max(pair, key=STATES.index) for pair in pairs) if possible else one
    return possible


def _grouped(said: Iterable[Said], aspect: str) -> dict[tuple[str, str, str], frozenset[str]]:
    """By mouth, place and path. What one program says twice must hold both times: the comparison finds where not."""
    return {(one.mouth, one.place, one.path): one.values for one in said if one.aspect == aspect}


def _of_nvidia_fs(said: list[Said]) -> list[Said]:
    states, reasons = _grouped(said, "state"), _grouped(said, "reason")
    derived = []
    for mouth, place in sorted({(mouth, place) for mouth, place, path in states if path == "nvfs"}):
        both = [(mouth, place, "nvfs"), (mouth, place, "vendor")]
        if not set(both) <= states.keys():
            continue
        derived.append(Said(mouth, place, BY_NVIDIA_FS, "state", best(states[one] for one in both)))
        if set(both) <= reasons.keys():
            derived.append(Said(mouth, place, BY_NVIDIA_FS, "reason", reasons[both[0]] | reasons[both[1]]))
    return derived


def _of_machine(said: list[Said]) -> list[Said]:
    """What a program says of the best of the places that it speaks of."""
    places: dict[tuple[str, str], dict[str, frozenset[str]]] = collections.defaultdict(dict)
    spoken_of: dict[str, set[str]] = collections.defaultdict(set)
    for (mouth, place, path), values in _grouped(said, "state").items():
        if mouth not in IN_PART and place.startswith("/"):
            places[mouth, path][place] = values
            spoken_of[mouth].add(place)
    reasons = _grouped(said, "reason")
    derived = []
    for (mouth, path), by_place in places.items():
        if len(by_place) < len(spoken_of[mouth]):
            continue
        top = best(by_place.values())
        derived.append(Said(mouth, "", path, "state", top))
        of_best = [reasons.get((mouth, place, path)) for place, values in by_place.items() if values & top]
        if "open" not in top and all(of_best):
            derived.append(Said(mouth, "", path, "reason", frozenset().union(*[one for one in of_best if one])))
    return derived


def _bytes_by_states(said: list[Said]) -> list[Said]:
    """Bytes take a direct path where one is open, and none where all of them are told and not one may be open."""
    by_place: dict[tuple[str, str], dict[str, frozenset[str]]] = collections.defaultdict(dict)
    for (mouth, place, path), values in _grouped(said, "state").items():
        by_place[mouth, place][path] = values
    derived = []
    for (mouth, place), states in by_place.items():
        opened = {path for path in (*DIRECT, BY_NVIDIA_FS) if states.get(path) == {"open"}}
        knows_all = "p2pdma" in states and BY_NVIDIA_FS in states
        if opened:
            derived.append(Said(mouth, place, "", "bytes", DIRECTLY))
        elif knows_all and all(states[path] <= {"closed", "off"} for path in ("p2pdma", BY_NVIDIA_FS)):
            derived.append(Said(mouth, place, "", "bytes", BY_HOST | {NOWHERE}))
    return derived


def _rank(way: str) -> int:
    return 2 if way in DIRECTLY else 1 if way in BY_HOST else 0


def _bytes_of_machine(said: list[Said]) -> list[Said]:
    """What bytes take in the best place: a way that one place may have, where no other must have a better one."""
    places: dict[str, list[frozenset[str]]] = collections.defaultdict(list)
    for one in said:
        if one.aspect == "bytes" and one.place.startswith("/") and one.mouth not in IN_PART:
            places[one.mouth].append(one.values)
    derived = []
    for mouth, values in places.items():
        least = max(min(map(_rank, one)) for one in values)
        ways = {way for one in values for way in one if _rank(way) >= least}
        derived.append(Said(mouth, "", "", "bytes", frozenset(ways)))
    return derived


def completed(answers: Answers) -> list[Said]:
    """All that was said, and what follows from it."""
    whole = _with_reason_names(answers)
    whole += _of_nvidia_fs(whole)
    whole += _of_machine(whole)
    whole += _of_nvidia_fs(whole)
    whole += _bytes_by_states(whole)
    return list(dict.fromkeys(whole + _bytes_of_machine(whole)))


def _with_reason_names(answers: Answers) -> list[Said]:
    """Reasons by their names, so that a name, a sentence and a code can be compared."""
    def named(one: Said) -> Said:
        if one.aspect != "reason":
            return one
        return replace(one, values=frozenset(answers.reason_names.get((one.path, word), word) for word in one.values))
    return [named(one) for one in answers.said]


def _dangers_told_as_open(answers: Answers, said: list[Said]) -> list[Contradiction]:
    dangers = set(answers.dangers)
    for place in {danger.place for danger in dangers}:
        if {Danger(place, "nvfs"), Danger(place, "vendor")} <= dangers:
            dangers.add(Danger(place, BY_NVIDIA_FS))
    found = []
    for one in said:
        is_dangerous = {Danger("", one.path), Danger(one.place, one.path)} & dangers
        if one.aspect == "state" and one.values == {"open"} and is_dangerous:
            found.append(Contradiction(f"danger: {one.mouth}", f"{one.mouth} calls {one.path} open at "
                                       f"{one.place or 'the machine'}, where it may corrupt bytes"))
    return found


def contradictions(answers: Answers) -> list[Contradiction]:
    said = completed(answers)
    found = [Contradiction(f"unread: {mouth}", f"{mouth} gave no answer that can be read") for mouth in answers.unread]
    found += _dangers_told_as_open(answers, said)
    by_subject: dict[tuple[str, str, str], list[Said]] = collections.defaultdict(list)
    for one in said:
        by_subject[one.place, one.path, one.aspect].append(one)
    for (place, path, aspect), all_of_it in by_subject.items():
        for one, other in itertools.combinations(all_of_it, 2):
            if one.values & other.values:
                continue
            first, second = sorted((one, other), key=lambda each: each.mouth)
            words = [f"{each.mouth}: {' or '.join(sorted(each.values))}" for each in (first, second)]
            found.append(Contradiction(f"{aspect}: {first.mouth}, {second.mouth}",
                                       f"{place or 'the machine'} {path} {aspect}: {'; '.join(words)}"))
    return found
