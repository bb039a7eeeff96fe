# SPDX-License-Identifier: Apache-2.0

"""Shared by kv_hosts.py and no_foreign_token.py: a host's memory, and what it keeps on a local disk, by the host's own
classes: its own backend, or Penstock's in its slot.

`chunk` is the bytes of a chunk, `count` how many the host's memory has, `capacity` how many bytes the disk may take.
`put` takes rows of bytes and tells which were stored; `get` returns a row for each key, or None: a host asks for
the first keys that are there, as it does for a prompt. `both` does them at once. `store` and `load` are for all chunks
of the memory in their place, without a copy more.
"""

import asyncio
import mmap
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

BATCH = 16


@dataclass(frozen=True)
class World:
    """Chunks of another model, dtype, layout, number of ranks or tenant have other bytes under the same hash."""

    model: str = "org/model"
    dtype: str = "bfloat16"
    is_other_layout: bool = False
    ranks: int = 1
    salt: str = ""


def hash_of(number, world, is_salted):
    """The hash of a piece of a prompt. They differ in their last bytes alone, and by the salt where the host has it."""
    return (world.salt.encode() if is_salted else b"").rjust(24, b"\x5a") + number.to_bytes(8, "big")


class Side:
    """What hosts have in common."""

    can_remove = can_forget = False
    is_cached = False  # Loads are from host memory: their page cache, and what ours keeps before the drive.

    def ours(self, options, host_bytes, prefix=""):
        """Options of our adapter, with host memory for all chunks where loads are from there."""
        return {**options, **({f"{prefix}host_bytes": host_bytes} if self.is_cached else {})}

    def settle(self):
        """Makes what was stored and removed known to other processes, and learns what they made known."""

    def evicted(self):
        return None

    def disown(self, keys):
        """Removes what another process put, where this one has taken its part of the store over."""


class Penstock(Side):
    """The store by itself. Its capacity is for each process."""

    THEIRS = None
    can_remove = can_forget = True
    host_bytes = 0  # Of host memory before the drive.

    def __init__(self, folder, chunk, count, is_ours, world=World(), capacity=8 << 20):
        import penstock
        from penstock import kv

        self._kv, self._chunk, self._folder = kv, chunk, folder
        self._about = {"model": world.model, "dtype": world.dtype, "salt": world.salt,
                       "layout": f"{world.is_other_layout} {world.ranks}"}
        extent = max(256 << 10, 2 * chunk)
        self._session = penstock.Session(device="host")
        self._store = kv.Store(folder, **self._about, capacity_bytes=capacity // extent * extent, extent_bytes=extent,
                               host_bytes=self.host_bytes, session=self._session)

    def keys(self, numbers):
        return [hash_of(number, None, is_salted=False) for number in numbers]

    def put(self, keys, rows):
        return [outcome <= self._kv.Outcome.PRESENT for outcome in self._store.put(keys, list(rows))]

    def get(self, keys):
        rows = np.empty((len(keys), self._chunk), dtype=np.uint8)
        outcomes = self._store.get(keys, list(rows))
        return [row if outcome == self._kv.Outcome.DONE else None for row, outcome in zip(rows, outcomes, strict=True)]

    def both(self, keys, rows, wanted):
        future = self._store.put_async(keys, list(rows))
        found = self.get(wanted)
        return [outcome <= self._kv.Outcome.PRESENT for outcome in future.result()], found

    def remove(self, key):
        """Whether it was there, and is in no other process's part of the store, which `delete` leaves as it is."""
        if not self._store.delete([key])[0]:
            return False
        self._store.commit()
        with self._kv.Store(self._folder, **self._about, read_only=True, session=self._session) as view:
            return not view.lookup([key])[0]

    def disown(self, keys):
        self._store.delete(keys)

    def forget(self):
        self.close()
        self._kv.purge(self._folder, **self._about)

    def settle(self):
        self._store.commit()
        self._store.refresh()

    def evicted(self):
        return self._store.state().get("evicted", 0)

    def close(self):
        try:
            self._store.close()
        finally:
            self._session.close()


class VLLM(Side):
    """A host memory of `count` chunks, and a tier of KV offloading behind it."""

    THEIRS = "fs"
    AT_ONCE = 8

    def __init__(self, folder, chunk, count, is_ours, world=World(), capacity=None):
        from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
        from vllm.v1.kv_offload.config import (OffloadingCacheConfig, OffloadingConfig, OffloadingModelConfig,
                                               OffloadingParallelConfig)
        from vllm.v1.kv_offload.tiering.base import TransferJob
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

        self.memory = np.frombuffer(mmap.mmap(-1, chunk * count), dtype=np.uint8).reshape(count, chunk)
        said = self.ours({"type": "PenstockTier", "module_path": "penstock.integrations.vllm_kv",
                          "folders": str(folder), "capacity_bytes": capacity or 3 * chunk * count + (256 << 20),
                          "salt": world.salt}, 3 * chunk * count + (128 << 20)) if is_ours else {
            "type": self.THEIRS, "root_dir": str(folder)}
        parallel = OffloadingParallelConfig(0, world.ranks, world.ranks, 1, 1, 1, 0, 1, None,
                                            is_parallelism_agnostic=True)
        config = OffloadingConfig((), chunk, False, {}, "engine", OffloadingModelConfig(world.model, world.dtype),
                                  OffloadingCacheConfig(16, 1), parallel,
                                  kv_cache_layout="LBHNC" if world.is_other_layout else "LBNHC")
        spec = SimpleNamespace(config=config, blocks_per_chunk=1,
                               kv_events_config=SimpleNamespace(enable_kv_cache_events=False))
        self._tier = SecondaryTierFactory.create_secondary_tier(said, memoryview(self.memory), spec)
        self._key = lambda number: make_offload_key(hash_of(number, world, not is_ours), 0)
        self._job, self._context, self._looks, self._jobs = TransferJob, ReqContext, LookupResult, 0
        self._step = ScheduleEndContext((), ())

    def keys(self, numbers):
        return [self._key(number) for number in numbers]

    def _run(self, jobs):
        """Runs jobs of (is load, keys, places), some at once. Returns the keys of each job that were moved."""
        waiting, under_way, moved = list(enumerate(jobs)), {}, [()] * len(jobs)
        while waiting or under_way:
            while waiting and len(under_way) < self.AT_ONCE:
                which, (is_load, keys, places) = waiting.pop()
                self._jobs += 1
                under_way[self._jobs] = which
                job = self._job(self._jobs, keys, np.array(places), is_load, self._context("request"))
                (self._tier.submit_load if is_load else self._tier.submit_store)(job)
            for result in self._tier.get_finished_jobs():
                which = under_way.pop(result.job_id)
                moved[which] = jobs[which][1] if result.success else result.successful_keys or ()
            time.sleep(0.0002)
        return moved

    def _all(self, is_load, keys):
        jobs = [(is_load, keys[first:first + BATCH], range(first, min(first + BATCH, len(keys))))
                for first in range(0, len(keys), BATCH)]
        assert sum(map(len, self._run(jobs))) == len(keys)

    def store(self, keys):
        self._all(False, keys)

    def load(self, keys):
        self._all(True, keys)

    def _first_there(self, keys):
        self._jobs += 1
        context = self._context(str(self._jobs))
        looks = [self._looks.RETRY]
        while self._looks.RETRY in looks:
            looks = [self._tier.lookup(key, context) for key in keys]
            self._tier.on_schedule_end(self._step)
        self._tier.on_request_finished(context)
        return next((i for i, look in enumerate(looks) if look != self._looks.HIT), len(keys))

    def both(self, keys, rows, wanted):
        """The first half of the memory is stored from, the second loaded to."""
        half = len(self.memory) // 2
        there = wanted[:self._first_there(wanted)] if wanted else []
        self.memory[:len(rows)] = rows
        jobs = ([(False, keys, range(len(keys)))] if keys else []) + (
            [(True, there, range(half, half + len(there)))] if there else [])
        moved = self._run(jobs)
        loaded = set(moved[-1]) if there else ()
        rows = self.memory[half:half + len(there)].copy()
        return [key in moved[0] for key in keys] if keys else [], [
            rows[i] if i < len(there) and key in loaded else None for i, key in enumerate(wanted)]

    def put(self, keys, rows):
        return self.both(keys, rows, [])[0]

    def get(self, keys):
        return self.both([], self.memory[:0], keys)[1]

    def close(self):
        self._tier.shutdown()


class SGLang(Side):
    """A host memory of `count` pages, and SGLang's calls of a storage backend."""

    THEIRS = "HiCacheFile"
    PAGE = 16
    can_forget = True

    def __init__(self, folder, chunk, count, is_ours, world=World(), capacity=None):
        import torch
        import without_torchvision  # noqa: F401
        from sglang.srt.managers.cache_controller import HiCacheController, StorageOperation
        from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
        from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
        from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
        from sglang.srt.mem_cache.storage import StorageBackendFactory

        heads, dim = (8, 128) if chunk >= 65536 else (1, 32)
        dtype, layout = getattr(torch, world.dtype), "page_first" if world.is_other_layout else "layer_first"
        layers = chunk // (2 * self.PAGE * heads * dim * 2)
        buffers = tuple(torch.zeros(0, heads, dim, dtype=dtype) for _ in range(layers))
        pointers = torch.zeros(layers, dtype=torch.uint64)
        info = MHABufferInfo(
            buffers=KVBuffers(k=buffers, v=buffers, k_data_ptrs=pointers, v_data_ptrs=pointers,
                              layout=KVBufferLayout.NHD),
            page_size=self.PAGE, head_num=heads, head_dim=dim, v_head_dim=dim, dtype=dtype,
            device=torch.device("cpu"))
        self.storage_host_pool = MHATokenToKVPoolHost(
            info, 1.0, 0, self.PAGE, layout, pin_memory=False, device_capacity_tokens=self.PAGE * count,
            start_layer=0, end_layer=layers)
        extra = self.ours({"backend_name": "penstock", "module_path": "penstock.integrations.sglang_kv",
                           "class_name": "PenstockStorage", "interface_v1": 1, "folders": str(folder),
                           "salt": world.salt, "capacity_bytes": capacity or 3 * chunk * count + (256 << 20)},
                          3 * chunk * count + (128 << 20)) if is_ours else {
            "file_storage_path": str(folder), **({} if capacity is None else {"max_size": str(capacity)})}
        config = HiCacheStorageConfig(0, world.ranks, 0, 1, 0, 1, False, False, world.is_other_layout, world.model,
                                      extra_config=extra)
        self.storage_backend = StorageBackendFactory.create_backend("dynamic" if is_ours else "file", config,
                                                                    self.storage_host_pool)
        self.storage_backend.register_mem_pool_host(self.storage_host_pool)
        kinds = ("_page_get_zero_copy", "_page_set_zero_copy") if is_ours else ("_generic_page_get",
                                                                                "_generic_page_set")
        self._get, self.page_set_func = (getattr(HiCacheController, kind).__get__(self) for kind in kinds)
        self._back_up, self._operation = HiCacheController._page_backup.__get__(self), StorageOperation
        self.page_size, self._pages = self.PAGE, torch.arange(self.PAGE * count).reshape(count, self.PAGE)
        self.memory, self._torch, self._dtype = self.storage_host_pool.kv_buffer, torch, dtype
        self._hash = lambda number: hash_of(number, world, not is_ours).hex()

    def keys(self, numbers):
        return [self._hash(number) for number in numbers]

    def _stored(self, keys, first):
        operation = self._operation(self._pages[first:first + len(keys)].flatten(), [], hash_value=keys)
        self._back_up(operation)
        return operation.completed_tokens // self.PAGE

    def _loaded(self, keys, first):
        operation = SimpleNamespace(request_id="r", is_terminated=lambda: False, completed_tokens=0,
                                    increment=lambda tokens: True)
        return self._get(operation, keys, self._pages[first:first + len(keys)].flatten())

    def store(self, keys):
        for first in range(0, len(keys), BATCH):
            assert self._stored(keys[first:first + BATCH], first) == len(keys[first:first + BATCH])

    def load(self, keys):
        for first in range(0, len(keys), BATCH):
            assert self._loaded(keys[first:first + BATCH], first) == len(keys[first:first + BATCH])

    def put(self, keys, rows):
        for page, row in enumerate(rows):
            self.storage_host_pool.set_from_flat_data_page(self.PAGE * page,
                                                           self._torch.from_numpy(row).view(self._dtype))
        stored = self._stored(keys, 0)
        return [i < stored for i in range(len(keys))]

    def get(self, keys):
        half = len(self._pages) // 2
        there = self.storage_backend.batch_exists(keys)
        loaded = self._loaded(keys[:there], half) if there else 0
        pages = [self.storage_host_pool.get_data_page(self.PAGE * (half + i)).view(self._torch.uint8).numpy()
                 for i in range(loaded)]
        return pages + [None] * (len(keys) - loaded)

    def both(self, keys, rows, wanted):
        """SGLang backs up and prefetches in a thread each."""
        stored = []
        thread = threading.Thread(target=lambda: stored.extend(self.put(keys, rows)))
        thread.start()
        try:
            found = self.get(wanted)
        finally:
            thread.join()
        return stored or [False] * len(keys), found

    def forget(self):
        assert self.storage_backend.clear()

    def close(self):
        getattr(self.storage_backend, "close", lambda: None)()


class LMCache(Side):
    """A worker's host memory, and one of its storage backends behind it."""

    THEIRS = "LocalDiskBackend"
    can_remove = True

    def __init__(self, folder, chunk, count, is_ours, world=World(), capacity=None):
        import torch
        from lmcache.utils import CacheEngineKey
        from lmcache.v1.config import LMCacheEngineConfig
        from lmcache.v1.memory_management import MemoryFormat
        from lmcache.v1.metadata import LMCacheMetadata
        from lmcache.v1.storage_backend import CreateStorageBackends

        nbytes = capacity or 3 * chunk * count + (256 << 20)
        said = {"storage_plugins": ["penstock"], "extra_config": self.ours({
            "storage_plugin.penstock.module_path": "penstock.integrations.lmcache",
            "storage_plugin.penstock.class_name": "PenstockPlugin", "penstock.folders": str(folder),
            "penstock.capacity_bytes": nbytes, "penstock.threads": 4, "penstock.salt": world.salt}, nbytes,
            "penstock.")} if is_ours else {
            "local_disk": str(folder), "max_local_disk_size": nbytes / (1 << 30),
            "extra_config": {"use_odirect": not self.is_cached}}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._dtype, tokens = getattr(torch, world.dtype), chunk // (2 * 4 * 128 * 2)
        shape = (8, 2, tokens, 1, 64) if world.is_other_layout else (4, 2, tokens, 1, 128)
        metadata = LMCacheMetadata(world.model, world.ranks, world.ranks, 0, 0, self._dtype, shape, role="worker",
                                   chunk_size=tokens)
        config = LMCacheEngineConfig.from_defaults(chunk_size=tokens, local_cpu=False, lmcache_instance_id="bench",
                                                   max_local_cpu_size=1.25 * chunk * count / (1 << 30), **said)
        made = CreateStorageBackends(config, metadata, self._loop)
        self._host, self.backend = made["LocalCPUBackend"], made["penstock" if is_ours else self.THEIRS]
        self.made = lambda: self._host.allocate(metadata.get_shapes(), [self._dtype], MemoryFormat.KV_2LTD,
                                                busy_loop=False)
        salted = (lambda number: number) if is_ours else (lambda number: number ^ len(world.salt) << 40)
        self._key = lambda number: CacheEngineKey(world.model, world.ranks, 0, 7 << 48 | salted(number), self._dtype)

    def keys(self, numbers):
        return [self._key(number) for number in numbers]

    def store(self, keys, objs):
        stored = threading.Semaphore(0)
        for first in range(0, len(keys), BATCH):
            self.backend.batched_submit_put_task(keys[first:first + BATCH], objs[first:first + BATCH],
                                                 on_complete_callback=lambda key: stored.release())
        for _ in keys:
            assert stored.acquire(timeout=60), "a chunk was not stored"

    def load(self, keys):
        objs = []
        for first in range(0, len(keys), BATCH):
            objs += self.backend.batched_get_blocking(keys[first:first + BATCH])
        assert None not in objs
        return objs

    def both(self, keys, rows, wanted, seconds=0.1):
        """LMCache stores in its threads. One that fails tells nobody, so it has `seconds`."""
        pairs = [(key, row, obj) for key, row in zip(keys, rows, strict=True) if (obj := self.made()) is not None]
        for _, row, obj in pairs:
            np.frombuffer(obj.byte_array, dtype=np.uint8)[:] = row
        stored = set()
        if pairs:
            self.backend.batched_submit_put_task([key for key, _, _ in pairs], [obj for _, _, obj in pairs],
                                                 on_complete_callback=stored.add)
        for _, _, obj in pairs:
            obj.ref_count_down()
        try:
            found = self.get(wanted)
        finally:
            end = time.monotonic() + seconds
            while any(map(self.backend.exists_in_put_tasks, keys)) and time.monotonic() < end:
                time.sleep(0.0002)
        return [key in stored or self.backend.contains(key) for key in keys], found

    def put(self, keys, rows):
        return self.both(keys, rows, [])[0]

    def get(self, keys):
        there = next((i for i, key in enumerate(keys) if not self.backend.contains(key)), len(keys))
        objs = self.backend.batched_get_blocking(keys[:there]) if there else []
        rows = [None if obj is None else np.frombuffer(obj.byte_array, dtype=np.uint8).copy() for obj in objs]
        for obj in objs:
            if obj is not None:
                obj.ref_count_down()
        return rows + [None] * (len(keys) - there)

    def remove(self, key):
        return self.backend.remove(key) and not self.backend.contains(key)

    def settle(self):
        store = getattr(self.backend, "_store", None)
        if store is not None:
            store.commit()
            store.refresh()

    def close(self):
        self.backend.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


KINDS = {"penstock": Penstock, "vllm": VLLM, "sglang": SGLang, "lmcache": LMCache}
