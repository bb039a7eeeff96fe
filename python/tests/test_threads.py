# SPDX-License-Identifier: Apache-2.0

import _thread
import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError

import pytest

from penstock import threads
from penstock.threads import Event, Future, Later, Pool, for_each, wait


def test_each_is_worked_on_once_and_all_have_ended_when_it_returns():
    seen = []

    for_each(seen.append, range(100), 8)

    assert sorted(seen) == list(range(100))


def test_nothing_to_do_is_done():
    for_each(lambda _: pytest.fail("called"), [], 0)


def without_memory(monkeypatch):
    """Threads are made, and find none for their first call: Python says so on stderr, and to nobody else."""
    monkeypatch.setattr(threads, "start_new_thread", lambda call, given: 1)


def test_what_no_thread_finds_the_memory_for_is_done_by_the_caller(monkeypatch):
    without_memory(monkeypatch)
    seen = []

    for_each(seen.append, range(5), 3)

    assert seen == [0, 1, 2, 3, 4]


def test_a_call_whose_thread_finds_no_memory_fails_with_that(monkeypatch):
    without_memory(monkeypatch)

    later = Later(lambda: pytest.fail("called"))

    assert later.done()
    with pytest.raises(MemoryError, match="to begin"):
        later.result()


def test_the_failure_nearest_to_the_first_is_raised_whichever_came_first():
    late = threading.Event()

    def work(thing):
        if thing == 0:
            assert late.wait(600)
        else:
            late.set()
        raise OSError(thing, "failed")

    with pytest.raises(OSError) as raised:
        for_each(work, [0, 1], 2)

    assert raised.value.errno == 0


def test_what_has_not_begun_when_one_fails_is_left_out():
    seen = []

    def work(thing):
        seen.append(thing)
        raise ValueError(thing)

    with pytest.raises(ValueError):
        for_each(work, range(100), 1)

    assert seen == [0]


def test_ctrl_c_leaves_out_what_has_not_begun_and_waits_for_what_has():
    ended, main = [], threading.main_thread().ident

    def work(thing):
        signal.pthread_kill(main, signal.SIGINT)
        ended.append(thing)

    with pytest.raises(KeyboardInterrupt):
        for_each(work, [0], 1)

    assert ended == [0]


class Interrupted(BaseException):
    pass


@pytest.fixture
def interrupted_after():
    """Interrupts the main thread after so many seconds."""
    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_at_whatever_moment_it_is_interrupted_nothing_is_left_under_way(interrupted_after):
    under_way = set()

    def work(thing):
        under_way.add(thing)
        time.sleep(0.0005)
        under_way.discard(thing)

    for i in range(300):
        with contextlib.suppress(Interrupted):
            interrupted_after(1e-5 * (i + 1))
            for_each(work, range(6), 3)
            time.sleep(1)
        assert not under_way


def test_at_whatever_moment_one_who_waits_is_interrupted_the_future_is_fulfilled(interrupted_after):
    for i in range(300):
        future = Future()
        fulfilled = Later(lambda future=future: (time.sleep(0.0005), future.set_result(1)))
        with contextlib.suppress(Interrupted):
            interrupted_after(2e-6 * (i + 200))
            future.result()
            time.sleep(1)
        assert fulfilled.wait(600)
        assert future.result() == 1


class Steps:
    """Raises where the number-th call, of Python's own too, begins or ends: handlers of signals are called there."""

    def __init__(self, number):
        self.number, self.reached = number, 0

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _trace(self, frame, event, _):
        if event in ("call", "return") and frame.f_code is not Steps.__exit__.__code__:
            self.reached += 1
            if self.reached == self.number:
                sys.settrace(None)
                raise Interrupted
        return self._trace


@pytest.mark.parametrize("use", [lambda event: event.wait(0.01), Event.set])
def test_at_whatever_step_one_who_uses_an_event_is_interrupted_others_set_it_and_wait_for_it(use):
    for number in itertools.count(1):
        event = Event()
        with contextlib.suppress(Interrupted), Steps(number) as steps:
            use(event)
        seen = Later(lambda event=event: (event.set(), event.wait(600)))
        assert seen.wait(600), f"step {number}"
        if steps.reached < number:
            break
    assert number > 3


def test_a_future_is_waited_for_as_long_as_one_says():
    future = Future()
    with pytest.raises(TimeoutError):
        future.result(0.001)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.exception()


def test_of_several_who_wait_for_one_future_each_is_woken(monkeypatch):
    monkeypatch.setattr("penstock.threads.LOOK_S", 3600.0)  # None looks by itself.
    for _ in range(20):
        future, begun, results = Future(), threading.Barrier(9), []

        def wait_for(future=future, begun=begun, results=results):
            begun.wait()
            results.append(future.result())

        waiting = [threading.Thread(target=wait_for, daemon=True) for _ in range(8)]
        [each.start() for each in waiting]
        begun.wait()
        future.set_result(7)
        [each.join(60) for each in waiting]
        assert results == [7] * 8


def test_what_a_thread_of_its_own_returned_or_raised_is_told():
    assert Later(lambda: 7).result() == 7
    later = Later(lambda: 1 // 0)
    assert isinstance(later.error(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        later.result()


def test_one_who_waits_for_less_than_it_takes_is_told_that():
    go_on = threading.Event()
    later = Later(lambda: go_on.wait(600))

    with pytest.raises(TimeoutError):
        later.result(0.001)
    assert not later.done()

    go_on.set()
    assert later.result() is True
    assert later.done()


def test_what_a_call_worked_on_is_gone_when_its_end_is_told():
    """The program may end then, and torch's tensors cannot be freed by a thread while the interpreter ends."""
    class Thing:
        pass

    seen = []
    Later(lambda thing=Thing(): seen.append(weakref.ref(thing))).result()
    assert seen[0]() is None


def test_a_program_does_not_end_before_what_was_begun(tmp_path):
    place = tmp_path / "written"
    program = ("import sys, time; from penstock.threads import Event, Future, Later, for_each\n"
               "def late():\n"
               "    time.sleep(0.3); for_each(lambda text: open(sys.argv[1], 'a').write(text), 'ab', 1)\n"
               "Later(late)\n")

    subprocess.run([sys.executable, "-c", program, str(place)], check=True)

    assert place.read_text() == "ab"


def test_an_error_that_nobody_asked_for_is_printed_when_the_program_ends():
    program = ("from penstock.threads import Later\n"
               "def fail(why): raise OSError(why)\n"
               "Later(lambda: fail('the drive is gone'))\n"
               "Later(lambda: fail('another')).error()\n")

    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stderr == "penstock: work in the background failed: OSError: the drive is gone\n"


def test_a_forked_process_waits_for_no_thread_of_its_parent():
    go_on = threading.Event()
    later = Later(lambda: go_on.wait(600))
    child = os.fork()
    if child == 0:
        try:
            error = later.error()
        finally:
            os._exit(0 if isinstance(error, RuntimeError) else 1)

    _, status = os.waitpid(child, 0)
    go_on.set()

    assert os.waitstatus_to_exitcode(status) == 0
    assert later.result() is True


class HeldWhereItDiscards(set):
    """The thread that discards goes on when it may."""

    def __init__(self):
        super().__init__()
        self.has_discarded, self.may_go_on = threading.Event(), threading.Event()

    def discard(self, each):
        super().discard(each)
        self.has_discarded.set()
        self.may_go_on.wait(600)


def test_a_forked_process_waits_for_no_thread_of_its_parent_that_has_yet_to_tell_its_end(monkeypatch):
    opened = HeldWhereItDiscards()
    monkeypatch.setattr(threads, "_open", opened)
    later = Later(lambda: 7)
    assert opened.has_discarded.wait(600)
    child = os.fork()
    if child == 0:
        is_over = False
        try:
            is_over = later.wait(60) and later._results == [7]
        finally:
            os._exit(0 if is_over else 1)

    _, status = os.waitpid(child, 0)
    opened.may_go_on.set()

    assert os.waitstatus_to_exitcode(status) == 0
    assert later.result() == 7


def test_a_pool_makes_calls_in_their_order_and_tells_what_they_returned_or_raised():
    seen = []
    with Pool(1) as pool:
        futures = [pool.submit(seen.append, i) for i in range(100)]
        failed = pool.submit(divmod, 1, 0)
        wait(futures)
        assert seen == list(range(100))
        with pytest.raises(ZeroDivisionError):
            failed.result()
        assert failed.ended >= futures[0].ended > 0


def test_a_pool_that_is_shut_down_has_made_its_calls_and_takes_no_more():
    pool, seen = Pool(2), []
    for i in range(10):
        pool.submit(lambda i=i: (time.sleep(0.001), seen.append(i)))

    pool.shutdown()
    pool.shutdown()

    assert sorted(seen) == list(range(10))
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(seen.append, 10)


def test_calls_that_have_not_begun_can_be_canceled_with_the_pool():
    pool, begun, go_on = Pool(1), threading.Event(), threading.Event()
    first = pool.submit(lambda: (begun.set(), go_on.wait(600)))
    second = pool.submit(pytest.fail, "called")
    assert begun.wait(600)

    pool.shutdown(wait=False, cancel_futures=True)
    go_on.set()
    pool.shutdown()

    assert first.result() == (None, True)
    assert second.cancelled()


def test_at_whatever_moment_one_who_uses_a_pool_is_interrupted_it_goes_on(interrupted_after):
    pool = Pool(2)
    for i in range(300):
        with contextlib.suppress(Interrupted):
            interrupted_after(3e-6 * (i + 20))
            wait([pool.submit(time.sleep, 0.0002) for _ in range(4)])
            time.sleep(1)
        assert pool.submit(abs, -1).result(600) == 1
    pool.shutdown()


def test_a_call_in_a_pool_that_waits_for_its_end_is_refused_and_hangs_nobody():
    pool = Pool(1)

    with pytest.raises(RuntimeError, match="cannot wait for the pool's end"):
        pool.submit(pool.shutdown).result(600)

    pool.shutdown()


def fork_and_wait():
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_future_that_another_thread_holds_while_the_process_forks_holds_up_no_child():
    go_on = threading.Event()
    pool = Pool(1)
    pool.submit(go_on.wait, 600)
    waiting = pool.submit(abs, -1)

    with waiting._condition:
        assert Later(fork_and_wait).result(600) == 0

    go_on.set()
    assert waiting.result(600) == 1
    pool.shutdown()


def test_asyncio_runs_calls_in_a_pool():
    async def run():
        with Pool(1) as pool:
            return await asyncio.get_running_loop().run_in_executor(pool, abs, -3)

    assert asyncio.run(run()) == 3


@pytest.mark.parametrize("more, written", [("", "late"), (", may_be_left=True", "")])
def test_a_program_ends_behind_the_calls_of_a_pool_unless_they_may_be_left(tmp_path, more, written):
    place = tmp_path / "written"
    place.touch()
    program = ("import sys, time; from penstock.threads import Pool\n"
               "def late(): time.sleep(0.5); open(sys.argv[1], 'w').write('late')\n"
               f"pool = Pool(1{more}); pool.submit(late)\n")

    subprocess.run([sys.executable, "-c", program, str(place)], check=True)

    assert place.read_text() == written


def test_the_threads_of_a_pool_that_nobody_has_any_more_end():
    before = _thread._count()
    pool = Pool(3)
    assert pool.submit(_thread._count).result() > before
    del pool
    deadline = time.monotonic() + 600
    while _thread._count() > before and time.monotonic() < deadline:
        time.sleep(0.001)

    assert _thread._count() <= before


def test_a_forked_process_has_no_use_of_a_pool_of_its_parent():
    go_on = threading.Event()
    pool = Pool(1)
    under_way = pool.submit(go_on.wait, 600)
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(RuntimeError):
            pool.shutdown()
            pool.submit(abs, 1)
            code = 2
        os._exit(0 if code == 1 else 1)

    _, status = os.waitpid(child, 0)
    go_on.set()

    assert os.waitstatus_to_exitcode(status) == 0
    assert under_way.result() is True


def without_memory_once_made(monkeypatch):
    """The same, but the threads are gone only when this is called: until then they may still begin."""
    given = []
    monkeypatch.setattr(threads, "start_new_thread", lambda call, those: given.append(those))
    return given.clear


def test_a_call_in_a_pool_of_which_no_thread_found_memory_is_made_by_who_submits_it(monkeypatch):
    without_memory(monkeypatch)
    pool = Pool(2)

    assert pool.submit(abs, -3).done()
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result()
    pool.shutdown()


def test_calls_in_a_pool_whose_threads_go_before_they_begin_are_made_by_who_waits(monkeypatch):
    lose_threads = without_memory_once_made(monkeypatch)
    pool = Pool(2)
    first, second = pool.submit(abs, -3), pool.submit(abs, -4)
    assert not first.done()

    lose_threads()

    assert second.result() == 4
    assert first.done() and first.result() == 3
    pool.shutdown()
