# SPDX-License-Identifier: Apache-2.0

"""Penstock's storage plug-in of LMCache, made by LMCache's own launcher, with its own host memory. Without a GPU."""

import asyncio
import re
import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("lmcache", reason="LMCache is not installed: ./dev clients")
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend import CreateStorageBackends

from penstock.integrations import lmcache as ours
from waiting import SECONDS_MAX

LAYERS, TOKENS, HEADS, DIM = 4, 16, 2, 64
DTYPE = torch.bfloat16
FULL = torch.Size([2, LAYERS, TOKENS, HEADS * DIM])


def key(number, worker=0, world=1):
    return CacheEngineKey("llama", world, worker, number, DTYPE)


class Host:
    """A worker of LMCache: its host memory and the plug-in that its configuration names."""

    def __init__(self, folder, loop, plugin=(), **about):
        extra = {"storage_plugin.penstock.module_path": "penstock.integrations.lmcache",
                 "storage_plugin.penstock.class_name": "PenstockPlugin", "penstock.folders": str(folder),
                 "penstock.capacity_bytes": 128 << 20, "penstock.device": "host", **dict(plugin)}
        config = LMCacheEngineConfig.from_defaults(chunk_size=TOKENS, local_cpu=False, max_local_cpu_size=0.02,
                                                   storage_plugins=["penstock"], extra_config=extra,
                                                   lmcache_instance_id="test")
        said = {"model_name": "llama", "world_size": 1, "local_world_size": 1, "worker_id": 0, "local_worker_id": 0,
                "kv_dtype": DTYPE, "kv_shape": (LAYERS, 2, TOKENS, HEADS, DIM), "role": "worker", "chunk_size": TOKENS}
        backends = CreateStorageBackends(config, LMCacheMetadata(**{**said, **about}), loop)
        self.memory, self.plugin, self.loop = backends["LocalCPUBackend"], backends.get("penstock"), loop

    def made(self, number, shape=FULL):
        obj = self.memory.allocate([shape], [DTYPE], MemoryFormat.KV_2LTD)
        obj.tensor.copy_(content(number, shape))
        return obj

    def put(self, *numbers, shape=FULL, **more):
        """Puts, and returns when LMCache's objects are no longer referred to."""
        objs = [self.made(number, shape) for number in numbers]
        self.plugin.batched_submit_put_task([key(number) for number in numbers], objs, **more)
        wait_until(lambda: not any(self.plugin.exists_in_put_tasks(key(number)) for number in numbers))
        wait_until(lambda: all(obj.get_ref_count() == 1 for obj in objs))
        for obj in objs:
            obj.ref_count_down()

    def later(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)


def content(number, shape=FULL):
    return torch.randn(shape, generator=torch.Generator().manual_seed(number)).to(DTYPE)


def wait_until(is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def have(objs, *numbers, shape=FULL):
    good = all(torch.equal(obj.tensor, content(number, shape)) for obj, number in zip(objs, numbers, strict=True))
    for obj in objs:
        obj.ref_count_down()
    return good


@pytest.fixture(scope="module")
def loop():
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.fixture
def host(tmp_path, loop):
    hosts = []

    def made(**more):
        hosts.append(Host(tmp_path / "kv", loop, **more))
        return hosts[-1]

    yield made
    for each in hosts:
        if each.plugin is not None:
            each.plugin.close()


def test_chunks_that_were_put_come_back_and_a_miss_is_none(host):
    it = host()
    assert not it.plugin.contains(key(1)) and it.plugin.get_blocking(key(1)) is None
    messages = []
    it.put(1, 2, 3, on_complete_callback=messages.append)
    wait_until(lambda: messages == [key(1), key(2), key(3)])
    assert it.plugin.contains(key(1)) and it.plugin.batched_contains([key(1), key(2), key(9), key(3)]) == 2
    first, nothing, second = it.plugin.batched_get_blocking([key(3), key(9), key(1)])
    assert nothing is None and have([first, second], 3, 1)
    assert it.plugin.get_allocator_backend() is it.memory


def test_loads_that_are_not_waited_for_end_at_the_first_miss(host):
    it = host()
    it.put(1, 2, 4)
    assert it.later(it.plugin.batched_async_contains("l", [key(1), key(2), key(3), key(4)], True)) == 2
    assert have(it.later(it.plugin.batched_get_non_blocking("l", [key(1), key(2), key(3), key(4)])), 1, 2)
    free = it.memory.memory_allocator
    assert free is not None and it.plugin.state()["gets"]["done"] == 3


def test_an_object_is_referred_to_until_it_is_written_and_not_longer(host, monkeypatch):
    it = host()
    may_go, seen = threading.Event(), []
    put = it.plugin._store.put

    def held(names, memories):
        assert may_go.wait(SECONDS_MAX)
        return put(names, memories)

    monkeypatch.setattr(it.plugin._store, "put", held)
    obj = it.made(1)
    it.plugin.batched_submit_put_task([key(1)], [obj], on_complete_callback=seen.append)
    it.plugin.batched_submit_put_task([key(1)], [obj])  # It is under way already.
    assert obj.get_ref_count() == 2 and it.plugin.exists_in_put_tasks(key(1)) and not it.plugin.contains(key(1))
    may_go.set()
    wait_until(lambda: obj.get_ref_count() == 1 and seen == [key(1)])
    obj.ref_count_down()


def test_a_put_that_fails_is_a_miss_and_no_reference_stays(host, monkeypatch):
    it = host()
    messages = []

    def failing(names, memories):
        raise OSError("the drive is gone")

    monkeypatch.setattr(it.plugin._store, "put", failing)
    it.put(1, on_complete_callback=messages.append)
    assert not messages and not it.plugin.contains(key(1)) and it.plugin.get_blocking(key(1)) is None
    assert "the drive is gone" in it.plugin.state()["failure"]


def test_a_damaged_chunk_is_none_and_then_no_hit(host, tmp_path):
    it = host()
    it.put(1, 2)
    slab, = tmp_path.glob("kv/*/0/slab")
    with open(slab, "r+b") as file:
        file.seek(4096 + 100)
        file.write(bytes(8))
    objs = it.plugin.batched_get_blocking([key(1), key(2)])
    bad = objs.index(None)
    assert have([objs[1 - bad]], (1, 2)[1 - bad])
    assert it.plugin.contains(key(2 - bad)) and not it.plugin.contains(key(1 + bad))


def test_a_chunk_that_is_not_full_has_its_own_shape(host):
    it = host()
    part = torch.Size([2, LAYERS, 5, HEADS * DIM])
    it.put(1, shape=part)
    obj = it.plugin.get_blocking(key(1))
    assert obj.get_shapes() == [part] and have([obj], 1, shape=part)
    again = host()  # It does not know of that shape, so it is a miss, and no chunk of another one.
    assert not again.plugin.contains(key(1)) and again.plugin.get_blocking(key(1)) is None


def test_a_restart_finds_full_chunks(host):
    first = host()
    first.put(1)
    first.plugin.close()
    assert have([host().plugin.get_blocking(key(1))], 1)


@pytest.mark.parametrize("other", [{"model_name": "qwen"}, {"kv_dtype": torch.float16},
                                   {"kv_shape": (2 * LAYERS, 2, TOKENS, HEADS, DIM)}])
def test_another_model_dtype_or_shape_finds_nothing(host, other):
    first = host()
    first.put(1)
    first.plugin.close()  # So that its chunk is on the drive, and whoever opens this store sees it.
    assert not host(**other).plugin.contains(key(1))


def test_keys_of_other_workers_and_worlds_are_others(host):
    it = host()
    it.put(1)
    assert not it.plugin.contains(key(1, worker=1)) and not it.plugin.contains(key(1, world=2))


def test_of_an_mla_model_the_first_rank_writes_and_the_others_read(host):
    shape = (LAYERS, 1, TOKENS, 1, DIM)
    first, second = (host(use_mla=True, kv_shape=shape, world_size=2, worker_id=rank) for rank in (0, 1))
    form = torch.Size([1, LAYERS, TOKENS, DIM])
    obj = first.memory.allocate([form], [DTYPE], MemoryFormat.KV_MLA_FMT)
    obj.tensor.copy_(content(1, form))
    second.plugin.batched_submit_put_task([key(1)], [obj])
    assert obj.get_ref_count() == 1 and not second.plugin.pin(key(1)) and not second.plugin.remove(key(1))
    first.plugin.batched_submit_put_task([key(1)], [obj])
    wait_until(lambda: first.plugin.contains(key(1)))
    first.plugin._store.commit()
    second.plugin._store.refresh()
    assert have([second.plugin.get_blocking(key(1))], 1, shape=form)
    wait_until(lambda: obj.get_ref_count() == 1)
    obj.ref_count_down()


def test_pinned_chunks_stay_until_they_are_unpinned(host):
    it = host()
    it.put(1)
    assert it.plugin.contains(key(1), pin=True) and it.plugin.pin(key(1))
    assert [it.plugin.unpin(key(1)) for _ in range(3)] == [True, True, False]
    assert it.plugin.remove(key(1)) and not it.plugin.remove(key(1))


def test_the_command_line_of_the_guide_makes_the_plug_in(tmp_path, loop, monkeypatch):
    """By LMCache's own parser and launcher, but for the folder and for sizes, which are small here."""
    guide = (Path(__file__).resolve().parents[2] / "docs/guide/kv-cache.md").read_text()
    for name, quoted, word in re.findall(r"(LMCACHE_[A-Z_]+)=(?:'(.*?)'|(\w+))", guide, re.DOTALL):
        monkeypatch.setenv(name, quoted or word)
    config = LMCacheEngineConfig.from_env()
    assert config.extra_config["penstock.capacity_bytes"] == 200 << 30 and config.max_local_cpu_size == 8
    config.max_local_cpu_size = 0.02
    config.extra_config.update({"penstock.folders": str(tmp_path / "kv"), "penstock.capacity_bytes": 128 << 20,
                                "penstock.device": "host"})
    made = CreateStorageBackends(config, LMCacheMetadata("llama", 1, 1, 0, 0, DTYPE, (LAYERS, 2, 256, HEADS, DIM),
                                                         role="worker"), loop)
    assert type(made["penstock"]) is ours.PenstockPlugin and not made["penstock"].contains(key(1))
    made["penstock"].close()


def test_what_cannot_be_is_told_in_a_sentence(host, monkeypatch):
    assert host(plugin={"penstock.capacity_bytes": 0}).plugin is None  # LMCache logs it, and goes on without.
    monkeypatch.setattr(ours, "_ASKED", {"contains"})
    with pytest.raises(RuntimeError, match="has other storage plug-ins than PenstockPlugin was written for"):
        ours.check_fits()
