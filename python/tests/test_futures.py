# SPDX-License-Identifier: Apache-2.0

import asyncio
import builtins
import concurrent.futures
import errno
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import penstock
from penstock import errors

SOON = 30  # Seconds: what is to happen, happens long before.


def test_a_future_gives_the_report(session, path, content):
    buffer = np.zeros(len(content), np.uint8)
    with session.open(path) as file:
        future = file.read_async(buffer)
        report = future.result(SOON)
    assert buffer.tobytes() == content and report.bytes == len(content)
    assert future.done() and not future.cancelled()


def test_futures_are_those_of_the_standard_library(session, path, content):
    buffers = [bytearray(4096) for _ in range(100)]
    with session.open(path) as file:
        futures = [file.read_async(buffer, i * 4096) for i, buffer in enumerate(buffers)]
        done, late = concurrent.futures.wait(futures, SOON)
    assert len(done) == 100 and not late
    assert b"".join(bytes(buffer) for buffer in buffers) == content[:409600]


def test_futures_can_be_awaited(session, path, content):
    async def read_all():
        buffers = [bytearray(4096) for _ in range(10)]
        with session.open(path) as file:
            await asyncio.gather(*(file.read_async(buffer, i * 4096) for i, buffer in enumerate(buffers)))
        return b"".join(bytes(buffer) for buffer in buffers)

    assert asyncio.run(read_all()) == content[:40960]


def test_callbacks_may_submit_more_than_the_queue_holds(session, path, content):
    """They run on the thread that sets futures: it must never wait for room."""
    count, ended = 3000, threading.Semaphore(0)
    with session.open(path) as file:
        def more(future):
            future.result()
            for _ in range(count):
                file.read_async(bytearray(16)).add_done_callback(lambda _: ended.release())

        file.read_async(bytearray(16)).add_done_callback(more)
        for _ in range(count):
            assert ended.acquire(timeout=SOON)


def test_writes_and_pieces_have_futures_too(session, tmp_path):
    pieces = [bytearray(b"abc"), bytearray(b"defg")]
    with session.open(tmp_path / "new", "w") as file:
        assert file.writev_async(pieces, 2).result(SOON).bytes == 7
        assert file.write_async(b"xy", 0).result(SOON).bytes == 2
        back = [bytearray(4), bytearray(5)]
        assert file.readv_async(back).result(SOON).bytes == 9
    assert bytes(back[0] + back[1]) == b"xyabcdefg"


def test_failures_end_in_the_future(session, path):
    with session.open(path) as file:
        error = file.write_async(b"x").exception(SOON)
        assert isinstance(error, penstock.PenstockError) and error.code == 8
        with pytest.raises(ValueError, match="read-only"):
            file.read_async(b"frozen")


def test_a_failure_of_which_no_exception_can_be_made_ends_its_future_all_the_same(session, path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EMFILE, "too many open files")

    with session.open(path) as file:
        with monkeypatch.context() as failing:
            failing.setattr(errors, "of_status", fail)
            assert file.write_async(b"x").exception(SOON).errno == errno.EMFILE
        assert file.read_async(bytearray(1)).result(SOON).bytes == 1


def test_a_failure_is_told_where_no_module_can_be_loaded(session, path, monkeypatch):
    load = builtins.__import__

    def without_files(name, names=None, *rest):
        if name == "penstock" and rest and "launcher" in (rest[1] or ()):
            raise OSError(errno.EMFILE, "too many open files")
        return load(name, names, *rest)

    with session.open(path) as file:
        monkeypatch.setattr(builtins, "__import__", without_files)
        error = file.write_async(b"x").exception(SOON)
    assert isinstance(error, penstock.PenstockError) and error.code == 8


def test_a_buffer_stays_alive_until_the_request_has_ended(slow_session, held_file, content):
    class Array(np.ndarray):
        pass

    with slow_session.open(held_file.path) as file:
        buffer = np.zeros(64, np.uint8).view(Array)
        alive = weakref.ref(buffer)
        future = file.read_async(buffer)
        del buffer
        gc.collect()
        assert alive() is not None and not future.done()
        held_file.let_go()
        assert future.result(SOON).bytes == 64
        wait_until(lambda: gc.collect() >= 0 and alive() is None)


def test_a_file_that_is_closed_meanwhile_is_read_to_the_end(slow_session, held_file, content):
    buffer = bytearray(64)
    file = slow_session.open(held_file.path)
    future = file.read_async(buffer)
    file.close()
    held_file.let_go()
    assert future.result(SOON).bytes == 64 and bytes(buffer) == content[:64]


def test_what_has_not_begun_can_be_canceled(slow_session, held_file):
    buffers = [bytearray(b"x" * 16) for _ in range(2000)]
    with slow_session.open(held_file.path) as file:
        futures = [file.read_async(buffer) for buffer in buffers]
        canceled = [future for future in futures if future.cancel()]
        assert len(canceled) >= 1900  # All but the few that threads are at.
        held_file.let_go()
        concurrent.futures.wait(futures, SOON)
    for future, buffer in zip(futures, buffers):
        assert future.cancelled() == (future in canceled)
        assert (bytes(buffer) == b"x" * 16) == future.cancelled()
    assert not any(future.cancel() for future in futures if future not in canceled)


def test_asyncio_cancels_what_has_not_begun(slow_session, held_file):
    async def give_up():
        with slow_session.open(held_file.path) as file:
            futures = [file.read_async(bytearray(16)) for _ in range(500)]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(futures[-1], 0.05)
            held_file.let_go()
            concurrent.futures.wait(futures, SOON)
            return futures[-1].cancelled()

    assert asyncio.run(give_up())


def test_after_its_deadline_a_read_never_writes_to_its_destination(slow_session, held_file):
    buffer = bytearray(b"x" * 4096)
    with slow_session.open(held_file.path) as file:
        began = time.monotonic()
        future = file.read_async(buffer, timeout=0.1)
        with pytest.raises(TimeoutError) as caught:
            future.result(SOON)
        assert isinstance(caught.value, penstock.TimedOutError)
        assert time.monotonic() - began > 0.09
        requests = slow_session._requests
        assert requests.under_way() == 1  # The kernel is still at it, with memory that is nobody else's.
        held_file.let_go()
        wait_until(lambda: requests.under_way() == 0)
    assert bytes(buffer) == b"x" * 4096


def test_in_time_a_read_with_a_deadline_arrives(session, path, content):
    memory, buffers = session.allocate(4096), [bytearray(10), np.zeros(4096, np.uint8)]
    with session.open(path) as file:
        assert file.read_async(memory, 64, timeout=SOON).result(SOON).bytes == 4096
        assert file.readv_async(buffers, timeout=SOON).result(SOON).bytes == 4106
        assert file.read_async(bytearray(10), timeout=float("inf")).result(SOON).bytes == 10
        assert file.read_async(bytearray(10), len(content) - 4, timeout=SOON).result(SOON).bytes == 4
        with pytest.raises(penstock.TimedOutError):
            file.read_async(bytearray(10), timeout=-1).result(SOON)
    assert memory.download() == content[64:64 + 4096]
    assert bytes(buffers[0]) + bytes(buffers[1]) == content[:4106]


def test_closing_a_session_waits_for_what_has_begun(slow_session, held_file, content):
    buffers = [bytearray(16) for _ in range(50)]
    file = slow_session.open(held_file.path)
    futures = [file.read_async(buffer) for buffer in buffers]
    wait_until(held_file.is_reached)  # Or none of them has begun, and closing has nothing to wait for.
    closing = threading.Thread(target=slow_session.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    held_file.let_go()
    closing.join(SOON)
    assert not closing.is_alive()
    assert all(future.done() for future in futures)
    begun = [buffer for future, buffer in zip(futures, buffers) if not future.cancelled()]
    assert begun and all(bytes(buffer) == content[:16] for buffer in begun)
    with pytest.raises(penstock.ClosedError):
        file.read_async(bytearray(1))


RUN_AND_EXIT = """
import penstock, sys
session = penstock.Session(device="host", io_uring="off", workers=1)
file = session.open(sys.argv[1])
futures = [file.read_async(bytearray(16)) for _ in range(100)]
print("under way", flush=True)
"""


def test_an_interpreter_may_end_with_requests_under_way(held_file):
    command = [sys.executable, "-c", RUN_AND_EXIT, held_file.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "under way\n", "")


LOAD_AND_EXIT = """
import sys
from penstock import Session, weights
session = Session(device="host", io_uring="off")
plan = weights.Weights(sys.argv[1]).plan(framework="np", session=session)
tensors = iter(plan)
import threading
threading.Thread(target=lambda: next(tensors), daemon=True).start()  # Which begins to read.
threading.Event().wait(0.3)
print("under way", flush=True)
"""


def test_an_interpreter_may_end_while_weights_are_read(held_file):
    pytest.importorskip("numpy", reason="numpy is not installed")
    header = b'{"a":{"dtype":"U8","shape":[64],"data_offsets":[0,64]}}'
    held_file.path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    command = [sys.executable, "-c", LOAD_AND_EXIT, held_file.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "under way\n", "")


def test_a_forked_child_has_a_session_of_its_own(session, path, content):
    file = session.open(path)
    file.read_async(bytearray(16)).result(SOON)
    penstock.read(path, bytearray(16))
    child = os.fork()
    if child == 0:
        ok = False
        try:
            buffer = bytearray(16)
            penstock.read(path, buffer)
            with penstock.open(path) as own:
                own.read_async(buffer, 16).result(SOON)
            try:
                file.read(buffer)
            except penstock.ClosedError:
                ok = bytes(buffer) == content[16:32]
            session.close()
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert file.read_async(bytearray(16)).result(SOON).bytes == 16


def test_a_child_that_was_forked_amid_requests_is_told_that_they_are_its_parents(slow_session, held_file):
    file = slow_session.open(held_file.path)
    future = file.read_async(bytearray(16))
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = isinstance(future.exception(SOON), penstock.ClosedError)
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held_file.let_go()
    assert future.result(SOON).bytes == 16


def test_requests_without_bytes_end_too(path, tmp_path):
    for io_uring in ("auto", "off"):
        with penstock.Session(device="host", io_uring=io_uring) as session, session.open(path, "r+") as file:
            file.read_async(bytearray(1)).result(SOON)
            time.sleep(0.05)  # The library's threads sleep: one must be woken for nothing.
            for future in (file.read_async(bytearray(0)), file.read_async(bytearray(9), size=0), file.write_async(b"")):
                assert future.result(SOON).bytes == 0


def test_deadlines_hold_however_many_wait(slow_session, held_file):
    with slow_session.open(held_file.path) as file:
        others = [file.read_async(bytearray(16)) for _ in range(1100)]
        began = time.process_time()
        late = file.read_async(bytearray(16), timeout=0.3)
        with pytest.raises(penstock.TimedOutError):
            late.result(SOON)
        assert time.process_time() - began < 0.25
        held_file.let_go()
        concurrent.futures.wait(others, SOON)


def test_submitting_while_the_session_closes_ends_in_a_result_or_an_error(path):
    for _ in range(20):
        session = penstock.Session(device="host")
        file = session.open(path)
        futures, start = [], threading.Barrier(3)

        def submit():
            start.wait()
            try:
                for _ in range(2000):
                    futures.append(file.read_async(bytearray(16)))
            except penstock.ClosedError:
                pass

        threads = [threading.Thread(target=submit) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        session.close()
        for thread in threads:
            thread.join(SOON)
        done, late = concurrent.futures.wait(futures, SOON)
        assert not late


def test_a_child_may_not_submit_by_its_parents_session(session, path):
    file = session.open(path)
    file.read_async(bytearray(16)).result(SOON)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            file.read_async(bytearray(16))
        except penstock.ClosedError:
            ok = True
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_exits_leaves_the_others_their_results(session, path):
    with session.open(path) as file:
        file.read_async(bytearray(16)).add_done_callback(lambda _: sys.exit(1))
        assert file.read_async(bytearray(16)).result(SOON).bytes == 16


def test_a_session_that_is_dropped_takes_its_thread_along(path):
    before = threading.active_count()
    for _ in range(5):
        with penstock.Session(device="host").open(path) as file:
            file.read_async(bytearray(16)).result(SOON)
        del file
    gc.collect()
    wait_until(lambda: threading.active_count() <= before)


DAEMONS = """
import penstock, sys, threading, time
file = penstock.Session(device="host").open(sys.argv[1])
def read():
    buffer = bytearray(4096)
    while True:
        file.read(buffer)
for _ in range(4):
    threading.Thread(target=read, daemon=True).start()
time.sleep(0.1)
"""


def test_an_interpreter_may_end_while_daemon_threads_read(path):
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", DAEMONS, path], capture_output=True, text=True, timeout=SOON)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_new_file_waits_for_its_writes(session, tmp_path):
    source = np.ones(32 << 20, np.uint8)
    with session.create(tmp_path / "new") as file:
        futures = [file.write_async(source, i * source.nbytes) for i in range(2)]
    assert all(future.done() for future in futures)
    assert (tmp_path / "new").stat().st_size == 2 * source.nbytes
    with pytest.raises(penstock.PenstockError), session.create(tmp_path / "bad") as file:
        file.write_async(source, -1)
    assert not (tmp_path / "bad").exists()


def wait_until(condition):
    for _ in range(SOON * 100):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")
