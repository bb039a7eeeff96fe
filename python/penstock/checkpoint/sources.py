# SPDX-License-Identifier: Apache-2.0

"""A checkpoint as a source of `penstock.weights`: its tensors with their places, and the check of their bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import _native
from penstock.checkpoint.layout import PIECE_BYTES, CheckpointError, Extent, Layout, tensors_of
from penstock.checkpoint.reading import is_regular, of_one_save, read_layout
from penstock.checkpoint.verifying import check_sums
from penstock.weights.files import identity_of
from penstock.weights.tensors import Tensor, WeightsError


class Source:
    """The tensors of a checkpoint, for `penstock.weights`. layout: its layout, if it was read already."""

    def __init__(self, folder: Path, layout: Layout | None = None) -> None:
        try:
            layout = layout or read_layout(folder)
            self.tensors = tensors_of(layout, folder)
            with of_one_save(folder, layout):
                self.identities = _identities_of(folder, layout)
        except CheckpointError as error:
            raise WeightsError(str(error)) from None
        self.objects: dict[str, Any] = dict.fromkeys(layout.objects)
        self.files = sorted(folder / name for name in layout.files)
        self._folder = folder
        self._extents: dict[tuple[str, int], Extent] = {(extent.file, extent.offset): extent
                                                        for _, extent in layout.extents() if extent.nbytes > 0}

    def check(self, tensor: Tensor, content: Any) -> None:
        extent = self._extents.get((tensor.file.name, tensor.offset))
        if extent is not None and extent.nbytes == tensor.nbytes:
            try:
                check_sums(self._folder, tensor.name, extent, 0, _native.crc32c(content, PIECE_BYTES))
            except CheckpointError as error:
                raise WeightsError(str(error)) from None


def _identities_of(folder: Path, layout: Layout) -> dict[Path, tuple[int, int, int, int]]:
    found = {}
    for file in (folder / name for name in layout.files):
        if not is_regular(file):
            raise WeightsError(f"{file}: this is no regular file")
        with open(file, "rb", buffering=0) as opened:
            found[file] = identity_of(opened.fileno())
        if found[file][2] < layout.files[file.name]:
            raise WeightsError(f"{file}: it has {found[file][2]} bytes, and {layout.files[file.name]} are expected: it "
                               "was cut. Load an older checkpoint")
    return found
