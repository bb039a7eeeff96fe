# SPDX-License-Identifier: Apache-2.0

"""How long a get takes: told before, bounded by the caller, and short where several drives share it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import kv
from penstock.kv.decisions import Decisions
from penstock.kv.drive import Drive
from waiting import SECONDS_MAX, wait_until

MIB = 1 << 20
CHUNK = 100_000
SETTINGS = {"model": "llama", "capacity_bytes": 16 * MIB, "extent_bytes": MIB, "commit_s": 3600}
DONE, MISS, LATE = kv.Outcome.DONE, kv.Outcome.MISS, kv.Outcome.LATE


def content(key):
    return np.random.default_rng(key).integers(0, 256, CHUNK, dtype=np.uint8)


def put(store, *keys):
    assert store.put([str(key) for key in keys], [content(key) for key in keys]) == [DONE] * len(keys)


def look(store, *keys, **options):
    """The outcomes, where the bytes are right if they are DONE, and left alone if they are LATE."""
    memories = [np.full(CHUNK, 7, dtype=np.uint8) for _ in keys]
    outcomes = store.get([str(key) for key in keys], memories, **options)
    for key, memory, outcome in zip(keys, memories, outcomes, strict=True):
        assert outcome != DONE or (memory == content(key)).all(), key
        assert outcome != LATE or (memory == 7).all(), key
    return outcomes


@pytest.fixture
def make(slow_session):
    if "slow_reads" not in Path("/proc/self/maps").read_text():
        pytest.skip("slow_reads is not preloaded: run these tests by ctest")
    stores = []

    def made(folders, session=slow_session, **settings):
        stores.append(kv.Store(folders, session=session, **{**SETTINGS, **settings}))
        return stores[-1]

    yield made
    for store in stores:
        store.close()


class Held:
    """Within it no read of a drive of the store begins."""

    def __init__(self, store, number=0):
        self._slab = next(store._drives[number].folder.glob("*/slab"))
        self._slow = self._slab.with_name("slab.slow")
        self._held = self._slab.with_name("slab.slow.held")

    def __enter__(self):
        self._held.touch()
        self._slab.rename(self._slow)

    def __exit__(self, *error):
        self._held.unlink()
        self._slow.rename(self._slab)


def test_a_get_in_time_is_as_any_other(make, tmp_path):
    store = make(tmp_path / "kv")
    put(store, 1, 2, 3)
    assert look(store, 3, 9, 1, timeout=60) == [DONE, MISS, DONE]
    pieces = [bytearray(1), bytearray(CHUNK - 1001), bytearray(1000)]
    assert store.get(["2"], [pieces], timeout=60) == [DONE] and b"".join(pieces) == content(2).tobytes()
    assert store.get(["2"], [bytearray(CHUNK + 1)], timeout=60) == [kv.Outcome.MISMATCH]
    assert store.get_async(["2"], [bytearray(CHUNK)], timeout=60).result(60) == [DONE]
    assert store.state()["gets"]["late"] == 0


def test_a_late_one_says_so_and_its_memory_is_never_written(make, tmp_path):
    store = make(tmp_path / "kv")
    put(store, 1, 2)
    memory = np.full(CHUNK, 7, dtype=np.uint8)
    with Held(store):
        assert store.get(["1"], [memory], timeout=0.05) == [LATE]
        assert look(store, 1, 2, timeout=0) == [LATE, LATE]
        assert store.state()["gets"]["late"] == 3
    assert look(store, 1, 2) == [DONE, DONE]
    store.close()  # Waits for what was late.
    assert (memory == 7).all()


def tasks():
    return len(list(Path("/proc/self/task").iterdir()))


def test_late_ones_are_so_many_at_most(make, tmp_path):
    store = make(tmp_path / "kv")
    put(store, 1)
    before = tasks()
    with Held(store):
        for _ in range(80):
            assert look(store, 1, timeout=0.001) == [LATE]
        assert threading.active_count() < 20, "those of the library are no threads of Python's"
        assert tasks() - before < 60  # One for each of 16, and the library's own for what these ask.
    while look(store, 1, timeout=1) != [DONE]:  # As soon as the drive has let go of them.
        pass


def test_memory_of_a_device_is_filled_in_time(make, tmp_path, slow_session):
    store = make(tmp_path / "kv", host_bytes=4 * MIB)
    put(store, 1)
    memory = slow_session.allocate(CHUNK)
    piece = penstock.Pointer(memory.address, CHUNK, memory)
    assert store.get(["1"], [piece], stream=-1, timeout=60) == [DONE]
    assert memory.download() == content(1).tobytes()


def test_a_slow_drive_keeps_no_other_waiting(make, tmp_path):
    # As many threads as requests: a system call that waits keeps one, where io_uring would keep none.
    with penstock.Session(device="host", io_uring="off", workers=40) as session:
        store = make([tmp_path / "a", tmp_path / "b"], session)
        put(store, *range(10))
        memories = [np.full(CHUNK, 7, dtype=np.uint8) for _ in range(10)]
        with ThreadPoolExecutor(1) as pool, Held(store, 0):
            getting = pool.submit(store.get, [str(key) for key in range(10)], memories, timeout=600)
            wait_until(lambda: sum((memory == content(key)).all() for key, memory in enumerate(memories)) == 5,
                       "chunk of the other drive")
            assert not getting.done()
        assert getting.result(60) == [DONE] * 10
        store.close()


def test_gets_of_several_drives_are_at_once(make, tmp_path):
    """Each drive is held until the other is asked, too: one after the other they would wait for ever."""
    store = make([tmp_path / "a", tmp_path / "b"])
    put(store, *range(20))
    met, natives = threading.Barrier(2), {drive.own: drive for drive in store._drives}

    class Native:
        def __init__(self, native):
            self._native = native

        def __getattr__(self, name):
            return getattr(self._native, name)

        def get(self, *arguments):
            met.wait(SECONDS_MAX)
            return self._native.get(*arguments)

    for native, drive in natives.items():
        drive.own = Native(native)
    assert look(store, *range(20)) == [DONE] * 20


def test_what_a_get_will_take_is_known_after_the_first_by_where_chunks_are(make, tmp_path):
    with make(tmp_path / "kv") as store:
        put(store, *range(12))
    store = make(tmp_path / "kv", host_bytes=4 * MIB)
    assert store.seconds_to_get(["nobody's"]) == 0
    assert store.seconds_to_get(["1"]) is None and store.worth_loading(["1"], 1e-9), "not measured: try it"
    for key in range(5):
        assert look(store, key) == [DONE]
    on_drive = store.seconds_to_get(["10"])
    assert on_drive > 0 and store.worth_loading(["10"], 1e6) and not store.worth_loading(["10"], on_drive / 2)
    assert store.state()["decisions"] == {"get_is_faster": 1, "get_is_slower": 1, "not_measured": 1,
                                          "tried_again": 0}
    assert store.seconds_to_get(["1"]) is None, "that is in memory now, of which nothing was measured"
    assert look(store, 1) == [DONE]
    both = store.seconds_to_get(["1", "10"])
    assert both == pytest.approx(store.seconds_to_get(["1"]) + store.seconds_to_get(["10"]), rel=1e-6)
    assert store.seconds_to_get(["10", "11"]) >= on_drive


def test_what_is_under_way_on_the_drive_is_in_the_forecast(make, tmp_path):
    store = make(tmp_path / "kv")
    put(store, *range(4))
    for key in range(4):
        assert look(store, key) == [DONE]
    alone = store.seconds_to_get(["1"])
    with Held(store):
        waiting = [store.get_async([str(key)], [bytearray(CHUNK)]) for key in (2, 3)]
        # Of a queue nothing was measured: its bytes count as those of the get itself.
        wait_until(lambda: store.seconds_to_get(["1"]) == pytest.approx(3 * alone), "longer forecast")
        assert not store.worth_loading(["1"], 2 * alone)
    assert [get.result(SECONDS_MAX) for get in waiting] == [[DONE]] * 2


def loads(decisions, get_s, compute_s, count):
    return [decisions.is_get(get_s, compute_s) for _ in range(count)]


def test_a_drive_that_was_slow_once_is_tried_again_at_little_cost():
    decisions = Decisions()
    # A try takes nearly 3 s more than computing, so it is made when computing has taken 300 s since the last.
    tried = [i for i, is_get in enumerate(loads(decisions, 3.995, 1, 1000), 1) if is_get]
    assert tried == list(range(300, 1000, 300))
    assert decisions.counts["tried_again"] == len(tried)
    assert decisions.counts["get_is_slower"] == 1000 - len(tried)
    assert loads(decisions, 1e-3, 1, 10) == [True] * 10, "the try found it fast"
    assert decisions.counts["get_is_faster"] == 10


@pytest.mark.parametrize("slower", [1.001, 1.05, 1.5, 3, 100])
def test_wherever_the_crossing_is_tries_cost_a_hundredth_of_computing_at_most(slower):
    count = 10_000
    gets = sum(loads(Decisions(), slower, 1, count))
    assert gets * (slower - 1) <= 0.01 * count * 1.000001
    assert gets > 0


def worth(distance, under_way=0, full=False):
    drive = Drive.__new__(Drive)
    drive.distance = penstock._native.distance_names().index(distance)
    drive.bytes_under_way, drive.is_full = under_way, full
    drive.health = kv.drive.Health()
    return drive.worth(0)


def test_near_drives_get_chunks_first_while_they_have_room_and_little_to_do():
    near, node, unknown, far = (worth(each) for each in ("switch", "node", "unknown", "apart"))
    assert near < node < unknown < far
    assert worth("switch", 100) < worth("apart", 60) < worth("switch", 130)
    assert worth("apart") < worth("switch", full=True)
    assert worth("apart", full=True) == worth("switch", full=True), "nobody's chunks are to go before their time"


def test_a_batch_is_shared_out_among_drives(make, tmp_path):
    store = make([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    put(store, *range(30))
    state = store.state()
    assert [drive["chunks"] for drive in state["drives"]] == [10, 10, 10]
    assert {drive["distance"] for drive in state["drives"]} <= set(penstock._native.distance_names())


def test_state_names_outcomes_as_the_enumeration_does(make, tmp_path):
    state = make(tmp_path / "kv").state()
    assert {*state["gets"], *state["puts"]} == {outcome.name.lower() for outcome in kv.Outcome}


def test_old_names_of_outcomes_stand_for_the_new_ones():
    assert kv.Outcome.UNLIKE is kv.Outcome.MISMATCH and kv.Outcome["WORN"] is kv.Outcome.WRITE_BUDGET_EXCEEDED
    assert not {"UNLIKE", "WORN"} & {outcome.name for outcome in kv.Outcome}
