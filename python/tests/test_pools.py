# SPDX-License-Identifier: Apache-2.0

"""Memory for torch.cuda.MemPool: what torch calls, on the stand-in; the pool itself where there is a GPU."""

import ctypes

import pytest

import penstock
from penstock import _native


@pytest.fixture(scope="module")
def calls():
    module = ctypes.CDLL(_native.__file__)
    module.penstock_torch_alloc.restype = ctypes.c_void_p
    module.penstock_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    module.penstock_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    return module


def test_what_torch_allocates_is_the_sessions_own_memory(calls, tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 512)
    with penstock.Session(device="host") as session:
        assert _native.set_pool_session(session._native, [0])
        size = 2 << 20
        memory = calls.penstock_torch_alloc(size, 0, None)
        assert memory
        with session.open(tmp_path / "file") as file:
            report = file.read(penstock.Pointer(memory, size))
            assert report.bytes == 256 * 512
            assert report.path != "host"  # Which is what memory of nobody's device would have had.
        assert ctypes.string_at(memory, 256 * 512) == (tmp_path / "file").read_bytes()
        calls.penstock_torch_free(memory, size, 0, None)
        again = calls.penstock_torch_alloc(size, 0, None)
        calls.penstock_torch_free(again, size, 0, None)


def test_what_cannot_be_had_is_nothing(calls):
    with penstock.Session(device="host") as session:
        assert _native.set_pool_session(session._native, [0])
        assert calls.penstock_torch_alloc(1 << 20, 1, None) is None
        assert calls.penstock_torch_alloc(1 << 20, -1, None) is None
        assert calls.penstock_torch_alloc(0, 0, None) is None
        left = calls.penstock_torch_alloc(1 << 20, 0, None)
    assert calls.penstock_torch_alloc(1 << 20, 0, None) is None
    calls.penstock_torch_free(left, 1 << 20, 0, None)


def test_memory_of_a_closed_session_is_not_given_back_to_the_next(calls):
    with penstock.Session(device="host") as first:
        assert _native.set_pool_session(first._native, [0])
        left = calls.penstock_torch_alloc(1 << 20, 0, None)
    with penstock.Session(device="host") as second:
        assert _native.set_pool_session(second._native, [0])
        pieces = [calls.penstock_torch_alloc(1 << 20, 0, None) for _ in range(4)]
        if left not in pieces:
            calls.penstock_torch_free(left, 1 << 20, 0, None)
        for piece in pieces:
            ctypes.memset(piece, 5, 1 << 20)
            calls.penstock_torch_free(piece, 1 << 20, 0, None)


def test_one_session_at_a_time_has_pools():
    with penstock.Session(device="host") as first, penstock.Session(device="host") as second:
        assert _native.set_pool_session(first._native, [0])
        assert _native.set_pool_session(first._native, [0])
        assert not _native.set_pool_session(second._native, [0])
    with penstock.Session(device="host") as third:
        assert _native.set_pool_session(third._native, [0])


def test_a_pool_without_a_gpu_is_refused_with_the_reason():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with penstock.Session(device="host") as session:
        with pytest.raises(penstock.UnsupportedError, match="no GPU"):
            penstock.memory_pool(session)


def test_tensors_of_a_pool_are_read_into(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU for torch")
    content = torch.randint(0, 256, (3_000_001,), dtype=torch.uint8)
    (tmp_path / "file").write_bytes(content.numpy().tobytes())
    pool = penstock.memory_pool()
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.empty(3_000_001, dtype=torch.uint8, device="cuda")
    assert penstock.read(tmp_path / "file", tensor).bytes == 3_000_001
    assert torch.equal(tensor.cpu(), content)
    assert pool.snapshot()  # It came out of the pool.
    del tensor
    torch.cuda.empty_cache()
