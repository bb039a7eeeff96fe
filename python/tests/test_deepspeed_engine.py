# SPDX-License-Identifier: Apache-2.0

"""penstock.integrations.deepspeed: in DeepSpeed's own training where it is installed, and by its interface elsewhere,
whose abstract methods are those of DeepSpeed 0.19.8."""

import abc
import importlib.util
import sys
import types
from collections import OrderedDict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from jobs import run_job
from penstock import checkpoint

JOB = Path(__file__).with_name("deepspeed_job.py")
HOME = "deepspeed.runtime.checkpoint_engine.checkpoint_engine"
HAS_DEEPSPEED = importlib.util.find_spec("deepspeed") is not None


class Interface(abc.ABC):
    """As DeepSpeed declares it."""

    def __init__(self, config_params=None):
        self.name = None

    @abc.abstractmethod
    def create(self, info): ...

    @abc.abstractmethod
    def save(self, state_dict, path): ...

    @abc.abstractmethod
    def load(self, path, map_location=None): ...

    @abc.abstractmethod
    def commit(self, info): ...

    def is_decoupled(self):
        return False


@pytest.fixture
def engine(monkeypatch):
    if not HAS_DEEPSPEED:
        monkeypatch.setitem(sys.modules, HOME, types.SimpleNamespace(CheckpointEngine=Interface))
        monkeypatch.delitem(sys.modules, "penstock.integrations.deepspeed", raising=False)
    from penstock.integrations.deepspeed import CheckpointEngine

    yield CheckpointEngine(durable=False)
    if not HAS_DEEPSPEED:
        del sys.modules["penstock.integrations.deepspeed"]


class Scaler:
    """As DeepSpeed's loss scalers: an object among plain data."""

    def __init__(self, scale):
        self.scale = scale


def test_a_state_of_deepspeeds_comes_back_with_its_objects(engine, tmp_path):
    flat = torch.arange(100.0)
    state = {"module": OrderedDict(a=flat[10:20], b=torch.ones(2, dtype=torch.bfloat16)), "loss_scaler": Scaler(8),
             "param_shapes": [OrderedDict(a=torch.Size([10]))], "names": {"a", "b"}, "lr_scheduler": None,
             7: (1, [2.5])}
    path = str(tmp_path / "mp_rank_00_model_states.pt")
    engine.create("info")
    engine.save(state, path)
    assert engine.commit("info") and not engine.is_decoupled() and not engine.preserves_storage_sharing()
    loaded = engine.load(path, map_location=torch.device("cpu"))
    assert engine.load(path, map_location=lambda storage, place: storage).keys() == loaded.keys()
    assert torch.equal(loaded["module"]["a"], flat[10:20]) and loaded["module"]["b"].dtype == torch.bfloat16
    assert loaded["loss_scaler"].scale == 8 and loaded["param_shapes"][0]["a"].numel() == 10
    assert loaded["names"] == {"a", "b"} and loaded[7] == (1, [2.5]) and loaded["lr_scheduler"] is None
    assert checkpoint.verify(path).nbytes == 44  # Not all that the parts are of.


def test_what_is_not_served_is_refused_by_name(engine, tmp_path):
    with pytest.raises(ValueError, match="map_location: expected one device"):
        engine.load(str(tmp_path), map_location={"cuda:0": "cpu"})


def run(folder, dies_at=0):
    return run_job(JOB, folder, dies_at=dies_at)


@pytest.mark.skipif(not HAS_DEEPSPEED, reason="deepspeed is not installed")
def test_a_killed_job_ends_with_the_weights_of_one_that_was_not(tmp_path):
    unkilled = run(tmp_path / "unkilled")
    run(tmp_path / "killed", dies_at=11)
    assert run(tmp_path / "killed") == unkilled.replace("from 0 ", "from 8 ")
