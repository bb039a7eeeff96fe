# SPDX-License-Identifier: Apache-2.0

"""Files of torch.save that lie, or that would do something: refused by name, soon, and without doing it."""

import io
import os
import pickle
import random
import struct
import time
import zipfile
from collections import OrderedDict

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from penstock import weights
from penstock.weights import pickles, torch_files, torch_views

TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
FLOATS = (b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
          b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ")


def write(path, data_pkl, *, storage=b"\0" * 16, method=zipfile.ZIP_STORED, byteorder=b"little", others=()):
    """What torch.save writes, with a pickle of our own."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in (("data.pkl", data_pkl), ("byteorder", byteorder), ("data/0", storage),
                              ("version", b"3\n"), *others):
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), content, method)
    return path


def number(value):
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(storage=FLOATS, offset=number(0), shape=numbers([4]), strides=numbers([1])):
    """The pickle of a tensor of four floats, or of something like that."""
    return TENSOR + b"(" + storage + offset + shape + strides + b"\x89ccollections\nOrderedDict\n)RtR"


class Evil:
    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.system, (f"touch {self._path}",)


def refused(path, match="."):
    began = time.process_time()
    for read in (weights.Weights, weights.load_torch):
        with pytest.raises(weights.WeightsError, match=match) as caught:
            read(path)
        assert str(path) in str(caught.value)
    assert time.process_time() - began < 30


def test_the_form_that_these_tests_write_is_read(tmp_path):
    path = write(tmp_path / "good.pt", b"\x80\x02" + tensor() + b".", storage=torch.arange(4.0).numpy().tobytes())
    assert torch.equal(weights.load_torch(path), torch.arange(4.0))
    assert torch.equal(torch.load(path), torch.arange(4.0))


@pytest.mark.parametrize("protocol", [2, 4])
def test_what_a_pickle_would_execute_is_named_and_not_executed(tmp_path, protocol):
    for evil in (Evil(tmp_path / "touched"), {"a": [Evil(tmp_path / "touched")]}):
        path = write(tmp_path / "evil.pt", pickle.dumps(evil, protocol=protocol))
        refused(path, "it needs posix.system, .* torch.load")
        (tmp_path / ".metadata").write_bytes(pickle.dumps(evil, protocol=protocol))
        with pytest.raises(weights.WeightsError, match="posix.system"):
            weights.Weights(tmp_path)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("body, sentence", [
    (b"", "makes no sense"), (b".", "makes no sense"), (b"]", "makes no sense"), (b"a.", "makes no sense"),
    (b"\xff.", "0xff"), (b"ios\nsystem\n(t.", "0x69"), (b"X\xff\xff\xff\xffabc.", "ends early"),
    (b"\x8e" + b"\xff" * 8 + b".", "ends early"), (b"\x8b\xff\xff\xff\x7f1.", "0x8b"),
    (b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", "builtins.eval"), (b"cos\nsystem\n.", "os.system"),
    (b"ctorch._utils\n__builtins__\n.", "__builtins__"), (b"K\x01K\x02\x85R.", "cannot be called"),
    (b"ctorch\nSize\n)\x81.", "no class"), (b"ctorch\nSize\n}b.", "no state"), (b"h\x05.", "makes no sense"),
    (b"cbuiltins\nbytearray\n" + number(1 << 50) + b"\x85R.", "bytes of what are none"),
    (b"(cbuiltins\nset\nq\x00]q\x01(" + b"K\x01" * 10000 + b"e" + b"h\x00h\x01\x85R" * 10000 + b"t.", "over and over"),
    (b"]" * 100_000 + b"a" * 99_999 + b".", "nested over"),
    (b")" + b"\x85" * 1_000_000 + b".", "nested over"), (b"})" + b"\x85" * 1_000_000 + b"Ns.", "a key of type"),
    (b"}" + number(1 << 61) + b"Ns.", "2\\^60"), (b"}]Ns.", "a key of type"),
    (b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsNsb.", "hides one of its own"),
    (FLOATS + b".", "by itself"), (b"NQ.", "storage's description"), (tensor(storage=b"N") + b".", "makes no sense"),
    (tensor(storage=FLOATS.replace(b"\x000X", b"\x001X")) + b".", "not in the archive"),
    (tensor(storage=FLOATS.replace(b"K\x04", b"K\x05")) + b".", "20 bytes, and has 16"),
    (tensor(offset=number(1)) + b".", "beyond its storage"), (tensor(offset=number(-1)) + b".", "makes no sense"),
    (tensor(shape=numbers([5])) + b".", "beyond its storage"), (tensor(strides=numbers([2])) + b".", "beyond its"),
    (tensor(shape=numbers([-4])) + b".", "make no sense"), (tensor(strides=numbers([-1])) + b".", "make no sense"),
    (tensor(shape=numbers([2, 2])) + b".", "makes no sense"), (tensor(shape=numbers([1] * 65)) + b".", "make no"),
    (tensor(shape=numbers([1 << 60, 8]), strides=numbers([0, 0])) + b".", "beyond its storage"),
    (tensor(shape=numbers([0, 1 << 60, 8]), strides=numbers([0, 0, 0])) + b".", "beyond its storage"),
    (tensor(shape=b"K\x04") + b".", "make no sense"), (tensor(shape=b"(\x88t") + b".", "make no sense"),
    (TENSOR + b")R.", "makes no sense"), (b"ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR.", "none of a tensor"),
])
def test_pickles_that_make_no_sense_are_refused(tmp_path, body, sentence):
    refused(write(tmp_path / "x.pt", b"\x80\x02" + body), sentence)


def test_a_place_in_the_memo_takes_no_more_than_its_object(tmp_path):
    path = write(tmp_path / "memo.pt", b"\x80\x02]r\xff\xff\xff\xff.")
    assert weights.load_torch(path) == []


def test_objects_that_contain_themselves_have_no_names(tmp_path):
    path = write(tmp_path / "self.pt", b"\x80\x02]q\x00h\x00a.")
    with pytest.raises(weights.WeightsError, match="contain themselves"):
        weights.Weights(path)
    loaded = weights.load_torch(path)
    assert loaded[0] is loaded


def test_names_that_share_their_parts_are_bounded(tmp_path):
    """Thirty dicts, each twice in the next: a tensor of a thousand million names."""
    tree = {"x": torch.ones(1)}
    for _ in range(30):
        tree = {"a" * 20: tree, "b" * 20: tree}
    torch.save(tree, tmp_path / "many.pt")
    began = time.process_time()
    with pytest.raises(weights.WeightsError, match="names of over"):
        weights.Weights(tmp_path / "many.pt")
    assert time.process_time() - began < 30


def test_pickles_of_over_the_limit_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_files, "PICKLE_BYTES_MAX", 100)
    refused(write(tmp_path / "x.pt", pickle.dumps(list(range(1000)), protocol=2)), "100 are expected at most")


def test_other_archives_are_called_what_they_are(tmp_path):
    refused(write(tmp_path / "c.pt", b"\x80\x02].", method=zipfile.ZIP_DEFLATED), "compressed")
    refused(write(tmp_path / "b.pt", b"\x80\x02].", byteorder=b"big"), "not little-endian")
    refused(write(tmp_path / "j.pt", b"\x80\x02].", others=[("constants.pkl", b"x")]), "TorchScript")
    with zipfile.ZipFile(tmp_path / "n.pt", "w") as archive:
        archive.writestr("a.txt", "b")
    refused(tmp_path / "n.pt", "without data.pkl")
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    refused(tmp_path / "old.pt", "before .*: load it with torch.load and save")
    (tmp_path / "p.pkl").write_bytes(pickle.dumps({"a": list(range(1000))}))
    refused(tmp_path / "p.pkl", "this is a pickle")


@pytest.fixture
def good(tmp_path):
    torch.save(OrderedDict(a=torch.rand(5, 6), b=torch.rand(40)[3:].to(torch.float16), c=torch.nn.Parameter(
        torch.rand(3, 4).t()), d=7), tmp_path / "good.pt")
    return tmp_path / "good.pt"


def directory_of(content):
    at = content.rindex(b"PK\x05\x06")
    return struct.unpack_from("<I", content, at + 16)[0]


def changed_entry(content, name, offset, value):
    """The archive, with a number of its directory's entry changed."""
    at = content.index(name, directory_of(content)) - 46
    return content[:at + offset] + struct.pack("<I", value) + content[at + offset + 4:]


def test_directories_that_lie_are_refused(good):
    content = good.read_bytes()
    first, second = (content.index(name) - 30 for name in (b"good/data/0", b"good/data/1"))
    storage = b"good/data/1"
    for spoiled in (
        changed_entry(content, storage, 42, first), changed_entry(content, storage, 42, len(content)),
        changed_entry(content, storage, 42, second + 1), changed_entry(content, storage, 24, 1 << 30),
        changed_entry(changed_entry(content, storage, 24, 1000), storage, 20, 1000),
        changed_entry(content, storage, 20, 5), changed_entry(content, b"good/data.pkl", 42, 0xFFFFFFFF),
        content.replace(b"good/data/1", b"good/data/0"), content.replace(b"PK\x01\x02", b"PK\x01\x03"),
        content[:-22] + b"PK\x05\x06" + b"\xff" * 18, content + b"x", content[1:],
        # The local header says other than the directory.
        content[:second + 26] + b"\x40" + content[second + 27:],
        content[:second + 28] + b"\xff" + content[second + 29:],
    ):
        good.write_bytes(spoiled)
        refused(good) if spoiled[:2] == b"PK" else pytest.raises(weights.WeightsError, weights.Weights, good)


def test_files_that_end_early_are_refused(good):
    content = good.read_bytes()
    for size in (4, 21, 22, 100, 1000, len(content) // 2, len(content) - 1):
        good.write_bytes(content[:size])
        refused(good)


def test_archives_with_the_fields_of_zip64_are_read(good, tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 3)
    with zipfile.ZipFile(good) as archive, zipfile.ZipFile(tmp_path / "large.pt", "w", zipfile.ZIP_STORED) as large:
        for entry in archive.infolist():
            large.writestr(entry.filename, archive.read(entry))
    content = (tmp_path / "large.pt").read_bytes()
    size, = struct.unpack_from("<I", content, content.index(b"PK\x01\x02") + 24)
    assert b"PK\x06\x06" in content and size == 2**32 - 1
    loaded, expected = weights.load_torch(tmp_path / "large.pt"), torch.load(good)
    assert loaded.keys() == expected.keys() and all(torch.equal(loaded[name], expected[name]) for name in "abc")


def test_no_flipped_byte_does_more_than_change_values(good):
    content, made = good.read_bytes(), random.Random(11)
    began, outcomes = time.process_time(), 0
    directory = directory_of(content)
    ranges = [(0, 700)] * 300 + [(directory, len(content))] * 200 + [(0, len(content))] * 200
    places = [made.randrange(*each) for each in ranges]
    for at in places:
        spoiled = bytearray(content)
        spoiled[at] ^= 1 << made.randrange(8)
        good.write_bytes(spoiled)
        for read in (lambda: weights.Weights(good).plan().load(), lambda: weights.load_torch(good)):
            try:
                read()
                outcomes += 1
            except (weights.WeightsError, OSError):
                pass
    assert 0 < outcomes < 2 * len(places) and time.process_time() - began < 60


def test_flipped_bytes_of_pickles_end_in_a_tree_or_an_error():
    """Without the archive around it, a hundred times as many."""
    archive = io.BytesIO()
    torch.save({"a": torch.ones(2), "s": torch.Size([1]), "o": OrderedDict(x=1), "b": b"12"}, archive)
    with zipfile.ZipFile(archive) as opened:
        content = opened.read("archive/data.pkl")
    storage, made, read = torch_views.Storage("0", "F32", 0, 8, "cpu"), random.Random(5), 0
    for _ in range(20_000):
        spoiled = bytearray(content)
        for _ in range(made.randrange(1, 4)):
            spoiled[made.randrange(len(spoiled))] = made.randrange(256)
        try:
            pickles.read_pickle(bytes(spoiled), torch_views.TABLE, lambda said: storage, torch_views.unknown)
            read += 1
        except weights.WeightsError:
            pass
    assert 0 < read < 20_000


def test_keys_of_one_hash_are_refused(tmp_path):
    """-1 and -2 have the same: tuples of them would take time by the square of their number."""
    pairs = b"".join(b"(" + b"".join(number(-1 - (i >> bit & 1)) for bit in range(14)) + b"tN" for i in range(16_000))
    began = time.process_time()
    refused(write(tmp_path / "file", b"\x80\x02}(" + pairs + b"u."), "below 0 in a tuple")
    assert time.process_time() - began < 10
