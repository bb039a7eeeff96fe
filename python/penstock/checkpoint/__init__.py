# SPDX-License-Identifier: Apache-2.0

"""Atomic checkpoints with checksums: a crash leaves the old one or the new one complete.

    from penstock import checkpoint
    checkpoint.save({"model": model.state_dict(), "step": 100}, "checkpoints/step-100")
    newest = checkpoint.latest("checkpoints")
    if newest is not None:
        state = checkpoint.load(newest, device="cuda")

With torch.distributed.checkpoint: `dcp.save(state, storage_writer=checkpoint.Writer(folder))` and
`dcp.load(state, storage_reader=checkpoint.Reader(folder))`, in `penstock.checkpoint.distributed`.

A checkpoint is a folder with checkpoint.json and data files; the format is in docs/reference/checkpoint-format.md.
"""

from penstock.checkpoint.costs import SaveReport
from penstock.checkpoint.draining import drain
from penstock.checkpoint.layout import CheckpointError
from penstock.checkpoint.removal import remove
from penstock.checkpoint.retention import latest, retain
from penstock.checkpoint.staging import Saver, Saving
from penstock.checkpoint.starting import Links
from penstock.checkpoint.states import load, load_into, save
from penstock.checkpoint.verifying import Verified, verify

__all__ = [
    "CheckpointError", "Links", "SaveReport", "Saver", "Saving", "Verified", "drain", "latest", "load", "load_into",
    "remove", "retain", "save", "verify",
]
