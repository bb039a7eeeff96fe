# SPDX-License-Identifier: Apache-2.0

"""An L2 adapter of LMCache's multi-process mode: objects evicted from LMCache's memory go to a store of penstock.kv.

LMCache imports it by its name:

    --l2-adapter '{"type": "plugin", "module_path": "penstock.integrations.lmcache_l2", "class_name": "PenstockAdapter",
                   "adapter_params": {"folders": "/mnt/nvme0/kv", "capacity_bytes": 214748364800}}'

Written for LMCache 0.5.6.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import penstock
from penstock import kv
from penstock.integrations.common import check_interface, client, kv_store
from penstock.threads import Pool

__all__ = ["PenstockAdapter"]

_base = client("lmcache.v1.distributed.l2_adapters.base", "LMCache")
_native = client("lmcache.lmcache_native", "LMCache")
_internal = client("lmcache.v1.distributed.internal_api", "LMCache")
_Base: Any = _base.L2AdapterInterface
_log = logging.getLogger(__name__)

_ASKED = {"get_store_event_fd", "get_lookup_and_lock_event_fd", "get_load_event_fd", "submit_store_task",
          "pop_completed_store_tasks", "submit_lookup_and_lock_task", "query_lookup_and_lock_result", "submit_unlock",
          "submit_load_task", "query_load_result", "close"}
_KEPT = (kv.Outcome.DONE, kv.Outcome.PRESENT)
_FORM_BYTES = 32


class PenstockAdapter(_Base):  # type: ignore[misc]
    """Keeps objects on the drives of `folders`, in `capacity_bytes` in total. Thread-safe.

    folders: one path, or a list of one for each drive. object_bytes: the largest object, if it is more than 64 MiB.
    threads: how many tasks move at once. Of `kv.Store` also eviction, salt, host_bytes and bytes_a_day; every other key
    is a setting of Penstock's. Each object is stored with its shapes and dtypes: loading it with others is a miss, like
    a damaged one. The store evicts by itself, so LMCache has nothing to evict here.
    """

    def __init__(self, params: dict[str, Any], l1_memory_desc: Any = None) -> None:
        check_fits()
        super().__init__()
        options = dict(params)
        threads, object_bytes = options.pop("threads", 4), options.pop("object_bytes", 0)
        self._store = kv_store(options, object_bytes + _FORM_BYTES, model="", dtype="", layout="LMCache L2")
        self._pool = Pool(threads)
        self._events = {call: os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for call in ("store", "lookup", "load")}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._done: dict[str, dict[int, Any]] = {call: {} for call in self._events}

    # ---- What LMCache calls ----

    def get_store_event_fd(self) -> int:
        return self._events["store"]

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._events["lookup"]

    def get_load_event_fd(self) -> int:
        return self._events["load"]

    def submit_store_task(self, keys: list[Any], objects: list[Any]) -> int:
        return self._submit("store", lambda: self._put(keys, objects), _internal.L2StoreResult(False, 0))

    def pop_completed_store_tasks(self) -> dict[int, Any]:
        with self._lock:
            done, self._done["store"] = self._done["store"], {}
        return done

    def submit_lookup_and_lock_task(self, keys: list[Any], group_layout_descs: dict[int, Any]) -> int:
        """Another process's objects are found, but cannot be locked: a later load may be a miss."""
        number, names = next(self._numbers), [_name(key) for key in keys]
        there = self._store.lookup(names)
        self._store.pin([name for name, is_there in zip(names, there, strict=True) if is_there])
        self._finish("lookup", number, _bitmap(there))
        return number

    def query_lookup_and_lock_result(self, task_id: int) -> Any:
        return self._pop("lookup", task_id)

    def submit_unlock(self, keys: list[Any]) -> None:
        self._store.unpin([_name(key) for key in keys])

    def submit_load_task(self, keys: list[Any], objects: list[Any]) -> int:
        return self._submit("load", lambda: self._get(keys, objects), _native.Bitmap(len(keys)))

    def query_load_result(self, task_id: int) -> Any:
        return self._pop("load", task_id)

    def delete(self, keys: list[Any]) -> None:
        """Does nothing once the adapter is closed, as LMCache's own do."""
        try:
            deleted = self._store.delete([_name(key) for key in keys])
        except penstock.ClosedError:
            return
        gone = [key for key, is_gone in zip(keys, deleted, strict=True) if is_gone]
        if gone:
            self._notify_keys_deleted(gone, [0] * len(gone))  # Sizes are only for LMCache's accounting; see get_usage.

    def get_usage(self) -> Any:
        """The usage of the whole store, which does not count by salt."""
        state = self._store.state()
        return _base.AdapterUsage(state["used_bytes"], state["capacity_bytes"])

    def report_status(self) -> dict[str, Any]:
        state = self._store.state()
        return {"is_healthy": True, "type": type(self).__name__,
                **{key: state[key] for key in ("chunks", "used_bytes", "capacity_bytes", "puts", "gets", "failure")}}

    def close(self) -> None:
        """Waits for tasks in flight. Further calls do nothing."""
        self._pool.shutdown()
        self._store.close()
        with self._lock:
            events, self._events = self._events, dict.fromkeys(self._events, -1)
        for event in events.values():
            if event >= 0:
                os.close(event)

    # ---- Inside ----

    def _submit(self, call: str, work: Callable[[], Any], failed: Any) -> int:
        number = next(self._numbers)
        self._pool.submit(self._run, call, number, work, failed)
        return number

    def _run(self, call: str, number: int, work: Callable[[], Any], failed: Any) -> None:
        result = failed
        try:
            result = work()
        except Exception as failure:  # Reports any failure: a task without a result would keep its objects for ever.
            self._store.failure = failure
            _log.warning("Penstock's KV store failed in a %s task: %s", call, failure)
        self._finish(call, number, result)

    def _finish(self, call: str, number: int, result: Any) -> None:
        with self._lock:
            self._done[call][number] = result
            if self._events[call] >= 0:
                os.eventfd_write(self._events[call], 1)

    def _pop(self, call: str, number: int) -> Any:
        with self._lock:
            return self._done[call].pop(number, None)

    def _put(self, keys: Sequence[Any], objects: Sequence[Any]) -> Any:
        outcomes = self._store.put([_name(key) for key in keys], [[obj.byte_array, _form(obj)] for obj in objects])
        done = [i for i, outcome in enumerate(outcomes) if outcome == kv.Outcome.DONE]
        sizes = [memoryview(objects[i].byte_array).nbytes for i in done]
        if done:
            self._notify_keys_stored([keys[i] for i in done], sizes)
        return _internal.L2StoreResult(all(outcome in _KEPT for outcome in outcomes), sum(sizes))

    def _get(self, keys: Sequence[Any], objects: Sequence[Any]) -> Any:
        forms = [bytearray(_FORM_BYTES) for _ in objects]
        outcomes = self._store.get([_name(key) for key in keys],
                                   [[obj.byte_array, form] for obj, form in zip(objects, forms, strict=True)])
        loaded = [outcome == kv.Outcome.DONE and form == _form(obj)
                  for outcome, form, obj in zip(outcomes, forms, objects, strict=True)]
        self._notify_keys_accessed([key for key, is_loaded in zip(keys, loaded, strict=True) if is_loaded])
        return _bitmap(loaded)


def _name(key: Any) -> str:
    return json.dumps([key.model_name, key.kv_rank, key.object_group_id, key.cache_salt, key.chunk_hash.hex()])


def _form(obj: Any) -> bytes:
    """Identifies the form of an object's bytes, in 32 bytes."""
    try:
        shapes, dtypes = obj.get_shapes(), obj.get_dtypes()
    except AssertionError:  # An object that was made with one shape alone: LMCache's own check makes such.
        shapes, dtypes = [obj.get_shape()], [obj.get_dtype()]
    description = [[list(shape) for shape in shapes], [str(dtype) for dtype in dtypes], obj.get_memory_format().name]
    return hashlib.blake2b(json.dumps(description).encode(), digest_size=_FORM_BYTES).digest()


def _bitmap(values: Sequence[bool]) -> Any:
    bitmap = _native.Bitmap(len(values))
    for i, value in enumerate(values):
        if value:
            bitmap.set(i)
    return bitmap


def check_fits() -> None:
    """Raises if LMCache's L2 adapter interface differs from the supported one."""
    check_interface("LMCache", "L2 adapters than PenstockAdapter", _Base, _ASKED)
