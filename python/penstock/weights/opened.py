# SPDX-License-Identifier: Apache-2.0

"""In place of `safetensors.safe_open`: a file whose tensors are asked for one by one, or fetched ahead."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

from penstock.files import File
from penstock.progress import Progress
from penstock.sessions import Session, default_session
from penstock.weights import arrays
from penstock.weights.files import Held
from penstock.weights.headers import Weights
from penstock.weights.neighbours import Neighbours
from penstock.weights.plan import Plan
from penstock.weights.runs import Item, items_of, part_of, share_alone
from penstock.weights.stream import Stream
from penstock.weights.tensors import Part, Tensor, WeightsError, collecting_paused, named

BACKENDS = ("mmap", "pread")  # Backends of safetensors, accepted and ignored: each request takes the best path.
SMALL_BYTES = 1 << 20


def check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise WeightsError(f"backend {backend!r}: expected 'mmap' or 'pread', as safetensors; both are taken and make "
                           "no difference here")


class Meta(NamedTuple):
    """A tensor's entry in the header: offsets from the begin of the data."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class safe_open:  # noqa: N801, the name that it replaces.
    """In place of `safetensors.safe_open`: `with safe_open(file, framework="pt", device="cuda") as opened: ...`.

    Threads may share it. A tensor is read alone. Where the one before it in the file was asked for, too, those behind
    it are read together with it, 256 MiB at most, and ahead; never more than were asked for before. On the CPU tensors
    that were read together share their memory: clone one that is to outlive the others.
    """

    reads_at_once = False  # Whether all will be asked for.

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu", *,
                 backend: str = "mmap", session: Session | None = None) -> None:
        check_backend(backend)
        self._framework, self._session = framework, session
        self._device = arrays.arrays_of(framework, device).here()  # Raises here, not at the first tensor.
        self._arrays = arrays.arrays_of(framework, self._device)
        self._weights = Weights([filename])
        header = self._weights.header
        if header is None:
            raise WeightsError(f"{filename}: this is no safetensors file: load it with weights.load_file or Weights")
        self._header = header
        with suppress(OSError):  # Too many open files: then it is opened for each read.
            self._weights.held = Held(self._weights.files[0], self._weights.identities[self._weights.files[0]])
        self._is_closed = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        myself = weakref.ref(self)  # Who forgets a file without closing it lets go of all at once.

        def count(progress: Progress) -> None:
            if (opened := myself()) is not None:
                opened._count(progress)

        self._neighbours = Neighbours(self._weights, self._device, framework, session, count, self.reads_at_once)
        self._file: File | None = None

    def keys(self) -> list[str]:
        return sorted(self._opened().names())

    def offset_keys(self) -> list[str]:
        """The names in the order of the file."""
        return self._opened().names()

    def metadata(self) -> dict[str, str] | None:
        self._opened()
        return self._header.metadata()

    def get_tensor(self, name: str) -> Any:
        return self._get(self._opened().tensor(name), self._weights.held)

    def get_tensors(self) -> dict[str, Any]:
        """All of them, by name, in the order of the file."""
        plan = self._opened().plan(device=self._device, framework=self._framework, session=self._session)
        tensors = plan.load()
        self._count(plan.progress)
        return tensors

    def get_tensor_meta(self, name: str) -> Meta:
        tensor = self._opened().tensor(name)
        begin = tensor.offset - self._header.data_begin
        return Meta(tensor.dtype, list(tensor.shape), (begin, begin + tensor.nbytes))

    def get_slice(self, name: str) -> Slice:
        """An object to index: `get_slice(name)[2:4, :, ::2]` reads only the rows that it needs. It stays usable after
        the file is closed."""
        return Slice(self, self._opened().tensor(name))

    def prefetch(self, plan: Mapping[str, slice | None] | None = None, *, device: Any = None,
                 threads: int = 8) -> Prefetched:
        """Begins to read the tensors of a plan, all if there is none: by name None for the whole tensor, or a slice of
        its rows. Three requests are under way at a time; more are begun as tensors are taken.

        threads: is taken, and makes no difference. Works on any device.
        """
        if arrays.is_numpy(self._framework):
            raise WeightsError('prefetch is for tensors of torch: open the file with framework="pt"')
        where = self._device if device is None else device
        return Prefetched(self._opened().plan_of_rows(plan, where, self._session), self._count)

    def _opened(self) -> Weights:
        if self._is_closed:
            raise WeightsError(f"{self._weights.shown()}: the file is closed: open it anew, or read it within `with`")
        return self._weights

    def _count(self, progress: Progress) -> None:
        """Is told of everything that was read."""

    def _get(self, tensor: Tensor, held: Held | None) -> Any:
        found = self._neighbours.take(tensor.name)
        return self._read(tensor, None, held) if found is None else found

    def _read(self, tensor: Tensor, part: Part | None, held: Held | None) -> Any:
        items = items_of(share_alone(tensor, None if part is None else part_of(tensor, part)))
        if len(items) == 1 and self._is_small(items[0]) and (file := self._opened_file()) is not None:
            return self._read_small(items[0], file)
        plan = Plan([(tensor, part)], self._device, None, self._session, self._weights.identities,
                    framework=self._framework, held=held)
        found = next(iter(plan))[1]
        self._count(plan.progress)
        return found

    def _is_small(self, item: Item) -> bool:
        """Whether one read fills the tensor, and a plan would take longer than the read."""
        return (0 < item.end - item.begin <= SMALL_BYTES and item.part is None and item.whole is None
                and item.tensor.strides is None and not arrays.is_numpy(self._framework))

    def _read_small(self, item: Item, file: File) -> Any:
        dtype = self._arrays.dtype_of(item.tensor)
        with named(f"{item.tensor.file}: tensor {item.tensor.name!r}"):
            made = self._arrays.empty(dtype, item.rows)
        report, wanted = file.read(made, item.begin), item.end - item.begin
        if report.bytes != wanted:
            raise WeightsError(f"{item.tensor.file}: it was cut while it was read: expected {wanted} bytes at "
                               f"{item.begin}, there were {report.bytes}")
        progress = Progress(wanted)
        progress.count(report, 0.0)
        self._count(progress)
        return made

    def _opened_file(self) -> File | None:
        """None where it is not kept open, is closed by now, or is another process's."""
        if os.getpid() != self._process:
            return None
        with self._lock:
            if self._file is None and self._weights.held is not None:
                self._weights.held.check()
                self._file = (self._session or default_session()).open(self._weights.held.fd)
            return self._file

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._weights.held = None
            file, self._file = self._file, None
        self._neighbours.close()
        if file is not None:
            file.close()

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Slice:
    """A tensor whose parts are read when it is indexed."""

    def __init__(self, opened: safe_open, tensor: Tensor) -> None:
        self._opened, self._tensor, self._held = opened, tensor, opened._weights.held

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        if index is Ellipsis or index == slice(None):
            return self._opened._get(self._tensor, self._held)
        if arrays.is_numpy(self._opened._framework):
            _check_index(index, self._tensor.shape)
        indices = index if isinstance(index, tuple) else (index,)
        rows = self._rows_of(indices[0]) if indices and self._tensor.shape and self._tensor.dtype != "F4" else None
        if rows is None:
            return self._alone(self._opened._read(self._tensor, None, self._held), index)
        start, stop, rest = rows
        return self._alone(self._opened._read(self._tensor, Part(0, start, stop), self._held), (rest, *indices[1:]))

    def _rows_of(self, first: Any) -> tuple[int, int, Any] | None:
        """The rows that an index needs, and the index into them; None if all rows are read."""
        count = self._tensor.shape[0]
        if isinstance(first, int) and not isinstance(first, bool) and -count <= first < count:
            return first % count, first % count + 1, 0
        if not isinstance(first, slice) or (first.step or 1) < 1:
            return None
        start, stop, step = first.indices(count)
        return start, max(start, stop), slice(None, None, step)

    @staticmethod
    def _alone(read: Any, index: Any) -> Any:
        """Copies a small part, so that it does not keep all of the read memory alive."""
        part = read[index]
        return part if 2 * part.nbytes > read.nbytes or not hasattr(part, "clone") else part.clone()


def _check_index(index: Any, shape: tuple[int, ...]) -> None:
    """Refuses what safetensors refuses where it cuts by itself, as it does for arrays of numpy."""
    if isinstance(index, list) and index:
        raise WeightsError("a list that is not empty is no index here: expected numbers, slices and ...")
    explicit = [each for each in (index if isinstance(index, tuple) else (index,)) if each is not Ellipsis]
    for dim, (each, size) in enumerate(zip(explicit, shape)):
        bounds = (each.start, each.stop) if isinstance(each, slice) else ()
        if any(bound is not None and not 0 <= bound <= size for bound in bounds) or (
                isinstance(each, int) and not -size <= each < size):
            raise WeightsError(f"index {each!r} is outside of dimension {dim}, which has {size} elements")


class Prefetched:
    """Tensors that are being read. Each is handed out once, by `take()` or by iterating over (name, tensor)."""

    def __init__(self, plan: Plan, count: Any) -> None:
        self._plan, self._count = plan, count
        self._stream: Stream | None = plan.stream()
        self._groups = self._stream.begun()
        self._left = dict.fromkeys(plan.names)
        self._ready: dict[str, Any] = {}
        self._error: BaseException | None = None
        self._lock = threading.RLock()

    def names(self) -> list[str]:
        """In the order of the file."""
        return list(self._plan.names)

    def __len__(self) -> int:
        return len(self._plan.names)

    def take(self, name: str) -> Any:
        """Waits until the tensor is there. Raises WeightsError if the plan has none of this name, or it was taken."""
        with self._lock:
            if name not in self._left:
                is_planned = name in self._plan.names
                raise WeightsError(f"tensor {name!r} {'was taken before' if is_planned else 'is not in the plan'}: "
                                   "each tensor of a prefetch plan is handed out once")
            while name not in self._ready:
                self._fetch()
            del self._left[name]
            return self._ready.pop(name)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        while True:
            with self._lock:
                if not self._left:
                    return
                if not self._ready:
                    self._fetch()
                there = list(self._ready)
            for name in there:
                with self._lock:
                    tensor = self._ready.pop(name, None)
                    if tensor is None:  # Another thread has taken it meanwhile.
                        continue
                    del self._left[name]
                yield name, tensor
                del tensor

    def _fetch(self) -> None:
        """The next run."""
        if self._stream is None:
            raise WeightsError("the prefetch was closed")
        if self._error is not None:
            raise self._error.with_traceback(None)
        try:
            with collecting_paused():
                self._ready.update(next(self._groups))
        except BaseException as error:
            self._error = error  # It ended the reading.
            raise
        if len(self._ready) == len(self._left):
            self._end()

    def _end(self) -> None:
        if self._stream is not None:
            self._groups.close()
            self._stream.close()
            self._stream = None
            self._count(self._plan.progress)

    def close(self) -> None:
        """Ends the reading, and lets go of what was not taken; tensors that were handed out stay."""
        with self._lock:
            self._end()
            self._ready.clear()
            self._error = None

    def __enter__(self) -> Prefetched:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
