# SPDX-License-Identifier: Apache-2.0

"""penstock.weights where programs fork, drop what they began, have odd modules, or name what is not there."""

import gc
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import penstock
from penstock import weights
from penstock.weights import plan as plans
from penstock.weights.tensors import collecting_paused
from tensors import random_tensor, raw


def test_a_forked_child_is_told_that_an_iteration_is_its_parents(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 14)
    weights.save_file({f"{i:03}": random_tensor(torch.uint8, 10_000) for i in range(30)}, tmp_path / "model")
    tensors = iter(weights.Weights(tmp_path / "model").plan())
    next(tensors)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            for _ in tensors:
                pass
        except penstock.ClosedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(tensors)) == 29


def test_many_small_tensors_take_no_mappings_of_their_own(tmp_path):
    weights.save_file({f"{i}": torch.zeros(2000) for i in range(400)}, tmp_path / "model")
    with weights.safe_open(tmp_path / "model") as opened:
        before = len(Path("/proc/self/maps").read_text().splitlines())
        kept = [opened.get_tensor(f"{i}") for i in range(400)]
        after = len(Path("/proc/self/maps").read_text().splitlines())
    assert len(kept) == 400 and after - before < 100


def test_a_part_of_a_tensor_does_not_keep_all_of_it(tmp_path):
    weights.save_file({"a": random_tensor(torch.uint8, 512, 4096)}, tmp_path / "model")
    with penstock.Session(device="host") as session, weights.safe_open(tmp_path / "model", session=session) as opened:
        part = opened.get_slice("a")[:, :1024]
        assert part.untyped_storage().nbytes() <= 2 * part.nbytes

        def read():
            return sum(row["read_bytes"] for row in session.counters())

        before = read()
        row, some = opened.get_slice("a")[-3], opened.get_slice("a")[8:16:2, 5]
        assert read() - before == 4096 + 8 * 4096
        whole = opened.get_tensor("a")
        assert raw(row) == raw(whole[-3]) and raw(some) == raw(whole[8:16:2, 5])


def test_two_iterations_at_once_count_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 14)
    weights.save_file({f"{i:03}": random_tensor(torch.uint8, 10_000) for i in range(20)}, tmp_path / "model")
    plan, seen = weights.Weights(tmp_path / "model").plan(), []
    for _ in zip(plan.stream(), plan.stream(lambda progress: seen.append(progress.bytes_done))):
        pass
    assert seen[-1] == plan.bytes_from_storage


def test_a_module_whose_state_is_made_by_hooks_is_refused(tmp_path):
    weights.save_file({"weight": torch.ones(4, 8), "bias": torch.ones(4)}, tmp_path / "model")
    module = torch.nn.Linear(8, 4)
    module._register_state_dict_hook(lambda module, state, *_: state.update(
        {name: tensor.clone() for name, tensor in state.items()}))
    with pytest.raises(weights.WeightsError, match="load_state_dict"):
        weights.load_model(module, tmp_path / "model")


def test_a_view_of_a_parameter_is_none_that_is_tied_to_it(tmp_path):
    weights.save_file({"a": torch.ones(2)}, tmp_path / "model")
    module = torch.nn.Module()
    module.big = torch.nn.Parameter(torch.zeros(4))
    module.register_buffer("a", module.big.data[:2])
    with pytest.raises(weights.WeightsError, match="Missing key.* \"big\"$"):
        weights.load_model(module, tmp_path / "model")


def test_what_a_module_has_besides_tensors_is_missing_in_files(tmp_path):
    class More(torch.nn.Linear):
        def get_extra_state(self):
            return {"n": 1}

        def set_extra_state(self, state):
            pass

    weights.save_file({"weight": torch.ones(4, 8), "bias": torch.ones(4)}, tmp_path / "model")
    assert weights.load_model(More(8, 4), tmp_path / "model", strict=False) == (["_extra_state"], [])
    with pytest.raises(weights.WeightsError, match="_extra_state"):
        weights.load_model(More(8, 4), tmp_path / "model")


def test_a_part_of_a_sharded_model_is_not_taken_for_all_of_it(tmp_path):
    for number in (1, 3):
        weights.save_file({f"{number}": torch.ones(3)}, tmp_path / f"model-0000{number}-of-00003.safetensors")
    with pytest.raises(weights.WeightsError, match="of 3 files as .* there are 2, and no index"):
        weights.Weights(tmp_path)
    weights.save_file({"2": torch.ones(3)}, tmp_path / "model-00002-of-00003.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    assert sorted(weights.Weights(tmp_path).tensors) == ["1", "2", "3"]
    weights.save_file({"whole": torch.ones(3)}, tmp_path / "model.safetensors")
    assert list(weights.Weights(tmp_path).tensors) == ["whole"]


def test_nothing_at_all_is_refused_by_name(tmp_path):
    with pytest.raises(weights.WeightsError, match="no file is named"):
        weights.Weights([])
    index = tmp_path / weights.INDEX
    for said, sentence in (({}, "is empty"), ({"a": "x\ud800.safetensors"}, "no name of a file")):
        index.write_text(json.dumps({"weight_map": said}))
        with pytest.raises(weights.WeightsError, match=sentence):
            weights.Weights(tmp_path)


def test_dtypes_have_names_and_what_is_none_is_refused(tmp_path):
    weights.save_file({"a": torch.ones(3)}, tmp_path / "model")
    found = weights.Weights(tmp_path / "model")
    assert found.plan(dtype="float16").load()["a"].dtype == torch.float16
    for wrong in ("float17", "device", 5):
        with pytest.raises(weights.WeightsError, match="dtype"):
            found.plan(dtype=wrong)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no float4_e2m1fn_x2")
def test_two_elements_a_byte_are_never_converted(tmp_path):
    saved = {"four": random_tensor(torch.float4_e2m1fn_x2, 4, 3), "one": torch.ones(3)}
    weights.save_file(saved, tmp_path / "model")
    loaded = weights.Weights(tmp_path / "model").plan(dtype=torch.bfloat16).load()
    assert loaded["four"].dtype == torch.float4_e2m1fn_x2 and loaded["one"].dtype == torch.bfloat16
    module = torch.nn.Module()
    module.register_buffer("four", torch.empty(4, 3, dtype=torch.float4_e2m1fn_x2))
    weights.load_model(module, tmp_path / "model", strict=False)
    assert raw(module.four) == raw(saved["four"])


@pytest.mark.parametrize("tensors, metadata, sentence", [
    ({3: torch.ones(1)}, None, "3"), ({"\ud800": torch.ones(1)}, None, "UTF-8"), ({"a": [1.0]}, None, "list"),
    ({"a": torch.ones(1)}, {"n": 5}, "text"),
])
def test_what_the_format_cannot_name_is_refused(tmp_path, tensors, metadata, sentence):
    with pytest.raises(weights.WeightsError, match=sentence):
        weights.save_file(tensors, tmp_path / "model", metadata)
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_may_be_any_bytes(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.safetensors"
    weights.save_file({"a": torch.ones(3)}, os.fsdecode(name))
    assert raw(weights.load_file(os.fsdecode(name))["a"]) == raw(torch.ones(3))


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no float4")
def test_two_elements_of_float4_are_a_byte(tmp_path):
    packed = torch.arange(8, dtype=torch.uint8).view(2, 4)
    weights.save_file({"a": packed.view(torch.float4_e2m1fn_x2)}, tmp_path / "model")
    found = weights.Weights(tmp_path / "model")
    assert found.tensors["a"].shape == (2, 8) and raw(found.plan().load()["a"]) == raw(packed)
    part = found.plan(parts={"a": weights.Part(1, 2, 4)}).load()["a"]
    assert raw(part) == raw(packed[:, 1:2].contiguous())
    with pytest.raises(weights.WeightsError, match="even elements"):
        found.plan(parts={"a": weights.Part(1, 1, 4)})


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collecting_is_as_it_was_when_the_last_pause_ends_and_in_a_child(is_enabled):
    before = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        with ExitStack() as first, ExitStack() as second:
            first.enter_context(collecting_paused())
            second.enter_context(collecting_paused())
            if (child := os.fork()) == 0:
                is_on = gc.isenabled()
                first.close()
                os._exit(is_on + 2 * gc.isenabled())
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3 * is_enabled
            first.close()
            assert not gc.isenabled()
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if before else gc.disable)()
