# SPDX-License-Identifier: Apache-2.0

"""Tensors of a state that lie in several pieces: how they are cut, and that they are read whole."""

import dataclasses
import json
import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import torch.distributed.checkpoint as dcp

from penstock import checkpoint, weights
from penstock.checkpoint import layout, pieces
from penstock.checkpoint.distributed import Reader

PIECE = 4096


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", PIECE)


def state():
    return {"rows": torch.arange(20_000.0).reshape(20, 1000), "flat": torch.arange(9000), "small": torch.ones(3),
            "none": torch.zeros(0, 5)}


def saved_in_pieces(place):
    """As a save that writes what changed would describe it."""
    checkpoint.save(state(), place)
    found = layout.decode((place / layout.NAME).read_bytes())
    for name, tensor in found.tensors.items():
        [chunk] = tensor.chunks
        chunks = [layout.Chunk(piece.at, piece.shape, part_of(place, chunk.extent, piece))
                  for piece in pieces.cut(name, tensor.dtype, tensor.shape)]
        found.tensors[name] = dataclasses.replace(tensor, chunks=tuple(chunks))
    (place / layout.NAME).write_bytes(layout.encode(found))
    return found


def part_of(place, extent, piece):
    offset = extent.offset + piece.begin
    content = (place / extent.file).read_bytes()[offset:offset + piece.nbytes]
    return layout.Extent(extent.file, offset, piece.nbytes, (layout.checksum(content),)[:piece.nbytes])


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert all(numpy.array_equal(numpy.asarray(found[name]), numpy.asarray(expected[name])) for name in expected)


def test_every_reader_reads_what_lies_in_pieces(tmp_path):
    saved = saved_in_pieces(tmp_path / "a")
    assert len(saved.tensors["rows"].chunks) == 20 and saved.version == 2

    assert_same(checkpoint.load(tmp_path / "a"), state())
    assert_same(checkpoint.load(tmp_path / "a", framework="np"), state())
    into = {name: torch.zeros_like(tensor) for name, tensor in state().items()}
    checkpoint.load_into(into, tmp_path / "a")
    assert_same(into, state())
    into = {name: torch.zeros_like(tensor) for name, tensor in state().items()}
    dcp.load(into, storage_reader=Reader(tmp_path / "a"), no_dist=True)
    assert_same(into, state())
    assert_same(weights.Weights(tmp_path / "a").plan().load(), state())
    assert checkpoint.verify(tmp_path / "a").nbytes == saved.nbytes
    assert_same(checkpoint.load(checkpoint.drain(tmp_path / "a", tmp_path / "shared")), state())


def test_a_piece_that_is_damaged_is_named(tmp_path):
    extent = saved_in_pieces(tmp_path / "a").tensors["rows"].chunks[7].extent
    with open(tmp_path / "a" / extent.file, "r+b") as file:
        file.seek(extent.offset + 5)
        file.write(b"x")
    with pytest.raises(checkpoint.CheckpointError, match=f"'rows' is wrong between bytes {extent.offset} and "):
        checkpoint.load(tmp_path / "a")


def test_what_needs_several_chunks_is_version_2_which_releases_before_refuse_by_name(tmp_path, monkeypatch):
    saved_in_pieces(tmp_path / "a")
    checkpoint.save(state(), tmp_path / "b")
    assert [(tmp_path / name / layout.NAME).read_bytes()[:25] for name in "ab"] == [
        b'{"penstock.checkpoint":2,', b'{"penstock.checkpoint":1,']
    monkeypatch.setattr(layout, "VERSIONS", (1,))
    with pytest.raises(checkpoint.CheckpointError, match="has version 2 of the format: this release reads versions 1$"):
        checkpoint.load(tmp_path / "a")


@pytest.mark.parametrize("dtype", ["BF16", "F32", "C128", "F4", "U8"])
@pytest.mark.parametrize("shape", [(), (0, 5), (1,), (4097,), (9, 1000), (3, 2, 5000), (1, 1, 70000), (2, 3, 1, 4096),
                                   (5, 6, 7, 8), (2, 100_000, 2), (3, 0)])
def test_pieces_are_whole_rows_and_follow_each_other(dtype, shape):
    if dtype == "F4":
        shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
    found = pieces.cut("a", dtype, shape)
    extents = [layout.Extent("x.data", 0, piece.nbytes, ()) for piece in found]
    chunks = tuple(layout.Chunk(piece.at, piece.shape, extent) for piece, extent in zip(found, extents, strict=True))
    assert [begin for _, begin in pieces.placed("a", layout.SavedTensor(dtype, shape, chunks))] == [
        piece.begin for piece in found]
    assert all(piece.nbytes <= PIECE for piece in found) and sum(math.prod(each.shape) for each in found) == \
        math.prod(shape)
    assert all(one.nbytes + other.nbytes > PIECE / 2 or one.at[:-1] != other.at[:-1]
               for one, other in zip(found, found[1:], strict=False))


@pytest.mark.parametrize("change", [
    lambda chunks: chunks.pop(), lambda chunks: chunks.reverse(), lambda chunks: chunks.insert(0, chunks[0]),
    lambda chunks: chunks[1].update(at=[0, 0]), lambda chunks: chunks[0].update(shape=[2, 500]),
    lambda chunks: chunks[1].update(at=[1]), lambda chunks: chunks[0].update(hash64="0123456789ABCDEF"),
    lambda chunks: chunks[0].update(hash64=5)])
def test_chunks_that_do_not_follow_each_other_and_hashes_that_are_none_are_refused(tmp_path, change):
    saved_in_pieces(tmp_path / "a")
    path = tmp_path / "a" / layout.NAME
    said = json.loads(path.read_bytes()[layout.HEAD.match(path.read_bytes()).end():-2])
    change(said["tensors"]["rows"]["chunks"])
    body = json.dumps(said).encode()
    path.write_bytes(b'{"penstock.checkpoint":2,"crc32c":"%08x","body":' % layout.checksum(body) + body + b"}\n")
    with pytest.raises(checkpoint.CheckpointError, match=r"do not fill it row by row|sixteen hexadecimal digits"):
        checkpoint.load(tmp_path / "a")
