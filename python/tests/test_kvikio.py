# SPDX-License-Identifier: Apache-2.0

"""The calls of kvikio.CuFile, as programs make them."""

import numpy as np
import pytest

from penstock.kvikio import CuFile


def test_an_array_goes_to_a_file_and_back(session, tmp_path):
    written, back = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    with CuFile(tmp_path / "file", "w", session=session) as file:
        assert file.write(written) == 4000
    with CuFile(tmp_path / "file", session=session) as file:
        assert file.read(back) == 4000
    assert (written == back).all()


def test_futures_have_get_and_done(session, path, content):
    halves = [np.zeros(512, np.uint8), np.zeros(512, np.uint8)]
    with CuFile(path, "r", session=session) as file:
        futures = [file.pread(halves[0], file_offset=0, task_size=4096), file.pread(halves[1], 512, 512)]
        assert [future.get() for future in futures] == [512, 512]
        assert all(future.done() for future in futures) and futures[0].report().path == "host"
    assert b"".join(half.tobytes() for half in halves) == content[:1024]


def test_raw_calls_have_an_offset_into_the_memory(session, path, content):
    memory = session.allocate(100)
    memory.upload(bytes(100))
    with CuFile(path, "r+", session=session) as file:
        assert file.raw_read(memory, 10, 20, 30) == 10
        assert file.raw_write(memory, 10, 0, 30) == 10
        assert file.pwrite(np.full(4, 9, np.uint8), file_offset=100).get() == 4
    assert memory.download(30, 10) == content[20:30]
    assert path.read_bytes() == content[20:30] + content[10:100] + b"\x09" * 4 + content[104:]


def test_a_closed_file_and_wrong_flags_are_told(session, path):
    file = CuFile(path, session=session)
    file.close()
    assert file.closed
    with pytest.raises(OSError):
        file.read(bytearray(1))
    with pytest.raises(ValueError, match="flags 'a'"):
        CuFile(path, "a", session=session)
