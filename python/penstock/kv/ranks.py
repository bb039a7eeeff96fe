# SPDX-License-Identifier: Apache-2.0

"""penstock.kv.Ranks: token blocks of which each rank has a shard, there as a whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from penstock.kv.drive import Outcome
from penstock.kv.names import Key
from penstock.kv.store import Folder, Memories, Store

__all__ = ["Ranks"]


class Ranks:
    """The stores of all ranks, as one that has a block if it has the shard of each.

    layouts: of each rank the `layout` under which it puts its shards, alone or by this class. The other arguments are
    those of `Store`, for each rank; with read_only=True it is what decides which blocks to load. What it says of a
    block it says of all shards, however many of them were put before a rank was killed. Thread-safe.
    """

    def __init__(self, folders: Folder | Sequence[Folder], *, layouts: Sequence[str], model: str,
                 **settings: Any) -> None:
        if len(set(layouts)) != len(layouts) or not layouts:
            raise ValueError(f"layouts={list(layouts)!r}: expected one for each rank, all different")
        with contextlib.ExitStack() as stack:
            #: The store of each rank.
            self.stores = [stack.enter_context(Store(folders, model=model, layout=layout, **settings))
                           for layout in layouts]
            self._stack = stack.pop_all()

    def put(self, keys: Sequence[Key], shards: Sequence[Memories]) -> list[Outcome]:
        """Writes blocks: `shards[rank]` is what that rank's `Store.put` takes. An outcome for each block: DONE or
        PRESENT if all of its shards are there; else that of a shard which is not, and those just put are deleted.
        """
        by_rank = [each.result() for each in
                   [store.put_async(keys, memories) for store, memories in self._with(shards)]]
        outcomes = [_of_block(each) for each in zip(*by_rank, strict=True)]
        for store, own in zip(self.stores, by_rank, strict=True):
            store.delete([key for key, whole, one in zip(keys, outcomes, own, strict=True)
                          if one == Outcome.DONE and whole not in (Outcome.DONE, Outcome.PRESENT)])
        return outcomes

    def get(self, keys: Sequence[Key], shards: Sequence[Memories], *, timeout: float | None = None) -> list[Outcome]:
        """Reads blocks: `shards[rank]` and timeout are what that rank's `Store.get` takes. A block is DONE if all of
        its shards are, else no shard's memory is to be used.
        """
        gets = [store.get_async(keys, memories, timeout=timeout) for store, memories in self._with(shards)]
        return [_of_block(each) for each in zip(*[get.result() for get in gets], strict=True)]

    def lookup(self, keys: Sequence[Key]) -> list[bool]:
        """Whether all shards of each are in the store, as `Store.lookup`."""
        return [all(each) for each in zip(*[store.lookup(keys) for store in self.stores], strict=True)]

    def prefix(self, keys: Sequence[Key]) -> int:
        """How many leading blocks are there as a whole."""
        return min(store.prefix(keys) for store in self.stores)

    def commit(self) -> None:
        """As `Store.commit`."""
        for store in self.stores:
            store.commit()

    def refresh(self) -> None:
        """As `Store.refresh`."""
        for store in self.stores:
            store.refresh()

    def close(self) -> None:
        """As `Store.close`."""
        self._stack.close()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _with(self, shards: Sequence[Memories]) -> list[tuple[Store, Memories]]:
        return list(zip(self.stores, shards, strict=True))


def _of_block(shards: Sequence[Outcome]) -> Outcome:
    good = (Outcome.PRESENT, Outcome.DONE)
    return next((each for each in shards if each not in good), Outcome.DONE if Outcome.DONE in shards else shards[0])
