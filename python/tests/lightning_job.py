# SPDX-License-Identifier: Apache-2.0

"""A job of Lightning with dropout, momentum and a schedule: python lightning_job.py FOLDER WAY STAGING DIES_AT. At the
step DIES_AT (0: none) it kills itself. At its end it prints the step that it began from, and a hash of its weights."""

import hashlib
import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from penstock import checkpoint
from penstock.integrations.lightning import SaverCallback, SaverIO
from tensors import raw

STEPS, SAVE_STEPS = 20, 4


class Model(pl.LightningModule):
    """Of each step its number makes batch and dropout: Lightning itself keeps no random state."""

    def __init__(self, dies_at, seeds):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3),
                                          torch.nn.Linear(16, 1))
        self.dies_at, self.seeds, self.began_at = dies_at, seeds, None

    def training_step(self, batch, number):
        self.began_at = self.global_step if self.began_at is None else self.began_at
        if self.dies_at and self.global_step == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.seeds:
            torch.manual_seed(self.global_step)
        return self.layers(torch.randn(8, 8)).square().mean()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9), "interval": "step"}]


def trainer_of(folder, way, staging, **more):
    said = {"max_steps": STEPS, "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
            "enable_model_summary": False, "default_root_dir": folder, **more}
    if way == "callback":
        return pl.Trainer(callbacks=[SaverCallback(folder, SAVE_STEPS, 2, staging)], enable_checkpointing=False, **said)
    keeping = ModelCheckpoint(folder, "{step}", every_n_train_steps=SAVE_STEPS, save_top_k=2, monitor="step",
                              mode="max")
    return pl.Trainer(plugins=[SaverIO(staging)], callbacks=[keeping], **said)


def main(folder, way, staging, dies_at):
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.manual_seed(3)
    model = Model(dies_at, seeds=way == "io")
    newest = checkpoint.latest(folder) if way == "io" else None
    trainer = trainer_of(folder, way, staging)
    trainer.fit(model, torch.utils.data.DataLoader(torch.zeros(1000, 1)), ckpt_path=newest)
    weights = b"".join(raw(each) for each in model.state_dict().values())
    print(f"from {model.began_at} to {trainer.global_step}: {hashlib.sha256(weights).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
