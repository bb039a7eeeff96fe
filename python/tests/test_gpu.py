# SPDX-License-Identifier: Apache-2.0

import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

import penstock
import penstock.gpu
from conftest import SIZE


def test_the_value_is_what_a_kernel_takes_and_the_file_says_how_it_is_read(session, path):
    with session.open(path) as file, penstock.gpu.open(file, slots=64, timeout=3) as opened:
        value = opened.value()
        assert len(value) == 128
        assert struct.unpack_from("=IIQ", value) == (128, 5, SIZE)
        assert struct.unpack_from("=Q", value, 80) == (3_000_000_000,)
        assert struct.unpack_from("=II", value, 96) == (64, 4096)
        info = opened.info()
        assert info["ring_path"] == "host"  # There is no direct path.
        assert info["size"] == SIZE and info["resident_reads"] == info["failed_reads"] == 0
        assert info["resident_bytes"] == SIZE or info["reason"]
    assert opened.closed


def test_nothing_is_registered_where_nothing_is_wanted(session, path):
    with session.open(path) as file, penstock.gpu.open(file, resident_bytes=0) as opened:
        assert opened.info()["resident_bytes"] == 0
        assert opened.info()["reason"] == "resident_not_wanted"


def test_it_keeps_its_file_and_outlives_its_session(session, path):
    opened = penstock.gpu.open(session.open(path), cache_bytes=1 << 20)
    assert opened.info()["size"] == SIZE
    session.close()
    with pytest.raises(penstock.PenstockError):
        opened.info()
    opened.close()
    opened.close()
    with pytest.raises(penstock.ClosedError):
        opened.value()


def test_a_closed_file_is_not_opened(session, path):
    file = session.open(path)
    file.close()
    with pytest.raises(penstock.ClosedError):
        penstock.gpu.open(file)


def test_a_timeout_is_above_0(session, path):
    with session.open(path) as file:
        for timeout in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                penstock.gpu.open(file, timeout=timeout)


def test_who_holds_it_keeps_its_memory_though_another_closes_it(session, path):
    with session.open(path) as file, penstock.gpu.open(file) as opened:
        held, value = opened._hold(), opened.value()
        opened.close()
        assert held.value() == value and held.info()["size"] == SIZE
        held.close()
        with pytest.raises(penstock.ClosedError):
            held.value()
        with pytest.raises(penstock.ClosedError):
            opened._hold()


def test_rows_of_another_gpu_than_the_files_are_refused(session, path):
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with session.open(path) as file, penstock.gpu.open(file) as opened, FakeTensorMode():
        index = torch.empty(7, dtype=torch.int64, device="cuda:1")
        with pytest.raises(ValueError, match="expected an index on GPU 0"):
            penstock.gpu.rows(opened, index, 512)


def test_the_operator_is_registered_once_though_many_want_it_at_once():
    pytest.importorskip("torch")
    with ThreadPoolExecutor(8) as threads:
        operators = list(threads.map(lambda _: penstock.gpu._rows_operator(), range(8)))
    assert all(each is operators[0] for each in operators)


def test_rows_are_asked_for_by_numbers_in_gpu_memory(session, path):
    torch = pytest.importorskip("torch")
    with session.open(path) as file, penstock.gpu.open(file) as opened:
        with pytest.raises(ValueError, match="GPU"):
            penstock.gpu.rows(opened, torch.arange(4), 512)


def test_the_compiler_of_torch_sees_the_shapes_of_rows():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    operator = penstock.gpu._rows_operator()
    with FakeTensorMode():
        value = torch.empty(128, dtype=torch.uint8)
        found, failed = operator(value, torch.empty(7, dtype=torch.int64, device="cuda"), 512)
    assert found.shape == (7, 512) and found.dtype == torch.uint8 and found.device.type == "cuda"
    assert failed.shape == (1,)


def test_nvrtc_makes_one_device_function_of_the_headers_and_the_kernel_apart_from_it():
    try:
        assert len(penstock.gpu.ltoir((9, 0))) > 10_000
    except penstock.UnsupportedError as error:
        pytest.skip(str(error))
    assert b".entry" not in penstock.gpu._compiled("PTX", "compute_90")
    assert b".entry penstock_gpu_rows" in penstock.gpu._compiled("PTX", "compute_90", penstock.gpu._ROWS)


def test_what_the_compiler_says_is_in_the_error():
    try:
        penstock.gpu.ltoir((9, 0))
    except penstock.UnsupportedError as error:
        pytest.skip(str(error))
    with pytest.raises(penstock.DeviceError, match=r"gpu_layout\.cuh\(\d+\): error"):
        penstock.gpu._compiled("PTX", "compute_90", "-DPENSTOCK_GPU_ROWS", "-Dnamespace=unlikely_name")
