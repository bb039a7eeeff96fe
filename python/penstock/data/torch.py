# SPDX-License-Identifier: Apache-2.0

"""Batches of a prefetcher for torch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.utils.data

from penstock.data.prefetcher import Prefetcher
from penstock.errors import UnsupportedError

__all__ = ["Dataset"]


class Dataset(torch.utils.data.IterableDataset[Any]):
    """For `DataLoader(Dataset(prefetcher), batch_size=None)`: batches are complete, and read ahead without workers.

    Iteration continues at the prefetcher's position; after the end of an epoch it begins the next one. Its state is the
    prefetcher's, with the methods of StatefulDataLoader.
    """

    def __init__(self, prefetcher: Prefetcher) -> None:
        super().__init__()
        self._prefetcher = prefetcher

    def __iter__(self) -> Iterator[Any]:
        if torch.utils.data.get_worker_info() is not None:
            raise UnsupportedError("iterate over a penstock.data.torch.Dataset: num_workers is not 0. The prefetcher "
                                   "reads ahead by itself: give DataLoader num_workers=0")
        return iter(self._prefetcher)

    def __len__(self) -> int:
        return len(self._prefetcher)

    def state_dict(self) -> dict[str, Any]:
        """`Prefetcher.state_dict()`."""
        return self._prefetcher.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """`Prefetcher.load_state_dict()`."""
        self._prefetcher.load_state_dict(state)
