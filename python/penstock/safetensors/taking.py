# SPDX-License-Identifier: Apache-2.0

"""Puts `penstock.weights` under safetensors' own calls, for all of a process.

Programs read by `safetensors.safe_open` and write by `serialize_file`, and so do safetensors' own `load_file`,
`save_file` and the rest: those two are replaced wherever a module has them.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from multiprocessing import util
from typing import Any

from penstock.safetensors.bytes import serialize_file
from penstock.terminal import complain
from penstock.weights import Progress, WeightsError
from penstock.weights import safe_open as _our_safe_open
from penstock.weights.arrays import is_numpy

TORCH = ("pt", "torch", "pytorch")
ORIGINAL = "safetensors._safetensors_rust"  # It keeps the originals.


class Taken:
    """What went through Penstock, and what went to safetensors itself and why. `give_back()` ends it."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self._ours: list[tuple[Any, Any]] = []  # (theirs, ours)
        self._process = os.getpid()
        self._count_anew()

    def _count_anew(self) -> None:
        self.files_read = self.files_written = 0
        self.bytes_by_path: Counter[str] = Counter()
        self.handed_over: Counter[str] = Counter()  #: Files that safetensors itself served, by the reason.
        self._lock = threading.Lock()

    def __str__(self) -> str:
        """In one sentence."""
        paths = ", ".join(f"{moved} by path {path}" for path, moved in self.bytes_by_path.items())
        text = (f"safetensors by Penstock: {self.files_read} files opened, {self.files_written} written, "
                f"{self.bytes_by_path.total()} bytes read{': ' * bool(paths)}{paths}")
        left = ", ".join(f"{count} because {why}" for why, count in self.handed_over.items())
        return f"{text}; by safetensors itself: {left or 'nothing'}"

    def report_at_exit(self) -> None:
        """Prints the sentence as the process ends, and as those end that are forked from it and do anything."""
        atexit.register(self._report)
        # Those of multiprocessing end without atexit.
        util.register_after_fork(self, lambda child: util.Finalize(None, child._report, exitpriority=0))

    def _report(self) -> None:
        if self._process == os.getpid() or self.files_read or self.files_written or self.handed_over:
            complain(f"process {os.getpid()}: {self}", "penstock run")

    def give_back(self) -> None:
        """Modules have safetensors' own calls again. What is open stays as it is."""
        for theirs, ours in self._ours:
            _replace(ours, theirs)
        self._ours.clear()
        if _taken and _taken[0] is self:
            _taken.clear()

    def _take(self) -> None:
        for theirs, ours in ((self.original.safe_open, _safe_open_of(self)),
                             (self.original.serialize_file, self._serialize_file)):
            self._ours.append((theirs, ours))
            _replace(theirs, ours)

    def _hand_over(self, why: str) -> None:
        with self._lock:
            self.handed_over[why] += 1

    def _opened(self, kind: type, filename: Any, framework: Any, device: Any, options: Mapping[str, Any]) -> Any:
        why = _why_not(framework, device)
        if why is None:
            try:
                opened: Any = type.__call__(kind, filename, framework, device, **options)
                if is_numpy(framework):
                    opened._weights.plan(framework=framework)  # Raises if numpy lacks a dtype of the file.
            except (WeightsError, NotImplementedError) as error:
                why = str(error).replace(f"{filename}: ", "").replace(os.fspath(filename), "the file")
            else:
                with self._lock:
                    self.files_read += 1
                return opened
        self._hand_over(why)
        try:
            return self.original.safe_open(filename, framework, device, **options)
        except self.original.SafetensorError as error:  # "header too large", of a page of HTML.
            raise type(error)(f"{error}: {why}") from None

    def _serialize_file(self, tensor_dict: Mapping[str, Any], filename: str | os.PathLike[str],
                        metadata: Mapping[str, str] | None = None) -> None:
        if not all(hasattr(spec, "data_ptr") for spec in tensor_dict.values()):
            self._hand_over("this safetensors writes tensors that are copied to bytes")
            self.original.serialize_file(tensor_dict, filename, metadata)
            return
        serialize_file(tensor_dict, filename, metadata)
        with self._lock:
            self.files_written += 1


_taken: list[Taken] = []


def _after_fork() -> None:
    """What the parent moved is no part of the child's report."""
    for taken in _taken:
        taken._count_anew()


os.register_at_fork(after_in_child=_after_fork)


def take_over() -> Taken:
    """Takes over what the process has of safetensors, and what it will import. A second call gives the first's result.

    Raises ImportError if safetensors is not installed.
    """
    import safetensors  # noqa: F401, its native module is a part of it.

    if not _taken:
        taken = Taken(sys.modules[ORIGINAL])
        taken._take()
        _taken.append(taken)
    return _taken[0]


def _why_not(framework: Any, device: Any) -> str | None:
    if is_numpy(framework):
        return None if device is None or str(device) == "cpu" else f"arrays of numpy are not on {device}"
    if framework not in TORCH:
        return f"the framework is {framework}"
    kind = "cuda" if isinstance(device, int) else str(device).partition(":")[0]
    return None if device is None or kind in ("cpu", "cuda") else f"the device is {kind}"


def _replace(before: Any, after: Any) -> None:
    """In all modules, by whatever name each has it."""
    for name, module in list(sys.modules.items()):
        if name == ORIGINAL:
            continue
        for each, value in list(getattr(module, "__dict__", {}).items()):
            if value is before:
                setattr(module, each, after)


def _safe_open_of(taken: Taken) -> type:
    """A class, since the original is one: its call gives ours, or one of the original."""

    class Kind(type):
        def __call__(cls, filename: Any, framework: Any, device: Any = "cpu", **options: Any) -> Any:
            return taken._opened(cls, filename, framework, "cpu" if device is None else device, options)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (_our_safe_open, taken.original.safe_open))

    class safe_open(_our_safe_open, metaclass=Kind):  # noqa: N801, the name that it replaces.
        __doc__ = _our_safe_open.__doc__

        def _count(self, progress: Progress) -> None:
            with taken._lock:
                taken.bytes_by_path.update(progress.bytes_by_path)

    return safe_open
