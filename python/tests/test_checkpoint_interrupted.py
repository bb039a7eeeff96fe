# SPDX-License-Identifier: Apache-2.0

"""A save that a signal's handler ends, or in which a call fails, leaves the old checkpoint or the new one."""

import os
import random
import signal

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from interruptions import WAYS, Calls, Points, Tally, at_each_point, by_ctrl_c, by_process

TRIES = 20  # Of each way; `./dev stress` does a thousand.
EVERY = 7   # Lines; each of them is a point of its own in `./dev stress`.
needs_calls = pytest.mark.skipif("fail_calls" not in os.environ.get("LD_PRELOAD", ""),
                                 reason="fail_calls is not preloaded: run these tests by ctest")


@pytest.mark.parametrize("way", WAYS)
def test_a_signals_exception_at_any_line_loses_nothing(tmp_path, way):
    tally = Tally()
    at_each_point(way, tmp_path, lambda number: Points(number, KeyboardInterrupt), tally, every=EVERY)
    assert tally.tries > 5 and tally.lost == []


@needs_calls
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_the_drive_at_any_call_loses_nothing(tmp_path, way, is_done):
    tally = Tally()
    at_each_point(way, tmp_path, lambda number: Calls(number, is_done=is_done), tally)
    assert tally.tries > TRIES and tally.lost == []


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_at_any_moment_loses_nothing(tmp_path, way):
    tally = Tally()
    by_ctrl_c(way, tmp_path, random.Random(5), TRIES, tally)
    assert tally.tries == TRIES and tally.lost == []


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("way", ["save", "Writer", "SafetensorsWriter"])
def test_a_trainer_that_is_ended_at_any_moment_loses_nothing(tmp_path, way, ends_by):
    tally = Tally()
    by_process(way, tmp_path, random.Random(5), TRIES, tally, ends_by)
    assert tally.tries == TRIES and tally.lost == []
