# SPDX-License-Identifier: Apache-2.0

"""Reads that a GPU's kernels begin by themselves: docs/guide/gpu-reads.md. [experimental]

    import penstock.gpu
    table = penstock.gpu.open(penstock.open("table.bin"), cache_bytes=1 << 30, slot_bytes=512)
    found = penstock.gpu.rows(table, index, 512)    # A torch tensor of bytes; index is one of int64 on the GPU.

Kernels of CuPy include <penstock/gpu.cuh> from `include()`, and take `value()` as an argument; those of Numba link
`ltoir()`, and call `penstock_gpu_read`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock import _native
from penstock.errors import DeviceError, UnsupportedError
from penstock.files import File

if TYPE_CHECKING:
    import torch

__all__ = ["GpuFile", "include", "ltoir", "open", "rows"]


class GpuFile(_native.GpuFile):
    """A file that kernels of one GPU read by themselves; made by `penstock.gpu.open()`.

    `value()`: the bytes that a kernel takes as an argument of type penstock::gpu::File. `info()`: what is resident, by
    which ways the kernels' reads went, and why not all are resident. `close()` ends reads that wait, and waits for the
    GPU's kernels; none may use the value afterwards. It leaves both to a `rows()` that another thread is in. `device`:
    the GPU's number.
    """

    device: int

    def __enter__(self) -> GpuFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def open(file: File, *, device: int = 0, threads: int = 1, slots: int = 1024, slot_bytes: int = 4096,
         timeout: float = 10, resident_bytes: int | None = None, may_be_stale: bool = False,
         cache_bytes: int = 0) -> GpuFile:
    """Opens a file once more, for the kernels of a GPU, with the options of penstock/gpu.h.

    resident_bytes: the most that is registered with the GPU; None: all that is in the page cache; 0: nothing.
    """
    if not timeout > 0:
        raise ValueError("expected a timeout above 0 seconds")
    opened = GpuFile(file, device, threads, slots, slot_bytes, max(1, int(timeout * 1e9)), resident_bytes or 0,
                     may_be_stale, resident_bytes == 0, cache_bytes)
    opened.device = device
    return opened


def include() -> str:
    """The folder of the headers, for a compiler's option -I."""
    return str(Path(__file__).parent / "include")


def ltoir(capability: tuple[int, int]) -> bytes:
    """LTO-IR of one device function, for a linker such as Numba's, for GPUs of that compute capability or later:

    int penstock_gpu_read(long long* moved, const void* value, uint64 offset, uint64 bytes, void* destination)

    All 32 threads of a warp call it alike, with the file's value in the GPU's memory. `moved`: the bytes that were
    read, or an error below 0. It returns 0. Needs cuda-bindings and NVRTC.
    """
    return _compiled("LTOIR", f"compute_{capability[0]}{capability[1]}", "-dlto")


def rows(file: GpuFile, index: torch.Tensor, row_bytes: int) -> torch.Tensor:
    """The rows of a table in the file, by their numbers in `index`: a tensor of uint8 with a row each, on its GPU.

    A kernel reads them; it is compiled at the first call, and queued on torch's current stream, which is then waited
    for. Raises IndexError if a row is not in the file, and DeviceError if one could not be read. The session must stay
    open meanwhile.
    """
    import torch

    if not index.is_cuda or index.dtype != torch.int64 or index.dim() != 1 or row_bytes <= 0:
        raise ValueError("expected a row of int64 in GPU memory, and rows of at least a byte")
    if index.device.index != file.device:
        raise ValueError(f"expected an index on GPU {file.device}, for which the file was opened")
    operator = _rows_operator()
    torch.zeros(1, device=index.device)  # The device's context is this thread's from here on.
    with torch.cuda.device(index.device):
        _rows_kernel(file.device)  # Before anybody who closes the file has to wait for it.
    with contextlib.closing(file._hold()) as held:
        value = torch.frombuffer(bytearray(held.value()), dtype=torch.uint8)
        found: torch.Tensor
        found, failed = operator(value, index, row_bytes)
        if failed.item():
            if index.min() < 0 or (int(index.max()) + 1) * row_bytes > held.info()["size"]:
                raise IndexError("a row is not in the file")
            raise DeviceError(f"could not read {failed.item()} rows of {index.numel()}")
        return found


_registering = threading.Lock()


def _rows_operator() -> Any:
    with _registering:
        return _registered_operator()


@functools.cache
def _registered_operator() -> Any:
    """What torch.compile sees of `rows()`. Its value is of this process and this open file, and means nothing later."""
    import torch

    def gather(value: torch.Tensor, index: torch.Tensor, row_bytes: int) -> tuple[torch.Tensor, torch.Tensor]:
        index = index.contiguous()
        found, failed = empty(value, index, row_bytes)
        with torch.cuda.device(index.device):
            failed.zero_()
            stream = torch.cuda.current_stream().cuda_stream
            arguments = (value, *(ctypes.c_uint64(each) for each in (
                index.data_ptr(), index.numel(), row_bytes, found.data_ptr(), failed.data_ptr())))
            blocks = min(4 * torch.cuda.get_device_properties(index.device).multi_processor_count,
                         (index.numel() + 7) // 8)
            if blocks:
                _launch(_rows_kernel(index.device.index), blocks, stream, arguments)
        return found, failed

    def empty(value: torch.Tensor, index: torch.Tensor, row_bytes: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (index.new_empty((index.shape[0], row_bytes), dtype=torch.uint8),
                index.new_empty((1,), dtype=torch.int64))

    operator = torch.library.custom_op("penstock::gpu_rows", gather, mutates_args=(), schema=(
        "(Tensor value, Tensor index, int row_bytes) -> (Tensor, Tensor)"))
    operator.register_fake(empty)
    return operator


def _launch(kernel: Any, blocks: int, stream: int, arguments: tuple[Any, ...]) -> None:
    driver = importlib.import_module("cuda.bindings.driver")
    places = [each.data_ptr() if hasattr(each, "data_ptr") else ctypes.addressof(each) for each in arguments]
    table = (ctypes.c_void_p * len(places))(*places)
    _checked(driver.cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, ctypes.addressof(table), 0))


@functools.cache
def _rows_kernel(device: int) -> Any:
    """Of the current context, which is the primary one of that device."""
    import torch

    driver = importlib.import_module("cuda.bindings.driver")
    capability = "{}{}".format(*torch.cuda.get_device_capability(device))
    # The driver keeps what it compiles of PTX for other processes, but knows none that is newer than itself.
    error, module = driver.cuModuleLoadData(_compiled("PTX", f"compute_{capability}", _ROWS))
    if error:
        module = _checked(driver.cuModuleLoadData(_compiled("CUBIN", f"sm_{capability}", _ROWS)))
    return _checked(driver.cuModuleGetFunction(module, b"penstock_gpu_rows"))


_ROWS = "-DPENSTOCK_GPU_ROWS"  # The kernel of rows() in place of the device function.


@functools.cache
def _compiled(form: str, architecture: str, *more: str) -> bytes:
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"compile a kernel: {error}. Install cuda-bindings and nvidia-cuda-nvrtc") from None
    source = (Path(__file__).parent / "gpu_reads.cu").read_bytes()
    options = [each.encode() for each in (f"-arch={architecture}", "-std=c++17", f"-I{include()}", *more)]
    program = _checked(nvrtc.nvrtcCreateProgram(source, b"gpu_reads.cu", 0, [], []))
    try:
        compiled = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if compiled[0]:
            log = bytes(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise DeviceError(f"compile a kernel: {compiled[0].name}: {log.rstrip(bytes(1)).decode(errors='replace')}")
        code = bytes(_checked(getattr(nvrtc, f"nvrtcGet{form}Size")(program)))
        _checked(getattr(nvrtc, f"nvrtcGet{form}")(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code


def _checked(results: tuple[Any, ...]) -> Any:
    if results[0]:
        raise DeviceError(f"run a kernel: {results[0].name}")
    return results[1] if len(results) > 1 else None
