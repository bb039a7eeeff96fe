#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Trains on a file of tokens, saves as it goes, and resumes where it was stopped: train_tokens.py FOLDER [EPOCHS]

Run it, stop it, and run it again. The tokens, the order of the batches and the checkpoints are in FOLDER.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from penstock import checkpoint, data

folder, epochs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2
tokens, saves, device = folder / "tokens.bin", folder / "saves", "cuda" if torch.cuda.is_available() else "cpu"
saves.mkdir(parents=True, exist_ok=True)
if not tokens.exists():
    np.random.default_rng(1).integers(0, 1000, 64 * 1024, dtype=np.uint16).tofile(tokens)

model = torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 1000)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
index = data.RecordIndex.tokens([tokens], sequence_length=128)
with data.Prefetcher(index, batch_size=64, device=device, seed=1) as batches, checkpoint.Saver() as saver:
    first = 0
    if (newest := checkpoint.latest(saves)) is not None:
        state = checkpoint.load(newest, device=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
        print(f"resumed behind epoch {state['epoch']}")
    for epoch in range(first, epochs):
        batches.set_epoch(epoch)
        for batch in batches:
            loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten().long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        saving = saver.save(state, saves / f"epoch-{epoch:04}")
        print(f"epoch {epoch}: loss {loss.item():.3f}; read {batches.progress}")
        print(f"saved {saving.result()}")
checkpoint.retain(saves, keep=2)
