# SPDX-License-Identifier: Apache-2.0

"""penstock.integrations.transformers with the real Transformers and accelerate: bit for bit what they load by
themselves, on the CPU; on a GPU as well where this machine has one."""

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

import safetensors.torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers import MixtralConfig, MixtralForCausalLM

from penstock import weights
from penstock.integrations.transformers import fast_loading

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """So that small files have several."""
    monkeypatch.setattr("penstock.weights.plan.RUN_BYTES", 40_000)


def saved(model, folder):
    model.save_pretrained(folder, max_shard_size="150KB")
    return folder


@pytest.fixture
def llama(tmp_path):
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=12, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=301)
    return saved(LlamaForCausalLM(config).to(torch.bfloat16), tmp_path / "llama")


def same(left, right):
    left, right = left.state_dict(), right.state_dict()
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and torch.equal(left[name].cpu(), right[name].cpu()) for name in right)


def bytes_in(files):
    return weights.Weights(files).nbytes


@pytest.mark.parametrize("dtype", [None, torch.float32, "auto"])
def test_a_sharded_model_is_as_by_from_pretrained(llama, device, dtype):
    said = {} if dtype is None else {"dtype": dtype}
    stock = AutoModelForCausalLM.from_pretrained(llama, **said)
    with fast_loading(device) as loading:
        model = AutoModelForCausalLM.from_pretrained(llama, device_map=device, **said)
    assert same(model, stock) and {parameter.device.type for parameter in model.parameters()} == {device}
    assert len(loading.files) == len(list(llama.glob("*.safetensors"))) > 3
    assert loading.nbytes >= bytes_in(llama)  # What lies between two tensors counts, too.
    assert str(loading.nbytes) in str(loading) and "by path" in str(loading)


def test_without_a_device_map_it_comes_to_the_cpu(llama):
    with fast_loading():
        assert same(AutoModelForCausalLM.from_pretrained(llama), AutoModelForCausalLM.from_pretrained(llama))


def test_tied_weights_are_tied(tmp_path, device):
    folder = saved(GPT2LMHeadModel(GPT2Config(n_embd=48, n_layer=3, n_head=4, vocab_size=301)), tmp_path / "gpt2")
    with fast_loading(device):
        model = AutoModelForCausalLM.from_pretrained(folder, device_map=device)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert same(model, AutoModelForCausalLM.from_pretrained(folder))


def test_what_transformers_puts_together_of_several_tensors_is_the_same(tmp_path, device):
    config = MixtralConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                           num_key_value_heads=2, num_local_experts=4, vocab_size=101)
    folder = saved(MixtralForCausalLM(config), tmp_path / "mixtral")
    assert any(".experts.3." in name for name in weights.Weights(folder).tensors)
    with fast_loading(device):
        model = AutoModelForCausalLM.from_pretrained(folder, device_map=device)
    assert same(model, AutoModelForCausalLM.from_pretrained(folder))


def test_a_loaded_model_saves_as_any_other(llama, tmp_path):
    with fast_loading():
        model = AutoModelForCausalLM.from_pretrained(llama)
    assert same(AutoModelForCausalLM.from_pretrained(saved(model, tmp_path / "again")), model)
    assert all(parameter.untyped_storage().nbytes() == parameter.nbytes for parameter in model.parameters())


@pytest.mark.parametrize("device_map", [None, {"": "cpu"}, {"model.layers": "cpu", "": "disk"}])
def test_accelerate_loads_a_checkpoint_into_a_model(llama, device_map, tmp_path):
    def loaded():
        with accelerate.init_empty_weights():
            model = AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(llama))
        if device_map is None:
            model = model.to_empty(device="cpu")
        accelerate.load_checkpoint_in_model(model, llama, device_map=device_map, offload_folder=tmp_path / "offload")
        return {name: parameter for name, parameter in model.named_parameters() if not parameter.is_meta}

    stock = loaded()
    with fast_loading() as loading:
        ours = loaded()
    assert stock.keys() == ours.keys() and all(torch.equal(stock[name], ours[name]) for name in stock)
    assert loading.nbytes >= bytes_in(llama) and any("layers.11" in name for name in ours)


def test_tensors_are_asked_for_in_any_order_and_by_several_threads(llama):
    file = sorted(llama.glob("*.safetensors"))[0]
    stock = safetensors.torch.load_file(file)
    for names in (sorted(stock), sorted(stock, reverse=True)):
        with fast_loading() as loading, transformers.modeling_utils.safe_open(file, framework="pt") as opened:
            assert sorted(opened.keys()) == sorted(stock) and opened.metadata() == {"format": "pt"}
            slices, found = {name: opened.get_slice(name) for name in names}, {}
            assert all(slices[name].get_shape() == list(stock[name].shape) for name in names)

            def take(mine):
                found.update({name: slices[name][...] for name in mine})

            threads = [threading.Thread(target=take, args=(names[i::4],)) for i in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            assert all(torch.equal(found[name], stock[name]) for name in names) and len(found) == len(stock)
            assert loading.nbytes < bytes_in(file) * 1.1  # Nothing twice.
            name = max(stock, key=lambda name: stock[name].dim())
            assert torch.equal(slices[name][2:5], stock[name][2:5]) and torch.equal(slices[name][...], stock[name])


def test_the_block_ends_also_where_it_fails(llama):
    with pytest.raises(OSError), fast_loading():
        AutoModelForCausalLM.from_pretrained(llama / "nowhere")
    assert transformers.modeling_utils.safe_open is safetensors.safe_open
    assert accelerate.utils.modeling.safe_open is safetensors.safe_open


def test_a_block_in_which_nothing_is_read_warns():
    with pytest.warns(RuntimeWarning, match="Penstock has read nothing"), fast_loading():
        pass


def test_what_loads_otherwise_is_refused(llama, monkeypatch):
    with fast_loading():
        with pytest.raises(RuntimeError, match="no other block of fast_loading around"), fast_loading():
            pass
        AutoModelForCausalLM.from_pretrained(llama)
    with monkeypatch.context() as patch:
        patch.setattr(transformers.PreTrainedModel, "_load_pretrained_model", lambda: None)
        with pytest.raises(RuntimeError, match=rf"transformers {transformers.__version__} cannot be helped"), \
                fast_loading():
            pass
    with monkeypatch.context() as patch:
        patch.delattr(accelerate.utils.modeling, "load_state_dict")
        with pytest.raises(RuntimeError, match=rf"accelerate {accelerate.__version__} cannot be helped"), \
                fast_loading():
            pass
    assert transformers.modeling_utils.safe_open is safetensors.safe_open


def test_a_file_that_is_cut_while_it_is_read_is_an_error(llama):
    with pytest.raises(weights.WeightsError, match="cut, changed or replaced"), fast_loading():
        opened = transformers.modeling_utils.safe_open(sorted(llama.glob("*.safetensors"))[0])
        with open(sorted(llama.glob("*.safetensors"))[0], "r+b") as file:
            file.truncate(1000)
        opened.get_tensor(opened.keys()[0])


@pytest.mark.parametrize(("module", "client"), [("vllm", "vLLM"), ("sglang_loader", "SGLang")])
def test_a_client_that_is_missing_is_named(module, client):
    program = f"import sys; sys.modules[{client.lower()!r}] = None; import penstock.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"ImportError: this module is for {client}" in done.stderr and f"install {client}" in done.stderr


def test_the_package_imports_no_client_by_itself():
    program = ("import sys, penstock.weights, penstock.integrations.sglang, penstock.integrations.transformers;"
               "print(sorted({'torch', 'vllm', 'sglang', 'transformers', 'accelerate'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
