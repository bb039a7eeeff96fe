# SPDX-License-Identifier: Apache-2.0

"""take_over() and `run --safetensors`: programs that call safetensors are served by Penstock, unmodified, and what it
does not serve goes to safetensors itself. Real Transformers and diffusers load small models of random weights."""

import json
import os
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")

import safetensors.numpy
import safetensors.torch

from penstock import weights
from tensors import raw

ORIGINAL = [safetensors.safe_open]  # No attribute of a module, which would be replaced.
TENSORS = {"a": torch.arange(12.0).view(3, 4), "b": torch.ones(5, dtype=torch.bfloat16)}


@pytest.fixture
def taken():
    taken = weights.take_over()
    yield taken
    taken.give_back()
    assert safetensors.safe_open is safetensors.torch.safe_open is ORIGINAL[0]


@pytest.fixture
def file(tmp_path):
    safetensors.torch.save_file(TENSORS, tmp_path / "file")
    return tmp_path / "file"


def test_modules_that_have_the_calls_already_get_ours(file, monkeypatch):
    module = types.ModuleType("early")
    module.opening = safetensors.safe_open
    monkeypatch.setitem(sys.modules, "early", module)
    taken = weights.take_over()
    assert weights.take_over() is taken and module.opening is safetensors.safe_open is not ORIGINAL[0]
    with module.opening(file, framework="pt", device="cpu", backend="pread") as opened:
        assert isinstance(opened, weights.safe_open) and isinstance(opened, safetensors.safe_open)
        assert raw(opened.get_tensor("a")) == raw(TENSORS["a"])
    assert taken.files_read == 1 and taken.bytes_by_path == {"host": 48}
    taken.give_back()
    assert module.opening is ORIGINAL[0]
    assert weights.take_over() is not taken
    weights.take_over().give_back()


def test_all_of_safetensors_functions_go_through_ours(file, tmp_path, taken):
    before = file.read_bytes()
    safetensors.torch.save_file(TENSORS, file)
    assert file.read_bytes() == before and taken.files_written == 1
    found = safetensors.torch.load_file(file)
    assert all(raw(found[name]) == raw(TENSORS[name]) for name in TENSORS)
    module = torch.nn.Linear(4, 3)
    safetensors.torch.save_model(module, tmp_path / "model")
    assert safetensors.torch.load_model(torch.nn.Linear(4, 3), tmp_path / "model") == (set(), [])
    safetensors.numpy.save_file({"x": found["a"].numpy()}, tmp_path / "arrays")
    assert safetensors.numpy.load_file(tmp_path / "arrays")["x"].tolist() == TENSORS["a"].tolist()
    assert (taken.files_read, taken.files_written, dict(taken.handed_over)) == (3, 3, {})
    assert str(taken).startswith("safetensors by Penstock: 3 files opened, 3 written, ")
    assert str(taken).endswith("by safetensors itself: nothing")


def test_what_is_not_served_goes_to_safetensors_and_is_counted(file, tmp_path, taken, monkeypatch):
    with safetensors.safe_open(file, "jax") as opened:
        assert type(opened) is ORIGINAL[0] and isinstance(opened, safetensors.safe_open)
    entry = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
    text = json.dumps({"x": {**entry, "more": 1}}).encode()
    (tmp_path / "odd").write_bytes(len(text).to_bytes(8, "little") + text + b"\1\2")
    assert safetensors.torch.load_file(tmp_path / "odd")["x"].tolist() == [1, 2]
    monkeypatch.setattr("penstock.weights.arrays._numpy_dtype", lambda name: None)
    with safetensors.safe_open(file, "np") as opened:
        assert type(opened) is ORIGINAL[0]  # Numpy has no bfloat16, where ml_dtypes is not installed.
    assert taken.files_read == 0 and taken.handed_over.total() == 3
    assert "1 because the framework is jax" in str(taken) and "unknown key" in str(taken)
    with pytest.raises(FileNotFoundError):
        safetensors.safe_open(tmp_path / "nowhere", "pt")
    (tmp_path / "odd").write_bytes(b"<!doctype html><title>Not found</title>")
    with pytest.raises(safetensors.SafetensorError, match="too large: this is a page of HTML"):
        safetensors.torch.load_file(tmp_path / "odd")


def test_what_safetensors_refuses_is_refused(tmp_path, taken):
    torch.save(TENSORS, tmp_path / "saved")
    for load in (safetensors.torch.load_file, lambda path: safetensors.safe_open(path, "pt")):
        with pytest.raises(safetensors.SafetensorError):
            load(tmp_path / "saved")
    assert taken.files_read == 0 and "this is no safetensors file" in str(taken)


def test_torchs_reader_finds_where_the_pieces_of_ranks_belong(tmp_path, taken):
    hf_storage = pytest.importorskip("torch.distributed.checkpoint.hf_storage", reason="this torch has no such reader")
    whole = torch.arange(16.0).view(4, 4)
    for rank, rows in enumerate(whole.split(2)):
        sharding = json.dumps({"w": {"saved_offsets": [2 * rank, 0]}})
        safetensors.torch.save_file({"w": rows.contiguous()}, tmp_path / f"shard-{rank}.safetensors",
                                    {"DCP_SHARDING_INFO": sharding})
    state = {"w": torch.zeros(4, 4)}
    torch.distributed.checkpoint.load(state, storage_reader=hf_storage.HuggingFaceStorageReader(str(tmp_path)),
                                      no_dist=True)
    assert raw(state["w"]) == raw(whole) and taken.files_read > 0 and not taken.handed_over
    assert "DCP_SHARDING_INFO" not in weights.Weights(tmp_path).metadata


def in_process(words, program, **environment):
    run = [sys.executable, "-m", "penstock", "run", *words, sys.executable, "-c", program]
    return subprocess.run(run, capture_output=True, text=True, env={**os.environ, **environment})


LOADS = "import sys; from safetensors.torch import load_file; print(load_file(sys.argv[1])['a'].sum().item())"


def test_a_program_runs_unmodified_and_its_report_tells(file, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('the next one runs')\n")
    program = LOADS.replace("sys.argv[1]", repr(str(file)))
    done = in_process(["--safetensors", "--report"], program,
                      PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert done.stdout.split("\n")[-3:] == ["the next one runs", "66.0", ""], done.stderr
    assert "safetensors by Penstock: 1 files opened, 0 written, 58 bytes read" in done.stderr
    done = in_process(["--report"], program)
    assert done.stdout.endswith("66.0\n") and "safetensors by Penstock" not in done.stderr


@pytest.mark.parametrize("first", ["import importlib.util; importlib.util.find_spec('safetensors')",
                                   "import penstock.weights", "import penstock.safetensors.torch"])
def test_a_program_is_taken_over_whatever_it_does_first(file, first):
    done = in_process(["--safetensors", "--report"], f"{first}; {LOADS.replace('sys.argv[1]', repr(str(file)))}")
    assert done.stdout == "66.0\n" and "1 files opened" in done.stderr and "Warning" not in done.stderr, done.stderr


def test_each_forked_process_reports_what_it_moved_itself(file):
    program = (f"import multiprocessing; from safetensors.torch import load_file; file = {str(file)!r}\n"
               "load_file(file); forked = multiprocessing.get_context('fork').Process\n"
               "for call in (load_file, str): child = forked(target=call, args=(file,)); child.start(); child.join()")
    done = in_process(["--safetensors", "--report"], program)
    said = [line for line in done.stderr.splitlines() if "safetensors by Penstock" in line]
    assert len(said) == len({line.split("process ")[1].split(":")[0] for line in said}) == 2, done.stderr
    assert all("1 files opened, 0 written, 58 bytes read" in line for line in said)


def test_a_program_without_safetensors_pays_nothing():
    done = in_process(["--safetensors"], "import sys; print('penstock' in sys.modules, 'safetensors' in sys.modules)")
    assert done.stdout == "False False\n"


def test_a_python_that_cannot_have_the_package_runs_as_without(file):
    program = "import sys; sys.modules['penstock._native'] = None; " + LOADS.replace("sys.argv[1]", repr(str(file)))
    done = in_process(["--safetensors"], program)
    assert done.stdout == "66.0\n" and "safetensors is not taken over in process" in done.stderr


def models_of_transformers():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    small = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=64)
    yield transformers.AutoModelForCausalLM, transformers.LlamaConfig(**small)
    yield transformers.AutoModelForCausalLM, transformers.LlamaConfig(**small, tie_word_embeddings=True)
    yield transformers.AutoModelForCausalLM, transformers.MixtralConfig(**small, num_local_experts=4)
    yield transformers.AutoModelForMaskedLM, transformers.BertConfig(**small)
    yield transformers.AutoModelForSeq2SeqLM, transformers.T5Config(d_model=32, d_ff=48, num_layers=2, num_heads=4,
                                                                    d_kv=8, vocab_size=64)


def test_transformers_loads_the_same_models(tmp_path):
    for i, (kind, config) in enumerate(models_of_transformers()):
        folder = tmp_path / f"{i}"
        kind.from_config(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size="60KB")
        model = kind.from_pretrained(folder)
        stock = model.state_dict()
        model.save_pretrained(folder / "stock", max_shard_size="60KB")
        taken = weights.take_over()
        try:
            model = kind.from_pretrained(folder)
            model.save_pretrained(folder / "again", max_shard_size="60KB")
        finally:
            taken.give_back()
        ours, files = model.state_dict(), list(folder.glob("*.safetensors"))
        assert ours.keys() == stock.keys() and all(raw(ours[name]) == raw(stock[name]) for name in stock), config
        assert taken.files_read >= len(files) and taken.files_written == len(files) and not taken.handed_over
        again, before = (weights.Weights(folder / each).plan().load() for each in ("again", "stock"))
        assert again.keys() == before.keys() and all(raw(again[name]) == raw(before[name]) for name in before)


def test_diffusers_loads_the_same_models(tmp_path):
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    made = [diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=16, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")),
        diffusers.AutoencoderKL(block_out_channels=(32,), norm_num_groups=8)]
    for i, model in enumerate(made):
        model.save_pretrained(tmp_path / f"{i}")
        taken = weights.take_over()
        try:
            ours = type(model).from_pretrained(tmp_path / f"{i}").state_dict()
        finally:
            taken.give_back()
        stock = model.state_dict()
        assert ours.keys() == stock.keys() and all(raw(ours[name]) == raw(stock[name]) for name in stock)
        assert taken.files_read == 1 and not taken.handed_over
