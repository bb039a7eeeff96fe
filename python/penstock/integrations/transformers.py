# SPDX-License-Identifier: Apache-2.0

"""Transformers and accelerate on `penstock.weights`:

    from penstock.integrations.transformers import fast_loading
    with fast_loading("cuda") as loading:
        model = AutoModelForCausalLM.from_pretrained(folder, device_map="cuda")
    print(loading)     # So many bytes of so many files, and by which paths.

Neither has a plug-in interface for loaders. Both use safetensors' `safe_open`, so within the block that name refers to
ours in their modules. A version that loads in another way is refused.
"""

from __future__ import annotations

import copy
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any
from unittest import mock

from penstock.sessions import Session
from penstock.threads import Future, Pool
from penstock.weights import Weights, WeightsError, safe_open

if TYPE_CHECKING:
    import torch

__all__ = ["Loading", "fast_loading"]

GROUP_BYTES = 256 << 20  # Adjacent tensors of a file that are read together,
AHEAD = 2                # and how many such groups are read ahead.


@dataclass
class Loading:
    """Statistics of a block of `fast_loading`."""

    files: set[str] = field(default_factory=set)
    bytes_by_path: dict[str, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(self.bytes_by_path.values())

    def __str__(self) -> str:
        paths = ", ".join(f"{moved} by path {path}" for path, moved in self.bytes_by_path.items())
        return f"{self.nbytes} bytes of {len(self.files)} files{': ' if paths else ''}{paths}"


@contextmanager
def fast_loading(device: Any = None, *, session: Session | None = None) -> Iterator[Loading]:
    """In its block, `from_pretrained()` and accelerate's `load_checkpoint_in_model()` read safetensors with Penstock.

    device: the device to read Transformers' tensors to, ideally that of `device_map`; the default is the CPU, as in
    Transformers. accelerate passes its own. The block affects the whole process. Raises RuntimeError for an unsupported
    version of Transformers or accelerate, and warns if nothing was read in the block.
    """
    loading = Loading()

    def opened(filename: Any, framework: str = "pt", device: Any = "cpu", backend: str | None = None) -> _Opened:
        return _Opened(filename, framework, device, session, loading)  # The backend is our choice.

    def opened_there(filename: Any, framework: str = "pt", device: Any = "cpu", backend: str | None = None) -> _Opened:
        return opened(filename, framework, place if str(device) == "cpu" else device)

    def load_file(filename: Any, device: Any = "cpu") -> dict[str, torch.Tensor]:
        with opened(filename, "pt", device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}

    place = "cpu" if device is None else device
    there = [name for name in ("transformers", "accelerate") if find_spec(name) is not None]
    if not there:
        raise ImportError("fast_loading is for Transformers and accelerate, and neither is installed: "
                          "pip install transformers accelerate")
    with ExitStack() as stack:
        if "transformers" in there:
            _stand_in(stack, "transformers.modeling_utils", "PreTrainedModel._load_pretrained_model", opened_there)
        if "accelerate" in there:
            _stand_in(stack, "accelerate.utils.modeling", "load_state_dict", opened, load_file)
        yield loading
    if not loading.files:
        warnings.warn("fast_loading: neither Transformers nor accelerate opened a safetensors file in the block, so "
                      "that Penstock has read nothing", RuntimeWarning, stacklevel=3)


def _stand_in(stack: ExitStack, name: str, where: str, opened: Callable[..., Any],
              load_file: Callable[..., Any] | None = None) -> None:
    """Replaces `safe_open` and `safe_load_file` of a module, if its function `where` calls them."""
    import safetensors
    import safetensors.torch

    module = import_module(name)
    wanted: dict[str, tuple[Any, Any]] = {"safe_open": (safetensors.safe_open, opened)}
    if load_file is not None:
        wanted["safe_load_file"] = (safetensors.torch.load_file, load_file)
    function: Any = module
    for part in where.split("."):
        function = getattr(function, part, None)
    called = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_names", ()) if function else ()
    for each, (theirs, ours) in wanted.items():
        if getattr(module, each, None) is not theirs or each not in called:
            package = name.partition(".")[0]
            raise RuntimeError(f"{package} {version(package)} cannot be helped by fast_loading: expected {where} of "
                               f"{name} to read by safetensors' {theirs.__name__}, and no other block of fast_loading "
                               "around this one")
        stack.enter_context(mock.patch.object(module, each, ours))


class _Opened:
    """Like safetensors' `safe_open`, for any tensor and from several threads: the first tensor of a group of neighbours
    reads the group, and some groups after it."""

    def __init__(self, filename: Any, framework: str, device: Any, session: Session | None, loading: Loading) -> None:
        import torch

        self._device = torch.device(device)
        if self._device.type == "cuda" and self._device.index is None:
            # The current device is per thread.
            self._device = torch.device("cuda", torch.cuda.current_device())
        self._rows = safe_open(filename, framework, self._device, session=session)
        self._weights, self._session, self._loading = Weights([filename]), session, loading
        self._groups = _groups_of(self._weights)
        self._group = {name: i for i, names in enumerate(self._groups) for name in names}
        self._tensors: dict[int, Future[dict[str, torch.Tensor]]] = {}
        self._lock = threading.Lock()
        self._threads = Pool(AHEAD + 1)
        loading.files.add(str(filename))

    def keys(self) -> list[str]:
        return self._rows.keys()

    def offset_keys(self) -> list[str]:
        return self._rows.offset_keys()

    def metadata(self) -> dict[str, str] | None:
        return self._rows.metadata()

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self, name, self._rows.get_slice(name))

    def get_tensor(self, name: str) -> torch.Tensor:
        if name not in self._group:
            raise WeightsError(f"no tensor is called {name!r}")
        wanted = self._group[name]
        with self._lock:
            for i in range(wanted, min(wanted + AHEAD + 1, len(self._groups))):
                if i not in self._tensors:
                    self._tensors[i] = self._threads.submit(self._read, i)
            group = self._tensors[wanted]
        tensors = group.result()
        with self._lock:
            tensor: Any = tensors.pop(name, None)
        if tensor is None:  # The tensor was requested before.
            tensor = self._rows.get_tensor(name)
        return _apart(tensor)

    def _read(self, i: int) -> dict[str, torch.Tensor]:
        group = copy.copy(self._weights)
        group._plain, group._tensors = [], {name: self._weights.tensors[name] for name in self._groups[i]}
        plan = group.plan(device=self._device, session=self._session)
        tensors = plan.load()
        with self._lock:
            for path, moved in plan.progress.bytes_by_path.items():
                self._loading.bytes_by_path[path] = self._loading.bytes_by_path.get(path, 0) + moved
        return tensors

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._tensors.clear()


def _groups_of(weights: Weights) -> list[list[str]]:
    """Groups of tensors that are adjacent in the file and read together."""
    groups: list[list[str]] = []
    left = 0
    for tensor in sorted(weights.tensors.values(), key=lambda tensor: tensor.offset):
        if not groups or tensor.nbytes > left:
            groups.append([])
            left = GROUP_BYTES
        groups[-1].append(tensor.name)
        left -= tensor.nbytes
    return groups


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """Separates the tensor from its neighbours in the file, which share its memory, so that saving it does not save
    them."""
    import torch

    if tensor.device.type != "cpu" or tensor.nbytes == 0:
        return tensor.clone()  # A copy on a GPU is fast, and aligned tensors work best.
    storage = tensor.untyped_storage()
    begin = tensor.data_ptr() - storage.data_ptr()
    alone = storage[begin:begin + tensor.nbytes]  # The same bytes, as a separate storage.
    return torch.asarray(alone, dtype=torch.uint8).view(tensor.dtype).view(tensor.shape)


class _Slice:
    """A slice: Transformers first reads its shape and dtype, and indexes it later."""

    def __init__(self, opened: _Opened, name: str, rows: Any) -> None:
        self._opened, self._name, self._rows = opened, name, rows
        self.get_shape, self.get_dtype = rows.get_shape, rows.get_dtype

    def __getitem__(self, index: Any) -> torch.Tensor:
        if index is Ellipsis:
            return self._opened.get_tensor(self._name)
        return self._rows[index]  # type: ignore[no-any-return]
