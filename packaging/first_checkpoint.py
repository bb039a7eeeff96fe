# SPDX-License-Identifier: Apache-2.0

"""What whoever takes the Python package does first, below the folder where it runs."""

from penstock import checkpoint

checkpoint.save({"step": 7, "name": "first"}, "checkpoints/step-7")
newest = checkpoint.latest("checkpoints")
assert newest is not None and checkpoint.load(newest) == {"step": 7, "name": "first"}
