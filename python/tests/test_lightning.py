# SPDX-License-Identifier: Apache-2.0

"""Lightning with penstock.integrations.lightning: killed in the middle, a job goes on as if it had not been."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed")

from jobs import run_job
from penstock import checkpoint
from penstock.integrations.lightning import SaverCallback, SaverIO

JOB = Path(__file__).with_name("lightning_job.py")


def run(folder, way, staging="staged", dies_at=0):
    return run_job(JOB, folder, way, staging, dies_at=dies_at)


@pytest.mark.parametrize(("way", "staging"), [("io", "staged"), ("callback", "staged"), ("callback", "overlapped")])
def test_a_killed_job_ends_with_the_weights_of_one_that_was_not(way, staging, tmp_path):
    unkilled = run(tmp_path / "unkilled", way)
    assert unkilled.startswith("from 0 to 20: ")
    killed = tmp_path / "killed"
    run(killed, way, staging, dies_at=11)
    newest = checkpoint.latest(killed).name
    assert newest in ("step=4", "step=8", "step-4", "step-8", "step=4.ckpt", "step=8.ckpt")
    said = run(killed, way, staging)
    assert said == unkilled.replace("from 0 ", f"from {newest[5]} ")
    # The kill may have left a save that was not whole; ModelCheckpoint takes another name then.
    whole = [each for each in killed.iterdir() if (each / "checkpoint.json").exists()]
    assert all(checkpoint.verify(each).names > 10 for each in whole)
    # A checkpoint of ModelCheckpoint's does not know of itself, so that one stays behind the kill.
    assert len(whole) == 2 + (way == "io")


def test_what_lightning_removes_stays_until_the_next_save_is_whole(tmp_path, monkeypatch):
    io = SaverIO()
    io.save_checkpoint({"a": torch.ones(3)}, tmp_path / "first")
    io.save_checkpoint({"a": torch.ones(3)}, tmp_path / "second")
    io.remove_checkpoint(tmp_path / "first")
    assert (tmp_path / "first" / "checkpoint.json").exists()
    io.save_checkpoint({"a": torch.ones(3)}, tmp_path / "third")
    assert not (tmp_path / "first").exists()
    io.teardown()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["second", "third"]


def test_a_load_waits_for_the_save_and_saves_go_on_behind_it(tmp_path):
    io = SaverIO()
    for number in range(2):
        io.save_checkpoint({"a": torch.full((3,), number)}, tmp_path / f"{number}")
        assert io.load_checkpoint(tmp_path / f"{number}", weights_only=True)["a"].tolist() == [number] * 3
    io.teardown()


def test_a_failed_save_is_told_at_the_next_or_at_the_end(tmp_path, monkeypatch):
    def fail(self):
        raise OSError("the drive is gone")

    monkeypatch.setattr("penstock.checkpoint.storing.Storing.write", fail)
    io = SaverIO()
    io.save_checkpoint({"a": torch.ones(3)}, tmp_path / "first")
    with pytest.raises(OSError, match="the drive is gone"):
        io.teardown()


def test_what_is_not_served_is_refused_by_name(tmp_path):
    with pytest.raises(TypeError, match=r"storage_options is \{\}: expected None"):
        SaverIO().save_checkpoint({}, tmp_path / "a", storage_options={})
    with pytest.raises(ValueError, match="map_location: expected one device"):
        SaverIO().load_checkpoint(tmp_path, map_location={"cuda:0": "cpu"})
    with pytest.raises(ValueError, match="every_n_steps is 0 and keep is 2: expected 1 or more"):
        SaverCallback(tmp_path, 0)
    with pytest.raises(checkpoint.CheckpointError, match="hyper_parameters.kind is of type type"):
        SaverIO().save_checkpoint({"hyper_parameters": {"kind": int}}, tmp_path / "a")


def test_a_callback_is_for_one_process(tmp_path):
    with pytest.raises(ValueError, match="saves the state of one process, and this Trainer has 2"):
        SaverCallback(tmp_path, 4).setup(type("Two", (), {"world_size": 2})(), None, "fit")
