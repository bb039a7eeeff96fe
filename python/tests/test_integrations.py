# SPDX-License-Identifier: Apache-2.0

"""The loaders for vLLM and SGLang in the real vLLM and SGLang, on the CPU: their own Llama, loaded by them and by us.

They are not among what the tests need: `./dev clients` installs them, and everything here is skipped without.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import penstock
from penstock import weights
from waiting import SECONDS_MAX

GROUPS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]


def imported(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: ./dev clients installs it for the tests",
                               exc_type=ImportError)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The package's entry points, as installing it would make them known; offline, on the CPU, in a world of one."""
    site = tmp_path_factory.mktemp("site")
    about = site / "penstock-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock\nVersion: 0\n")
    (about / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in GROUPS.items()))
    sys.path.insert(0, str(site))
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_TARGET_DEVICE="cpu")
    yield f"file://{site}/rendezvous"
    sys.path.remove(str(site))


@pytest.fixture(scope="session")
def transformers(installed):
    return imported("transformers")


@pytest.fixture(scope="session")
def vllm(installed, transformers):
    """vLLM after its start of a process: plugins loaded, its groups of ranks made."""
    imported("vllm")
    from vllm import distributed
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    config = VllmConfig(device_config=DeviceConfig("cpu"))
    with set_current_vllm_config(config):
        distributed.init_distributed_environment(1, 0, f"{installed}-vllm", 0, "gloo")
        distributed.initialize_model_parallel(1)
        yield config
    distributed.destroy_model_parallel()
    distributed.destroy_distributed_environment()


@pytest.fixture(scope="session")
def sglang(installed, transformers):
    """SGLang's parser of arguments and loaders, with plugins loaded."""
    imported("sglang")
    import without_torchvision  # noqa: F401
    from sglang.srt.plugins import load_plugins

    load_plugins()


@pytest.fixture(params=[False, True], ids=["", "tied"])
def llama(request, transformers, tmp_path):
    return saved_llama(transformers, tmp_path / "llama", request.param)


def saved_llama(transformers, folder, is_tied):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=301, tie_word_embeddings=is_tied)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size="100KB")
    return folder


@pytest.fixture
def mixtral(tmp_path):
    """Two layers of experts and what else there is, in two files; and a copy that the index does not know."""
    names = [f"model.layers.{layer}.block_sparse_moe.experts.{expert}.w{w}.{kind}"
             for layer in range(2) for expert in range(4) for w in (1, 2, 3) for kind in ("weight", "weight_scale")]
    tensors = {name: torch.rand(4, 8) for name in [*names, "model.embed_tokens.weight", "mtp.norm.weight"]}
    placed = {}
    for i in range(2):
        chosen = dict(list(tensors.items())[i::2])
        weights.save_file(chosen, tmp_path / f"model-{i}.safetensors", {"format": "pt"})
        placed.update(dict.fromkeys(chosen, f"model-{i}.safetensors"))
    (tmp_path / weights.INDEX).write_text(json.dumps({"weight_map": placed}))
    shutil.copy(tmp_path / "model-0.safetensors", tmp_path / "consolidated.safetensors")
    return tmp_path, tensors


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# ---- vLLM -----------------------------------------------------------------------------------------------------------

def vllm_loader(load_format, **said):
    from vllm.config.load import LoadConfig
    from vllm.model_executor.model_loader import get_model_loader

    return get_model_loader(LoadConfig(load_format=load_format, **said))


def test_vllm_has_the_load_format_by_its_plugins(vllm):
    from vllm.model_executor.model_loader import DefaultModelLoader

    from penstock.integrations.vllm import PenstockModelLoader, register

    register()  # As often as vLLM likes.
    loader = vllm_loader("penstock")
    assert type(loader) is PenstockModelLoader and isinstance(loader, DefaultModelLoader)
    assert not torch.cuda.is_initialized()


def test_vllms_own_llama_is_loaded_as_by_vllm(vllm, llama, caplog):
    from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config
    from vllm.utils.torch_utils import set_default_torch_dtype

    model_config = ModelConfig(model=str(llama), tokenizer=str(llama), skip_tokenizer_init=True, dtype="bfloat16")

    def loaded(load_format):
        loader = vllm_loader(load_format)
        config = VllmConfig(model_config=model_config, device_config=vllm.device_config)
        with set_current_vllm_config(config), set_default_torch_dtype(torch.bfloat16):
            model = loader.create_model(vllm_config=config, model_config=model_config)
            for parameter in model.parameters():
                parameter.data.zero_()
            loader.load_weights(model, model_config)
        return dict(model.named_parameters())

    stock = loaded("safetensors")
    logging.getLogger("vllm").addHandler(caplog.handler)
    caplog.set_level(logging.INFO, "vllm")
    ours = loaded("penstock")
    logging.getLogger("vllm").removeHandler(caplog.handler)
    assert any("qkv_proj" in name for name in ours) and same(ours, stock)
    there = weights.Weights(llama)
    assert f"read {len(there.tensors)} tensors of {len(there.files)} files to cpu" in caplog.text
    assert re.search(rf"\b{there.nbytes} bytes in .*: {there.nbytes} by path host", caplog.text)


def test_vllms_filters_and_prefixes_hold(vllm, mixtral):
    folder, tensors = mixtral

    def names(load_format, local_expert_ids=None, **said):
        loader = vllm_loader(load_format)
        loader.local_expert_ids = local_expert_ids
        return dict(loader._get_weights_iterator(loader.Source(str(folder), None, **said)))

    assert same(names("penstock"), tensors) and same(names("safetensors"), tensors)
    assert same(names("penstock", prefix="model."), {f"model.{name}": tensor for name, tensor in tensors.items()})
    local = names("penstock", {1, 2})
    assert same(local, names("safetensors", {1, 2})) and len(local) == len(tensors) - 2 * 2 * 3
    unused = names("penstock", is_unused_weight=lambda name: not name.startswith("mtp."))
    assert same(unused, {"mtp.norm.weight": tensors["mtp.norm.weight"]})
    elsewhere = {"subfolder": folder.name, "prefix": "a."}
    folder = folder.parent
    assert same(names("penstock", **elsewhere), names("safetensors", **elsewhere))


@pytest.fixture
def taken():
    taken = weights.take_over()
    yield taken
    taken.give_back()


def expect_served(loader, mixtral, taken):
    """The program's own loader has read all, and by nothing but Penstock."""
    folder, tensors = mixtral
    assert same(dict(loader._get_weights_iterator(loader.Source(str(folder), None))), tensors)
    assert taken.files_read >= 2 and not taken.handed_over
    assert taken.bytes_by_path == {"host": sum(tensor.nbytes for tensor in tensors.values())}


def test_vllms_own_loader_is_served_where_safetensors_is_taken_over(vllm, mixtral, taken):
    expect_served(vllm_loader("safetensors"), mixtral, taken)


def test_vllms_further_sources_are_read(vllm, mixtral):
    folder, tensors = mixtral
    loader, model = vllm_loader("penstock"), torch.nn.Module()
    model.secondary_weights = [loader.Source(str(folder), None, prefix="second.")]
    config = types.SimpleNamespace(model=str(folder), revision=None)
    found = dict(loader.get_all_weights(config, model))
    assert same(found, tensors | {f"second.{name}": tensor for name, tensor in tensors.items()})


def test_vllms_track_of_what_was_loaded_works(vllm, mixtral):
    loader = vllm_loader("penstock", model_loader_extra_config={"enable_weights_track": True, "policy": "balanced"})
    config = types.SimpleNamespace(model=str(mixtral[0]), revision=None, quantization=None, multimodal_config=None,
                                   is_moe=False)
    model = torch.nn.Linear(2, 2)
    model.load_weights = lambda pairs: {name for name, _ in pairs}
    with pytest.raises(ValueError, match="not initialized from checkpoint.*(weight|bias)"):
        loader.load_weights(model, config)


def test_what_vllm_is_told_wrongly_is_refused(vllm, mixtral):
    with pytest.raises(ValueError, match="has 'num_threads', which load format 'penstock' does not know"):
        vllm_loader("penstock", model_loader_extra_config={"num_threads": 8})
    with pytest.raises(ValueError, match="safetensors_load_strategy 'eager'"):
        vllm_loader("penstock", safetensors_load_strategy="eager")
    loader = vllm_loader("penstock", model_loader_extra_config={"policy": "fast"})
    with pytest.raises(penstock.BadSettingError, match="policy=fast"):
        dict(loader._get_weights_iterator(loader.Source(str(mixtral[0]), None)))


def test_a_vllm_of_another_shape_is_refused(vllm, monkeypatch):
    from vllm.model_executor.model_loader import DefaultModelLoader

    monkeypatch.setattr(DefaultModelLoader, "_prepare_weights", lambda self, name: None)
    with pytest.raises(RuntimeError, match="vLLM .*expected _prepare_weights to take model_name.*, it takes name"):
        vllm_loader("penstock")


def test_vllm_is_told_of_a_cut_file(vllm, mixtral):
    loader = vllm_loader("penstock")
    with open(mixtral[0] / "model-1.safetensors", "r+b") as file:
        file.truncate(6000)
    with pytest.raises(weights.WeightsError, match="model-1.safetensors"):
        dict(loader._get_weights_iterator(loader.Source(str(mixtral[0]), None)))


VLLM_RANK = """
from vllm import distributed
from vllm.config import DeviceConfig, ParallelConfig, VllmConfig, set_current_vllm_config
from vllm.config.load import LoadConfig
from vllm.plugins import load_general_plugins
from vllm.model_executor.model_loader import get_model_loader
load_general_plugins()
config = VllmConfig(device_config=DeviceConfig("cpu"), parallel_config=ParallelConfig(tensor_parallel_size=2))
with set_current_vllm_config(config):
    distributed.init_distributed_environment(2, rank, meeting, rank, "gloo")
    distributed.initialize_model_parallel(2)
loader = get_model_loader(LoadConfig(load_format="penstock", model_loader_extra_config={"together": True}))
"""
SGLANG_RANK = """
import without_torchvision
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt import distributed, runtime_context
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.model_loader.loader import get_model_loader
from sglang.srt.server_args import prepare_server_args
told = prepare_server_args(["--model-path", llama, "--device", "cpu", "--load-format", "penstock", "--tp-size", "2",
                            "--skip-tokenizer-init"])
runtime_context.publish(told, role="scheduler", ranks=runtime_context.SpawnRanks(rank, 0, rank))
distributed.init_distributed_environment(2, rank, meeting, rank, "gloo")
distributed.initialize_model_parallel()
loader = get_model_loader(LoadConfig(load_format="penstock", model_loader_extra_config='{"together": true}'))
"""
RANK = """
import os, sys, logging
rank, site, tests, meeting, llama = int(sys.argv[1]), *sys.argv[2:]
sys.path[:0] = [site, tests]
%s
logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)
logging.getLogger("vllm").propagate = True
import glob, torch
from safetensors.torch import load_file
found = dict(loader._get_weights_iterator(loader.Source(llama, None)))
for file in glob.glob(f"{llama}/*.safetensors"):
    for name, tensor in load_file(file).items():
        assert torch.equal(found.pop(name), tensor), name
assert not found
"""


@pytest.mark.parametrize("program", [VLLM_RANK, SGLANG_RANK], ids=["vllm", "sglang"])
def test_tensor_parallel_ranks_read_together(program, installed, transformers, tmp_path):
    imported("vllm" if program is VLLM_RANK else "sglang")
    llama = saved_llama(transformers, tmp_path / "llama", False)
    site = Path(installed.removeprefix("file://")).parent
    given = [site, Path(__file__).parent, f"file://{tmp_path}/meeting", llama]
    ranks = [subprocess.Popen([sys.executable, "-c", RANK % program, str(rank), *given], stderr=subprocess.PIPE,
                              text=True) for rank in range(2)]
    outputs = [rank.communicate(timeout=SECONDS_MAX)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    read = [int(re.search(r"its share of .*: (\d+) bytes in .* by path host", text)[1]) for text in outputs]
    assert sum(read) < weights.Weights(llama).nbytes * 1.1 and min(read) > max(read) // 2


# ---- SGLang ---------------------------------------------------------------------------------------------------------

@pytest.fixture
def serving(sglang, llama):
    """As in a scheduler that was told so on the command line."""
    from sglang.srt import runtime_context
    from sglang.srt.server_args import prepare_server_args

    outputs = prepare_server_args(["--model-path", str(llama), "--device", "cpu", "--load-format", "penstock",
                                "--skip-tokenizer-init"])
    runtime_context.publish(outputs, role="scheduler", ranks=runtime_context.SpawnRanks(0, 0, 0))
    return outputs


def sglang_loader(load_format="penstock", **said):
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.model_loader.loader import get_model_loader

    return get_model_loader(LoadConfig(load_format=load_format, **said))


def test_sglang_has_the_load_format_by_its_plugins(serving):
    from sglang.srt.model_loader.loader import DefaultModelLoader

    from penstock.integrations import sglang as ours
    from penstock.integrations.sglang_loader import PenstockModelLoader

    ours.register()
    assert serving.load_format == "penstock"
    assert type(sglang_loader()) is PenstockModelLoader and isinstance(sglang_loader(), DefaultModelLoader)
    assert type(sglang_loader(PenstockModelLoader)) is PenstockModelLoader
    assert type(sglang_loader("safetensors")) is DefaultModelLoader


def test_sglangs_own_loader_is_served_where_safetensors_is_taken_over(serving, mixtral, taken):
    expect_served(sglang_loader("safetensors"), mixtral, taken)


def test_sglangs_own_llama_is_loaded_as_by_sglang(serving, installed, caplog):
    from sglang.srt import distributed
    from sglang.srt.configs.device_config import DeviceConfig
    from sglang.srt.configs.model_config import ModelConfig

    config = ModelConfig.from_server_args(serving)
    distributed.init_distributed_environment(1, 0, f"{installed}-sglang", 0, "gloo")
    if not distributed.model_parallel_is_initialized():
        distributed.initialize_model_parallel()

    def loaded(load_format):
        model = sglang_loader(load_format).load_model(model_config=config, device_config=DeviceConfig("cpu"))
        return dict(model.named_parameters())

    caplog.set_level(logging.INFO, "sglang.penstock")
    ours, stock = loaded("penstock"), loaded("safetensors")
    assert any("qkv_proj" in name for name in ours) and same(ours, stock)
    assert f"{weights.Weights(serving.model_path).nbytes} by path host" in caplog.text


def test_sglangs_sources_drafts_and_prefixes_hold(serving, mixtral):
    folder, tensors = mixtral
    loader = sglang_loader()
    source = loader.Source(str(folder), None, prefix="a.")
    assert same(dict(loader._get_weights_iterator(source)), {f"a.{name}": tensor for name, tensor in tensors.items()})
    resolved = loader.ResolvedSource(source, str(folder), (str(folder / "model-0.safetensors"),), True)
    found = dict(loader._get_weights_iterator(source, resolved_source=resolved, startup_prefetch_started=True))
    assert found.keys() == {f"a.{name}" for name in weights.Weights(folder / "model-0.safetensors").tensors}
    weights.save_file({f"model.mtp.layers.{i}.weight": torch.full((2,), i) for i in range(3)},
                      folder / "model-0.safetensors")
    (folder / weights.INDEX).unlink()
    (folder / "consolidated.safetensors").unlink()
    (folder / "model-1.safetensors").unlink()
    draft = sglang_loader(draft_model_idx=2)
    found = dict(draft._get_weights_iterator(draft.Source(str(folder), None)))
    assert same(found, {"model.mtp.layers.0.weight": torch.full((2,), 2)})


def test_what_sglang_is_told_wrongly_is_refused(serving):
    with pytest.raises(ValueError, match="has 'enable_multithread_load', which load format 'penstock' does not know"):
        sglang_loader(model_loader_extra_config='{"enable_multithread_load": true}')
    with pytest.raises(ValueError, match="not a valid LoadFormat"):
        sglang_loader("penstok")
