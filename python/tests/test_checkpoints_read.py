# SPDX-License-Identifier: Apache-2.0

"""Files of torch.save and checkpoints of torch.distributed: bit for bit what torch reads, and nothing executed."""

import json
import pickle
import random
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

import safetensors.torch

from penstock import weights
from penstock.__main__ import main
from penstock.weights import arrays, dcp, headers, loaders
from tensors import DEVICES, random_tensor, raw
from waiting import SECONDS_MAX

NAMES = [name for name in {**arrays.DTYPES, **arrays.OTHERS}.values() if hasattr(torch, name)]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def is_same(left, right):
    if isinstance(right, torch.Tensor):
        return (type(left) is type(right) and (left.dtype, left.shape) == (right.dtype, right.shape)
                and left.stride() == right.stride() and left.requires_grad == right.requires_grad
                and raw(left) == raw(right))
    if isinstance(right, dict):
        return (type(left) is type(right) and list(left) == list(right)
                and all(is_same(left[key], right[key]) for key in right)
                and getattr(left, "__dict__", None) == getattr(right, "__dict__", None))
    if isinstance(right, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(is_same, left, right))
    return type(left) is type(right) and left == right


def has_values_of(loaded, tensors):
    return loaded.keys() == tensors.keys() and all(
        (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape) and raw(loaded[name]) == raw(tensor)
        for name, tensor in tensors.items())


@pytest.fixture
def every_kind():
    """Every dtype, views of every shape, tied tensors, parameters."""
    tied = torch.rand(6, 5)
    base = torch.rand(40)
    state = OrderedDict((name, random_tensor(getattr(torch, name), 3, 4)) for name in NAMES)
    state |= {"transposed": torch.rand(3, 5).t(), "behind": base[7:], "every.third": base[1::3],
              "0d": torch.tensor(3.5), "empty": torch.zeros(0, 4), "tied": tied, "row": tied[2], "again": tied,
              "expanded": torch.tensor([1.5, 2.5]).unsqueeze(1).expand(2, 3),
              "parameter": torch.nn.Parameter(torch.rand(4)), "leaf": torch.rand(2, requires_grad=True),
              "frozen": torch.nn.Parameter(torch.rand(4), requires_grad=False)}
    state._metadata = {"": {"version": 1}}
    return state


def test_a_file_of_torch_save_is_a_source_like_any_other(every_kind, tmp_path, device):
    torch.save(every_kind, tmp_path / "model.pt")
    found = weights.Weights(tmp_path / "model.pt")
    assert found.objects == {} and found.files == [tmp_path / "model.pt"]
    assert has_values_of(found.plan(device=device).load(), every_kind)
    part = found.plan("transposed", parts={"transposed": weights.Part(0, 1, 3)}, device=device).load()
    assert raw(part["transposed"]) == raw(every_kind["transposed"][1:3])
    assert has_values_of(weights.load_file(tmp_path / "model.pt"), every_kind)


def test_load_torch_gives_what_torch_load_gives(every_kind, tmp_path, device):
    tree = {"model": every_kind, "list": [1, (2.5, None, True), "ä", b"b", {3, 4}, 1 + 2j, -(1 << 70)],
            "shape": torch.Size([2, 3]), "dtype": torch.float16, "device": torch.device("cuda", 1), 5: {}}
    torch.save(tree, tmp_path / "tree.pt")
    loaded = weights.load_torch(tmp_path / "tree.pt", device)
    expected = torch.load(tmp_path / "tree.pt", weights_only=True, map_location={"cuda:1": "cpu"})
    if device == "cpu":
        assert is_same(loaded, expected)
    assert has_values_of(loaded["model"], every_kind)
    assert {tensor.device.type for tensor in loaded["model"].values()} == {device}


def test_what_shared_memory_shares_it_again(tmp_path):
    base = torch.zeros(10)
    torch.save({"whole": base, "part": base[4:], "same": base, "other": torch.zeros(10)}, tmp_path / "tied.pt")
    loaded = weights.load_torch(tmp_path / "tied.pt")
    loaded["whole"][5] = 7.0
    assert loaded["part"][1] == 7.0 and loaded["same"] is loaded["whole"] and not loaded["other"].any()


def test_attributes_and_lazy_conjugates_come_along(tmp_path):
    parameter, plain, lazy = torch.nn.Parameter(torch.ones(2)), torch.ones(3), torch.rand(3, dtype=torch.complex64)
    parameter.note, plain.note = "p", {"inner": torch.ones(1)}
    negative = lazy.clone().conj().imag
    torch.save({"p": parameter, "t": plain, "c": lazy.conj(), "i": negative}, tmp_path / "a.pt")
    loaded = weights.load_torch(tmp_path / "a.pt")
    assert loaded["p"].note == "p" and raw(loaded["t"].note["inner"]) == raw(torch.ones(1))
    assert torch.equal(loaded["c"], lazy.conj()) and torch.equal(loaded["i"], negative)
    with pytest.raises(weights.WeightsError, match="'c' is conjugated"):
        weights.Weights(tmp_path / "a.pt")


def test_nested_states_have_dotted_names_and_the_rest_is_kept_aside(tmp_path):
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.25)
    module(torch.rand(4, 3)).sum().backward()
    optimizer.step()
    torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "c.pt")
    found = weights.Weights(tmp_path / "c.pt")
    assert {"model.weight", "model.bias", "optimizer.state.0.exp_avg", "optimizer.state.1.step"} <= set(found.tensors)
    assert len(found.tensors) == 8
    assert set(found.objects) == {"optimizer.param_groups", "epoch"}
    assert found.objects["epoch"] == 3 and found.objects["optimizer.param_groups"][0]["lr"] == 0.25
    loaded = found.plan("optimizer.*").load()
    assert raw(loaded["optimizer.state.0.exp_avg"]) == raw(optimizer.state_dict()["state"][0]["exp_avg"])


@pytest.mark.parametrize("tree, names, objects", [
    (torch.ones(2), ["tensor"], {}), ([torch.ones(2), 5], ["0"], {"1": 5}), ({}, [], {}), (7, [], {"object": 7}),
    ({"a": [{"b": torch.ones(1)}]}, ["a.0.b"], {}),
])
def test_whatever_is_saved_has_names(tmp_path, tree, names, objects):
    torch.save(tree, tmp_path / "x.pth")
    found = weights.Weights(tmp_path / "x.pth")
    assert (list(found.tensors), found.objects) == (names, objects)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_pickles_is_read(every_kind, tmp_path, protocol):
    torch.save(every_kind, tmp_path / "p.pt", pickle_protocol=protocol)
    assert is_same(weights.load_torch(tmp_path / "p.pt"), torch.load(tmp_path / "p.pt", weights_only=False))


def test_sharded_models_of_torch_save_are_read_by_folder_or_index(tmp_path):
    tensors = {f"{i}.weight": torch.rand(4, 8) for i in range(5)}
    placed = {name: f"pytorch_model-0000{1 + i // 3}-of-00002.bin" for i, name in enumerate(tensors)}
    for file in set(placed.values()):
        torch.save({name: tensors[name] for name in tensors if placed[name] == file}, tmp_path / file)
    (tmp_path / "training_args.bin").write_bytes(b"nothing that is read")
    assert has_values_of(weights.Weights(tmp_path).plan().load(), tensors)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": placed}))
    for source in (tmp_path, index):
        assert has_values_of(weights.Weights(source).plan().load(), tensors)
    index.write_text(json.dumps({"weight_map": {**placed, "6.weight": "pytorch_model-00001-of-00002.bin"}}))
    with pytest.raises(weights.WeightsError, match="6.weight"):
        weights.Weights(tmp_path)


def test_a_file_that_changes_after_it_was_described_is_told(tmp_path):
    torch.save({"a": torch.ones(4)}, tmp_path / "a.pt")
    plan = weights.Weights(tmp_path / "a.pt").plan()
    torch.save({"a": torch.ones(5)}, tmp_path / "a.pt")
    with pytest.raises(weights.WeightsError, match="changed or replaced"):
        plan.load()


@pytest.fixture(scope="module")
def saved_by_ranks(tmp_path_factory):
    """The same state, by three ranks and by one: folders of each format, and the tensors that they hold."""
    import checkpoint_ranks

    folder = tmp_path_factory.mktemp("ranks")
    script = Path(checkpoint_ranks.__file__)
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", script, folder, str(rank), "3"]) for rank in range(3)]
    assert [rank.wait(timeout=SECONDS_MAX) for rank in ranks] == [0, 0, 0]
    return folder, checkpoint_ranks.whole()


@pytest.mark.filterwarnings("ignore")
def test_what_ranks_saved_comes_whole(saved_by_ranks, device):
    folder, tensors = saved_by_ranks
    theirs = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
    torch.distributed.checkpoint.load(theirs, checkpoint_id=folder / "dcp", no_dist=True)
    found = weights.Weights(folder / "dcp")
    assert [file.name for file in found.files] == ["__0_0.distcp", "__1_0.distcp", "__2_0.distcp"]
    assert set(found.objects) == {"step", "names.0", "names.1"} or set(found.objects) == {"step", "names"}
    assert len(found.tensors["rows"].chunks) == 3 and found.tensors["all"].chunks == ()
    assert has_values_of(found.plan(device=device).load(), tensors) and has_values_of(theirs, tensors)
    part = found.plan("columns", parts={"columns": weights.Part(1, 2, 5)}, device=device).load()["columns"]
    assert raw(part) == raw(tensors["columns"][:, 2:5])


def test_what_ranks_saved_as_safetensors_comes_whole(saved_by_ranks, device):
    folder, tensors = saved_by_ranks
    assert has_values_of(weights.Weights(folder / "hf").plan(device=device).load(), tensors)
    first = sorted((folder / "hf").iterdir())[1]
    assert weights.load_file(first)["rows"].shape == (4, 6)  # One rank's file alone has that rank's part.


@pytest.mark.filterwarnings("ignore")
def test_one_rank_saves_every_kind(every_kind, tmp_path, device):
    torch.distributed.checkpoint.save(dict(every_kind), checkpoint_id=tmp_path / "one", no_dist=True)
    assert has_values_of(weights.Weights(tmp_path / "one").plan(device=device).load(), every_kind)


def spoiled(folder, target, change):
    """A copy of a checkpoint whose metadata were changed."""
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    change(metadata)
    (target / ".metadata").write_bytes(pickle.dumps(metadata, protocol=4))
    return target


def _set(key, **values):
    def change(metadata):
        for index, place in metadata.storage_data.items():
            if index.fqn == key:
                place.__dict__.update(values)
    return change


def _drop_chunk(metadata):
    metadata.state_dict_metadata["rows"].chunks.pop()


def _double_chunk(metadata):
    chunks = metadata.state_dict_metadata["rows"].chunks
    chunks[1] = chunks[0]


def _grow(metadata):
    metadata.state_dict_metadata["rows"].size = torch.Size([11, 6])


def _other_dtype(metadata):
    metadata.state_dict_metadata["all"].properties.dtype = torch.int32


def _nowhere(metadata):
    metadata.storage_data = {index: place for index, place in metadata.storage_data.items() if index.fqn != "all"}


@pytest.mark.parametrize("change, sentence", [
    (_set("all", relative_path="../dcp/__1_0.distcp"), "no file of this folder"),
    (_set("all", relative_path="/etc/passwd"), "no file of this folder"), (_set("all", offset=-5), "at -5"),
    (_set("all", offset=1 << 40), "no file of torch.save"), (_set("all", length=1 << 40), "ends at"),
    (_set("all", length=100), "directory"), (_set("all", offset=1), "no file of torch.save|two chunks"),
    (_set("all", transform_descriptors=["zstd"]), "compressed"), (_drop_chunk, "do not fill"),
    (_double_chunk, "overlap|do not fill"), (_grow, "do not fill"), (_other_dtype, "different checkpoints"),
    (_nowhere, "does not say where"),
])
def test_checkpoints_that_disagree_with_themselves_are_refused(saved_by_ranks, tmp_path, change, sentence):
    with pytest.raises(weights.WeightsError, match=sentence):
        weights.Weights(spoiled(saved_by_ranks[0] / "dcp", tmp_path / "spoiled", change))


def test_checkpoints_that_were_cut_or_lack_a_file_are_refused(saved_by_ranks, tmp_path):
    folder = spoiled(saved_by_ranks[0] / "dcp", tmp_path / "cut", lambda metadata: None)
    content = (folder / "__1_0.distcp").read_bytes()
    (folder / "__1_0.distcp").write_bytes(content[:-10])
    with pytest.raises(weights.WeightsError, match="__1_0.distcp"):
        weights.Weights(folder)
    (folder / "__1_0.distcp").unlink()
    with pytest.raises(FileNotFoundError):
        weights.Weights(folder)


def piece(at, shape):
    return headers.Chunk(at, headers.Tensor("x", Path("f"), "U8", shape, 0, shape[0] * shape[1]))


@pytest.mark.parametrize("boxes, is_whole", [
    ([((0, 0), (4, 4))], True), ([((0, 0), (2, 4)), ((2, 0), (2, 4))], True),
    ([((0, 0), (4, 3)), ((0, 3), (4, 1))], True),
    # A pinwheel: no dimension is cut at the same place all along.
    ([((0, 0), (1, 3)), ((0, 3), (3, 1)), ((3, 1), (1, 3)), ((1, 0), (3, 1)), ((1, 1), (2, 2))], True),
    ([((0, 0), (1, 3)), ((0, 2), (3, 1)), ((3, 1), (1, 3)), ((1, 0), (3, 1)), ((1, 1), (2, 2))], False),
    ([((0, 0), (2, 4)), ((1, 0), (2, 4))], False), ([((0, 0), (2, 4)), ((2, 0), (2, 3))], False),
    ([((0, 0), (2, 4)), ((3, 0), (2, 4))], False), ([((0, 0), (2, 4)), ((2,), (2, 4))], False), ([], False),
])
def test_pieces_fill_their_tensor_or_are_refused(boxes, is_whole):
    chunks = [piece(at, shape) for at, shape in boxes]
    if is_whole:
        assert dcp.assembled("x", (4, 4), chunks).nbytes == 16
    else:
        with pytest.raises(weights.WeightsError, match="tensor 'x'"):
            dcp.assembled("x", (4, 4), chunks)


def test_no_flipped_byte_of_a_checkpoint_does_more_than_change_values(saved_by_ranks, tmp_path):
    folder = spoiled(saved_by_ranks[0] / "dcp", tmp_path / "flipped", lambda metadata: None)
    made, read = random.Random(3), 0
    contents = {file: file.read_bytes() for file in (folder / ".metadata", folder / "__2_0.distcp")}
    for i in range(400):
        file = folder / (".metadata" if i % 4 else "__2_0.distcp")
        content = bytearray(contents[file])
        content[made.randrange(len(content))] ^= 1 << made.randrange(8)
        file.write_bytes(content)
        try:
            weights.Weights(folder).plan().load()
            read += 1
        except (weights.WeightsError, OSError):
            pass
        file.write_bytes(contents[file])
    assert 0 < read < 400


def test_conversion_writes_what_there_was(every_kind, tmp_path):
    del every_kind["complex128"]
    torch.save({**every_kind, "epoch": 3}, tmp_path / "model.pt")
    done = weights.convert(tmp_path / "model.pt", tmp_path / "model.safetensors")
    assert (done.files, done.tensors, done.left_out) == ([tmp_path / "model.safetensors"], len(every_kind), ["epoch"])
    assert has_values_of(safetensors.torch.load_file(tmp_path / "model.safetensors"), every_kind)


def test_conversion_into_several_files(saved_by_ranks, tmp_path):
    folder, tensors = saved_by_ranks
    seen = []
    done = weights.convert(folder / "dcp", tmp_path / "model", shard_bytes=250,
                           on_progress=lambda progress: seen.append((progress.bytes_done, progress.bytes_total)))
    assert [file.name for file in done.files] == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", weights.INDEX]
    assert has_values_of(weights.Weights(tmp_path / "model").plan().load(), tensors)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and seen[-1][0] == seen[-1][1]
    assert json.loads((tmp_path / "model" / weights.INDEX).read_text())["metadata"]["total_size"] == done.nbytes
    with pytest.raises(weights.WeightsError, match="a model is in this folder already"):
        weights.convert(folder / "dcp", tmp_path / "model")
    with pytest.raises(weights.WeightsError, match="name a folder"):
        weights.convert(folder / "dcp", tmp_path / "model.safetensors", shard_bytes=250)


def test_conversion_that_fails_leaves_nothing(tmp_path, monkeypatch):
    torch.save({"a": torch.rand(100), "b": torch.rand(100, dtype=torch.complex128)}, tmp_path / "model.pt")
    with pytest.raises(weights.WeightsError, match="'b' is C128"):
        weights.convert(tmp_path / "model.pt", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    torch.save({"a": torch.rand(100), "b": torch.rand(100)}, tmp_path / "model.pt")
    shards = iter([loaders.write_file])
    monkeypatch.setattr("penstock.weights.conversion.write_file", lambda *given, **more: next(shards)(*given, **more))
    with pytest.raises(StopIteration):
        weights.convert(tmp_path / "model.pt", tmp_path / "out", shard_bytes=400)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_tensor_that_is_larger_row_by_row_than_memory_is_not_converted(tmp_path):
    torch.save({"a": torch.ones(1).expand(1 << 45)}, tmp_path / "model.pt")
    assert weights.Weights(tmp_path / "model.pt").nbytes == 4
    with pytest.raises(MemoryError, match="row by row"):
        weights.convert(tmp_path / "model.pt", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_command_converts(tmp_path, capsys):
    torch.save({"a": torch.ones(3), "n": 1}, tmp_path / "m.pt")
    assert main(["convert", str(tmp_path / "m.pt"), str(tmp_path / "m.safetensors"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "files": [str(tmp_path / "m.safetensors")], "tensors": 1, "bytes": 12, "left_out": ["n"]}
    assert main(["convert", str(tmp_path / "nowhere.pt"), str(tmp_path / "n")]) == 1
    assert "nowhere.pt" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["convert", "--shard-bytes", "0", "a", "b"])
    assert ended.value.code == 2


def test_a_conversion_that_ends_early_leaves_nothing_of_its_own(tmp_path, monkeypatch):
    torch.save({f"{i}": torch.full((1000,), float(i)) for i in range(6)}, tmp_path / "model.pt")
    from penstock.weights import conversion

    write, done = conversion._write, []

    def interrupted(*arguments):
        write(*arguments)
        done.append(arguments[1])
        if len(done) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(conversion, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        weights.convert(tmp_path / "model.pt", tmp_path / "out", shard_bytes=8000)
    assert len(done) == 2 and list((tmp_path / "out").iterdir()) == []
    with pytest.raises(FileNotFoundError, match="nowhere"):
        weights.convert(tmp_path / "model.pt", tmp_path / "nowhere" / "out.safetensors")
