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

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from unittest import mock

from penstock.sessions import Session
from penstock.weights import Progress, safe_open

if TYPE_CHECKING:
    import torch

__all__ = ["Loading", "fast_loading"]


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


class _Opened(safe_open):
    """The first tensor of a file reads its neighbours: all of them will be wanted."""

    reads_at_once = True

    def __init__(self, filename: Any, framework: str, device: Any, session: Session | None, loading: Loading) -> None:
        super().__init__(filename, framework, device, session=session)
        self._loading = loading
        loading.files.add(str(filename))

    def _count(self, progress: Progress) -> None:
        with self._lock:
            for path, moved in progress.bytes_by_path.items():
                self._loading.bytes_by_path[path] = self._loading.bytes_by_path.get(path, 0) + moved
