# SPDX-License-Identifier: Apache-2.0

"""Runs hosts' own tests of their KV storage with Penstock's adapters in the place of the hosts' own classes: a plugin
of pytest, for the sources that README.md names. Neither host nor test is changed.

A test that looks into what the other class alone has (its files, queues, tables in memory) is left out, by what its
source names. The summary counts those.
"""

import functools
import importlib
import inspect
import re
import shutil
import tempfile
from types import SimpleNamespace

import pytest

SETTINGS = {"capacity_bytes": 64 << 20, "device": "host"}

# Of each module of tests: what only the class has that they were written for.
OTHERS = {
    "test_fs_tier": r"io_mod\.os|mgr_mod|_pool\b|_use_o_direct|DualQueue|batch_lookup_C|\._lookup_manager|batch_size=3"
                    r"|open\(|os\.remove|/dev/null",
    "test_tiering_offloading": r"custom_param|config_info|MetricsSecondary|completed_jobs.append",
    "test_mock_l2_adapter": r"slow_adapter|bytes_by_cache_salt == {\"alice",
    "test_fs_l2_adapter_delete": r"total_bytes_used == [1-9]",
    "test_fs_connector": r"create_test_config_with|multiple_paths|file_persistence|assert backend",
}
left_out, folders, opened = [], [], []


def folder():
    folders.append(tempfile.mkdtemp())
    return folders[-1]


class Chunks:
    """The table of vLLM's example of a tier, into which its tests put chunks."""

    def __init__(self, tier):
        self._tier = tier

    def __setitem__(self, key, is_there):
        assert is_there and self._tier._store.put([key], [bytes(self._tier.block_size_bytes)])

    def __contains__(self, key):
        return self._tier._store.lookup([key])[0]


@functools.cache
def vllm_tiers():
    module = importlib.import_module("penstock.integrations.vllm_kv")

    class Tier(module.PenstockTier):
        """In the place of the file-system tier."""

        def __init__(self, offloading_spec, primary_kv_view, tier_type, root_dir=None, n_read_threads=4,
                     n_write_threads=4, **more):
            if not isinstance(offloading_spec.config.model.name, str):  # A mock of all.
                made = importlib.import_module("tests.v1.kv_offload.conftest").make_offloading_config
                offloading_spec = SimpleNamespace(config=made(), blocks_per_chunk=1, kv_events_config=None)
            super().__init__(offloading_spec, primary_kv_view, tier_type, folders=root_dir or folder(), **SETTINGS,
                             **more)
            opened.append(self.shutdown)
            self.chunks, self.completed_jobs = Chunks(self), self._finished
            self._store_job_keys = {}
            # The tests wait for a thread that looks for files. There is none here.
            self._lookup_manager = SimpleNamespace(_pending_results=SimpleNamespace(empty=lambda: False))
            self.file_mapper = SimpleNamespace(base_path=root_dir, get_file_name=self._place)

        def _place(self, key):
            """A path that is there if the chunk is."""
            return f"{self._store._drives[0].folder}{'' if self._store.lookup([key])[0] else '/none'}"

        def get_num_chunks(self):
            return self.state()["chunks"]

    class Example(Tier):
        """In the place of vLLM's example, which is for memory, and whose jobs end before they return."""

        medium = module._base.Medium.CPU

        def _submit(self, job, is_load):
            super()._submit(job, is_load)
            Tier.drain_jobs(self)

    return {"fs": Tier, "example": Example}


def lmcache_l2():
    module = importlib.import_module("penstock.integrations.lmcache_l2")

    class Adapter(module.PenstockAdapter):
        """In the place of LMCache's mock and of its adapter of files, whose tests give objects without a shape."""

        def __init__(self, config):
            super().__init__({"folders": folder(), **SETTINGS})
            opened.append(self.close)

        def submit_store_task(self, keys, objects):
            return super().submit_store_task(keys, [shaped(each) for each in objects])

        def submit_load_task(self, keys, objects):
            return super().submit_load_task(keys, [shaped(each) for each in objects])

    return Adapter


def shaped(obj):
    if hasattr(obj, "get_shapes"):
        return obj
    return SimpleNamespace(byte_array=obj.byte_array, get_shapes=lambda: [], get_dtypes=lambda: [],
                           get_memory_format=lambda: SimpleNamespace(name=""))


def lmcache_plugin():
    module = importlib.import_module("penstock.integrations.lmcache")

    class Plugin(module.PenstockPlugin):
        """In the place of LMCache's remote backend with files, which returns futures of puts."""

        def __init__(self, config, metadata, loop, local_cpu_backend, dst_device):
            config.extra_config = {f"penstock.{key}": value for key, value in
                                   {"folders": folder(), **SETTINGS}.items()}
            super().__init__(dst_device, config, metadata, local_cpu_backend, loop)
            opened.append(self.close)

        def submit_put_task(self, key, obj):
            self.batched_submit_put_task([key], [obj])
            while self.exists_in_put_tasks(key):
                pass

    return Plugin


SLOTS = {
    "vllm": [("vllm.v1.kv_offload.tiering.fs.manager", "FileSystemTierManager",
              lambda: vllm_tiers()["fs"]),
             ("vllm.v1.kv_offload.tiering.example.manager", "ExampleSecondaryTierManager",
              lambda: vllm_tiers()["example"])],
    "lmcache": [("lmcache.v1.distributed.l2_adapters.mock_l2_adapter", "MockL2Adapter", lmcache_l2),
                ("lmcache.v1.distributed.l2_adapters.fs_l2_adapter", "FSL2Adapter", lmcache_l2),
                ("lmcache.v1.storage_backend.remote_backend", "RemoteBackend", lmcache_plugin)],
}


def pytest_addoption(parser):
    parser.addoption("--host", choices=list(SLOTS), required=True)


def pytest_configure(config):
    for module, name, made in SLOTS[config.getoption("--host")]:
        setattr(importlib.import_module(module), name, made())


def names_of(item):
    """What a test's source names, its fixtures among it."""
    return inspect.getsource(item.function) + " ".join(item.fixturenames)


def pytest_collection_modifyitems(items, config):
    left_out[:] = [item for item in items
                   if re.search(OTHERS.get(item.module.__name__.rpartition(".")[2], "(?!)"), names_of(item))]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    for close in opened:
        close()
    for each in folders:
        shutil.rmtree(each, ignore_errors=True)
    opened.clear()
    folders.clear()


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"left out, since they look into another class: {len(left_out)}")
    for item in left_out:
        terminalreporter.write_line(f"  {item.nodeid}")
