# SPDX-License-Identifier: Apache-2.0

"""Transformers' Trainer with penstock.integrations.trainer: killed in the middle, it goes on as if it had not been."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

import trainer_job
from jobs import run_job
from penstock import checkpoint
from penstock.integrations.trainer import SaverCallback
from transformers import Trainer

JOB = Path(__file__).with_name("trainer_job.py")


def run(folder, staging="staged", dies_at=0):
    return run_job(JOB, folder, staging, dies_at=dies_at)


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unkilled")
    return folder, run(folder)


def folders_in(root):
    return sorted(each.name for each in root.iterdir())


@pytest.mark.parametrize("staging", ["staged", "overlapped"])
def test_a_killed_job_ends_with_the_weights_of_one_that_was_not(unkilled, tmp_path, staging):
    """It dies twice: in an epoch, and behind its resumption. The save that goes on meanwhile may be whole or not."""
    assert unkilled[1].startswith("from 0 to 20: ")
    run(tmp_path, staging, dies_at=11)
    assert checkpoint.latest(tmp_path).name in ("checkpoint-4", "checkpoint-8")
    run(tmp_path, staging, dies_at=17)
    newest = checkpoint.latest(tmp_path).name
    assert newest in ("checkpoint-12", "checkpoint-16")
    said = run(tmp_path, staging)
    assert said == unkilled[1].replace("from 0 ", f"from {newest.removeprefix('checkpoint-')} ")


def test_trainers_arguments_say_how_many_stay(unkilled):
    assert folders_in(unkilled[0]) == ["checkpoint-16", "checkpoint-20"]
    assert all(checkpoint.verify(unkilled[0] / name).names > 10 for name in folders_in(unkilled[0]))


def trainer_of(saving, folder, **more):
    return Trainer(trainer_job.Model(), trainer_job.arguments(folder, **more), train_dataset=trainer_job.data(),
                   callbacks=[saving])


def test_each_epoch_is_saved_where_that_is_asked_for(tmp_path):
    saving = SaverCallback()
    trainer = trainer_of(saving, tmp_path, save_strategy="epoch", save_total_limit=None, max_steps=12)
    saving.train(trainer)
    assert folders_in(tmp_path) == ["checkpoint-12", "checkpoint-6"]


@pytest.mark.parametrize(("said", "why"), [
    ({"save_strategy": "best", "metric_for_best_model": "loss", "eval_strategy": "steps"}, "save_strategy is 'best'"),
    ({"save_only_model": True}, "save_only_model is True, which needs Trainer's own files: expected False")])
def test_what_is_not_served_is_refused_by_name_before_the_first_step(tmp_path, said, why):
    saving = SaverCallback()
    more = {"eval_dataset": trainer_job.data()} if "eval_strategy" in said else {}
    trainer = Trainer(trainer_job.Model(), trainer_job.arguments(tmp_path, **said), train_dataset=trainer_job.data(),
                      callbacks=[saving], **more)
    with pytest.raises(ValueError, match=why):
        saving.train(trainer)
    assert trainer.state.global_step == 0


def test_a_callback_that_would_save_nothing_says_so(tmp_path):
    with pytest.raises(RuntimeError, match=r"call SaverCallback.train\(trainer\)"):
        trainer_of(SaverCallback(), tmp_path).train()


def test_a_save_that_fails_ends_the_training_with_its_error(tmp_path, monkeypatch):
    def fail(self):
        raise OSError("the drive is gone")

    monkeypatch.setattr("penstock.checkpoint.storing.Storing.write", fail)
    saving = SaverCallback()
    with pytest.raises(OSError, match="the drive is gone"):
        saving.train(trainer_of(saving, tmp_path))
