# SPDX-License-Identifier: Apache-2.0

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import kv
from penstock.kv.limits import Budget, Health

MIB = 1 << 20
CHUNK = 100_000
SETTINGS = {"model": "llama", "dtype": "bfloat16", "layout": "tp1", "capacity_bytes": 16 * MIB, "extent_bytes": MIB}
DONE, PRESENT, MISS, DAMAGED, MISMATCH, FULL, LARGE, FAILED, LATE, WRITE_BUDGET_EXCEEDED, SLOW = kv.Outcome


def content(key, size=CHUNK):
    return np.random.default_rng(key).integers(0, 256, size, dtype=np.uint8)


def put(store, *keys):
    return store.put([str(key) for key in keys], [content(key) for key in keys])


def look(store, *keys):
    """The outcomes; where they are DONE, only if the bytes are right."""
    memories = [np.zeros(CHUNK, dtype=np.uint8) for _ in keys]
    outcomes = store.get([str(key) for key in keys], memories)
    for key, memory, outcome in zip(keys, memories, outcomes, strict=True):
        assert outcome != DONE or (memory == content(key)).all(), key
    return outcomes


@pytest.fixture
def session():
    with penstock.Session(device="host") as session:
        yield session


@pytest.fixture
def make(tmp_path, session):
    stores = []

    def made(folders=tmp_path / "kv", **settings):
        stores.append(kv.Store(folders, session=session, **{**SETTINGS, **settings}))
        return stores[-1]

    yield made
    for store in stores:
        store.close()


def test_what_is_put_comes_back_and_anything_else_is_a_miss(make):
    store = make()
    assert put(store, 1, 2, 3) == [DONE] * 3
    assert put(store, 3, 4) == [PRESENT, DONE]
    assert look(store, 4, 9, 1) == [DONE, MISS, DONE]
    assert store.lookup(["1", b"2", "9"]) == [True, True, False]
    assert store.prefix(["1", "2", "9", "3"]) == 2 and store.prefix(["1"]) == 1
    assert store.get(["1"], [bytearray(CHUNK + 1)]) == [MISMATCH]
    assert store.put(["huge"], [bytearray(MIB)]) == [LARGE]
    assert store.delete(["1", "9"]) == [True, False] and look(store, 1) == [MISS]
    state = store.state()
    assert state["chunks"] == 3 and state["puts"]["done"] == 4 and state["gets"]["done"] == 2
    assert sum(state["bytes_by_path"].values()) >= 6 * CHUNK


def test_pages_of_several_layers_are_gathered_and_scattered_in_one_chunk(make, session):
    store = make()
    layers = [session.allocate(64 * 1024) for _ in range(4)]  # Of a device: 16 pages of 4 KiB each.
    for number, layer in enumerate(layers):
        layer.upload(content(number, 64 * 1024).tobytes())
    pages = [3, 7, 1]

    def pieces():
        return [penstock.Pointer(layer.address + 4096 * page, 4096, layer) for layer in layers for page in pages]

    assert store.put(["block"], [pieces()], stream=-1) == [DONE]
    before = [layer.download() for layer in layers]
    for layer in layers:
        layer.upload(bytes(64 * 1024))
    assert store.get(["block"], [pieces()], stream=-1) == [DONE]
    for layer, old in zip(layers, before, strict=True):
        now = layer.download()
        for page in range(16):
            expected = old[4096 * page:4096 * (page + 1)] if page in pages else bytes(4096)
            assert now[4096 * page:4096 * (page + 1)] == expected, page


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_block_is_its_piece_of_every_layer(make, timeout):
    caches = [np.arange(64 * size, dtype=np.uint8).reshape(64, size) for size in (100, 4096, 7)]
    before = [cache.copy() for cache in caches]
    blocks = kv.Blocks(caches)
    store = make()

    assert store.put(["3", "5"], [blocks[3], [blocks[5]]]) == [DONE, DONE]
    for cache in caches:
        cache[:] = 0
    assert store.get(["5", "3"], [blocks[5], blocks[60]], timeout=timeout) == [DONE, DONE]

    for cache, old in zip(caches, before, strict=True):
        assert (cache[5] == old[5]).all() and (cache[60] == old[3]).all()
        assert not cache[:5].any() and not cache[6:60].any() and not cache[61:].any()
    assert (len(blocks), blocks[5].nbytes, blocks[5].is_cuda) == (64, 100 + 4096 + 7, False)


def test_blocks_that_are_none_are_refused(make):
    for layers in ([], [np.zeros((2, 4)), np.zeros((3, 4))], [np.zeros((0, 4))], [np.zeros((4, 4)).T[1:]]):
        with pytest.raises(ValueError, match="expected a tensor|not contiguous"):
            kv.Blocks(layers)
    for layers in ([b"bytes"], [np.zeros(())], [object()]):
        with pytest.raises(TypeError, match="expected a tensor"):
            kv.Blocks(layers)
    with pytest.raises(IndexError, match="no block 2 of 2"):
        kv.Blocks([np.zeros((2, 4))])[2]


def test_a_store_that_was_closed_has_all_of_it_again(make):
    with make() as store:
        put(store, *range(20))
    assert look(make(), *range(20)) == [DONE] * 20


def test_the_least_used_makes_room_and_what_is_pinned_stays(make):
    store = make()
    assert put(store, *range(144)) == [DONE] * 144  # 9 to an extent.
    assert store.pin(["0"]) == [True]
    assert look(store, 1) == [DONE]
    put(store, *range(1000, 1050))
    assert store.lookup(["0", "1", "2", "3"]) == [True, True, False, False]
    assert store.unpin(["0", "0"]) == [True, False]
    assert store.state()["used_bytes"] <= 16 * MIB


def test_a_changed_byte_is_damage_and_then_a_miss(make, tmp_path):
    store = make()
    put(store, 1, 2)
    store.commit()
    slab, = tmp_path.glob("kv/*/0/slab")
    with open(slab, "r+b") as file:
        file.seek(4096 + 5)
        byte = file.read(1)
        file.seek(4096 + 5)
        file.write(bytes([byte[0] ^ 1]))
    assert sorted(look(store, 1, 2)) == [DONE, DAMAGED]
    assert sorted(look(store, 1, 2)) == [DONE, MISS]


def test_a_slab_that_was_cut_is_no_hit_and_no_crash(make, tmp_path):
    with make() as store:
        put(store, *range(30))
    slab, = tmp_path.glob("kv/*/0/slab")
    for size in (5 * MIB // 2, 4100, 0):
        os.truncate(slab, size)
        with make(read_only=True) as reader:
            assert DONE not in look(reader, 29) or size > MIB
    with make() as store:  # The writer gives it its size again, and finds no headers.
        assert DONE not in look(store, *range(30))
        assert put(store, 50) == [DONE] and look(store, 50) == [DONE]


def test_a_smaller_capacity_gives_room_back(make, tmp_path):
    with make() as store:
        put(store, *range(100))
    with make(capacity_bytes=4 * MIB) as store:
        slab, = tmp_path.glob("kv/*/0/slab")
        assert slab.stat().st_size == 4 * MIB
        found = look(store, *range(100))
        assert set(found) == {DONE, MISS} and store.state()["capacity_bytes"] == 4 * MIB


def test_files_are_the_owners_alone(make, tmp_path):
    put(make(), 1)
    for path in (tmp_path / "kv").rglob("*"):
        assert path.stat().st_mode & 0o77 == 0, path


def test_purged_is_gone_and_what_is_in_use_is_not_purged(make, tmp_path):
    what = {"model": "llama", "dtype": "bfloat16", "layout": "tp1"}
    store = make()
    put(store, 1)
    with pytest.raises(BlockingIOError, match="a process writes it: close that store first"):
        kv.purge(tmp_path / "kv", **what)
    store.close()
    assert kv.purge(tmp_path / "kv", **what, salt=b"other") == 0
    assert kv.purge(tmp_path / "kv", **what) == 1
    assert list((tmp_path / "kv").iterdir()) == []


@pytest.mark.parametrize("direct", [True, False])
def test_chunks_of_any_size_and_alignment_go_directly_or_through_the_page_cache(make, direct):
    store = make(direct=direct)
    memory = content(1, 300_001)
    sizes = [1, 511, 4096, 100_000, 300_000]
    assert store.put([f"{size}" for size in sizes], [memory[1:size + 1] for size in sizes]) == [DONE] * 5
    back = np.zeros(300_001, dtype=np.uint8)
    for size in sizes:
        assert store.get([f"{size}"], [back[1:size + 1]]) == [DONE]
        assert (back[1:size + 1] == memory[1:size + 1]).all() and back[0] == 0
    assert store.state()["chunks"] == 5


def test_several_drives_share_the_chunks(make, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    with make(folders) as store:
        put(store, *range(60))
        assert all(drive["chunks"] > 5 for drive in store.state()["drives"])
    assert look(make(folders), *range(60)) == [DONE] * 60


def test_futures_and_threads(make):
    store = make()
    future = store.put_async(["1"], [content(1)])
    assert future.result(60) == [DONE]
    memory = np.zeros(CHUNK, dtype=np.uint8)
    assert store.get_async(["1"], [memory]).result(60) == [DONE] and (memory == content(1)).all()
    wrong = []

    def work(seed):
        for key in np.random.default_rng(seed).integers(0, 300, 150):
            put(store, int(key))
            wrong.extend(outcome for outcome in look(store, int(key)) if outcome not in (DONE, MISS))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_wrong_use_is_told(make, tmp_path, session):
    for wrong, match in [({"eviction": "fifo"}, "'lru' or 'cost'"), ({"capacity_bytes": 5}, "at least one extent"),
                         ({"extent_bytes": 1000}, "whole pages")]:
        with pytest.raises((ValueError, penstock.PenstockError), match=match):
            make(**wrong)
    store = make()
    with pytest.raises(TypeError, match="a list of keys"):
        store.lookup("key")
    with pytest.raises(ValueError, match="as many memories"):
        store._drives[0].own.put(bytes(32), [[b"x"]], [], None)
    with pytest.raises(ValueError, match="cannot put"):
        put(make(read_only=True), 99)
    store.close()
    store.close()
    with pytest.raises(penstock.ClosedError):
        look(store, 1)
    with pytest.raises(OSError) as full:
        make(tmp_path / "full", capacity_bytes=1 << 60)
    assert full.value.errno in (errno.ENOSPC, errno.EFBIG)


def test_what_the_drive_refuses_is_told_and_a_miss(make):
    store = make()
    pieces = [bytes([number % 256]) for number in range(2000)]  # More than a request takes.
    assert store.put(["1"], [pieces]) == [FAILED]
    assert "1024" in str(store.failure) or "invalid" in str(store.failure).lower()
    assert store.state()["failure"] == str(store.failure)
    assert store.lookup(["1"]) == [False]


def test_a_day_has_so_many_bytes_also_after_a_restart(make, tmp_path):
    with make(bytes_a_day=250_000) as store:
        assert [put(store, key) for key in range(3)] == [[DONE], [DONE], [WRITE_BUDGET_EXCEEDED]]
        assert store.state()["written_today_bytes"] == 200_000
        store.commit()
    assert put(make(bytes_a_day=250_000), 3) == [WRITE_BUDGET_EXCEEDED]
    now = [0.0]
    budget = Budget(tmp_path, 10, lambda: now[0])
    assert budget.take(10) and not budget.take(1)
    budget.save()
    assert not Budget(tmp_path, 10, lambda: now[0]).take(1)
    now[0] += 86400
    assert budget.take(1) and Budget(tmp_path, 10, lambda: now[0]).take(10)
    for nonsense in (b"", b"1970-01-02 fish", b"\xff" * 500, b"1970-01-02 -9"):
        (tmp_path / "written").write_bytes(nonsense)
        assert Budget(tmp_path, 10, lambda: now[0]).take(10)


def test_a_drive_that_became_slow_is_left_alone_for_a_while(make, tmp_path):
    now = [100.0]
    health = Health(lambda: now[0])
    for seconds in (0.01, 0.02, 0.9, 0.9, 0.9, 0.9, 0.9, 9, 9, 9, 0.01, 9, 9, 9):
        health.add(MIB, seconds)
        assert not health.is_slow
    health.add(MIB, 9)
    assert health.is_slow and "4 writes in a row took over 10 times as long" in health.reason
    now[0] += 31
    assert not health.is_slow
    store = make([tmp_path / "a", tmp_path / "b"])
    one, other = store._drives
    one.health._until = time.monotonic() + 1000
    assert put(store, *range(20)) == [DONE] * 20
    assert [drive["chunks"] for drive in store.state()["drives"]] == [0, 20]
    other.health._until = one.health._until
    assert put(store, 30) == [SLOW] and look(store, 3) == [DONE]


def samples_of(page):
    """Each line's name and labels, and its number; every family is told of once, before its samples."""
    samples, families = {}, []
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            families.append(line.split()[2])
            continue
        if line.startswith("# HELP "):
            continue
        name, labels, number = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\[n"\\])*",?)+)\} (\d+)', line).groups()
        assert name == families[-1] and (name, labels) not in samples
        labels = labels.replace('folder="",', "nowhere ")
        samples[name, re.sub(r'folder="(?:[^"\\]|\\.)*"', "", labels).strip(",")] = int(number)
    assert len(families) == len(set(families))
    return samples


def test_metrics_tell_of_requests_tiers_paths_and_refusals(make, tmp_path):
    store = make(tmp_path / 'k"v', host_bytes=4 * MIB, bytes_a_day=10 * CHUNK, commit_s=3600)
    assert put(store, *range(5)) == [DONE] * 5
    assert look(store, 1, 2, 9) == [DONE, DONE, MISS]
    assert put(store, *range(100, 106)) == [WRITE_BUDGET_EXCEEDED] * 6
    store.commit()
    samples = samples_of(store.metrics())
    assert samples["penstock_kv_requests_total", 'call="put",outcome="done"'] == 5
    assert samples["penstock_kv_requests_total", 'call="put",outcome="write_budget_exceeded"'] == 6
    assert samples["penstock_kv_requests_total", 'call="get",outcome="done"'] == 2
    assert samples["penstock_kv_requests_total", 'nowhere call="get",outcome="miss"'] == 1
    assert store.state()["gets"]["miss"] == 1
    assert samples["penstock_kv_got_chunks_total", 'tier="host"'] == 2
    assert samples["penstock_kv_chunks", 'tier="drive"'] == samples["penstock_kv_chunks", 'tier="host"'] == 5
    assert samples["penstock_kv_capacity_bytes", 'tier="drive"'] == 16 * MIB
    assert samples["penstock_kv_waiting_chunks", ""] == samples["penstock_kv_drive_slow", ""] == 0
    assert samples["penstock_kv_written_today_bytes", ""] == samples["penstock_kv_request_bytes_total", 'call="put"']
    assert sum(number for (name, _), number in samples.items() if "path_bytes" in name) > 5 * CHUNK
    assert 'folder="' + str(tmp_path / 'k\\"v') in store.metrics()
    other = make(tmp_path / 'k"v', read_only=True)
    assert look(other, 1) == [DONE]
    samples = samples_of(other.metrics())
    assert samples["penstock_kv_requests_total", 'call="get",outcome="done"'] == 1
    assert ("penstock_kv_chunks", 'tier="drive"') not in samples, "it is the writer's to tell"


# ---- Host memory before the drives ----


def test_with_host_memory_a_put_is_written_behind_and_all_of_it_is_there_when_closed(make):
    with make(host_bytes=4 * MIB, commit_s=3600) as store:
        assert put(store, *range(20)) == [DONE] * 20
        assert put(store, 3) == [PRESENT]
        assert look(store, *range(21)) == [DONE] * 20 + [MISS]
        store.commit()
        host = store.state()["host"]
        assert host["waiting"] == 0 and host["written"] == 20 and host["written_bytes"] == 20 * CHUNK
        assert store.state()["chunks"] == 20 and store.state()["puts"]["done"] == 20
        assert host["capacity_bytes"] == 4 * MIB and host["used_bytes"] <= 4 * MIB
        assert host["got_from_host"] == 20 and host["got_from_drive"] == 0
        assert store.delete(["7"]) == [True] and store.lookup(["7"]) == [False]
        assert put(store, 100) == [DONE]
    again = make(host_bytes=4 * MIB)
    assert look(again, *range(20), 100) == [DONE] * 7 + [MISS] + [DONE] * 13
    assert again.state()["host"]["got_from_drive"] == 20
    assert look(again, 100) == [DONE] and again.state()["host"]["got_from_host"] == 1


def test_a_put_is_full_rather_than_late_where_all_of_the_memory_waits(make):
    store = make(host_bytes=MIB, commit_s=3600)
    fullness = 0
    for key in range(400):  # More than the memory has, and faster than it is written.
        outcome, = put(store, key)
        assert outcome in (DONE, FULL)
        fullness += outcome == FULL
        assert store.state()["host"]["used_bytes"] <= MIB
        if outcome == FULL:
            store.commit()
            assert put(store, key) == [DONE]
    assert fullness < 400
    assert look(store, 399) == [DONE]


def test_pins_and_devices_with_host_memory(make, session):
    store = make(host_bytes=2 * MIB)
    memory = session.allocate(CHUNK)
    memory.upload(content(5).tobytes())
    halves = [penstock.Pointer(memory.address, CHUNK // 2, memory),
              penstock.Pointer(memory.address + CHUNK // 2, CHUNK // 2, memory)]
    assert store.put(["5"], [halves], stream=-1) == [DONE] and store.pin(["5"]) == [True]
    memory.upload(bytes(CHUNK))
    assert store.get(["5"], [halves], stream=-1) == [DONE] and memory.download() == content(5).tobytes()
    for key in range(1000, 1200):
        put(store, key)
        store.commit()
    assert look(store, 5) == [DONE] and store.unpin(["5", "5"]) == [True, False]


def test_a_session_that_is_closed_before_its_store_ends_it_in_order(tmp_path):
    session = penstock.Session(device="host")
    store = kv.Store(tmp_path / "kv", session=session, host_bytes=4 * MIB, commit_s=3600, **SETTINGS)
    put(store, *range(30))
    session.close()
    try:
        store.close()
    except penstock.ClosedError:
        pass
    with penstock.Session(device="host") as other_session, kv.Store(tmp_path / "kv", session=other_session,
                                                                    **SETTINGS) as again:
        assert set(look(again, *range(30))) <= {DONE, MISS}


@pytest.mark.parametrize("host_bytes", [-1, 1, MIB - 1])
def test_host_memory_that_holds_no_chunk_is_refused(make, host_bytes):
    with pytest.raises(ValueError, match=f"host_bytes={host_bytes}: expected 0, or at least one extent"):
        make(host_bytes=host_bytes)


def test_more_host_memory_than_the_machine_has_is_refused(make):
    with pytest.raises(penstock.PenstockError, match="could not have a slab in host memory"):
        make(host_bytes=1 << 50)


# ---- Other processes ----

OTHER = """
import sys, time, numpy as np
from penstock import Session, kv
store = kv.Store(sys.argv[1], model="llama", dtype="bfloat16", layout="tp1", capacity_bytes=16 << 20,
                 extent_bytes=1 << 20, session=Session(device="host"), commit_s=0.05)
def put(key):
    assert store.put([str(key)], [np.random.default_rng(key).integers(0, 256, 100_000, dtype=np.uint8)]) == [0]
"""


def other(folder, program, **more):
    command = [sys.executable, "-B", "-c", OTHER + program, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)


def test_what_another_process_put_is_read_here(make, tmp_path):
    with other(tmp_path / "kv", "put(5); store.commit(); print('put', flush=True); input(); put(6); store.commit();"
                                "print('put', flush=True); input()") as child:
        assert child.stdout.readline() == "put\n"
        store = make(commit_s=0.02)
        assert look(store, 5, 6) == [DONE, MISS]
        assert store.state()["drives"][1]["own"] is False
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "put\n"
        end = time.monotonic() + 60
        while look(store, 6) != [DONE]:
            assert time.monotonic() < end
        child.communicate("\n")


def test_a_writer_that_was_killed_is_taken_over_with_what_it_had_committed(make, tmp_path):
    with other(tmp_path / "kv", "[put(key) for key in range(8)]; store.commit(); print('put', flush=True);"
                                "[put(key) for key in range(100, 1 << 30)]") as child:
        assert child.stdout.readline() == "put\n"
        child.send_signal(signal.SIGKILL)
    store = make()
    own, = [drive for drive in store.state()["drives"] if drive["own"]]
    assert own["folder"] and len(store.state()["drives"]) == 1
    assert look(store, *range(8)) == [DONE] * 8
    assert DAMAGED not in look(store, *range(100, 200))


@pytest.mark.parametrize("host_bytes", [0, 4 * MIB])
def test_a_forked_child_can_do_nothing_and_keeps_no_lease(make, tmp_path, host_bytes):
    store = make(host_bytes=host_bytes)
    put(store, 1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.lookup(["1"])
        except penstock.ClosedError:
            os.write(writer, b"closed")
        signal.pause()
    try:
        assert os.read(reader, 6) == b"closed"
        store.close()
        own = make()
        assert [Path(drive["folder"]).name for drive in own.state()["drives"]] and look(own, 1) == [DONE]
        assert len(own.state()["drives"]) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
