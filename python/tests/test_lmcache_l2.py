# SPDX-License-Identifier: Apache-2.0

"""Penstock's L2 adapter of LMCache's multi-process mode, made from LMCache's command line. Without a GPU."""

import argparse
import json
import os
import re
import select
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("lmcache", reason="LMCache is not installed: ./dev clients")
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.config import add_l2_adapters_args, parse_args_to_l2_adapters_config
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj

from penstock.integrations import lmcache_l2 as ours
from waiting import SECONDS_MAX

SHAPE, DTYPE = torch.Size([2, 4, 16, 128]), torch.bfloat16
NBYTES = SHAPE.numel() * DTYPE.itemsize


def key(number, **more):
    return ObjectKey(**{"chunk_hash": number.to_bytes(32, "big"), "model_name": "llama", "kv_rank": 0, **more})


def memory(number=None, shape=SHAPE, dtype=DTYPE):
    """An object of LMCache's memory, with a number's bytes or none."""
    data = torch.zeros(NBYTES, dtype=torch.uint8) if number is None else content(number)
    return TensorMemoryObj(data, MemoryObjMetadata(shape, dtype, 0, NBYTES, 1, fmt=MemoryFormat.KV_2LTD,
                                                   shapes=[shape], dtypes=[dtype]), None)


def content(number):
    return torch.randint(0, 256, (NBYTES,), generator=torch.Generator().manual_seed(number), dtype=torch.uint8)


class Host:
    """LMCache's controllers: tasks, and a wait for the event that says which have ended."""

    def __init__(self, folder, **more):
        parser = argparse.ArgumentParser()
        add_l2_adapters_args(parser)
        said = {"type": "plugin", "module_path": "penstock.integrations.lmcache_l2", "class_name": "PenstockAdapter",
                "adapter_params": {"folders": str(folder), "capacity_bytes": 128 << 20, "device": "host", **more}}
        config, = parse_args_to_l2_adapters_config(parser.parse_args(["--l2-adapter", json.dumps(said)])).adapters
        self.adapter = create_l2_adapter(config)
        self.adapter.set_backend_identity("plugin")

    def wait(self, event):
        assert select.select([event], [], [], 60)[0], "no event in a minute"
        os.eventfd_read(event)

    def store(self, numbers, objects=None, keys=None):
        keys = keys or [key(number) for number in numbers]
        task = self.adapter.submit_store_task(keys, objects or [memory(number) for number in numbers])
        self.wait(self.adapter.get_store_event_fd())
        done = self.adapter.pop_completed_store_tasks()
        assert list(done) == [task] and self.adapter.pop_completed_store_tasks() == {}
        return done[task]

    def lookup(self, *keys):
        task = self.adapter.submit_lookup_and_lock_task(list(keys), {})
        self.wait(self.adapter.get_lookup_and_lock_event_fd())
        found = self.adapter.query_lookup_and_lock_result(task)
        assert self.adapter.query_lookup_and_lock_result(task) is None  # Told once.
        return [found.test(i) for i in range(len(keys))]

    def load(self, keys, objects):
        task = self.adapter.submit_load_task(keys, objects)
        self.wait(self.adapter.get_load_event_fd())
        loaded = self.adapter.query_load_result(task)
        assert self.adapter.query_load_result(task) is None
        return [loaded.test(i) for i in range(len(keys))]


@pytest.fixture
def host(tmp_path):
    hosts = []

    def made(**more):
        hosts.append(Host(tmp_path / "kv", **more))
        return hosts[-1]

    yield made
    for each in hosts:
        each.adapter.close()


def test_objects_that_were_stored_are_found_and_loaded(host):
    it = host()
    assert it.lookup(key(1)) == [False]
    done = it.store([1, 2, 3])
    assert done.is_successful() and done.bytes_transferred() == 3 * NBYTES
    assert it.store([3, 4]).bytes_transferred() == NBYTES  # One of them is there already.
    assert it.lookup(key(1), key(9), key(4)) == [True, False, True]
    objects = [memory(), memory(), memory()]
    assert it.load([key(4), key(9), key(1)], objects) == [True, False, True]
    assert torch.equal(objects[0].raw_data, content(4)) and torch.equal(objects[2].raw_data, content(1))
    it.adapter.submit_unlock([key(1), key(4)])


def test_the_command_line_of_the_guide_is_read_by_lmcache():
    guide = (Path(__file__).resolve().parents[2] / "docs/guide/kv-cache.md").read_text()
    option, = re.findall(r"--l2-adapter '(.*?)'", guide, re.DOTALL)
    parser = argparse.ArgumentParser()
    add_l2_adapters_args(parser)
    config, = parse_args_to_l2_adapters_config(parser.parse_args(["--l2-adapter", option])).adapters
    assert (config.module_path, config.class_name) == (ours.__name__, "PenstockAdapter")
    assert config.adapter_params == {"folders": "/mnt/nvme0/kv", "capacity_bytes": 200 << 30}


def test_the_three_events_are_distinct(host):
    first, second = host().adapter, host().adapter
    assert len({event for each in (first, second) for event in (
        each.get_store_event_fd(), each.get_lookup_and_lock_event_fd(), each.get_load_event_fd())}) == 6


@pytest.mark.parametrize("other", [{"model_name": "qwen"}, {"kv_rank": 1}, {"object_group_id": 1},
                                   {"cache_salt": "tenant"}])
def test_keys_of_other_models_ranks_groups_and_salts_are_others(host, other):
    it = host()
    it.store([1])
    assert it.lookup(key(1, **other)) == [False]


@pytest.mark.parametrize("other", [{"dtype": torch.float16}, {"shape": torch.Size([2, 4, 32, 64])}])
def test_an_object_of_another_dtype_or_shape_is_not_loaded(host, other):
    it = host()
    it.store([1])
    assert it.load([key(1)], [memory(**other)]) == [False]


def test_a_damaged_object_is_not_loaded_and_the_rest_is(host, tmp_path):
    it = host()
    it.store([1, 2])
    slab, = tmp_path.glob("kv/*/0/slab")
    with open(slab, "r+b") as file:
        file.seek(4096 + 100)
        file.write(bytes(8))
    objects = [memory(), memory()]
    loaded = it.load([key(1), key(2)], objects)
    good = loaded.index(True)
    assert sorted(loaded) == [False, True] and torch.equal(objects[good].raw_data, content(good + 1))
    assert it.lookup(key(1), key(2)) == loaded


def test_a_store_that_fails_says_so_and_is_never_found(host, monkeypatch):
    it = host()

    def failing(names, memories):
        raise OSError("the drive is gone")

    monkeypatch.setattr(it.adapter._store, "put", failing)
    done = it.store([1])
    assert not done.is_successful() and done.bytes_transferred() == 0
    assert it.lookup(key(1)) == [False] and it.load([key(1)], [memory()]) == [False]
    assert "the drive is gone" in it.adapter.report_status()["failure"]


def test_objects_that_are_locked_do_not_make_room(host):
    it = host(capacity_bytes=64 << 20)
    it.store([1])
    assert it.lookup(key(1)) == [True]
    for first in range(100, 2300, 100):
        it.store(range(first, first + 100))
    assert it.adapter._store.state()["evicted"] > 0
    assert it.lookup(key(1), key(100)) == [True, False]
    it.adapter.submit_unlock([key(1)])
    it.adapter.submit_unlock([key(1)])


def test_listeners_hear_of_what_is_stored_loaded_and_deleted(host):
    it, heard = host(), []

    class Listener:
        def on_l2_keys_stored(self, keys, sizes):
            heard.append(("stored", keys, sizes))

        def on_l2_keys_accessed(self, keys):
            heard.append(("accessed", keys))

        def on_l2_keys_deleted(self, keys):
            heard.append(("deleted", keys))

    it.adapter.register_listener(Listener())
    it.store([1])
    it.load([key(1)], [memory()])
    it.adapter.delete([key(1), key(2)])
    assert heard == [("stored", [key(1)], [NBYTES]), ("accessed", [key(1)]), ("deleted", [key(1)])]
    assert it.lookup(key(1)) == [False]


def test_an_object_that_was_made_with_one_shape_is_that_of_a_list_of_one(host):
    """LMCache's own check of an adapter makes such."""
    it = host()
    alone = TensorMemoryObj(content(1), MemoryObjMetadata(SHAPE, DTYPE, 0, NBYTES, 1, fmt=MemoryFormat.KV_2LTD), None)
    assert it.store([1], [alone]).is_successful()
    into = memory()
    assert it.load([key(1)], [into]) == [True] and torch.equal(into.raw_data, content(1))


def test_a_delete_after_the_close_does_nothing(host):
    it = host()
    it.store([1])
    it.adapter.close()
    it.adapter.delete([key(1)])
    assert host().lookup(key(1)) == [True]


def test_usage_is_that_of_the_store_which_makes_room_by_itself(host):
    it = host()
    it.store([1])
    usage = it.adapter.get_usage()
    assert usage.total_bytes_used > NBYTES and 0 < usage.usage_fraction < 0.1
    assert not it.adapter.supports_global_eviction and it.adapter.report_status()["is_healthy"]


def test_close_waits_for_what_is_under_way(host, monkeypatch):
    it, may_go = host(), threading.Event()
    put = it.adapter._store.put

    def held(names, memories):
        assert may_go.wait(SECONDS_MAX)
        return put(names, memories)

    monkeypatch.setattr(it.adapter._store, "put", held)
    it.adapter.submit_store_task([key(1)], [memory(1)])
    closing = threading.Thread(target=it.adapter.close)
    closing.start()
    may_go.set()
    closing.join(60)
    assert not closing.is_alive() and host().lookup(key(1)) == [True]


def test_another_release_is_refused(monkeypatch):
    monkeypatch.setattr(ours, "_ASKED", {"close"})
    with pytest.raises(RuntimeError, match="has other L2 adapters than PenstockAdapter was written for"):
        ours.check_fits()
