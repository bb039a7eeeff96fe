# SPDX-License-Identifier: Apache-2.0

"""Batches of a prefetcher for torch's DataLoader."""

from __future__ import annotations

import copy
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

    With num_workers, for work on batches that takes long, each worker process reads its part of them, and they come in
    the same order; but the epoch and the position stay where they are, and `set_epoch()` begins another epoch.
    """

    def __init__(self, prefetcher: Prefetcher) -> None:
        super().__init__()
        self._prefetcher = prefetcher
        self._epoch = torch.full((), -1)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]  # Workers that stay for several epochs see it.

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return iter(self._prefetcher)
        if self._epoch >= 0:
            self._prefetcher = copy.copy(self._prefetcher)
            self._prefetcher.set_epoch(int(self._epoch))
        part = self._prefetcher.in_worker(worker.id, worker.num_workers)
        return map(copy.deepcopy, part)  # Another thread sends it when this one reads the next batch.

    def set_epoch(self, epoch: int) -> None:
        """`Prefetcher.set_epoch()`, also for worker processes."""
        self._prefetcher.set_epoch(epoch)
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self._prefetcher)

    def state_dict(self) -> dict[str, Any]:
        """`Prefetcher.state_dict()`."""
        if torch.utils.data.get_worker_info() is not None:
            raise UnsupportedError("take the state of a penstock.data.torch.Dataset in a worker process, which has a "
                                   "part of the batches: give DataLoader num_workers=0")
        return self._prefetcher.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """`Prefetcher.load_state_dict()`."""
        self._epoch.fill_(-1)
        self._prefetcher.load_state_dict(state)
