# SPDX-License-Identifier: Apache-2.0

"""A job of Transformers' Trainer with dropout, momentum, a schedule and shuffled data: python trainer_job.py FOLDER
STAGING DIES_AT. At the step DIES_AT (0: none) it kills itself. At its end it prints the step that it began from, and a
hash of its weights."""

import hashlib
import os
import signal
import sys

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from penstock.integrations.trainer import SaverCallback
from tensors import raw

STEPS, SAVE_STEPS, KEPT = 20, 4, 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3),
                                          torch.nn.Linear(16, 1))

    def forward(self, values, labels):
        found = self.layers(values)
        return {"loss": torch.nn.functional.mse_loss(found.squeeze(-1), labels), "logits": found}


class Dying(TrainerCallback):
    def __init__(self, dies_at):
        self.dies_at, self.began_at = dies_at, None

    def on_step_begin(self, args, state, control, **_):
        self.began_at = state.global_step if self.began_at is None else self.began_at
        if self.dies_at and state.global_step == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def data():
    generator = torch.Generator().manual_seed(5)
    return [{"values": torch.randn(8, generator=generator), "labels": torch.randn((), generator=generator)}
            for _ in range(48)]  # Six batches: it dies in the middle of an epoch.


def arguments(folder, **more):
    return TrainingArguments(**{
        "output_dir": str(folder), "max_steps": STEPS, "save_strategy": "steps", "save_steps": SAVE_STEPS,
        "save_total_limit": KEPT, "per_device_train_batch_size": 8, "learning_rate": 0.05, "use_cpu": True,
        "report_to": [], "disable_tqdm": True, "seed": 11, **more})


def main(folder, staging, dies_at):
    torch.manual_seed(3)
    saving, dying = SaverCallback(staging), Dying(dies_at)
    trainer = Trainer(Model(), arguments(folder), train_dataset=data(), callbacks=[saving, dying])
    saving.train(trainer)
    weights = b"".join(raw(each) for each in trainer.model.state_dict().values())
    print(f"from {dying.began_at} to {trainer.state.global_step}: {hashlib.sha256(weights).hexdigest()}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
