# SPDX-License-Identifier: Apache-2.0

"""A trainer as it runs on spot machines: python preemption_job.py ROOT. It says each step, and goes on from the newest
generation. Told to go, it saves and exits with 143."""

import os
import signal
import sys

import torch

from penstock.checkpoint.preemption import Guard, resume


def train(root):
    model = torch.nn.Linear(8, 4, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    step = 0
    found = resume(root, need=["model", "optimizer", "loop"])
    if found is not None:
        model.load_state_dict(found.load("model"))
        optimizer.load_state_dict(found.load("optimizer"))
        step = found.load("loop")["step"]
        print("resumed", step, float(model.weight.detach().double().sum()), flush=True)
    with Guard(root, budget_s=60) as guard:
        while True:
            optimizer.zero_grad()
            model(torch.ones(1, 8)).square().sum().backward()
            optimizer.step()
            step += 1
            print("step", step, flush=True)
            if guard.agree():
                report = guard.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                     "loop": {"step": step}})
                print("left", report.notice.source, step, float(model.weight.detach().double().sum()),
                      ",".join(report.saved), flush=True)
                sys.exit(143)


def save_forever(root, first, tell):
    """Generations of which each byte is of one number, until it is killed. tell: gets the number of each that is
    complete."""
    import numpy

    with Guard(root, budget_s=600) as guard:
        tell(os.getpid())
        for number in range(first, first + 1_000_000):
            state = {name: {"w": numpy.full(size, number, "int32")} for name, size in
                     (("model", 1 << 20), ("optimizer", 1 << 19), ("loop", 1))}
            if not guard.save(state).missing:
                tell(number)


def stop_together(rank, world, rendezvous, root, every, tell):
    """A rank that computes with the others at each step: who leaves alone hangs them. Rank 1 alone is signalled."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    with Guard(root, budget_s=60) as guard:
        for step in range(1, 1_000_000):
            torch.distributed.all_reduce(torch.ones(10))
            if rank == 1 and step == 7:
                signal.raise_signal(signal.SIGTERM)
            if guard.agree(every):
                break
        if rank == 0:
            tell(guard.save({"model": {"w": torch.full((10,), float(step))}}).saved)
        torch.distributed.barrier()
        tell((step, guard.notice.source, 0 < guard.seconds_left <= 60))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    train(sys.argv[1])
