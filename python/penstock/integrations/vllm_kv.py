# SPDX-License-Identifier: Apache-2.0

"""A tier of vLLM's KV offloading: chunks evicted from vLLM's CPU tier go to a store of penstock.kv.

vLLM imports it by its name, from --kv-transfer-config:

    {"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
     "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": 8589934592,
      "secondary_tiers": [{"type": "PenstockTier", "module_path": "penstock.integrations.vllm_kv",
                           "folders": "/mnt/nvme0/kv", "capacity_bytes": 214748364800}]}}

vLLM's scheduler calls the tier under its lock, so only `drain_jobs` and `shutdown` wait for a drive: `lookup` tells of
what other processes committed by the last `commit_s`. Written for vLLM 0.33.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from penstock import kv
from penstock.integrations.common import check_interface, client, kv_store
from penstock.threads import Pool, wait

__all__ = ["PenstockTier"]

_base = client("vllm.v1.kv_offload.base", "vLLM")
_tiering = client("vllm.v1.kv_offload.tiering.base", "vLLM")
_files = client("vllm.v1.kv_offload.file_mapper", "vLLM")
_Base: Any = _tiering.SecondaryTierManager

_ASKED = {"lookup", "submit_store", "submit_load", "get_finished_jobs", "on_new_request", "drain_jobs"}


class PenstockTier(_Base):  # type: ignore[misc]
    """Keeps chunks on the drives of `folders`, in `capacity_bytes` in total.

    folders: one path, or a list of one for each drive. threads: how many jobs move at once. locality and
    enable_kv_events are those of vLLM's file-system tier. Of `kv.Store` also eviction, salt, host_bytes and
    bytes_a_day; every other key is a setting of Penstock's.
    Chunks are shared with every vLLM of the same model, dtype and parallel layout that uses the same folders. Loading a
    chunk that is damaged, or from another model, fails, and vLLM computes it again.
    """

    medium = _base.Medium.STORAGE

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, folders: str | Sequence[str],
                 capacity_bytes: int, threads: int = 4, locality: str | None = None,
                 enable_kv_events: bool = False, backpressure_detector: Any = None, **more: Any) -> None:
        check_fits()
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        #: What was stored since vLLM took them last, where both the tier and vLLM are to tell. Of evictions none tells.
        self.events: list[Any] | None = None
        if enable_kv_events and offloading_spec.kv_events_config.enable_kv_cache_events:
            self.events = []
        self.locality = None if locality is None else _base.Locality(locality)
        self._bytes = primary_kv_view.cast("B")
        options = {"folders": folders, "capacity_bytes": capacity_bytes, **more}
        self._store = kv_store(options, self.block_size_bytes, model=offloading_spec.config.model.name,
                               dtype=str(offloading_spec.config.model.dtype),
                               layout=_layout(offloading_spec, self.block_size_bytes))
        self._pool = Pool(threads)
        self._under_way: set[Any] = set()
        self._finished: deque[tuple[Any, list[bytes]]] = deque()  # With the keys that a job has stored.

    # ---- What vLLM calls ----

    def on_new_request(self, req_context: Any) -> Any:
        return _base.RequestOffloadingContext()

    def lookup(self, key: bytes, req_context: Any) -> Any:
        return _base.LookupResult.HIT if self._store.lookup([key])[0] else _base.LookupResult.MISS

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        self._store.touch(list(keys))

    def submit_store(self, job_metadata: Any) -> None:
        self._submit(job_metadata, is_load=False)

    def submit_load(self, job_metadata: Any) -> None:
        self._submit(job_metadata, is_load=True)

    def get_finished_jobs(self) -> Iterable[Any]:
        finished = []
        while self._finished:
            result, stored = self._finished.popleft()
            finished.append(result)
            if self.events is not None and result.success and stored:
                self.events.append(_base.OffloadingEvent(keys=stored, medium=self.medium, removed=False,
                                                         locality=self.locality))
        return finished

    def take_events(self) -> Iterable[Any]:
        if self.events is not None:
            yield from self.events
            self.events.clear()

    def drain_jobs(self) -> None:
        wait(list(self._under_way))

    def shutdown(self) -> None:
        self._pool.shutdown()
        self._store.close()

    def state(self) -> dict[str, Any]:
        """Like `kv.Store.state`."""
        return self._store.state()

    # ---- Inside ----

    def _submit(self, job: Any, is_load: bool) -> None:
        future = self._pool.submit(self._run, job, list(job.keys), [int(chunk) for chunk in job.chunk_ids], is_load)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)

    def _run(self, job: Any, keys: list[bytes], chunks: list[int], is_load: bool) -> None:
        size, began = self.block_size_bytes, time.perf_counter()
        outcomes: list[kv.Outcome] = []
        try:
            if any(not 0 <= size * chunk < len(self._bytes) for chunk in chunks):
                raise ValueError(f"chunks {chunks} of a job: vLLM's host memory has {len(self._bytes) // size}")
            memories = [self._bytes[size * chunk:size * (chunk + 1)] for chunk in chunks]
            outcomes = self._store.get(keys, memories) if is_load else self._store.put(keys, memories)
        except Exception as failure:  # Reports any failure: a job without a result would keep its chunks for ever.
            self._store.failure = failure
        there = [key for key, outcome in zip(keys, outcomes, strict=False)
                 if outcome in (kv.Outcome.DONE, kv.Outcome.PRESENT)]
        result = _tiering.JobResult(
            job_id=job.job_id, success=len(there) == len(keys), successful_keys=tuple(there) if is_load else None,
            transfer_time=time.perf_counter() - began, transfer_bytes=size * len(there))
        self._finished.append((result, [] if is_load else there))


def _layout(offloading_spec: Any, chunk_bytes: int) -> str:
    """All that the order of a chunk's bytes depends on.

    vLLM's names of files leave out the ranks and the layout of the KV cache also where the bytes depend on them
    (vllm#55191, vllm#55904): they do not only for its canonical layout, and where all ranks have the same bytes.
    """
    config = offloading_spec.config
    mapper = _files.FileMapper.from_offloading_spec("", offloading_spec, offloading_spec.blocks_per_chunk,
                                                    config.canonical_layout or config.replicated_layout)
    return json.dumps([mapper.get_run_config(), mapper.rank, config.parallel.is_parallelism_agnostic,
                       None if config.canonical_layout else config.kv_cache_layout, chunk_bytes],
                      sort_keys=True, default=str)


def check_fits() -> None:
    """Raises if vLLM's tier interface differs from the supported one."""
    given = ["offloading_spec", "primary_kv_view", "tier_type", "backpressure_detector"]
    check_interface("vLLM", "KV tiers than PenstockTier", _Base, _ASKED, _Base.__init__, given)
