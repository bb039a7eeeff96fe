# SPDX-License-Identifier: Apache-2.0

"""Models as people have them: FP8 with its scales, MXFP4, shards with an index, LoRA adapters. Each is what its own
reader gives."""

import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
stock = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

from penstock import weights
from tensors import DEVICES, random_tensor, raw

HAS_F4 = hasattr(torch, "float4_e2m1fn_x2")


def fp8(layer):
    """Blocks of 32 by 32 have a scale each, as DeepSeek's models."""
    return {f"{layer}.e4m3.weight": random_tensor(torch.float8_e4m3fn, 64, 96),
            f"{layer}.e4m3.weight_scale_inv": torch.rand(2, 3),
            f"{layer}.e5m2.weight": random_tensor(torch.float8_e5m2, 30, 6), f"{layer}.scale": torch.tensor(0.5)}


def mxfp4(layer):
    """32 elements have a scale of E8M0, typed or as plain bytes, as gpt-oss has them."""
    typed = random_tensor(torch.uint8, 64, 48)
    return {f"{layer}.blocks": random_tensor(torch.uint8, 4, 64, 3, 16), f"{layer}.weight": typed.view(
        torch.float4_e2m1fn_x2), f"{layer}.scales": random_tensor(torch.float8_e8m0fnu, 64, 3)}


FORMATS = [fp8] + ([mxfp4] if HAS_F4 else [])


@pytest.fixture(params=FORMATS, ids=lambda make: make.__name__)
def sharded(request, tmp_path):
    """A folder of two shards and their index, and what safetensors reads of them."""
    placed, stored = {}, {}
    for number in (1, 2):
        name = f"model-{number:05}-of-00002.safetensors"
        tensors = request.param(f"layers.{number}")
        stock.save_file(tensors, tmp_path / name, {"format": "pt"})
        placed.update(dict.fromkeys(tensors, name))
        stored.update(stock.load_file(tmp_path / name))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path, stored


def same(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == expected[name].dtype and found[name].shape == expected[name].shape
        and raw(found[name]) == raw(expected[name]) for name in expected)


def bytes_cut(tensor, part):
    """A part of any dtype, also of those that torch does not cut itself."""
    unit = 2 if "float4" in str(tensor.dtype) and part.dim == tensor.dim() - 1 else 1
    return tensor.view(torch.uint8 if tensor.element_size() == 1 else tensor.dtype).narrow(
        part.dim, part.start // unit, (part.stop - part.start) // unit).contiguous()


@pytest.mark.parametrize("device", DEVICES)
def test_quantized_shards_come_as_by_safetensors(sharded, device):
    folder, stored = sharded
    for paths in (folder, folder / "model.safetensors.index.json", sorted(folder.glob("*.safetensors"))):
        assert same(weights.Weights(paths).plan(device=device).load(), stored)
    for path in folder.glob("*.safetensors"):
        assert same(weights.load_file(path, device=device), stock.load_file(path))
        with weights.safe_open(path, "pt", device=device) as opened:
            assert same({name: opened.get_tensor(name) for name in opened.keys()}, stock.load_file(path))


@pytest.mark.parametrize("dim", [0, 1])
def test_ranks_take_their_parts_of_quantized_tensors(sharded, dim):
    folder, stored = sharded
    parts = {name: weights.Part.of_rank(tensor.shape[dim] * (2 if dim == 1 and "float4" in str(tensor.dtype) else 1),
                                        dim, 1, 2)
             for name, tensor in stored.items() if tensor.dim() > dim and tensor.shape[dim] % 2 == 0}
    assert len(parts) >= 4
    loaded = weights.Weights(folder).plan(list(parts), parts=parts).load()
    assert all(raw(loaded[name]) == raw(bytes_cut(stored[name], part)) for name, part in parts.items())


def test_conversion_is_that_of_torch_and_leaves_four_bits_as_they_are(sharded):
    folder, stored = sharded
    loaded = weights.Weights(folder).plan(dtype=torch.bfloat16).load()
    for name, tensor in stored.items():
        is_plain = not tensor.dtype.is_floating_point or "float4" in str(tensor.dtype)
        expected = tensor if is_plain else tensor.to(torch.bfloat16)
        assert loaded[name].dtype == expected.dtype and raw(loaded[name]) == raw(expected)


ADAPTER = {f"base_model.model.layers.0.q_proj.lora_{each}.weight": torch.rand(shape)
           for each, shape in (("A", (8, 64)), ("B", (64, 8)))}


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_is_read_by_its_folder(tmp_path, name):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8}))
    if name.endswith(".bin"):
        torch.save(ADAPTER, tmp_path / name)
    else:
        stock.save_file(ADAPTER, tmp_path / name, {"format": "pt"})
    torch.save({"step": 3}, tmp_path / "optimizer.pt")
    assert same(weights.Weights(tmp_path).plan().load(), ADAPTER)
    columns = weights.Weights(tmp_path).plan("*lora_A*", parts={"*": weights.Part(1, 16, 32)}).load()
    assert raw(next(iter(columns.values()))) == raw(next(iter(ADAPTER.values()))[:, 16:32])


def test_an_adapter_beside_a_model_is_read_by_its_name(tmp_path):
    stock.save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    stock.save_file(ADAPTER, tmp_path / "adapter_model.safetensors")
    assert list(weights.Weights(tmp_path).tensors) == ["a"]
    assert same(weights.load_file(tmp_path / "adapter_model.safetensors"), ADAPTER)
