# SPDX-License-Identifier: Apache-2.0

"""A job of DeepSpeed, by ZeRO 1, on the CPU: python deepspeed_job.py FOLDER DIES_AT. It saves at every fourth step, and
at the step DIES_AT (0: none) it kills itself. At its end it prints the step that it began from, and a hash of its
weights."""

import hashlib
import os
import signal
import socket
import sys

with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}

import deepspeed
import torch

from penstock.integrations.deepspeed import CheckpointEngine
from tensors import raw

STEPS, SAVE_STEPS = 20, 4
CONFIG = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 1},
          "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}, "bf16": {"enabled": True}}


def main(folder, dies_at):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    engine.checkpoint_engine = CheckpointEngine()
    engine.load_checkpoint(folder)
    began_at = engine.global_steps
    while engine.global_steps < STEPS:
        if dies_at and engine.global_steps == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        torch.manual_seed(engine.global_steps)
        engine.backward(engine(torch.randn(8, 8).bfloat16()).float().square().mean())
        engine.step()
        if engine.global_steps % SAVE_STEPS == 0:
            engine.save_checkpoint(folder)
    weights = b"".join(raw(each) for each in engine.module.state_dict().values())
    print(f"from {began_at} to {engine.global_steps}: {hashlib.sha256(weights).hexdigest()}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
