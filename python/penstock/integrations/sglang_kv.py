# SPDX-License-Identifier: Apache-2.0

"""A storage backend of SGLang's HiCache: pages evicted from SGLang's host memory go to a store of penstock.kv.

SGLang imports it by its name, from --hicache-storage-backend dynamic --hicache-storage-backend-extra-config:

    {"backend_name": "penstock", "module_path": "penstock.integrations.sglang_kv", "class_name": "PenstockStorage",
     "interface_v1": 1, "folders": "/mnt/nvme0/kv", "capacity_bytes": 214748364800}

With "interface_v1", pages move directly between the store and SGLang's host memory; without it SGLang copies each page.
Written for SGLang 0.5.23.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from penstock import kv
from penstock.integrations.common import check_interface, client, in_parts, kv_store

__all__ = ["PenstockStorage"]

_storage = client("sglang.srt.mem_cache.hicache_storage", "SGLang")
_Base: Any = _storage.HiCacheStorage
_log = logging.getLogger(__name__)

_ASKED = {"get", "batch_get", "set", "batch_set", "exists"}
_SIGNATURE = ["keys", "host_indices", "extra_info"]
# Fields that identify a cache, and fields that do not. A field in neither is from an unsupported release.
_NAMING = ("tp_rank", "tp_size", "pp_rank", "pp_size", "attn_cp_rank", "attn_cp_size", "is_mla_model", "dcp_size",
           "dcp_rank", "logical_page_size")
_OTHERS = {"model_name", "enable_storage_metrics", "is_page_first_layout", "tp_lcm_size", "should_split_heads",
           "dp_rank", "extra_config"}
_OF_SGLANG = ("backend_name", "module_path", "class_name", "interface_v1")
_KEPT = (kv.Outcome.DONE, kv.Outcome.PRESENT)


class PenstockStorage(_Base):  # type: ignore[misc]
    """Keeps pages on the drives of `folders`, with `capacity_bytes` per process.

    folders: one path, or a list of one for each drive. Of `kv.Store` also eviction, salt, host_bytes and bytes_a_day;
    every other key is a setting of Penstock's.
    Pages are shared with every SGLang of the same model, dtype, parallel layout, page size and memory layout that uses
    the same folders. A page that is damaged, or from another model, is a miss, which SGLang computes. For an MLA model,
    whose pages are the same on all tensor-parallel ranks, one rank writes and all read. Thread-safe.
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        check_fits()
        extra = dict(storage_config.extra_config or {})
        self._config = storage_config
        self._in_place = bool(extra.get("interface_v1", 0))
        self._options = {key: value for key, value in extra.items() if key not in _OF_SGLANG}
        self._store: kv.Store | None = None
        self._told = threading.Lock()
        self._moved: dict[str, list[tuple[int, float]]] = {"get": [], "put": []}  # Pages, GB/s; if SGLang asks.
        self.failure: Exception | None = None  #: The error of the last failed call.

    # ---- What SGLang calls ----

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Opens the store, since the size of a page is known only now."""
        super().register_mem_pool_host(mem_pool_host)
        self.close()
        self._store = self._open(mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        if host_pool_name != _storage.PoolName.KV:
            raise RuntimeError(f"the model has the further host pool {str(host_pool_name)!r}, and PenstockStorage "
                               "keeps only pages of keys and values: use another storage backend for this model")

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move("put", keys, self._pages(keys, host_indices))

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move("get", keys, self._pages(keys, host_indices))

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        store = self._store
        try:
            return 0 if store is None else store.prefix(keys)
        except Exception as failure:  # `clear` closed the store meanwhile.
            self.failure = failure
            return 0

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        return all(self._move("put", keys, [value.contiguous() for value in values]))

    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any]:
        there = self._move("get", keys, list(target_locations))
        return [target if is_there else None for target, is_there in zip(target_locations, there, strict=True)]

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self.batch_set([key], [value])

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self.batch_get([key], [target_location])[0]

    def clear(self) -> bool:
        """Removes all pages of this model and layout, except those of other running processes."""
        self.close()
        try:
            kv.purge(self._options["folders"], salt=self._options.get("salt", ""), **self._names(self.mem_pool_host))
        except BlockingIOError as failure:  # The other process's own call removes them.
            _log.warning("Penstock's KV store was cleared but for what another process writes: %s", failure)
            return False
        finally:
            self._store = self._open(self.mem_pool_host)
        return True

    def get_stats(self) -> Any:
        if not self._config.enable_storage_metrics:
            return None
        stats = client("sglang.srt.observability.metrics_collector", "SGLang").StorageMetrics()
        with self._told:
            moved, self._moved = self._moved, {"get": [], "put": []}
        for call, pages, speeds in (("get", stats.prefetch_pgs, stats.prefetch_bandwidth),
                                    ("put", stats.backup_pgs, stats.backup_bandwidth)):
            pages += [count for count, _ in moved[call]]
            speeds += [gb_per_s for _, gb_per_s in moved[call]]
        return stats

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def state(self) -> dict[str, Any]:
        """Like `kv.Store.state`."""
        return {} if self._store is None else self._store.state()

    # ---- Inside ----

    def _names(self, pool: Any) -> dict[str, str]:
        """The model and layout of the pages, since SGLang's keys are only hashes of tokens."""
        config = {name: getattr(self._config, name) for name in _NAMING}
        if self._config.is_mla_model and self._config.dcp_size == 1:
            del config["tp_rank"], config["tp_size"]  # All ranks have the same pages.
        of_pool = [type(pool).__name__, pool.layout, pool.page_size, pool.size_per_token, pool.start_layer,
                   pool.end_layer]
        # In place, a page's pieces have another order than in SGLang's copy.
        layout = json.dumps([config, of_pool, self._in_place], sort_keys=True, default=str)
        return {"model": self._config.model_name or "", "dtype": str(pool.dtype), "layout": layout}

    def _open(self, pool: Any) -> kv.Store:
        return kv_store(self._options, pool.page_size * pool.size_per_token, **self._names(pool),
                        read_only=not self._config.is_storage_writer)

    def _pages(self, keys: Sequence[str], host_indices: Any) -> list[list[Any]]:
        """The pieces of each page in SGLang's host memory."""
        addresses, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        each, rest = divmod(len(addresses), len(keys)) if keys else (0, 0)
        if rest:
            raise ValueError(f"{len(host_indices)} host_indices for {len(keys)} keys: expected whole pages of "
                             f"{self.mem_pool_host.page_size}")
        pieces = [_bytes_of(size).from_address(address) for address, size in zip(addresses, sizes, strict=True)]
        return [pieces[each * i:each * (i + 1)] for i in range(len(keys))]

    def _move(self, call: str, keys: Sequence[str], memories: Sequence[Any]) -> list[bool]:
        """Returns whether each key was moved. Never raises, which would end SGLang's threads."""
        if call == "put" and not self._config.is_storage_writer:
            return [True] * len(keys)  # Another rank writes the same pages.
        store, began = self._store, time.perf_counter()
        try:
            if store is None:
                raise RuntimeError("the store is not open: SGLang has not registered its host memory, or closed it")
            outcomes = in_parts(store.get_async if call == "get" else store.put_async, keys, memories)
        except Exception as failure:
            _log.warning("Penstock's KV store failed to %s %d pages: %s", call, len(keys), failure)
            self.failure = failure
            return [False] * len(keys)
        good = [outcome in _KEPT if call == "put" else outcome == kv.Outcome.DONE for outcome in outcomes]
        self._count(call, sum(good), time.perf_counter() - began)
        return good

    def _count(self, call: str, pages: int, seconds: float) -> None:
        if self._config.enable_storage_metrics and pages > 0:
            nbytes = pages * self.mem_pool_host.page_size * self.mem_pool_host.size_per_token
            with self._told:
                self._moved[call].append((pages, nbytes / seconds / 1e9))


@functools.cache
def _bytes_of(size: int) -> Any:
    """Cached, since ctypes creates a new array type on every call."""
    return ctypes.c_char * size


def check_fits() -> None:
    """Raises if SGLang's storage-backend interface differs from the supported one."""
    fields = {field.name for field in dataclasses.fields(_storage.HiCacheStorageConfig)}
    unknown = fields ^ (set(_NAMING) | _OTHERS)
    check_interface("SGLang", "storage backends than PenstockStorage", _Base, _ASKED, _Base.batch_get_v1, _SIGNATURE,
                    f", and its configuration differs in {sorted(unknown)}" if unknown else "")
