# SPDX-License-Identifier: Apache-2.0

"""A storage plug-in of LMCache: chunks that do not fit into LMCache's host memory go to a store of penstock.kv.

LMCache imports it by its name, from its configuration:

    storage_plugins: ["penstock"]
    extra_config:
      storage_plugin.penstock.module_path: penstock.integrations.lmcache
      storage_plugin.penstock.class_name: PenstockPlugin
      penstock.folders: /mnt/nvme0/kv
      penstock.capacity_bytes: 214748364800

For LMCache's multi-process mode there is penstock.integrations.lmcache_l2. Written for LMCache 0.5.6.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from penstock import kv
from penstock.integrations.common import check_interface, client, in_parts, kv_store
from penstock.threads import Pool

__all__ = ["PenstockPlugin"]

_backend = client("lmcache.v1.storage_backend.abstract_backend", "LMCache")
_memory = client("lmcache.v1.memory_management", "LMCache")
_Base: Any = _backend.StoragePluginInterface
_log = logging.getLogger(__name__)

_ASKED = {"contains", "exists_in_put_tasks", "batched_submit_put_task", "get_blocking", "pin", "unpin", "remove",
          "get_allocator_backend", "close"}
_GIVEN = ["dst_device", "config", "metadata", "local_cpu_backend", "loop"]
_PREFIX = "penstock."
_FORMS_MOST = 1024  # A partial chunk has a different form for each number of tokens.

_Form = tuple[tuple[Any, ...], tuple[Any, ...], Any]  # Shapes, dtypes and memory format of a chunk.


class PenstockPlugin(_Base):  # type: ignore[misc]
    """Keeps chunks on the drives of `penstock.folders`, with `penstock.capacity_bytes` per worker.

    Keys of extra_config: penstock.folders is one path, or a list of one for each drive. penstock.eviction, .salt,
    .host_bytes and .bytes_a_day are those of `kv.Store`. penstock.threads is how many batches are written at once.
    Every other penstock.* key is a setting of Penstock's.
    Chunks are shared with every LMCache of the same model, dtype, shape and parallel layout that uses the same folders.
    Shapes are part of a chunk's key: a chunk is a hit only if this process knows its shape: that of full chunks, and of
    others once it has put one of that shape.
    """

    def __init__(self, dst_device: str = "cpu", config: Any = None, metadata: Any = None,
                 local_cpu_backend: Any = None, loop: Any = None) -> None:
        check_fits()
        super().__init__(dst_device, config, metadata, local_cpu_backend, loop)
        options = {key.removeprefix(_PREFIX): value for key, value in (config.extra_config or {}).items()
                   if key.startswith(_PREFIX)}
        threads = options.pop("threads", 2)
        first_only = config.get_extra_config_value("save_only_first_rank", metadata.use_mla)
        self._writes = metadata.role != "scheduler" and (metadata.is_first_rank() or not first_only)
        self._store = kv_store(options, _nbytes(metadata.get_shapes(), metadata.get_dtypes()),
                               model=metadata.model_name, dtype=str(metadata.kv_dtype), layout=_layout(metadata),
                               read_only=not self._writes)
        self._forms: dict[_Form, str] = {}
        self._lock = threading.Lock()
        self._under_way: set[Any] = set()
        self._pool = Pool(threads)

    # ---- What LMCache calls ----

    def contains(self, key: Any, pin: bool = False) -> bool:
        return self.batched_contains([key], pin) == 1

    def batched_contains(self, keys: list[Any], pin: bool = False) -> int:
        """How many of the first keys are in the store. Chunks of another process cannot be pinned: a get may be a
        miss."""
        names = []
        for name, _ in self._find(keys):
            if name is None:
                break
            names.append(name)
        if pin and self._writes:
            self._store.pin(names)
        return len(names)

    async def batched_async_contains(self, lookup_id: str, keys: list[Any], pin: bool = False) -> int:
        """Pins nothing, since nobody would unpin. The load follows at once, and a chunk evicted by then is a miss."""
        return self.batched_contains(keys)

    def exists_in_put_tasks(self, key: Any) -> bool:
        with self._lock:
            return key in self._under_way

    def batched_submit_put_task(self, keys: Sequence[Any], objs: list[Any], transfer_spec: Any = None,
                                on_complete_callback: Callable[[Any], None] | None = None) -> None:
        """Each object is referenced until its bytes are in the store. One that cannot be put is a later miss."""
        wanted = []
        with self._lock:
            for key, obj in zip(keys, objs, strict=True):
                # Positions are not stored: without them such a chunk would be wrong.
                if self._writes and key not in self._under_way and obj.metadata.cached_positions is None:
                    self._under_way.add(key)
                    obj.ref_count_up()
                    wanted.append((key, obj))
        if wanted:
            self._pool.submit(self._put, wanted, on_complete_callback)

    def get_blocking(self, key: Any) -> Any:
        return self.batched_get_blocking([key])[0]

    def batched_get_blocking(self, keys: list[Any]) -> list[Any]:
        return self._get(keys, may_wait=True)

    async def batched_get_non_blocking(self, lookup_id: str, keys: list[Any], transfer_spec: Any = None) -> list[Any]:
        """Returns the objects up to the first miss: LMCache counts them."""
        objs = await asyncio.get_running_loop().run_in_executor(self._pool, self._get, keys, False)
        found = objs.index(None) if None in objs else len(objs)
        for obj in objs[found:]:
            if obj is not None:
                obj.ref_count_down()
        return objs[:found]

    def pin(self, key: Any) -> bool:
        return self.contains(key, pin=True)

    def unpin(self, key: Any) -> bool:
        name = self._find([key])[0][0]
        return name is not None and self._writes and self._store.unpin([name])[0]

    def remove(self, key: Any, force: bool = True) -> bool:
        name = self._find([key])[0][0]
        return name is not None and self._writes and self._store.delete([name])[0]

    def touch_cache(self) -> None:
        """Does nothing: a get has touched them already."""

    def get_allocator_backend(self) -> Any:
        return self.local_cpu_backend

    def close(self) -> None:
        """Waits for puts in flight."""
        self._pool.shutdown()
        self._store.close()

    def state(self) -> dict[str, Any]:
        """Like `kv.Store.state`."""
        return self._store.state()

    # ---- Inside ----

    def _form_of(self, form: _Form) -> str:
        with self._lock:
            if form not in self._forms:
                if len(self._forms) >= _FORMS_MOST:
                    self._forms.pop(next(iter(self._forms)))
                self._forms[form] = json.dumps([[list(shape) for shape in form[0]], [str(each) for each in form[1]],
                                                form[2].name])
            return self._forms[form]

    def _known_forms(self) -> dict[_Form, str]:
        """The form of a full chunk, which LMCache may know only now, and the forms that were put."""
        fmt = _memory.MemoryFormat.KV_MLA_FMT if self.metadata.use_mla else _memory.MemoryFormat.KV_2LTD
        self._form_of((tuple(self.metadata.get_shapes()), tuple(self.metadata.get_dtypes()), fmt))
        with self._lock:
            return dict(self._forms)

    def _find(self, keys: Sequence[Any]) -> list[tuple[str | None, _Form | None]]:
        """The name of each chunk in the store, and its form."""
        forms = self._known_forms()
        names = [[_name(key, known_form) for known_form in forms.values()] for key in keys]
        there = iter(self._store.lookup([name for each in names for name in each]))
        found: list[tuple[str | None, _Form | None]] = []
        for each in names:
            hits = [pair for pair, is_there in zip(zip(each, forms, strict=True), there) if is_there]
            found.append(hits[0] if hits else (None, None))
        return found

    def _put(self, wanted: list[tuple[Any, Any]], tell: Callable[[Any], None] | None) -> None:
        outcomes: list[kv.Outcome] = []
        try:
            names = [_name(key, self._form_of((tuple(obj.get_shapes()), tuple(obj.get_dtypes()),
                                               obj.get_memory_format()))) for key, obj in wanted]
            outcomes = self._store.put(names, [obj.byte_array for _, obj in wanted])
        except Exception as failure:
            self._fail("put", len(wanted), failure)
        finally:
            with self._lock:
                self._under_way.difference_update(key for key, _ in wanted)
            for _, obj in wanted:
                obj.ref_count_down()
        for (key, _), outcome in zip(wanted, outcomes, strict=False):
            if tell is not None and outcome in (kv.Outcome.DONE, kv.Outcome.PRESENT):
                try:
                    tell(key)
                except Exception as failure:
                    _log.warning("LMCache's callback failed: %s", failure)

    def _get(self, keys: Sequence[Any], may_wait: bool) -> list[Any]:
        objs: list[Any] = [None] * len(keys)
        names: list[str] = []
        for i, (name, form) in enumerate(self._find(keys)):
            if name is None or form is None:
                continue
            objs[i] = self.local_cpu_backend.allocate(list(form[0]), list(form[1]), form[2], busy_loop=may_wait)
            if objs[i] is not None:
                names.append(name)
        memories = [obj.byte_array for obj in objs if obj is not None]
        outcomes: list[kv.Outcome] = [kv.Outcome.FAILED] * len(names)
        try:
            outcomes = in_parts(self._store.get_async, names, memories)
        except Exception as failure:
            self._fail("get", len(names), failure)
        results = iter(outcomes)
        for i, obj in enumerate(objs):
            if obj is not None and next(results) != kv.Outcome.DONE:
                obj.ref_count_down()
                objs[i] = None
        return objs

    def _fail(self, call: str, chunks: int, failure: Exception) -> None:
        self._store.failure = failure
        _log.warning("Penstock's KV store failed to %s %d chunks: %s", call, chunks, failure)


def _name(key: Any, form: str) -> str:
    return f"{key.to_string()} {form}"


def _nbytes(shapes: Sequence[Any], dtypes: Sequence[Any]) -> int:
    return sum(int(shape.numel()) * int(dtype.itemsize) for shape, dtype in zip(shapes, dtypes, strict=True))


def _layout(metadata: Any) -> str:
    """Without the worker, which is part of LMCache's keys: for an MLA model, all workers read the first one's
    chunks."""
    return json.dumps([list(metadata.kv_shape), metadata.use_mla, metadata.world_size, metadata.chunk_size])


def check_fits() -> None:
    """Raises if LMCache's plug-in interface differs from the supported one."""
    check_interface("LMCache", "storage plug-ins than PenstockPlugin", _Base, _ASKED, _Base.__init__, _GIVEN)
