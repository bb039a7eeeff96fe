# SPDX-License-Identifier: Apache-2.0

"""A save that a signal's handler ends, or in which a call fails, leaves the old checkpoint or the new one."""

import contextlib
import ctypes
import errno
import os
import random
import signal

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from interruptions import WAYS, Calls, Points, Tally, at_each_point, by_ctrl_c, by_process

from penstock import checkpoint, kv, stage
from stress_checkpoints import LINKING

TRIES = 10  # Of each way; `./dev stress` does a thousand.
KILLS = 20  # Of saves that link what did not change, by each way; of them `./dev stress` has a thousand.
POINTS = 20  # Of each way, lines and calls; each of them is one in `./dev stress`.
needs_calls = pytest.mark.skipif("fail_calls" not in os.environ.get("LD_PRELOAD", ""),
                                 reason="fail_calls is not preloaded: run these tests by ctest")


@pytest.mark.parametrize("way", WAYS)
def test_a_signals_exception_at_any_line_loses_nothing(tmp_path, way):
    tally = Tally()
    at_each_point(way, tmp_path, lambda number: Points(number, KeyboardInterrupt), tally, tries=POINTS)
    assert tally.tries >= POINTS and tally.lost == []


@needs_calls
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_the_drive_at_any_call_loses_nothing(tmp_path, way, is_done):
    tally = Tally()
    at_each_point(way, tmp_path, lambda number: Calls(number, is_done=is_done), tally, tries=POINTS)
    assert tally.tries >= POINTS and tally.lost == []


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_at_any_moment_loses_nothing(tmp_path, way):
    tally = Tally()
    by_ctrl_c(way, tmp_path, random.Random(5), TRIES, tally)
    assert tally.interrupted > 0 and tally.tries == TRIES and tally.lost == []


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("way", ["save", "Writer", "SafetensorsWriter", *LINKING])
def test_a_trainer_that_is_ended_at_any_moment_loses_nothing(tmp_path, way, ends_by):
    tally, tries = Tally(), KILLS if way in LINKING and ends_by == signal.SIGKILL else TRIES
    by_process(way, tmp_path, random.Random(5), tries, tally, ends_by)
    assert tally.tries == tries and tally.lost == []


@needs_calls
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_a_file_system_that_cannot_flush_folders_is_used_and_one_that_fails_is_told(tmp_path, number):
    """By checkpoints, stores and staged files, in Python and in C++."""
    (tmp_path / "source").write_text("x" * 100)
    uses = (lambda: checkpoint.save({"n": 1}, tmp_path / "c"),
            lambda: stage.stage([tmp_path / "source"], [tmp_path / "s"]),
            lambda: kv.Store(tmp_path / "kv", model="m", capacity_bytes=1 << 20, extent_bytes=1 << 16).close())
    try:
        ctypes.CDLL(None).penstock_test_flush_of_folders(number)
        for use in uses:
            with contextlib.nullcontext() if number == errno.EINVAL else pytest.raises(OSError):
                use()
    finally:
        ctypes.CDLL(None).penstock_test_flush_of_folders(0)
