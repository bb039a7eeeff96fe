# SPDX-License-Identifier: Apache-2.0

"""What README and guide show of Python, runs: the blocks of a page, in their order, as one program."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = [ROOT / "README.md", *(ROOT / "docs/guide").glob("*.md")]
PAGES = {page.name: BLOCK.findall(page.read_text()) for page in NAMES}


def run(blocks, folder):
    program = "\n".join(blocks)
    # Torch says so to whoever saves without ranks.
    command = [sys.executable, "-W", "ignore:torch.distributed is disabled", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("page", sorted(page for page, blocks in PAGES.items() if blocks))
def test_the_programs_of_a_page_run_as_they_stand(page, tmp_path):
    if any("torch" in block for block in PAGES[page]):
        pytest.importorskip("torch", reason="torch is not installed")
    run(PAGES[page], tmp_path)


def test_they_say_what_the_guide_says(tmp_path):
    lines = run(PAGES["python.md"], tmp_path)
    assert lines[0].startswith("4000000 bytes by path host; not by p2pdma")
    assert lines[2] == "4000" and lines[-1] == "4000 4000000"


@pytest.mark.parametrize("module", ["penstock", "penstock.data", "penstock.weights", "penstock.checkpoint",
                                    "penstock.checkpoint.distributed", "penstock.kv", "penstock.stage",
                                    "penstock.checkpoint.safetensors", "penstock.checkpoint.preemption",
                                    "penstock.safetensors", "penstock.safetensors.torch"])
def test_the_reference_has_every_name(module):
    if module != "penstock":
        pytest.importorskip("torch", reason="torch is not installed")
    page = (ROOT / "docs/reference/python.md").read_text()
    mentioned = set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert set(importlib.import_module(module).__all__) - mentioned == set()


def test_the_tests_that_the_reference_names_are_there():
    page = (ROOT / "docs/reference/python.md").read_text()
    names = set(re.findall(r"`(test_\w+)`", page))
    assert len(names) >= 8
    assert [name for name in sorted(names) if not (ROOT / f"python/tests/{name}.py").exists()] == []
