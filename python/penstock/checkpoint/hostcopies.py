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
from penstock.checkpoint.pieces import Piece
from penstock.checkpoint.updates import Held
from penstock.sessions import Session, default_session


@dataclass(frozen=True)
class Copied:
    """memory: that of each copy; sums(): the checksums of those that may change meanwhile, for which it waits until the
    streams of their GPUs have made them; at_once: those that nobody owns."""

    memory: dict[Piece, Any]
    sums: Callable[[], dict[Piece, list[int]]]
    at_once: list[Piece]
    copying: Copying


class HostCopies:
    """spare_bytes: memory of each GPU to set bytes aside. memory: that of the copies."""

    def __init__(self, spare_bytes: int) -> None:
        self._spare_bytes = spare_bytes
        self.memory: dict[Piece, Any] = {}
        self._lanes: dict[Any, Lane] = {}

    @property
    def nbytes(self) -> int:
        return sum(copy.nbytes for copy in self.memory.values())

    def take(self, sources: Mapping[Piece, Any], held: Held, session: Session | None, *,
             are_summed: bool) -> Copied:
        """Copies those that are not held, and prepares copies of the others. are_summed: the checksums are known."""
        found = {piece: bytes_of(each) for piece, each in sources.items()}
        owners = {piece: held.owners(each) for piece, each in found.items()}
        lanes = {piece: self._lane_of(each) for piece, each in found.items()}
        for lane in set(lanes.values()):
            lane.renew()
        self.memory = {piece: self._memory_for(piece, each, lanes[piece]) for piece, each in found.items()}
        batches = batches_of((lanes[piece], owners[piece], (each, self.memory[piece])) for piece, each in found.items())
        copying = Copying(batches)  # First, since updates wait for the end of its copies.
        sums = _begun_sums({piece: each for piece, each in found.items()
                            if not are_summed and (owners[piece] or _is_cuda(each))}, session)
        copying.end_save()
        return Copied(self.memory, sums, [piece for piece in found if not owners[piece]], copying)

    def _lane_of(self, found: Any) -> Lane:
        device = _device_of(found)
        if device not in self._lanes:
            self._lanes[device] = HostLane() if device is None else CudaLane(device, self._spare_bytes)
        return self._lanes[device]

    def _memory_for(self, piece: Piece, found: Any, lane: Lane) -> Any:
        known = self.memory.get(piece)
        is_fit = known is not None and known.nbytes == found.nbytes and _is_cuda(found) == hasattr(known, "data_ptr")
        return known if is_fit else lane.memory(found.nbytes)


def _device_of(found: Any) -> Any:
    return found.device if _is_cuda(found) else None


def _is_cuda(found: Any) -> bool:
    return bool(getattr(found, "is_cuda", False))


def stream_of(device: Any) -> Any:
    """The caller's, so that nobody has to ask for it tensor by tensor."""
    return None if device is None else sys.modules["torch"].cuda.current_stream(device)


def by_device(found: Mapping[Piece, Any]) -> dict[Any, list[Piece]]:
    """None: in host memory."""
    pieces: dict[Any, list[Piece]] = {}
    for piece, each in found.items():
        pieces.setdefault(_device_of(each), []).append(piece)
    return pieces


def _begun_sums(found: Mapping[Piece, Any], session: Session | None) -> Callable[[], dict[Piece, list[int]]]:
    """Begins the checksums of each; those of a GPU's memory in the order of its stream."""
    begun = [(pieces, (session or default_session()).crc32c_begin((found[piece] for piece in pieces), PIECE_BYTES,
                                                                  stream=stream_of(device)))
             for device, pieces in by_device(found).items()]

    def result() -> dict[Piece, list[int]]:
        sums: dict[Piece, list[int]] = {}
        for pieces, pending in begun:
            made = iter(pending.result())
            sums.update({piece: [next(made) for _ in range(0, piece.nbytes, PIECE_BYTES)] for piece in pieces})
        return sums

    return result
