# SPDX-License-Identifier: Apache-2.0

"""Checkpoints whose data files are safetensors: stock readers and Penstock's get the same, whatever crashes."""

import contextlib
import errno
import json
import os
import random
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")
pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

import safetensors.torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import (
    LoadItemType, LoadPlan, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType,
)

import checkpoint_job
from checkpoint_job import full
from penstock import checkpoint, weights
from penstock.checkpoint import safetensors as module
from penstock.checkpoint import leftovers, renaming, sources, stock
from penstock.checkpoint.distributed import Reader, Writer
from penstock.checkpoint.safetensors import SafetensorsWriter
from penstock.weights import arrays
from ranks import run, start
from tensors import DEVICES, random_tensor, raw

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
DTYPES = [name for name in arrays.DTYPES.values() if hasattr(torch, name) and name != "float4_e2m1fn_x2"]
KILLS = 4


def save(state, folder, **settings):
    dcp.save(state, storage_writer=SafetensorsWriter(folder, **settings), no_dist=True)


def load(state, reader):
    loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    dcp.load(loaded, storage_reader=reader, no_dist=True)
    return loaded


def is_same(loaded, state):
    return loaded.keys() == state.keys() and all(
        (loaded[name].dtype, loaded[name].shape, raw(loaded[name])) == (tensor.dtype, tensor.shape, raw(tensor))
        for name, tensor in state.items())


@pytest.fixture
def state():
    return {**{name: random_tensor(getattr(torch, name), 5, 6) for name in DTYPES}, "0d": torch.tensor(2.5),
            "empty": torch.zeros(0, 3), "turned": torch.randn(4, 9).t(), 'ä "\\/\n': torch.ones(3), "": torch.ones(1)}


@pytest.fixture(scope="module", params=[1, 2, 4])
def by_ranks(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    run(request.param, folder, (checkpoint_job.save_safetensors, folder / "a"))
    return folder / "a", request.param


def test_torchs_reader_reads_every_dtype_that_it_knows(state, tmp_path):
    known = {name: tensor for name, tensor in state.items()
             if arrays.format_dtype(name, tensor) in safetensors.torch._TYPES}
    assert len(known) > 15
    save(known, tmp_path / "a")
    assert is_same(load(known, dcp.HuggingFaceStorageReader(str(tmp_path / "a"))), known)


@pytest.mark.parametrize("device", DEVICES)
def test_one_process_leaves_a_sharded_model_that_everybody_reads(state, tmp_path, device, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES_MIN", 500)
    folder = tmp_path / "a"
    save({name: tensor.to(device) for name, tensor in state.items()}, folder)
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) > 1 and files[0].name == f"model-00001-of-{len(files):05}.safetensors"
    index = json.loads((folder / weights.INDEX).read_text())
    assert index["weight_map"].keys() == state.keys()
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in state.values())
    found = {}
    for file in files:
        with safetensors.safe_open(file, "pt") as opened:
            assert opened.metadata()["format"] == "pt" and opened.metadata()["DCP_VERSION"] == "1.0"
            found |= {name: opened.get_tensor(name) for name in opened.keys()}
            assert all(index["weight_map"][name] == file.name for name in opened.keys())
    assert is_same(found, state)
    assert is_same(load(state, Reader(folder)), state) and is_same(weights.Weights(folder).plan().load(), state)
    (folder / "checkpoint.json").unlink()
    assert is_same(weights.Weights(folder).plan().load(), state)


def test_torchs_reader_reads_what_ranks_saved_into_plain_and_distributed_tensors(by_ranks, tmp_path):
    folder, _ = by_ranks
    for world in (1, 3):
        for said in run(world, tmp_path, (checkpoint_job.load_stock_safetensors, folder)):
            assert said == ["loaded 1"]
    whole = {f"model.p{i}": full(i, 1) for i in range(5)}
    assert is_same(load(whole, dcp.HuggingFaceStorageReader(str(folder))), whole)


def test_what_ranks_saved_is_consolidated_and_read_by_weights(by_ranks, tmp_path):
    folder, world = by_ranks
    files = sorted(file.name for file in folder.glob("*.safetensors"))
    assert files[0] == ("" if world == 1 else "shard-00001-") + f"model-00001-of-{world:05}.safetensors"
    assert (folder / weights.INDEX).exists() == (world == 1)
    whole = {f"model.p{i}": full(i, 1) for i in range(5)}
    consolidate_safetensors_files(str(folder), str(tmp_path), dict.fromkeys(whole, 1))
    assert is_same(safetensors.torch.load_file(tmp_path / "model-00001-of-00001.safetensors"), whole)
    for paths in (folder, sorted(folder.glob("*.safetensors"))):  # By checkpoint.json, and by the files alone.
        loaded = weights.Weights(paths).plan().load() if world > 1 or paths == folder else whole
        assert all(raw(loaded[name]) == raw(tensor) for name, tensor in whole.items())


def test_a_shard_that_is_missing_is_noticed(tmp_path):
    run(2, tmp_path, (checkpoint_job.save_safetensors, tmp_path / "a"))
    (tmp_path / "a" / "checkpoint.json").unlink()
    (tmp_path / "a" / "shard-00002-model-00002-of-00002.safetensors").unlink()
    with pytest.raises(weights.WeightsError, match="of 2 files"):
        weights.Weights(tmp_path / "a")


def test_it_is_a_checkpoint_like_any_other_and_every_byte_counts(tmp_path):
    save({"a": torch.randn(40), "b": torch.randn(3)}, tmp_path / "a")
    save({"a": torch.randn(40)}, tmp_path / "b")
    assert checkpoint.latest(tmp_path) == tmp_path / "b" and checkpoint.verify(tmp_path / "a").names == 2
    (file,) = (tmp_path / "a").glob("*.safetensors")
    content = file.read_bytes()
    for at, name in ((9, "header"), (4095, "header"), (4096, "a"), (len(content) - 1, "b")):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        with pytest.raises(checkpoint.CheckpointError, match=f"{file.name}: the checksum of '{name}' is wrong"):
            checkpoint.verify(tmp_path / "a")


def test_what_safetensors_cannot_hold_is_refused_by_name(tmp_path):
    for state, sentence in (({"epoch": 3}, "'epoch' is no tensor.*or save with Writer"),
                            ({"c": torch.zeros(2, dtype=torch.complex128)}, "tensor 'c' is of torch.complex128"),
                            ({"\ud800": torch.zeros(2)}, "rename it"),
                            ({"__metadata__": torch.zeros(2)}, "__metadata__"), ({}, "no tensor is in")):
        with pytest.raises(dcp.CheckpointException, match=sentence):
            save(state, tmp_path / "a")
        assert not (tmp_path / "a").exists()


def test_an_older_checkpoint_is_replaced_and_what_is_no_part_of_one_is_not(state, tmp_path):
    folder = tmp_path / "a"
    dcp.save({"w": torch.ones(3)}, storage_writer=Writer(folder), no_dist=True)
    save(state, folder)
    checkpoint.verify(folder)
    save({"w": torch.ones(2)}, folder, durable=False)
    assert os.listdir(tmp_path) == ["a"]
    assert sorted(os.listdir(folder)) == ["checkpoint.json", "model-00001-of-00001.safetensors", weights.INDEX]
    (folder / "config.json").write_text("{}")
    with pytest.raises(dcp.CheckpointException, match="it has 'config.json', which is no part of a checkpoint"):
        save(state, folder)
    others = tmp_path / "model"
    others.mkdir()
    safetensors.torch.save_file({"w": torch.ones(2)}, others / "model.safetensors")
    with pytest.raises(dcp.CheckpointException, match="it has 'model.safetensors'"):
        save(state, others)
    assert is_same(load({"w": torch.ones(2)}, Reader(folder)), {"w": torch.ones(2)})


def test_what_can_take_no_place_in_the_end_is_not_left_elsewhere(tmp_path, monkeypatch):
    def while_a_stranger_comes(*arguments, **settings):
        (tmp_path / "a" / "config.json").write_text("{}")
        give_name(*arguments, **settings)

    save({"w": torch.ones(2)}, tmp_path / "a")
    give_name = module.give_name
    monkeypatch.setattr(module, "give_name", while_a_stranger_comes)
    with pytest.raises(dcp.CheckpointException, match="it has 'config.json', which is no part of a checkpoint"):
        save({"w": torch.zeros(2)}, tmp_path / "a")
    assert not list((tmp_path / ".a.saving").iterdir())
    assert is_same(load({"w": torch.ones(2)}, Reader(tmp_path / "a")), {"w": torch.ones(2)})


def test_files_elsewhere_are_not_swept_by_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "old").write_text("a stranger's")
    os.utime(tmp_path / "elsewhere" / "old", (1, 1))
    (tmp_path / ".a.saving").symlink_to("elsewhere")
    with pytest.raises(dcp.CheckpointException, match="this is a link, and old files in this folder are removed"):
        save({"w": torch.ones(3)}, tmp_path / "a")
    assert os.listdir(tmp_path / "elsewhere") == ["old"] and not (tmp_path / "a").exists()


def test_two_that_save_to_one_folder_do_not_meet_in_what_they_try(tmp_path, monkeypatch):
    exchange, again = stock.exchange, []

    def and_another_meanwhile(*pair):
        if not again:
            again.append(True)
            stock._try_exchange(tmp_path)
        exchange(*pair)

    monkeypatch.setattr(stock, "exchange", and_another_meanwhile)
    stock._try_exchange(tmp_path)
    assert os.listdir(tmp_path) == []
    leftovers.sweep(tmp_path / "which the other has swept")


def test_a_link_stays_a_link(tmp_path):
    save({"w": torch.ones(2)}, tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    save({"w": torch.zeros(2)}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert is_same(weights.Weights(tmp_path / "a").plan().load(), {"w": torch.zeros(2)})


def test_where_folders_cannot_change_places_nothing_is_written(tmp_path, monkeypatch):
    class Old:
        def __init__(self, *arguments, **settings):
            pass

        def renameat2(self, *arguments):
            return -1

    save({"w": torch.ones(2)}, tmp_path / "a")
    monkeypatch.setattr(renaming.ctypes, "CDLL", Old)
    monkeypatch.setattr(renaming.ctypes, "get_errno", lambda: errno.EINVAL)
    with pytest.raises(dcp.CheckpointException, match="save to a folder that is not there yet"):
        save({"w": torch.zeros(2)}, tmp_path / "a")
    save({"w": torch.zeros(2)}, tmp_path / "b")
    assert is_same(weights.Weights(tmp_path / "a").plan().load(), {"w": torch.ones(2)})


@pytest.mark.parametrize("step", ["give_name", "put_in_place", "sweep_staging"])
def test_a_save_that_stops_leaves_the_old_one_or_the_new_one(tmp_path, monkeypatch, step):
    def stop(*arguments, **settings):
        raise KeyboardInterrupt

    save({"w": torch.ones(2)}, tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(module, step, stop)
        with contextlib.suppress(KeyboardInterrupt, dcp.CheckpointException):
            save({"w": torch.zeros(2)}, tmp_path / "a")
    expected = torch.zeros(2) if step == "sweep_staging" else torch.ones(2)
    assert is_same(load({"w": expected}, dcp.HuggingFaceStorageReader(str(tmp_path / "a"))), {"w": expected})
    staging = tmp_path / ".a.saving"
    for each in staging.iterdir() if staging.exists() else ():
        os.utime(each, (1, 1))
    save({"w": torch.ones(2)}, tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


def test_several_chunks_of_one_tensor_on_a_rank_go_to_several_files(tmp_path):
    tensor = torch.randn(4, 6)

    class Planner(dcp.DefaultSavePlanner):
        """As of a tensor that a rank has two pieces of."""

        def create_local_plan(self):
            self.plan = SavePlan([WriteItem(
                MetadataIndex("w", torch.Size([0, at])), WriteItemType.SHARD,
                tensor_data=TensorWriteData(ChunkStorageMetadata(torch.Size([0, at]), torch.Size([4, 3])),
                                            TensorProperties(dtype=tensor.dtype), tensor.size())) for at in (0, 3)])
            return self.plan

        def resolve_data(self, item):
            return tensor.narrow(1, item.index.offset[1], 3)

    dcp.save({}, storage_writer=SafetensorsWriter(tmp_path / "a"), planner=Planner(flatten_state_dict=False),
             no_dist=True)
    assert sorted(file.name for file in (tmp_path / "a").glob("*.safetensors")) == [
        f"shard-00001-model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for reader in (dcp.HuggingFaceStorageReader(str(tmp_path / "a")), Reader(tmp_path / "a")):
        assert is_same(load({"w": tensor}, reader), {"w": tensor})


class HalfPlanner(dcp.DefaultLoadPlanner):
    """As of a rank that wants the first half of "w": less than a checksum covers."""

    def create_local_plan(self):
        index, begin = MetadataIndex("w", torch.Size([0])), torch.Size([0])
        return LoadPlan([ReadItem(LoadItemType.TENSOR, MetadataIndex("w"), begin, index, begin, torch.Size([4]))])

    def resolve_tensor(self, read_item):
        return self.state_dict["w"]


@pytest.mark.parametrize("step", ["read_metadata", "prepare_global_plan"])
def test_what_is_read_while_another_save_takes_the_place_is_told(tmp_path, monkeypatch, step):
    save({"w": torch.ones(8)}, tmp_path / "a")
    reader = Reader(tmp_path / "a")
    found = getattr(reader, step)

    def and_then_another_save(*arguments, **settings):
        result = found(*arguments, **settings)
        save({"w": torch.zeros(8)}, tmp_path / "a")
        return result

    monkeypatch.setattr(reader, step, and_then_another_save)
    with pytest.raises(dcp.CheckpointException, match="it was saved anew while it was read: read it again"):
        dcp.load({"w": torch.full((4,), 5.0)}, storage_reader=reader, planner=HalfPlanner(), no_dist=True)


def test_a_model_whose_checkpoint_is_replaced_while_it_is_opened_is_told(tmp_path, monkeypatch):
    save({"w": torch.ones(8)}, tmp_path / "a")
    found = sources.tensors_of

    def and_then_another_save(*arguments):
        monkeypatch.undo()
        save({"w": torch.zeros(8)}, tmp_path / "a")
        return found(*arguments)

    monkeypatch.setattr(sources, "tensors_of", and_then_another_save)
    with pytest.raises(weights.WeightsError, match="it was saved anew while it was read: read it again"):
        weights.Weights(tmp_path / "a")


def numbers(lines, what):
    return [int(line.removeprefix(f"{what} ")) for line in lines if line.startswith(f"{what} ")]


def test_whoever_is_killed_stock_readers_have_the_old_one_or_the_new_one(tmp_path):
    chance = random.Random(5)
    for turn in range(KILLS):
        folder = tmp_path / f"turn-{turn}"
        ranks = start(2, tmp_path, (checkpoint_job.save_safetensors_forever, folder))
        lines = [ranks[0].next() for _ in range(4 + turn % 3)]
        time.sleep(chance.random() * 0.02)
        chance.choice(ranks).process.kill()
        for rank in ranks:
            rank.process.kill()
        for rank in ranks:
            lines += rank.rest()
            rank.process.join()
        (said,) = run(1, tmp_path, (checkpoint_job.load_stock_safetensors, folder))
        assert max(numbers(lines, "saved")) <= numbers(said, "loaded")[0] <= max(numbers(lines, "saving"))
        checkpoint.verify(folder)
        save({"w": torch.ones(2)}, folder)
        checkpoint.verify(folder)


def test_plans_that_the_planner_keeps_serve_every_save(tmp_path):
    for number in (1, 2, 3):
        state = {"w": torch.full((4,), float(number))}
        dcp.save(state, storage_writer=SafetensorsWriter(tmp_path / "a"), no_dist=True,
                 planner=dcp.DefaultSavePlanner(enable_plan_caching=True))
        assert is_same(load(state, Reader(tmp_path / "a")), state)
