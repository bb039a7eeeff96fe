# SPDX-License-Identifier: Apache-2.0

"""Host memory for the copies of a state, kept from save to save, and the checksums of what they shall be copies of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.copying import Copying, batches_of
from penstock.checkpoint.lanes import CudaLane, HostLane, Lane
from penstock.checkpoint.layout import PIECE_BYTES
from penstock.checkpoint.memory import bytes_of
from penstock.checkpoint.updates import Held
from penstock.sessions import Session, default_session


@dataclass(frozen=True)
class Copied:
    """memory: that of each copy; sums(): the checksums of those that may change meanwhile, for which it waits until the
    streams of their GPUs have made them; at_once: those that nobody owns."""

    memory: dict[str, Any]
    sums: Callable[[], dict[str, list[int]]]
    at_once: list[str]
    copying: Copying


class HostCopies:
    """spare_bytes: memory of each GPU to set bytes aside. memory: that of the copies."""

    def __init__(self, spare_bytes: int) -> None:
        self._spare_bytes = spare_bytes
        self.memory: dict[str, Any] = {}
        self._lanes: dict[Any, Lane] = {}

    @property
    def nbytes(self) -> int:
        return sum(copy.nbytes for copy in self.memory.values())

    def take(self, sources: Mapping[str, Any], held: Held, session: Session | None) -> Copied:
        """Copies those that are not held, and prepares copies of the others."""
        found = {name: bytes_of(each) for name, each in sources.items()}
        owners = {name: held.owners(each) for name, each in found.items()}
        lanes = {name: self._lane_of(each) for name, each in found.items()}
        for lane in set(lanes.values()):
            lane.renew()
        self.memory = {name: self._memory_for(name, each, lanes[name]) for name, each in found.items()}
        batches = batches_of((lanes[name], owners[name], (each, self.memory[name])) for name, each in found.items())
        copying = Copying(batches)  # First, since updates wait for the end of its copies.
        sums = _begun_sums({name: each for name, each in found.items()
                            if owners[name] or _is_cuda(each)}, session)
        copying.end_save()
        return Copied(self.memory, sums, [name for name in found if not owners[name]], copying)

    def _lane_of(self, found: Any) -> Lane:
        device = _device_of(found)
        if device not in self._lanes:
            self._lanes[device] = HostLane() if device is None else CudaLane(device, self._spare_bytes)
        return self._lanes[device]

    def _memory_for(self, name: str, found: Any, lane: Lane) -> Any:
        known = self.memory.get(name)
        is_fit = known is not None and known.nbytes == found.nbytes and _is_cuda(found) == hasattr(known, "data_ptr")
        return known if is_fit else lane.memory(found.nbytes)


def _device_of(found: Any) -> Any:
    return found.device if _is_cuda(found) else None


def _is_cuda(found: Any) -> bool:
    return bool(getattr(found, "is_cuda", False))


def stream_of(device: Any) -> Any:
    """The caller's, so that nobody has to ask for it tensor by tensor."""
    return None if device is None else sys.modules["torch"].cuda.current_stream(device)


def by_device(found: Mapping[str, Any]) -> dict[Any, list[str]]:
    """None: in host memory."""
    names: dict[Any, list[str]] = {}
    for name, each in found.items():
        names.setdefault(_device_of(each), []).append(name)
    return names


def _begun_sums(found: Mapping[str, Any], session: Session | None) -> Callable[[], dict[str, list[int]]]:
    """Begins the checksums of each; those of a GPU's memory in the order of its stream."""
    begun = [(names, (session or default_session()).crc32c_begin((found[name] for name in names), PIECE_BYTES,
                                                                  stream=stream_of(device)))
             for device, names in by_device(found).items()]

    def result() -> dict[str, list[int]]:
        sums: dict[str, list[int]] = {}
        for names, pending in begun:
            made = iter(pending.result())
            sums.update({name: [next(made) for _ in range(0, found[name].nbytes, PIECE_BYTES)] for name in names})
        return sums

    return result
