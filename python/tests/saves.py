# SPDX-License-Identifier: Apache-2.0

"""Checkpoints that are told from each other by a number, for tests of what others do beside them, and a
shortage in which they do it."""

import errno
import os

import torch

from penstock import checkpoint


def save(folder, number):
    checkpoint.save({"n": number, "a": torch.full((50,), number)}, folder)


def number_in(folder):
    return checkpoint.load(folder)["n"]


def short_of_descriptors(*names):
    """In place of a call that opens something."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), *map(str, names))
