# SPDX-License-Identifier: Apache-2.0

"""Kills a random rank at a random moment of a save, again and again: each next job loads the newest whole checkpoint,
finds it one of the two that there can be, and saves on from there.

    PENSTOCK_STRESS_KILLS=300 ./dev stress
    PYTHONPATH=build/dev/python python python/tests/stress_checkpoints.py --kills 300 --seed 11
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from checkpoint_job import go_on
from ranks import start

WORLDS = (2, 3, 4)
SAVES = (2, 3, 4)   # During which save of a job the kill comes,
SHARE_MAX = 1.2     # and after how much, at most, of what the one before took.


def numbers(told, what):
    return [int(line.removeprefix(f"{what} ")) for line in told if line.startswith(f"{what} ")]


def job_that_is_killed(root, keep, chance):
    """What all ranks told, before and after one of them was killed."""
    ranks = start(chance.choice(WORLDS), root.parent, (go_on, root, keep))
    told, begun, saves = [], [], chance.choice(SAVES)
    while len(begun) < saves:
        told.append(ranks[0].next())
        assert not told[-1].startswith("failed"), told
        begun += [time.monotonic()] if told[-1].startswith("saving") else []
    seconds = SHARE_MAX * (begun[-1] - begun[-2])
    time.sleep(chance.random() * seconds)
    chance.choice(ranks).process.kill()
    if chance.random() < 0.5:  # Or the others notice by themselves, and end.
        time.sleep(chance.random() * seconds)
        for rank in ranks:
            rank.process.kill()
    for rank in ranks:
        told += rank.rest()
    return told


def kill_again_and_again(folder, kills, seed, say=lambda line: None):
    """How often the last save had not ended, and how often it was there all the same. Raises AssertionError, with what
    ranks told, where a job did not find what the one before left."""
    chance = random.Random(seed)
    allowed, open_ends, newer = {}, 0, 0
    for kill in range(1, kills + 1):
        keep = 1 + kill % 2  # To one folder, and to one for each save.
        root = folder / f"keep-{keep}"
        root.mkdir(exist_ok=True)
        told = job_that_is_killed(root, keep, chance)
        found, wanted = numbers(told, "loaded"), allowed.get(keep, {0})
        begun, ended = numbers(told, "saving"), numbers(told, "saved")
        where = f"kill {kill} of seed {seed}: {sorted(wanted)} could be there, and the ranks told {told}"
        assert set(found) <= wanted and (found or 0 in wanted), where
        assert begun, where
        if len(wanted) == 2:
            open_ends, newer = open_ends + 1, newer + (found[:1] == [max(wanted)])
        newest = max(ended or found or [0])
        allowed[keep] = set(range(newest, max(begun) + 1))
        assert len(allowed[keep]) <= 2, where
        if kill % 100 == 0:
            say(f"{kill} kills, and the newest whole checkpoint was there after each of them")
    return open_ends, newer


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000,
                        help="of all decisions but when the system does what (default: another each time)")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            open_ends, newer = kill_again_and_again(Path(folder), arguments.kills, arguments.seed,
                                                    lambda line: print(line, flush=True))
    except AssertionError as error:
        sys.exit(f"stress_checkpoints: {error}")
    print(f"{arguments.kills} kills: each time the newest whole checkpoint was there. {open_ends} saves had not ended, "
          f"of which {newer} were whole")


if __name__ == "__main__":
    main()
