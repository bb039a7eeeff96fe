#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Penstock's KV adapters for vLLM, SGLang and LMCache against what these keep on a local disk themselves.

    PYTHONPATH=CLIENTS:TESTS kv_hosts.py FOLDER [--hosts vllm,sglang,lmcache] [--pairs 5] [--mib 512]
                                       [--sizes 128,2048]

vLLM: the jobs of its KV offloading, 16 chunks each and eight at once, ours and its file-system tier.
SGLang: its controller's calls of a storage backend, 16 pages each, from and into its own host memory: ours in place,
HiCacheFile by a copy of each page. LMCache: batches of 16 chunks by its storage backends' calls, ours and
LocalDiskBackend with O_DIRECT. A turn stores so many MiB of new chunks, waits until all are stored, flushes the file
system, drops the files from the page cache, and loads them all. GB/s and CPU seconds a GB; the median of the pairs'
ratios with lowest and highest. Theirs make no checksums; ours checks each chunk. A load of other bytes ends the run.
TESTS is python/tests, of which it takes what stands in for torchvision.
"""

import argparse
import asyncio
import mmap
import os
import random
import shutil
import statistics
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from turns import drop, figure, there_and_back

BATCH = 16
DTYPE = torch.bfloat16


class VLLM:
    """A host memory of `count` chunks, and a tier of KV offloading behind it."""

    THEIRS = "fs"
    AT_ONCE = 8

    def __init__(self, folder, chunk, count, is_ours):
        from vllm.v1.kv_offload.base import ReqContext, make_offload_key
        from vllm.v1.kv_offload.config import (OffloadingCacheConfig, OffloadingConfig, OffloadingModelConfig,
                                               OffloadingParallelConfig)
        from vllm.v1.kv_offload.tiering.base import TransferJob
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

        self.memory = np.frombuffer(mmap.mmap(-1, chunk * count), dtype=np.uint8).reshape(count, chunk)
        said = {"type": "PenstockTier", "module_path": "penstock.integrations.vllm_kv", "folders": str(folder),
                "capacity_bytes": 3 * chunk * count + (256 << 20)} if is_ours else {
            "type": self.THEIRS, "root_dir": str(folder)}
        config = OffloadingConfig((), chunk, False, {}, "engine", OffloadingModelConfig("model", "bfloat16"),
                                  OffloadingCacheConfig(16, 1),
                                  OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, False))
        spec = SimpleNamespace(config=config, blocks_per_chunk=1,
                               kv_events_config=SimpleNamespace(enable_kv_cache_events=False))
        self._tier = SecondaryTierFactory.create_secondary_tier(said, memoryview(self.memory), spec)
        self._key, self._jobs = lambda: make_offload_key(random.randbytes(32), 0), 0
        self._job = lambda keys, which, is_load: TransferJob(self._jobs, keys, np.array(which), is_load,
                                                             ReqContext("request"))

    def keys(self, count):
        return [self._key() for _ in range(count)]

    def _run(self, submit, keys, is_load):
        waiting, under_way = [range(first, min(first + BATCH, len(keys))) for first in range(0, len(keys), BATCH)], 0
        while waiting or under_way:
            while waiting and under_way < self.AT_ONCE:
                which = waiting.pop()
                self._jobs += 1
                submit(self._job([keys[i] for i in which], which, is_load))
                under_way += 1
            for result in self._tier.get_finished_jobs():
                assert result.success, result
                under_way -= 1
            time.sleep(0.0002)

    def store(self, keys):
        self._run(self._tier.submit_store, keys, is_load=False)

    def load(self, keys):
        self._run(self._tier.submit_load, keys, is_load=True)

    def begin(self):
        self.memory[:] = np.random.default_rng().integers(0, 256, self.memory.shape, dtype=np.uint8)

    def wipe(self):
        self._before = self.memory.copy()
        self.memory[:] = 0

    def is_right(self):
        return bool((self._before == self.memory).all())

    def close(self):
        self._tier.shutdown()


class SGLang:
    """A host memory of `count` pages, whose layers are one behind the other in memory, and SGLang's calls."""

    THEIRS = "HiCacheFile"
    HEADS, DIM, PAGE = 8, 128, 16

    def __init__(self, folder, chunk, count, is_ours):
        import without_torchvision  # noqa: F401
        from sglang.srt.managers.cache_controller import HiCacheController, StorageOperation
        from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
        from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
        from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
        from sglang.srt.mem_cache.storage import StorageBackendFactory

        layers = chunk // (2 * self.PAGE * self.HEADS * self.DIM * 2)
        buffers = tuple(torch.zeros(0, self.HEADS, self.DIM, dtype=DTYPE) for _ in range(layers))
        pointers = torch.zeros(layers, dtype=torch.uint64)
        info = MHABufferInfo(
            buffers=KVBuffers(k=buffers, v=buffers, k_data_ptrs=pointers, v_data_ptrs=pointers,
                              layout=KVBufferLayout.NHD),
            page_size=self.PAGE, head_num=self.HEADS, head_dim=self.DIM, v_head_dim=self.DIM, dtype=DTYPE,
            device=torch.device("cpu"))
        self.storage_host_pool = MHATokenToKVPoolHost(
            info, 1.0, 0, self.PAGE, "layer_first", pin_memory=False, device_capacity_tokens=self.PAGE * count,
            start_layer=0, end_layer=layers)
        extra = {"backend_name": "penstock", "module_path": "penstock.integrations.sglang_kv",
                 "class_name": "PenstockStorage", "interface_v1": 1, "folders": str(folder),
                 "capacity_bytes": 3 * chunk * count + (256 << 20)} if is_ours else {"file_storage_path": str(folder)}
        config = HiCacheStorageConfig(0, 1, 0, 1, 0, 1, False, False, False, "model", extra_config=extra)
        self.storage_backend = StorageBackendFactory.create_backend("dynamic" if is_ours else "file", config,
                                                                    self.storage_host_pool)
        self.storage_backend.register_mem_pool_host(self.storage_host_pool)
        kinds = ("_page_get_zero_copy", "_page_set_zero_copy") if is_ours else ("_generic_page_get",
                                                                                "_generic_page_set")
        self._get, self.page_set_func = (getattr(HiCacheController, kind).__get__(self) for kind in kinds)
        self._back_up, self._operation = HiCacheController._page_backup.__get__(self), StorageOperation
        self.page_size, self._pages = self.PAGE, torch.arange(self.PAGE * count).reshape(count, self.PAGE)
        self.memory = self.storage_host_pool.kv_buffer

    def keys(self, count):
        return [random.randbytes(32).hex() for _ in range(count)]

    def store(self, keys):
        for first in range(0, len(keys), BATCH):
            names = keys[first:first + BATCH]
            operation = self._operation(self._pages[first:first + BATCH].flatten(), [], hash_value=names)
            self._back_up(operation)
            assert operation.completed_tokens == self.PAGE * len(names)

    def load(self, keys):
        for first in range(0, len(keys), BATCH):
            names = keys[first:first + BATCH]
            operation = SimpleNamespace(request_id="r", is_terminated=lambda: False, completed_tokens=0,
                                        increment=lambda tokens: True)
            assert self._get(operation, names, self._pages[first:first + BATCH].flatten()) == len(names)

    def begin(self):
        self.memory.copy_(torch.randint(0, 1 << 15, (1,)).to(DTYPE) + torch.randn(self.memory.shape[-1]).to(DTYPE))
        for page in range(len(self._pages)):  # So that no page is another's.
            self.memory[:, :, self.PAGE * page] = page
        self.memory[:, :, self.PAGE * len(self._pages):] = 0  # SGLang's padding, which is never stored.

    def wipe(self):
        self._before = self.memory.clone()
        self.memory.zero_()

    def is_right(self):
        return torch.equal(self._before, self.memory)

    def close(self):
        getattr(self.storage_backend, "close", lambda: None)()


class LMCache:
    """A worker's host memory, and one of its storage backends behind it."""

    THEIRS = "LocalDiskBackend"

    def __init__(self, folder, chunk, count, is_ours):
        from lmcache.utils import CacheEngineKey
        from lmcache.v1.config import LMCacheEngineConfig
        from lmcache.v1.memory_management import MemoryFormat
        from lmcache.v1.metadata import LMCacheMetadata
        from lmcache.v1.storage_backend import CreateStorageBackends

        nbytes = 3 * chunk * count + (256 << 20)
        said = {"storage_plugins": ["penstock"], "extra_config": {
            "storage_plugin.penstock.module_path": "penstock.integrations.lmcache",
            "storage_plugin.penstock.class_name": "PenstockPlugin", "penstock.folders": str(folder),
            "penstock.capacity_bytes": nbytes, "penstock.threads": 4}} if is_ours else {
            "local_disk": str(folder), "max_local_disk_size": nbytes / (1 << 30), "extra_config": {"use_odirect": True}}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        tokens = chunk // (2 * 4 * 128 * 2)
        metadata = LMCacheMetadata("model", 1, 1, 0, 0, DTYPE, (4, 2, tokens, 1, 128), role="worker",
                                   chunk_size=tokens)
        config = LMCacheEngineConfig.from_defaults(chunk_size=tokens, local_cpu=False, lmcache_instance_id="bench",
                                                   max_local_cpu_size=1.25 * chunk * count / (1 << 30), **said)
        made = CreateStorageBackends(config, metadata, self._loop)
        self._host, self._backend = made["LocalCPUBackend"], made["penstock" if is_ours else self.THEIRS]
        self._made = lambda: self._host.allocate(metadata.get_shapes(), [DTYPE], MemoryFormat.KV_2LTD)
        self._key = lambda: CacheEngineKey("model", 1, 0, random.getrandbits(62), DTYPE)
        self._objs, self._count = [], count

    def keys(self, count):
        return [self._key() for _ in range(count)]

    def begin(self):
        self._objs = [self._made() for _ in range(self._count)]
        for number, obj in enumerate(self._objs):
            obj.tensor.fill_(number)

    def store(self, keys):
        stored = threading.Semaphore(0)
        for first in range(0, len(keys), BATCH):
            self._backend.batched_submit_put_task(keys[first:first + BATCH], self._objs[first:first + BATCH],
                                                  on_complete_callback=lambda key: stored.release())
        for _ in keys:
            assert stored.acquire(timeout=60), "a chunk was not stored"

    def wipe(self):
        for obj in self._objs:
            obj.tensor.zero_()
            obj.ref_count_down()
        self._objs = []

    def load(self, keys):
        for first in range(0, len(keys), BATCH):
            self._objs += self._backend.batched_get_blocking(keys[first:first + BATCH])
        assert None not in self._objs

    def is_right(self):
        good = all(bool((obj.tensor == torch.tensor(number).to(DTYPE)).all()) for number, obj in enumerate(self._objs))
        for obj in self._objs:
            obj.ref_count_down()
        return good

    def close(self):
        self._backend.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def timed(work, nbytes):
    cpu, began = time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return nbytes / 1e9 / seconds, (time.process_time() - cpu) / nbytes * 1e9


def measure(kind, folder, chunk, count, pairs):
    sides = {}
    for name in ("penstock", kind.THEIRS):
        (folder / name).mkdir()
        sides[name] = kind(folder / name, chunk, count, name == "penstock")
    found = {(name, what): [] for name in sides for what in ("store", "load")}
    for _, name in there_and_back(sides, pairs):
        side = sides[name]
        keys = side.keys(count)
        side.begin()
        found[name, "store"].append(timed(lambda: side.store(keys), chunk * count))
        side.wipe()
        os.sync()
        drop(path for path in folder.rglob("*") if path.is_file())
        found[name, "load"].append(timed(lambda: side.load(keys), chunk * count))
        assert side.is_right(), f"{name} loaded other bytes"
    for what in ("store", "load"):
        ours, theirs = found["penstock", what], found[kind.THEIRS, what]
        ratios = [a[0] / b[0] for a, b in zip(ours, theirs, strict=True)]
        middle = [statistics.median(values) for values in (*zip(*ours, strict=True), *zip(*theirs, strict=True))]
        print(f"{kind.__name__:<8}{chunk >> 10:>6} KiB {what:<5}  penstock {middle[0]:.2f} GB/s ({middle[1]:.2f} CPU "
              f"s/GB)   {kind.THEIRS} {middle[2]:.2f} ({middle[3]:.2f})   ratio {figure(ratios)}", flush=True)
    for side in sides.values():
        side.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", default="vllm,sglang,lmcache")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--sizes", default="128,2048", help="KiB of a chunk, in powers of two from 64")
    options = parser.parse_args()
    kinds = {"vllm": VLLM, "sglang": SGLang, "lmcache": LMCache}
    for host in options.hosts.split(","):
        for size in options.sizes.split(","):
            folder = options.folder / f"kv-{os.getpid()}-{host}-{size}"
            folder.mkdir(parents=True)
            try:
                measure(kinds[host], folder, int(size) << 10, (options.mib << 10) // int(size), options.pairs)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
