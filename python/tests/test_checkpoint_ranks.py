# SPDX-License-Identifier: Apache-2.0

"""Saver("overlapped") under DDP and FSDP2: what each rank saves of its local parts is what they were at that step."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tensors import DEVICES
from waiting import SECONDS_MAX

JOB = Path(__file__).with_name("overlapped_job.py")
RANKS = torch.cuda.device_count() if "cuda" in DEVICES else 2


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_the_local_parts_of_each_rank_are_saved_beside_its_steps(kind, tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-B", str(JOB), kind, str(tmp_path), str(rank), str(RANKS)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(RANKS)]
    try:
        said = [rank.communicate(timeout=SECONDS_MAX)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * RANKS, said
    for rank, text in enumerate(said):
        assert f"{kind}, rank {rank} of {RANKS}, " in text and "5 saves have the bytes of their steps" in text
