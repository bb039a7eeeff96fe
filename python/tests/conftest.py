# SPDX-License-Identifier: Apache-2.0

"""Worlds for the tests: a session on the stand-in for a GPU, and files with bytes that tell where they are from."""

import random
from pathlib import Path

import pytest

import penstock

SIZE = 1 << 20


@pytest.fixture
def session():
    with penstock.Session(device="host") as opened:
        yield opened


@pytest.fixture
def content():
    return random.Random(7).randbytes(SIZE)


@pytest.fixture
def path(tmp_path, content):
    made = tmp_path / "data.bin"
    made.write_bytes(content)
    return made


class HeldFile:
    """A file of which no read begins before `let_go()`; see slow_reads.cc."""

    def __init__(self, path, content):
        self.path = path
        self._held, self._reached = Path(f"{path}.held"), Path(f"{path}.reached")
        self._held.touch()
        path.write_bytes(content)

    def is_reached(self):
        """Whether a read is under way, and held."""
        return self._reached.exists()

    def let_go(self):
        self._held.unlink(missing_ok=True)


@pytest.fixture
def held_file(tmp_path, content):
    if "slow_reads" not in Path("/proc/self/maps").read_text():
        pytest.skip("slow_reads is not preloaded: run these tests by ctest")
    held = HeldFile(tmp_path / "data.slow", content)
    yield held
    held.let_go()


@pytest.fixture
def slow_session():
    """One whose reads are system calls that slow_reads.cc can hold up."""
    with penstock.Session(device="host", io_uring="off", workers=2) as opened:
        yield opened


def pytest_sessionfinish(session, exitstatus):
    """A file of which every test was skipped is a skipped test for ctest, and no success."""
    counts = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus in (0, 5) and not counts.get("passed"):
        session.exitstatus = 77
