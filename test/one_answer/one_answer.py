# SPDX-License-Identifier: Apache-2.0
"""Asks every program that tells of a machine about each captured machine, with several settings, and compares.

  one_answer.py TOOLS MACHINES [--package FOLDER] [--machine NAME]...
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys

import asking
from said import Contradiction, contradictions

Found = dict[tuple[str, str], list[Contradiction]]  # By machine and setting.


def interview(programs: asking.Programs, setting: asking.Setting, machines: list[asking.Machine]) -> Found:
    with asking.with_cufile(machines, setting) as asked:
        interviews = [asking.Interview(programs, setting, machine) for machine in asked]
        for one in interviews:
            one.hold()
        asking.hear_python(programs, setting, interviews)
        asking.hear_verify(programs, setting, interviews)
        asking.hear_choose(programs, setting, interviews)
    return {(one.machine.name, setting.name): contradictions(one.answers) for one in interviews}


def pairs_of(kinds: set[str]) -> set[tuple[str, str]]:
    """The programs that contradict each other; beside one that contradicts the truth stands the kind of that."""
    pairs = set()
    for kind in kinds:
        aspect, names = kind.split(": ")
        one, other = names.split(", ") if ", " in names else (names, aspect)
        pairs |= {(one, other), (other, one)}
    return pairs


def print_table(found: Found, settings: list[str]) -> None:
    pairs = collections.Counter(pair for contradicted in found.values()
                                for pair in pairs_of({one.kind for one in contradicted}))
    mouths = sorted({one for one, _ in pairs})
    print("Machines with a setting on which two programs contradict each other")
    for number, mouth in enumerate(mouths):
        row = "".join(f"{pairs[mouth, other] or '.':>5}" for other in mouths[:number + 1])
        print(f"{number + 1:>3} {mouth:<24}{row}")
    print(" " * 28 + "".join(f"{number + 1:>5}" for number in range(len(mouths))))
    machines = {machine for machine, _ in found}
    for setting in settings:
        count = sum(bool(found[machine, setting]) for machine in machines)
        print(f"{setting:<28}{count:>5} of {len(machines)} machines")
    for aspect in ("danger", "unread", "state", "bytes", "reason"):
        count = sum(any(one.kind.startswith(aspect) for one in contradicted) for contradicted in found.values())
        print(f"by {aspect:<25}{count:>5} of {len(found)} machines with a setting")
    once = sum(any(found[machine, setting] for setting in settings) for machine in machines)
    print(f"{'any setting':<28}{once:>5} of {len(machines)} machines, "
          f"{sum(map(bool, found.values()))} of {len(found)} machines with a setting")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("machines", type=pathlib.Path)
    parser.add_argument("--machine", action="append", default=[], help="this machine alone")
    parser.add_argument("--package", type=pathlib.Path, help="where the Python package lies, if it was built")
    asked = parser.parse_args()
    programs = asking.Programs(asked.tools.resolve(), asked.package)
    roots = [root for root in sorted(asked.machines.resolve().iterdir())
             if not asked.machine or root.name in asked.machine]
    machines = [asking.machine_of(programs, root) for root in roots]
    found: Found = {}
    for setting in asking.SETTINGS_ASKED:
        found.update(interview(programs, setting, machines))
    wrong = {where: contradicted for where, contradicted in sorted(found.items()) if contradicted}
    for (machine, setting), contradicted in wrong.items():
        print(*(f"{machine}, {setting}: {one.text}" for one in contradicted), sep="\n")
    if wrong:
        print_table(found, [setting.name for setting in asking.SETTINGS_ASKED])
    print(f"{len(found) - len(wrong)} of {len(found)} machines with a setting have one answer")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
