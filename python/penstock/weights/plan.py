# SPDX-License-Identifier: Apache-2.0

"""What will be read of a model's files, and the reading."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import _native
from penstock.sessions import Session, default_session
from penstock.weights.headers import Part, Tensor, WeightsError, identity_of

if TYPE_CHECKING:
    import torch

RUN_BYTES = 256 << 20   # The most that one request reads, unless a single tensor is larger.
GAP_BYTES = 64 << 10    # What nobody wants between two tensors is read along, up to this,
GAP_SHARE = 32          # and up to this part of what was wanted before it.
AHEAD = 3               # Requests under way. Both as was best on an H200: docs/internals/performance.md.
PAGE = 4096             # Memory is laid out as the file is, so that direct I/O needs no copy.

DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
    "I32": "int32", "U32": "uint32", "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64",
    "C64": "complex64", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F4": "float4_e2m1fn_x2",
}


@dataclass
class Progress:
    """How far a plan is: bytes read and to read, seconds since it began, and bytes by the paths they took."""

    bytes_total: int
    bytes_done: int = 0
    seconds: float = 0.0
    bytes_by_path: dict[str, int] = field(default_factory=dict)

    @property
    def gb_per_s(self) -> float:
        """10^9 bytes a second so far."""
        return self.bytes_done / 1e9 / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Item:
    """A tensor that is wanted, and the bytes of its file that hold it."""

    tensor: Tensor
    part: Part | None
    begin: int
    end: int
    rows: tuple[int, ...]  # The shape of what lies between the two.


def item_of(tensor: Tensor, part: Part | None) -> Item:
    begin, end = tensor.offset, tensor.offset + tensor.nbytes
    if part is None:
        return Item(tensor, None, begin, end, tensor.shape)
    if not -len(tensor.shape) <= part.dim < len(tensor.shape):
        raise WeightsError(f"tensor {tensor.name!r} of shape {list(tensor.shape)} has no dimension {part.dim}")
    dim = part.dim % len(tensor.shape)
    if not 0 <= part.start <= part.stop <= tensor.shape[dim]:
        raise WeightsError(f"tensor {tensor.name!r}: {part.start} to {part.stop} of dimension {dim}, which has "
                           f"{tensor.shape[dim]} elements")
    if tensor.dtype == "F4" and dim == len(tensor.shape) - 1:
        if part.start % 2 != 0 or part.stop % 2 != 0:
            raise WeightsError(f"tensor {tensor.name!r}: parts of F4 begin and end at even elements: two are a byte")
        if dim > 0:
            return Item(tensor, Part(dim, part.start // 2, part.stop // 2), begin, end, tensor.shape)
        return Item(tensor, None, begin + part.start // 2, begin + part.stop // 2, (part.stop - part.start,))
    part = Part(dim, part.start, part.stop)
    if dim > 0 or tensor.shape[0] == 0 or tensor.nbytes % tensor.shape[0] != 0:
        return Item(tensor, part, begin, end, tensor.shape)  # Strided: all is read, and cut on the device.
    row = tensor.nbytes // tensor.shape[0]
    return Item(tensor, None, begin + part.start * row, begin + part.stop * row,
                 (part.stop - part.start, *tensor.shape[1:]))


@dataclass
class _Run:
    """Neighbours in a file, read by one request."""

    file: Path
    begin: int
    end: int
    items: list[Item]


def _runs_of(items: Iterable[Item]) -> list[_Run]:
    runs: list[_Run] = []
    for item in sorted(items, key=lambda item: (str(item.tensor.file), item.begin)):
        last = runs[-1] if runs else None
        if (last is not None and last.file == item.tensor.file and _is_near(last, item)
                and max(last.end, item.end) - last.begin <= RUN_BYTES):
            last.end = max(last.end, item.end)
            last.items.append(item)
        else:
            runs.append(_Run(item.tensor.file, item.begin, item.end, [item]))
    return runs


def _is_near(run: _Run, item: Item) -> bool:
    """What lies between is storage's page, or a small share of what is read before it."""
    return item.begin - run.end <= max(PAGE, min(GAP_BYTES, (run.end - run.begin) // GAP_SHARE))


class Plan:
    """What will be read. Iterating over it reads, and gives (name, tensor) in the order of the files.

    A tensor shares its memory with its neighbours in the file (256 MiB at most): clone one that is to outlive the
    others. `bytes_from_storage` and `bytes_on_device` say what it takes.
    """

    def __init__(self, items: Sequence[Item], device: Any, dtype: Any, session: Session | None,
                 identities: Mapping[Path, tuple[int, int, int, int]]) -> None:
        import torch

        self.device = torch.device(device)
        self.dtype = dtype
        self._session, self._identities = session, identities
        self._runs = _runs_of(items)
        self.bytes_from_storage = sum(run.end - run.begin for run in self._runs)
        self.bytes_on_device = sum(run.end - run.begin + 3 * PAGE for run in self._runs)
        self.names = [item.tensor.name for run in self._runs for item in run.items]
        self.progress = Progress(self.bytes_from_storage)
        for run in self._runs:
            for item in run.items:
                torch_dtype(item.tensor)

    def __len__(self) -> int:
        return len(self.names)

    def check_memory(self, nbytes: int | None = None) -> None:
        """Raises MemoryError where the device has not as many bytes free (all of the plan's, if nothing is said)."""
        wanted, free = self.bytes_on_device if nbytes is None else nbytes, _free_bytes(self.device)
        if free is not None and wanted > free:
            raise MemoryError(f"the tensors take {wanted} bytes on {self.device}, of which {free} are free: nothing "
                              "was read. Choose fewer tensors, parts of them, or another device.")

    def load(self, on_progress: Callable[[Progress], None] | None = None) -> dict[str, torch.Tensor]:
        """All tensors by name. Raises MemoryError before the first byte where they will not fit."""
        self.check_memory()
        return dict(self.stream(on_progress))

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return self.stream()

    def stream(self, on_progress: Callable[[Progress], None] | None = None) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, tensor), in the order of the files, while further ones are read: three requests at most.

        on_progress is called after each request.
        """
        session = self._session or default_session()
        self.progress = Progress(self.bytes_from_storage)
        ahead: deque[tuple[_Run, _Pages, concurrent.futures.Future[_native.Report | None]]] = deque()
        began, runs = time.monotonic(), iter(self._runs)
        with concurrent.futures.ThreadPoolExecutor(AHEAD, "penstock-weights") as threads:
            for run in runs:
                ahead.append(self._begin(session, threads, run))
                if len(ahead) == AHEAD:
                    break
            while ahead:
                run, pages, future = ahead.popleft()
                report = future.result()
                _count(self.progress, report, time.monotonic() - began)
                if on_progress is not None:
                    on_progress(self.progress)
                for item in run.items:
                    yield item.tensor.name, self._cut(item, pages)
                del pages
                following = next(runs, None)
                if following is not None:
                    ahead.append(self._begin(session, threads, following))

    def _begin(self, session: Session, threads: concurrent.futures.Executor,
               run: _Run) -> tuple[_Run, _Pages, concurrent.futures.Future[_native.Report | None]]:
        import torch

        memory = torch.empty(run.end - run.begin + 3 * PAGE, dtype=torch.uint8, device=self.device)
        stream = None
        if self.device.type == "cpu":
            _native.advise_large_pages(memory.data_ptr(), memory.nbytes)
        else:
            # Memory that others have just given back may still be in use by what they put on the stream.
            stream = torch.cuda.current_stream(self.device).cuda_stream
        pages = _Pages(memory, run)
        return run, pages, threads.submit(_read, session, run, pages.wanted(), stream, self._identities[run.file])

    def _cut(self, item: Item, pages: _Pages) -> torch.Tensor:
        tensor = pages.tensor(item)
        if item.part is not None:
            tensor = tensor.narrow(item.part.dim, item.part.start, item.part.stop - item.part.start).clone()
        if self.dtype is not None and tensor.is_floating_point() and tensor.dtype != self.dtype:
            tensor = tensor.to(self.dtype)
        return tensor


class _Pages:
    """Memory in which a run lies as it does in its file: each byte at the same place of its page."""

    def __init__(self, memory: torch.Tensor, run: _Run) -> None:
        start = -memory.data_ptr() % PAGE
        shift = run.begin % PAGE
        self._bytes = memory[start:start + (shift + run.end - run.begin + PAGE - 1) // PAGE * PAGE]
        self._begin = run.begin - shift  # Where its first page is in the file.
        self._run = run
        self._typed: dict[torch.dtype, torch.Tensor] = {}

    def wanted(self) -> torch.Tensor:
        return self._bytes[self._run.begin - self._begin:self._run.end - self._begin]

    def tensor(self, item: Item) -> torch.Tensor:
        dtype, at, shape = torch_dtype(item.tensor), item.begin - self._begin, item.rows
        if item.tensor.dtype == "F4":
            shape = (*shape[:-1], shape[-1] // 2)  # Two elements a byte; torch counts bytes.
        if at % dtype.itemsize != 0:  # The format aligns nothing.
            return self._bytes[at:at + item.end - item.begin].clone().view(dtype).view(shape)
        typed = self._typed.get(dtype)
        if typed is None:
            typed = self._typed[dtype] = self._bytes.view(dtype)
        # One call for each of what may be many thousands.
        return typed.as_strided(shape, _strides(shape), typed.storage_offset() + at // dtype.itemsize)


def _strides(shape: tuple[int, ...]) -> list[int]:
    strides, stride = [1] * len(shape), 1
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = stride
        stride *= max(shape[i], 1)
    return strides


def _read(session: Session, run: _Run, memory: torch.Tensor, stream: int | None,
          identity: tuple[int, int, int, int]) -> _native.Report | None:
    if run.end == run.begin:
        return None
    with open(run.file, "rb", buffering=0) as opened, session.open(opened.fileno()) as file:
        _check_identity(run.file, opened.fileno(), identity)
        report = file.read(memory, run.begin, stream=stream)
        _check_identity(run.file, opened.fileno(), identity)
    if report.bytes != run.end - run.begin:
        raise WeightsError(f"{run.file}: it was cut while it was read: expected {run.end - run.begin} bytes at "
                           f"{run.begin}, there were {report.bytes}")
    return report


def _check_identity(path: Path, fd: int, identity: tuple[int, int, int, int]) -> None:
    if identity_of(fd) != identity:
        raise WeightsError(f"{path}: it was cut, changed or replaced after its header was read: open it anew")


def _count(progress: Progress, report: _native.Report | None, seconds: float) -> None:
    progress.seconds = seconds
    if report is None:
        return
    progress.bytes_done += report.bytes
    for path, moved in report.bytes_by_path.items():
        progress.bytes_by_path[path] = progress.bytes_by_path.get(path, 0) + moved


def torch_dtype(tensor: Tensor) -> torch.dtype:
    import torch

    dtype = getattr(torch, DTYPES.get(tensor.dtype, ""), None)
    if dtype is None or (tensor.dtype == "F4" and (not tensor.shape or tensor.shape[-1] % 2 != 0)):
        raise WeightsError(f"{tensor.file}: tensor {tensor.name!r} is {tensor.dtype}, which this torch cannot hold")
    return dtype  # type: ignore[no-any-return]


def _free_bytes(device: torch.device) -> int | None:
    import torch

    if device.type == "cuda":
        reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + reusable)
    return _native.available_memory()
