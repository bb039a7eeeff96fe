# SPDX-License-Identifier: Apache-2.0

"""Host memory for the copies of a state, kept from save to save, and the checksums of what they shall be copies of."""

from __future__ import annotations

from collections.abc import Mapping
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
    """memory: that of each copy; sums: the checksums of those that may change meanwhile."""

    memory: dict[str, Any]
    sums: dict[str, list[int]]
    copying: Copying


class HostCopies:
    """spare_bytes: memory of each GPU to set bytes aside. memory: that of the copies, by name."""

    def __init__(self, spare_bytes: int) -> None:
        self._spare_bytes = spare_bytes
        self.memory: dict[str, Any] = {}
        self._lanes: dict[Any, Lane] = {}

    @property
    def nbytes(self) -> int:
        return sum(copy.nbytes for copy in self.memory.values())

    def take(self, tensors: Mapping[str, Any], held: Held, session: Session | None) -> Copied:
        """Copies those that are not held, and prepares copies of the others."""
        found = {name: bytes_of(tensor) for name, tensor in tensors.items()}
        owners = {name: held.owners(found[name]) for name in tensors}
        sums = _sums({name: each for name, each in found.items() if owners[name] or _is_cuda(each)}, session)
        for lane in self._lanes.values():
            lane.renew()
        lanes = {name: self._lane_of(each) for name, each in found.items()}
        self.memory = {name: self._memory_for(name, each, lanes[name]) for name, each in found.items()}
        batches = batches_of((lanes[name], owners[name], (each, self.memory[name])) for name, each in found.items())
        return Copied(self.memory, sums, Copying(batches))

    def _lane_of(self, found: Any) -> Lane:
        device = found.device if _is_cuda(found) else None
        if device not in self._lanes:
            self._lanes[device] = HostLane() if device is None else CudaLane(device, self._spare_bytes)
        return self._lanes[device]

    def _memory_for(self, name: str, found: Any, lane: Lane) -> Any:
        known = self.memory.get(name)
        is_fit = known is not None and known.nbytes == found.nbytes and _is_cuda(found) == hasattr(known, "data_ptr")
        return known if is_fit else lane.memory(found.nbytes)


def _is_cuda(found: Any) -> bool:
    return bool(getattr(found, "is_cuda", False))


def _sums(found: Mapping[str, Any], session: Session | None) -> dict[str, list[int]]:
    """The checksums of the pieces of each."""
    made = iter((session or default_session()).crc32c_vector(found.values(), PIECE_BYTES) if found else ())
    return {name: [next(made) for _ in range(0, each.nbytes, PIECE_BYTES)] for name, each in found.items()}
