# SPDX-License-Identifier: Apache-2.0

"""penstock.checkpoint of one process: what comes back, what is told of damage, what is kept."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import penstock
from penstock import checkpoint, weights
from penstock.checkpoint import ids, layout, leftovers, restoring, storing, verifying
from penstock.weights import arrays
from tensors import DEVICES, random_tensor, raw

DTYPES = [name for name in {**arrays.DTYPES, **arrays.OTHERS}.values() if hasattr(torch, name)]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def same(left, right):
    if isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and raw(left) == raw(right)
    if isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in right)
    if isinstance(right, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@pytest.fixture
def state():
    tensors = {name: random_tensor(getattr(torch, name), 5, 6) for name in DTYPES}
    tensors |= {"turned": torch.randn(4, 9).t(), "0d": torch.tensor(2.5), "empty": torch.zeros(0, 3),
                "sliced": torch.randn(10, 10)[2:5, 1:4]}
    return {"model": tensors, "optimizer": {"state": {0: {"exp": torch.ones(3)}, 1: {"exp": torch.zeros(2)}},
                                            "betas": (0.9, 0.999), "lr": 1e-3},
            "step": 7, "name": "ä", "none": None, "raw": b"\x00\xff", "list": [1, [True, "x"]],
            "$odd": {"$tensor": "x"}}


def data_file(folder):
    return max(folder.glob("*.data"), key=lambda path: path.stat().st_size)


def test_a_state_comes_back_as_it_was(state, device, tmp_path):
    state["model"] = {name: tensor.to(device) for name, tensor in state["model"].items()}
    checkpoint.save(state, tmp_path / "a")
    assert same(checkpoint.load(tmp_path / "a", device=device), state)
    assert checkpoint.load(tmp_path / "a", device=device)["model"]["0d"].device.type == device


def test_tensors_that_are_one_stay_one_and_are_written_once(tmp_path):
    tensor = torch.randn(100, 10)
    checkpoint.save({"a": tensor, "b": {"c": tensor}, "view": tensor[:50]}, tmp_path / "a")
    loaded = checkpoint.load(tmp_path / "a")
    assert loaded["a"] is loaded["b"]["c"] and raw(loaded["view"]) == raw(tensor[:50])
    assert checkpoint.verify(tmp_path / "a") == checkpoint.Verified(2, 4000 + 2000)


def test_a_large_state_goes_to_several_files_in_pieces(tmp_path, monkeypatch, device):
    monkeypatch.setattr(storing, "FILE_BYTES_MIN", 1 << 16)
    for module in (layout, storing, verifying, restoring):
        monkeypatch.setattr(module, "PIECE_BYTES", 1 << 15)
    tensors = {f"{i}": random_tensor(torch.uint8, 30_000 * (i + 1) + i).to(device) for i in range(40)}
    checkpoint.save(tensors, tmp_path / "a")
    files = list((tmp_path / "a").glob("*.data"))
    assert len(files) == storing.FILES_MAX
    assert max(file.stat().st_size for file in files) < 2 * min(file.stat().st_size for file in files)
    assert same(checkpoint.load(tmp_path / "a", device=device), tensors)
    assert checkpoint.verify(tmp_path / "a").nbytes == sum(tensor.nbytes for tensor in tensors.values())
    file = data_file(tmp_path / "a")
    content = bytearray(file.read_bytes())
    content[100_000] ^= 4
    file.write_bytes(content)
    sentence = f"{file.name}: the checksum of '.*' is wrong between bytes 98304 and"
    with pytest.raises(checkpoint.CheckpointError, match=sentence):
        checkpoint.verify(tmp_path / "a")


def test_numpy_saves_and_loads_without_tensors(tmp_path):
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    state = {"a": numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "b": [numpy.zeros((0, 2), numpy.int8)], "n": 1}
    checkpoint.save(state, tmp_path / "a")
    loaded = checkpoint.load(tmp_path / "a", framework="np")
    assert loaded["a"].tobytes() == state["a"].tobytes() and loaded["a"].dtype == numpy.float32
    assert loaded["b"][0].shape == (0, 2) and loaded["n"] == 1


def test_tensors_that_are_there_are_filled(tmp_path, device):
    module = torch.nn.Linear(6, 4).to(device)
    checkpoint.save(dict(module.state_dict()), tmp_path / "a")
    other = torch.nn.Linear(6, 4).to(device)
    checkpoint.load_into(dict(other.named_parameters()), tmp_path / "a")
    assert raw(other.weight) == raw(module.weight) and raw(other.bias) == raw(module.bias)
    with pytest.raises(checkpoint.CheckpointError, match="lacks \\['more'\\]"):
        checkpoint.load_into({"more": torch.zeros(1)}, tmp_path / "a")
    with pytest.raises(checkpoint.CheckpointError, match=r"'bias' is \[4\], and \[5\]"):
        checkpoint.load_into({"bias": torch.zeros(5)}, tmp_path / "a")


def test_weights_reads_and_converts_checkpoints(tmp_path):
    tensors = {"a.w": torch.randn(8, 6), "b": torch.randn(3)}
    checkpoint.save({"model": tensors}, tmp_path / "a")
    found = weights.Weights(tmp_path / "a")
    part = found.plan("model.a.*", parts={"*": weights.Part(1, 2, 5)}).load()
    assert raw(part["model.a.w"]) == raw(tensors["a.w"][:, 2:5])
    weights.convert(tmp_path / "a", tmp_path / "out.safetensors")
    assert raw(weights.load_file(tmp_path / "out.safetensors")["model.b"]) == raw(tensors["b"])


@pytest.mark.parametrize("damage", ["bit", "zeros", "cut", "gone", "other"])
def test_damaged_data_are_told_by_name(tmp_path, damage):
    checkpoint.save({"first": torch.randn(3000), "second": torch.randn(3000)}, tmp_path / "a")
    file = data_file(tmp_path / "a")
    content = bytearray(file.read_bytes())
    if damage == "bit":
        content[12_288 + 77] ^= 0x20
    elif damage == "zeros":
        content[12_288:16_384] = bytes(4096)
    elif damage == "cut":
        del content[-100:]
    elif damage == "other":
        checkpoint.save({"first": torch.zeros(3000), "second": torch.zeros(3000)}, tmp_path / "b")
        content = data_file(tmp_path / "b").read_bytes()
    file.write_bytes(content)
    if damage == "gone":
        file.unlink()
    expected = FileNotFoundError if damage == "gone" else checkpoint.CheckpointError
    for use in (checkpoint.verify, checkpoint.load):
        with pytest.raises(expected, match=file.name) as caught:
            use(tmp_path / "a")
        assert damage in ("cut", "gone", "other") or "'second'" in str(caught.value)
    # What can be seen without reading the data, is.
    newest = {"cut": None, "gone": None, "other": tmp_path / "b"}.get(damage, tmp_path / "a")
    assert checkpoint.latest(tmp_path) == newest


def test_every_byte_of_the_description_counts(tmp_path):
    checkpoint.save({"a": torch.ones(3), "n": [1, 2]}, tmp_path / "a")
    path = tmp_path / "a" / layout.NAME
    content = path.read_bytes()
    for at in range(0, len(content), 3):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        with pytest.raises(checkpoint.CheckpointError, match="checkpoint.json"):
            checkpoint.load(tmp_path / "a")
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(checkpoint.CheckpointError, match="checkpoint.json"):
            checkpoint.load(tmp_path / "a")


def changed(content, change):
    head = layout.HEAD.match(content)
    said = json.loads(content[head.end():-2])
    change(said)
    body = json.dumps(said).encode()
    return b'{"penstock.checkpoint":1,"crc32c":"%08x","body":' % layout.checksum(body) + body + b"}\n"


@pytest.mark.parametrize("change, sentence", [
    (lambda said: said["files"].update({"../../etc/passwd": 5}), "no name of a data file"),
    (lambda said: said["tensors"]["a"]["chunks"][0].update(file="x.data"), "said to be at"),
    (lambda said: said["tensors"]["a"]["chunks"][0].update(offset=-1), "no count"),
    (lambda said: said["tensors"]["a"]["chunks"][0].update(nbytes=1 << 62), "said to be at"),
    (lambda said: said["tensors"]["a"]["chunks"][0].update(shape=[4]), "has 12 bytes"),
    (lambda said: said["tensors"]["a"]["chunks"][0].update(crc32c=[]), "one checksum"),
    (lambda said: said["tensors"]["a"]["chunks"][0].update(at=[1]), "do not fill"),
    (lambda said: said["tensors"]["a"].update(dtype="F33"), "no dtype"),
    (lambda said: said["tensors"]["a"].update(shape=[1 << 62, 8]), "makes no sense"),
    (lambda said: said["tensors"]["a"].update(chunks=[]), "do not fill"),
    (lambda said: said.update(tree={"$tensor": "b"}), "names tensor 'b'"),
    (lambda said: said.pop("files"), "makes no sense"),
    (lambda said: said.update(tensors=[]), "makes no sense"),
    (lambda said: said.update(piece_bytes=5), "expected 16777216"),
])
def test_a_description_that_lies_is_refused(tmp_path, change, sentence):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    path = tmp_path / "a" / layout.NAME
    path.write_bytes(changed(path.read_bytes(), change))
    with pytest.raises(checkpoint.CheckpointError, match=sentence):
        checkpoint.load(tmp_path / "a")


def test_a_later_version_is_told_as_such(tmp_path):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    path = tmp_path / "a" / layout.NAME
    path.write_bytes(path.read_bytes().replace(b'checkpoint":1', b'checkpoint":3', 1))
    with pytest.raises(checkpoint.CheckpointError, match="version 3 of the format: this release reads versions 1 and"):
        checkpoint.load(tmp_path / "a")


def test_what_is_no_plain_data_is_refused_before_anything_is_written(tmp_path):
    itself = []
    itself.append(itself)
    for thing, sentence in ((object(), "a.0 is of type object"), (itself, "contains itself"), ({1, 2}, "of type set")):
        with pytest.raises(checkpoint.CheckpointError, match=sentence):
            checkpoint.save({"a": [thing]}, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize = 2, 4096

    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    before = sorted(os.listdir(tmp_path / "a"))
    monkeypatch.setattr(os, "statvfs", lambda folder: Full)
    with pytest.raises(OSError, match="of which 8192 are free: nothing was written"):
        checkpoint.save({"a": torch.ones(3000)}, tmp_path / "a")
    assert sorted(os.listdir(tmp_path / "a")) == before


def test_a_save_that_fails_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    before = sorted(os.listdir(tmp_path / "a"))

    class Breaks:
        shape, dtype, nbytes = (3,), torch.float32, 12

    with pytest.raises(TypeError):
        checkpoint.save({"a": torch.ones(3), "b": Breaks()}, tmp_path / "a")
    assert sorted(os.listdir(tmp_path / "a")) == before
    assert same(checkpoint.load(tmp_path / "a"), {"a": torch.ones(3)})


def test_the_newest_is_found_and_older_ones_go(tmp_path):
    assert checkpoint.latest(tmp_path) is None and checkpoint.latest(tmp_path / "nowhere") is None
    for number in (3, 1, 2):
        checkpoint.save({"n": number, "a": torch.ones(3)}, tmp_path / f"step-{number}")
    assert checkpoint.latest(tmp_path) == tmp_path / "step-2"
    checkpoint.verify(tmp_path / "step-3")
    assert checkpoint.retain(tmp_path, 1) == [tmp_path / "step-1"]
    assert sorted(os.listdir(tmp_path)) == ["step-2", "step-3"]
    (tmp_path / "step-2" / layout.NAME).write_text("damaged")
    assert checkpoint.latest(tmp_path) == tmp_path / "step-3"
    with pytest.raises(ValueError, match="keep is 0"):
        checkpoint.retain(tmp_path, 0)


def test_a_folder_with_other_things_keeps_them(tmp_path):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    checkpoint.remove(tmp_path / "a")
    assert os.listdir(tmp_path / "a") == ["notes.txt"]
    assert checkpoint.latest(tmp_path) is None


def test_a_session_of_its_own_moves_the_bytes(tmp_path):
    with penstock.Session(device="host") as session:
        checkpoint.save({"a": torch.ones(30_000)}, tmp_path / "a", session=session)
        checkpoint.load(tmp_path / "a", session=session)
        rows = session.counters()
    assert sum(row["write_bytes"] for row in rows) >= 120_000 and sum(row["read_bytes"] for row in rows) >= 120_000


def test_without_a_flush_it_is_read_all_the_same(tmp_path):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a", durable=False)
    assert same(checkpoint.load(tmp_path / "a"), {"a": torch.ones(3)})


def test_two_saves_to_one_folder_at_a_time_leave_one_of_them_whole(tmp_path):
    def save(number):
        for _ in range(20):
            checkpoint.save({"n": number, "a": torch.full((2000,), float(number))}, tmp_path / "a")

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(save, range(3)))
    loaded = checkpoint.load(tmp_path / "a")
    assert set(loaded["a"].tolist()) == {float(loaded["n"])}


def test_what_a_save_that_never_ended_has_left_goes_when_it_is_old(tmp_path):
    (tmp_path / "a").mkdir()
    old, new = (tmp_path / "a" / f"{ids.new_save_id(tmp_path / 'a')}-0-0.data" for _ in range(2))
    for path in (old, new, tmp_path / "a" / "a stranger's.data"):
        path.write_text("left")
        os.utime(path, None if path == new else (1, 1))
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    leftovers.wait_for_removals()
    assert not old.exists() and new.exists()
    assert (tmp_path / "a" / "a stranger's.data").exists()
