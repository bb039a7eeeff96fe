# SPDX-License-Identifier: Apache-2.0

"""Penstock's storage backend under SGLang's own factory, on SGLang's own host memory and by its controller's calls.

No GPU: host memory is not pinned, torchvision is replaced by nothing, and of the controller, whose constructor asks for
a GPU, the methods that call a storage backend are run.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("sglang", reason="SGLang is not installed: ./dev clients")
import without_torchvision  # noqa: F401
from sglang.srt.managers.cache_controller import HiCacheController, StorageOperation
from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig, PoolName
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.storage import StorageBackendFactory

from penstock.integrations import sglang_kv

PAGE, PAGES, LAYERS, HEADS, DIM = 16, 24, 3, 2, 64
DTYPE = torch.bfloat16


def host_pool(layout="layer_first", page=PAGE):
    buffers = tuple(torch.zeros(0, HEADS, DIM, dtype=DTYPE) for _ in range(LAYERS))
    pointers = torch.zeros(LAYERS, dtype=torch.uint64)
    info = MHABufferInfo(
        buffers=KVBuffers(k=buffers, v=buffers, k_data_ptrs=pointers, v_data_ptrs=pointers, layout=KVBufferLayout.NHD),
        page_size=page, head_num=HEADS, head_dim=DIM, v_head_dim=DIM, dtype=DTYPE, device=torch.device("cpu"))
    return MHATokenToKVPoolHost(info, 1.0, 0, page, layout, pin_memory=False, device_capacity_tokens=PAGE * PAGES,
                                start_layer=0, end_layer=LAYERS)


def storage_config(extra, **more):
    said = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0, "attn_cp_size": 1,
            "is_mla_model": False, "enable_storage_metrics": True, "is_page_first_layout": False,
            "model_name": "llama"}
    return HiCacheStorageConfig(**{**said, **more}, extra_config=extra)


class Host:
    """SGLang's side: its host memory, a backend of its factory, and its controller's calls."""

    def __init__(self, folder, layout="layer_first", in_place=1, page=PAGE, **config):
        said = {"backend_name": "penstock", "module_path": "penstock.integrations.sglang_kv",
                "class_name": "PenstockStorage", "interface_v1": in_place, "folders": str(folder),
                "capacity_bytes": 128 << 20, "device": "host", "prefetch_threshold": 16}
        extra = HybridCacheController.parse_storage_backend_extra_config(json.dumps(said))[0]
        self.pool = host_pool(layout, page)
        self.config = storage_config(extra, **config)
        self.storage = StorageBackendFactory.create_backend("dynamic", self.config, self.pool)
        self.storage.register_mem_pool_host(self.pool)
        self.storage.register_mem_host_pool_v2(self.pool, PoolName.KV)
        kind = "zero_copy" if in_place else "generic"
        self.page_get, self.page_set = (
            getattr(HiCacheController, {"zero_copy": f"_page_{call}_zero_copy",
                                        "generic": f"_generic_page_{call}"}[kind]).__get__(self) for call in
            ("get", "set"))
        self.page_set_func = self.page_set
        self.storage_backend, self.storage_host_pool, self.page_size = self.storage, self.pool, page

    def fill(self):
        self.pool.kv_buffer.copy_(torch.randn(self.pool.kv_buffer.shape).to(DTYPE))

    def indices(self, *pages):
        return torch.cat([torch.arange(self.page_size * page, self.page_size * (page + 1)) for page in pages])

    def pages(self, *numbers):
        return [self.pool.get_data_page(self.page_size * number).clone() for number in numbers]

    def back_up(self, keys, *pages):
        """As SGLang's thread of backups; how many tokens it takes for stored."""
        operation = StorageOperation(self.indices(*pages), [], hash_value=keys)
        HiCacheController._page_backup(self, operation)
        return operation.completed_tokens

    def load(self, keys, *pages):
        """As SGLang's thread of prefetches: how many of the first pages were loaded."""
        operation = SimpleNamespace(request_id="r", is_terminated=lambda: False, completed_tokens=0,
                                    increment=lambda tokens: True)
        return self.page_get(operation, keys, self.indices(*pages))


@pytest.fixture
def host(tmp_path):
    hosts = []

    def made(*given, **more):
        hosts.append(Host(tmp_path / "kv", *given, **more))
        return hosts[-1]

    yield made
    for each in hosts:
        each.storage.close()


def test_the_command_line_of_the_guide_makes_the_backend(tmp_path):
    """By SGLang's own parser and factory, but for the folder and for sizes, which are small here."""
    guide = (Path(__file__).resolve().parents[2] / "docs/guide/kv-cache.md").read_text()
    option = re.findall(r"--hicache-storage-backend-extra-config '(.*?)'", guide, re.DOTALL)[0]  # The first is ours.
    extra = HybridCacheController.parse_storage_backend_extra_config(option)[0]
    assert extra["capacity_bytes"] == 200 << 30 and extra["interface_v1"] == 1
    extra.update(folders=str(tmp_path / "kv"), capacity_bytes=128 << 20, device="host")
    storage = StorageBackendFactory.create_backend("dynamic", storage_config(extra), None)
    storage.register_mem_pool_host(host_pool())
    assert type(storage) is sglang_kv.PenstockStorage and storage.batch_exists(["a"]) == 0
    storage.close()


@pytest.mark.parametrize("in_place", [1, 0])
@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct", "page_head"])
def test_pages_that_were_backed_up_come_back_elsewhere(host, layout, in_place):
    it = host(layout, in_place)
    it.fill()
    was = it.pages(3, 5, 7)
    assert it.storage.batch_exists(["a", "b", "c"]) == 0
    assert it.back_up(["a", "b", "c"], 3, 5, 7) == 3 * PAGE
    assert it.back_up(["c", "b"], 7, 5) == 2 * PAGE  # They are there already.
    assert it.storage.batch_exists(["a", "b", "x", "c"]) == 2 and it.storage.exists("c")
    it.pool.kv_buffer.zero_()
    assert it.load(["a", "b", "c"], 11, 1, 20) == 3
    assert all(torch.equal(now, then) for now, then in zip(it.pages(11, 1, 20), was, strict=True))
    others = [page for page in range(PAGES) if page not in (11, 1, 20)]
    assert not any(page.any() for page in it.pages(*others))
    assert it.storage.state()["gets"]["done"] == 3


def test_in_place_a_page_is_one_request_of_all_its_pieces(host):
    it = host()
    it.fill()
    it.back_up(["a", "b"], 0, 1)
    pieces = it.storage._pages(["a", "b"], it.indices(0, 1))
    assert [len(page) for page in pieces] == [2 * LAYERS] * 2
    assert it.storage.state()["puts"]["done"] == 2


def test_a_damaged_page_ends_the_prefix_and_is_no_hit_any_more(host, tmp_path):
    it = host()
    it.fill()
    it.back_up(["a", "b", "c"], 0, 1, 2)
    slab, = tmp_path.glob("kv/*/0/slab")
    with open(slab, "r+b") as file:
        file.seek(4096 + 100)
        file.write(bytes(8))
    loaded = it.storage.batch_get_v1(["a", "b", "c"], it.indices(3, 4, 5))
    assert sorted(loaded) == [False, True, True]
    assert it.storage.batch_exists(["a", "b", "c"]) == loaded.index(False)


@pytest.mark.parametrize("other", [{"model_name": "qwen"}, {"tp_size": 2}, {"tp_size": 2, "tp_rank": 1},
                                   {"pp_size": 2}, {"attn_cp_size": 2}, {"layout": "page_first"}, {"in_place": 0},
                                   {"page": 2 * PAGE}])
def test_another_model_layout_or_page_size_finds_nothing(host, other):
    it = host()
    it.fill()
    it.back_up(["a"], 0)
    it.storage.close()  # So that its chunk is on the drive, and whoever opens this store sees it.
    assert host(**other).storage.batch_exists(["a"]) == 0


def test_of_an_mla_model_one_rank_writes_and_all_read(host):
    """The host memory is that of another kind of model: what matters is who writes."""
    first, second = (host(is_mla_model=True, tp_size=2, tp_rank=rank) for rank in (0, 1))
    first.fill()
    was = first.pages(0)[0]
    assert second.storage.batch_set_v1(["a"], second.indices(0)) == [True]
    assert first.storage.batch_exists(["a"]) == 0  # As the other one only reads.
    first.back_up(["a"], 0)
    first.storage._store.commit()
    second.storage._store.refresh()
    assert second.load(["a"], 4) == 1 and torch.equal(second.pages(4)[0], was)


def test_single_pages_as_tensors(host):
    it = host(in_place=0)
    it.fill()
    page, = it.pages(2)
    assert it.storage.set("a", page)
    target = torch.zeros_like(page)
    assert it.storage.get("a", target) is target and torch.equal(target, page)
    assert it.storage.get("b", target) is None
    assert it.storage.get("a", torch.zeros(4, dtype=DTYPE)) is None  # Of another size: a miss.


def test_clear_removes_all_and_the_next_pages_are_kept(host):
    it = host()
    it.fill()
    it.back_up(["a"], 0)
    assert it.storage.clear()
    assert it.storage.batch_exists(["a"]) == 0
    assert it.back_up(["a"], 0) == PAGE


def test_clear_of_two_processes_takes_the_pages_of_each(host):
    first, second = host(), host()
    first.fill()
    second.fill()
    first.back_up(["a"], 0)
    second.back_up(["b"], 1)
    assert not first.storage.clear() and not second.storage.clear()  # Each only its own.
    first.storage._store.refresh()
    assert first.storage.batch_exists(["a"]) == 0 and first.storage.batch_exists(["b"]) == 0


def test_a_closed_store_fails_calls_and_ends_no_thread(host):
    it = host()
    it.fill()
    it.back_up(["a"], 0)
    it.storage.close()
    assert it.back_up(["b"], 1) == 0 and it.load(["a"], 0) == 0
    assert it.storage.batch_exists(["a"]) == 0 and "not open" in str(it.storage.failure)


def test_a_store_that_is_closed_under_a_call_is_a_miss(host):
    """As SGLang's threads see it that asked while another one cleared the store."""
    it = host()
    it.fill()
    it.back_up(["a"], 0)
    it.storage._store.close()
    assert it.storage.batch_exists(["a"]) == 0 and it.load(["a"], 1) == 0 and it.back_up(["b"], 1) == 0
    assert it.storage.failure is not None


def test_statistics_are_sglangs_own_and_told_once(host):
    it = host()
    it.fill()
    it.back_up(["a", "b"], 0, 1)
    it.load(["a"], 0)
    stats = it.storage.get_stats()
    assert stats.backup_pgs == [2] and stats.prefetch_pgs == [1] and stats.prefetch_bandwidth[0] > 0
    assert it.storage.get_stats().backup_pgs == []


def test_what_it_cannot_keep_is_refused_in_a_sentence(host, tmp_path, monkeypatch):
    it = host()
    with pytest.raises(RuntimeError, match="further host pool 'mamba'"):
        it.storage.register_mem_host_pool_v2(it.pool, PoolName.MAMBA)
    storage = sglang_kv.PenstockStorage(storage_config({"folders": str(tmp_path)}))
    with pytest.raises(ValueError, match="lacks capacity_bytes"):
        storage.register_mem_pool_host(it.pool)
    monkeypatch.setattr(sglang_kv, "_ASKED", {"get"})
    with pytest.raises(RuntimeError, match="has other storage backends than PenstockStorage was written for"):
        sglang_kv.check_fits()
