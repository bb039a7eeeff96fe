# SPDX-License-Identifier: Apache-2.0

"""Ranks of torch.distributed: each a process that was forked, with steps to do, and what it tells."""

import contextlib
import itertools
import multiprocessing
import os
import traceback
import warnings
from datetime import timedelta

import torch
import torch._dynamo  # A rank would import it by itself, at its first tensor of several ranks, for a second.
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from waiting import SECONDS_MAX

rendezvous_numbers = itertools.count()


def run_rank(rank, world, rendezvous, steps, tell):
    """steps: (what to call, its arguments), one after the other, with the ranks' mesh, the number of the step and what
    tells: that gets what the step has to say."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # Rarely, gloo does not notice that a rank was killed, and the others wait for it.
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world,
                            timeout=timedelta(seconds=SECONDS_MAX / 2))
    mesh = init_device_mesh("cpu", (world,))
    try:
        for number, (step, *arguments) in enumerate(steps, 1):
            step(mesh, number, *arguments, tell)
    except BaseException:
        tell(f"failed: {traceback.format_exc()}")
        raise SystemExit(1) from None


class Rank:
    def __init__(self, rank, world, rendezvous, steps):
        context = multiprocessing.get_context("fork")
        self.told, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=run_rank, args=(rank, world, rendezvous, steps, sender.send))
        self.process.start()
        sender.close()

    def next(self):
        assert self.told.poll(SECONDS_MAX), "the rank says nothing"
        return self.told.recv()

    def rest(self):
        """All that it says until it ends."""
        messages = []
        with contextlib.suppress(EOFError):
            while self.told.poll(SECONDS_MAX):
                messages.append(self.told.recv())
        self.process.join(SECONDS_MAX)
        assert self.process.exitcode is not None, f"the rank neither says anything nor ends; it said {messages}"
        return messages


def start(world, folder, *steps):
    """folder: where the ranks meet."""
    rendezvous = folder / f"ranks-{os.getpid()}-{next(rendezvous_numbers)}"
    return [Rank(rank, world, rendezvous, steps) for rank in range(world)]


def run(world, folder, *steps):
    """What each rank told."""
    ranks = start(world, folder, *steps)
    messages = [rank.rest() for rank in ranks]
    assert [rank.process.exitcode for rank in ranks] == [0] * world, messages
    return messages
