# SPDX-License-Identifier: Apache-2.0

"""Kills a random rank at a random moment of a save, again and again: each next job loads the newest whole checkpoint,
finds it one of the two that there can be, and saves on from there. As often a process is killed that links what did not
change, half of them beside a trainer, and each next one verifies all that is there. Then a process that saves by itself
is interrupted, each way to save: by Ctrl-C, by SIGTERM whose handler exits, by kill -9, by errors of the drive, by an
exception at each line. Counted is what left neither the checkpoint before nor the new one.

    PENSTOCK_STRESS_KILLS=300 PENSTOCK_STRESS_INTERRUPTIONS=1000 ./dev stress
    PYTHONPATH=build/dev/python python python/tests/stress_checkpoints.py --kills 300 --seed 11
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

from checkpoint_job import go_on
from interruptions import WAYS, Calls, Points, Tally, again, at_each_point, by_ctrl_c, by_process

import penstock
from ranks import start

WORLDS = (2, 3, 4)
SAVES = (2, 3, 4)   # During which save of a job the kill comes,
SHARE_MAX = 1.2     # and after how much, at most, of what the one before took.
LINKING = ("changed only", "overlapped, changed only")  # Ways to save what changed.


def numbers(lines, what):
    return [int(line.removeprefix(f"{what} ")) for line in lines if line.startswith(f"{what} ")]


def job_that_is_killed(root, keep, chance):
    """What all ranks told, before and after one of them was killed."""
    ranks = start(chance.choice(WORLDS), root.parent, (go_on, root, keep))
    lines, begun, saves = [], [], chance.choice(SAVES)
    while len(begun) < saves:
        lines.append(ranks[0].next())
        assert not lines[-1].startswith("failed"), lines
        begun += [time.monotonic()] if lines[-1].startswith("saving") else []
    seconds = SHARE_MAX * (begun[-1] - begun[-2])
    time.sleep(chance.random() * seconds)
    chance.choice(ranks).process.kill()
    if chance.random() < 0.5:  # Or the others notice by themselves, and end.
        time.sleep(chance.random() * seconds)
        for rank in ranks:
            rank.process.kill()
    for rank in ranks:
        lines += rank.rest()
    return lines


def kill_again_and_again(folder, kills, seed, say=lambda line: None):
    """How often the last save had not ended, and how often it was there all the same. Raises AssertionError, with what
    ranks told, where a job did not find what the one before left."""
    chance = random.Random(seed)
    allowed, open_ends, newer = {}, 0, 0
    for kill in range(1, kills + 1):
        keep = 1 + kill % 2  # To one folder, and to one for each save.
        root = folder / f"keep-{keep}"
        root.mkdir(exist_ok=True)
        lines = job_that_is_killed(root, keep, chance)
        found, wanted = numbers(lines, "loaded"), allowed.get(keep, {0})
        begun, ended = numbers(lines, "saving"), numbers(lines, "saved")
        where = f"kill {kill} of seed {seed}: {sorted(wanted)} could be there, and the ranks told {lines}"
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


def kill_what_links(folder, kills, seed, say):
    """Each way half of them. What was lost."""
    lost = []
    for number, way in enumerate(LINKING):
        root, tally = folder / way, Tally()
        root.mkdir()
        share = (kills + number) // len(LINKING)
        in_child(lambda: by_process(way, root, random.Random(seed), share, tally, signal.SIGKILL), tally)
        say(f"{way}: {tally.tries} saves of what changed were killed, {len(tally.lost)} left neither checkpoint")
        shutil.rmtree(root)
        lost += tally.lost
    return lost


def interrupt_again_and_again(folder, tries, chance, say):
    """Of each kind so many. What was lost."""
    share, lost = -(-tries // len(WAYS)), []
    kinds = {"Ctrl-C": lambda way, root, tally: by_ctrl_c(way, root, chance, share, tally),
             "SIGTERM": lambda way, root, tally: by_process(way, root, chance, share, tally, signal.SIGTERM),
             "kill -9": lambda way, root, tally: by_process(way, root, chance, share, tally, signal.SIGKILL),
             "EIO": lambda way, root, tally: errors_of_the_drive(way, root, share, tally),
             "lines": lambda way, root, tally: at_each_point(way, root, lambda at: Points(at, SystemExit), tally,
                                                             tries=share)}
    if "fail_calls" not in os.environ.get("LD_PRELOAD", ""):
        say("fail_calls is not preloaded: without errors of the drive")
        del kinds["EIO"]
    for kind, interrupt in kinds.items():
        tries, lost_by = 0, []
        for way in WAYS:
            tally, root = Tally(), folder / f"{kind} {way}"
            root.mkdir()
            in_child(lambda: interrupt(way, root, tally), tally)
            tries, lost_by = tries + tally.tries, lost_by + tally.lost
            shutil.rmtree(root)
        say(f"{kind}: {tries} saves interrupted, {len(lost_by)} left neither the old checkpoint nor the new one")
        lost += lost_by
    return lost


def errors_of_the_drive(way, root, tries, tally):
    while tally.tries < tries:
        for is_done in (False, True):
            again(WAYS[way](root), 1)
            at_each_point(way, root, lambda at, is_done=is_done: Calls(at, is_done=is_done), tally)


def in_child(work, tally):
    """For a session must not be there before others are forked."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            tally.lost.append(traceback.format_exc())
        with open(writer, "w") as lines:
            json.dump([tally.tries, tally.lost], lines)
        os._exit(0)
    os.close(writer)
    with open(reader) as lines:
        tally.tries, tally.lost = json.load(lines)
    os.waitpid(child, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--interruptions", type=int, default=os.environ.get("PENSTOCK_STRESS_INTERRUPTIONS", 1000),
                        help="how many of each kind (default: PENSTOCK_STRESS_INTERRUPTIONS, or 1000)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000,
                        help="of all decisions but when the system does what (default: another each time)")
    arguments = parser.parse_args()
    say = partial(print, flush=True)
    say(f"seed {arguments.seed}")
    lost = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            if arguments.kills > 0:
                lost = kill_what_links(Path(folder), arguments.kills, arguments.seed, say)
                assert not lost, lost[:20]
                open_ends, newer = kill_again_and_again(Path(folder), arguments.kills, arguments.seed, say)
                say(f"{arguments.kills} kills: each time the newest whole checkpoint was there. {open_ends} saves had "
                    f"not ended, of which {newer} were whole")
                os.execve(sys.executable, [sys.executable, "-B", __file__, "--kills", "0", "--seed",
                                           f"{arguments.seed}", "--interruptions", f"{arguments.interruptions}"],
                          with_calls_that_fail())
            if arguments.interruptions > 0:
                lost = interrupt_again_and_again(Path(folder), arguments.interruptions,
                                                 random.Random(arguments.seed), say)
    except AssertionError as error:
        sys.exit(f"stress_checkpoints: {error}")
    if lost:
        sys.exit("\n".join(["stress_checkpoints: what was lost:", *lost[:20]]))


def with_calls_that_fail():
    """The environment, without io_uring, so that every call can be made to fail."""
    library = Path(penstock.__file__).parents[1] / "tests" / "libpenstock_fail_calls.so"
    return {**os.environ, "PENSTOCK_IO_URING": "off", **({"LD_PRELOAD": str(library)} if library.exists() else {})}


if __name__ == "__main__":
    main()
