# SPDX-License-Identifier: Apache-2.0

"""Penstock's tier under vLLM's own factory and beside vLLM's own tier, by vLLM's interface, without a GPU."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from penstock import kv

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("vllm", reason="vLLM is not installed: ./dev clients")
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.v1.kv_offload.base import Locality, LookupResult, Medium, ReqContext, make_offload_key
from vllm.v1.kv_offload.config import (OffloadingCacheConfig, OffloadingConfig, OffloadingModelConfig,
                                       OffloadingParallelConfig)
from vllm.v1.kv_offload.factory import OffloadingSpecFactory
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

from penstock.integrations import vllm_kv

CHUNKS, BYTES = 64, 128 * 1024
REQUEST = ReqContext("request")


def configuration(name="llama", tp=1, rank=0, engine="engine", is_agnostic=False, canonical=False, layout="LBNHC",
                  **extra):
    return OffloadingConfig((), BYTES, False, extra, engine, OffloadingModelConfig(name, "bfloat16"),
                            OffloadingCacheConfig(16, 1),
                            OffloadingParallelConfig(rank, tp, tp, 1, 1, 1, 0, 1, None, is_agnostic),
                            canonical_layout=canonical, kv_cache_layout=layout)


def spec(*given, **more):
    return SimpleNamespace(config=configuration(*given, **more), blocks_per_chunk=1,
                           kv_events_config=SimpleNamespace(enable_kv_cache_events=False))


def key(number):
    return make_offload_key(number.to_bytes(32, "big"), 0)


def content(number):
    return np.random.default_rng(number).integers(0, 256, BYTES, dtype=np.uint8)


class Host:
    """What vLLM's manager does with a tier: jobs, and a look at which have finished."""

    def __init__(self, offloading_spec, **config):
        self.memory = np.zeros((CHUNKS, BYTES), dtype=np.uint8)
        self.tier = SecondaryTierFactory.create_secondary_tier(config, memoryview(self.memory), offloading_spec)
        self._jobs = 0

    def run(self, call, numbers, chunks):
        self._jobs += 1
        getattr(self.tier, call)(TransferJob(self._jobs, [key(number) for number in numbers], np.array(chunks),
                                             call == "submit_load", REQUEST))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for result in self.tier.get_finished_jobs():
                assert result.job_id == self._jobs
                return result
        raise AssertionError("the job did not finish")

    def store(self, *numbers):
        for chunk, number in enumerate(numbers):
            self.memory[chunk] = content(number)
        return self.run("submit_store", numbers, range(len(numbers)))

    def load(self, *numbers):
        self.memory[:] = 0
        return self.run("submit_load", numbers, range(10, 10 + len(numbers)))


@pytest.fixture
def host(tmp_path):
    hosts = []

    def made(offloading_spec=None, **more):
        hosts.append(Host(offloading_spec or spec(), type="PenstockTier", module_path="penstock.integrations.vllm_kv",
                          folders=str(tmp_path / "kv"), capacity_bytes=128 << 20, device="host", **more))
        return hosts[-1]

    yield made
    for each in hosts:
        each.tier.shutdown()


def test_chunks_that_were_stored_are_hits_and_come_back(host):
    it = host()
    assert it.tier.lookup(key(1), REQUEST) == LookupResult.MISS
    done = it.store(1, 2, 3)
    assert done.success and done.transfer_bytes == 3 * BYTES
    assert it.store(3, 4).success  # One of them is there already.
    assert [it.tier.lookup(key(number), REQUEST) for number in (1, 4, 9)] == [LookupResult.HIT, LookupResult.HIT,
                                                                             LookupResult.MISS]
    assert it.load(4, 1).success
    assert (it.memory[10] == content(4)).all() and (it.memory[11] == content(1)).all()
    assert not it.memory[12:].any() and not it.memory[:10].any()
    it.tier.touch([key(1)], REQUEST)
    it.tier.drain_jobs()
    assert it.tier.state()["gets"]["done"] == 2


def test_of_a_load_that_fails_in_part_the_rest_is_told(host, tmp_path):
    it = host()
    it.store(1, 2)
    slab, = tmp_path.glob("kv/*/0/slab")
    with open(slab, "r+b") as file:
        file.seek(4096 + 100)
        file.write(bytes(8))
    done = it.load(1, 2, 7)
    assert not done.success and len(done.successful_keys) == 1
    good, = done.successful_keys
    number = 1 if good == key(1) else 2
    assert (it.memory[9 + number] == content(number)).all()
    assert it.tier.lookup(key(3 - number), REQUEST) == LookupResult.MISS


def test_a_chunk_beyond_vllms_memory_fails_its_job(host):
    """It was taken for an empty chunk, and the job for a good one."""
    it = host()
    it.store(1)
    for call in ("submit_store", "submit_load"):
        for chunk in (CHUNKS, -1):
            assert not it.run(call, [1], [chunk]).success
    assert it.load(1).success and (it.memory[10] == content(1)).all()


def test_events_tell_what_was_stored_where_tier_and_vllm_are_to_tell(host):
    telling = spec()
    telling.kv_events_config.enable_kv_cache_events = True
    it = host(telling, enable_kv_events=True, locality="LOCAL")
    it.store(1, 2)
    it.load(1)
    it.run("submit_store", [3], [CHUNKS])
    event, = it.tier.take_events()
    assert event.keys == [key(1), key(2)] and event.medium == Medium.STORAGE and not event.removed
    assert event.locality == Locality.LOCAL and list(it.tier.take_events()) == []
    for others in (host(telling), host(enable_kv_events=True)):
        others.store(1)
        assert list(others.tier.take_events()) == []


def leave_a_chunk(host, *given):
    """On the drive, so that whoever opens this store sees it."""
    it = host(*given)
    it.store(1)
    it.tier.shutdown()


@pytest.mark.parametrize("other", [spec("qwen"), spec(tp=2), spec(tp=2, rank=1)])
def test_another_model_or_layout_finds_nothing(host, other):
    leave_a_chunk(host)
    assert host(other).tier.lookup(key(1), REQUEST) == LookupResult.MISS


def test_bytes_in_another_order_are_not_found_though_vllm_names_their_files_alike(host):
    """vllm#55191: other ranks; vllm#55904: another layout of the KV cache."""
    leave_a_chunk(host, spec(is_agnostic=True))
    for other in (spec(is_agnostic=True, tp=2), spec(is_agnostic=True, layout="LBHNC"), spec()):
        assert host(other).tier.lookup(key(1), REQUEST) == LookupResult.MISS


def test_chunks_in_vllms_canonical_layout_are_shared_by_any_number_of_ranks(host):
    leave_a_chunk(host, spec(is_agnostic=True, canonical=True))
    assert host(spec(is_agnostic=True, canonical=True, tp=2)).tier.lookup(key(1), REQUEST) == LookupResult.HIT
    other = spec(is_agnostic=True, canonical=True, layout="LBHNC")
    assert host(other).tier.lookup(key(1), REQUEST) == LookupResult.MISS


def test_a_restart_finds_what_was_there(host):
    first = host()
    first.store(1)
    first.tier.shutdown()
    second = host()
    assert second.tier.lookup(key(1), REQUEST) == LookupResult.HIT and second.load(1).success
    assert (second.memory[10] == content(1)).all()


def test_another_release_of_vllm_is_refused(monkeypatch):
    monkeypatch.setattr(vllm_kv, "_ASKED", {"lookup"})
    with pytest.raises(RuntimeError, match="has other KV tiers than PenstockTier was written for"):
        vllm_kv.check_fits()


def test_a_store_that_is_closed_fails_the_job_and_keeps_nobody_waiting(host):
    it = host()
    it.tier._store.close()
    assert not it.store(1).success
    assert isinstance(it.tier._store.failure, Exception) and kv.Outcome.DONE == 0


def test_the_command_line_of_the_guide_makes_the_tier(tmp_path):
    """By vLLM's own configuration, connector and factories, but for the folder and for sizes, which are small here."""
    guide = (Path(__file__).resolve().parents[2] / "docs/guide/kv-cache.md").read_text()
    option, = re.findall(r"""--kv-transfer-config '({"kv_connector": "OffloadingConnector".*?)'""", guide, re.DOTALL)
    config = KVTransferConfig(**json.loads(option))
    assert config.is_kv_producer and config.is_kv_consumer
    assert KVConnectorFactory.get_connector_class(config).__name__ == "OffloadingConnector"
    extra = config.kv_connector_extra_config
    tier_config, = extra["secondary_tiers"]
    assert tier_config["capacity_bytes"] == 200 << 30 and extra["cpu_bytes_to_use"] == 8 << 30
    tier_config.update(folders=str(tmp_path / "kv"), capacity_bytes=128 << 20, device="host")
    made = OffloadingSpecFactory.create_spec(configuration(engine=tmp_path.name, **{**extra,
                                                                                    "cpu_bytes_to_use": 4 * BYTES}))
    manager = made.get_manager()
    try:
        tier, = manager.secondary_tiers
        assert type(tier) is vllm_kv.PenstockTier and tier.state()["capacity_bytes"] <= 128 << 20
        assert tier.lookup(key(1), REQUEST) == LookupResult.MISS
    finally:
        manager.shutdown()
