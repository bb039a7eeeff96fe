# SPDX-License-Identifier: Apache-2.0

"""The Python programs of examples/ do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def run(name, *arguments):
    command = [sys.executable, "-W", "ignore:torch.distributed is disabled", FOLDER / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PENSTOCK_DEVICE": "host", "CUDA_VISIBLE_DEVICES": ""})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def test_all_are_run_here():
    there = {f"test_{each.stem}" for each in FOLDER.glob("*.py")}
    assert there == {"test_read_array", "test_load_model", "test_train_tokens"} and there <= globals().keys()


def test_read_array(tmp_path):
    written, read, last = run("read_array.py", tmp_path / "values")
    assert written.startswith("written: 4000000 bytes by path host; not by ")
    assert read.startswith("read: 4000000 bytes by path host; not by ")
    assert last == "the path is host, the reason host_memory; the arrays are equal: True"


def test_load_model(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    assert run("load_model.py", "--make", tmp_path / "model.safetensors") == []
    lines = run("load_model.py", tmp_path / "model.safetensors")
    assert len(lines) == 4 and lines[3].startswith(f"12 tensors of {tmp_path}/model.safetensors: ")


def test_train_tokens(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    first = run("train_tokens.py", tmp_path, "1")
    assert [line.split()[0] for line in first] == ["epoch", "saved"]
    again = run("train_tokens.py", tmp_path, "2")
    assert again[0] == "resumed behind epoch 0" and again[1].startswith("epoch 1: loss ")
    assert run("train_tokens.py", tmp_path, "2") == ["resumed behind epoch 1"]
