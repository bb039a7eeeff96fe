# SPDX-License-Identifier: Apache-2.0

"""Jobs that train with FSDP2, HSDP and tensor parallelism, and go on from a checkpoint with other numbers of ranks."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

from checkpoint_training import both, fsdp, hsdp, load_and_go_on, tensor_parallel, train_and_save
from penstock import checkpoint
from ranks import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What four ranks told when they saved and went on, and where the checkpoint is."""
    made = {}

    def train(layout):
        if layout not in made:
            folder = tmp_path_factory.mktemp(layout.__name__)
            results = run(4, folder, (train_and_save, layout, folder / "saved"))
            assert results == [results[0]] * 4
            made[layout] = results[0], folder / "saved"
        return made[layout]

    return train


def test_what_is_saved_is_each_parameter_and_two_moments_of_it(trained):
    (contents, _), folder = trained(fsdp)
    assert len([name for name, value in contents.items() if isinstance(value, tuple)
                and name.endswith(("weight", "bias", "exp_avg", "exp_avg_sq"))]) == 6 * 3
    checkpoint.verify(folder)


@pytest.mark.parametrize(("saved_by", "loaded_by", "world"), [
    (fsdp, fsdp, 2), (fsdp, fsdp, 3), (fsdp, fsdp, 8), (fsdp, hsdp, 4), (hsdp, hsdp, 4), (hsdp, fsdp, 3)])
def test_the_next_step_is_that_of_the_job_that_was_not_interrupted(trained, tmp_path, saved_by, loaded_by, world):
    before, folder = trained(saved_by)
    for results in run(world, tmp_path, (load_and_go_on, loaded_by, folder)):
        assert results[0] == before[0]
        assert results[1] == before[1]


@pytest.mark.parametrize(("saved_by", "loaded_by", "world"), [
    (tensor_parallel, tensor_parallel, 4), (tensor_parallel, tensor_parallel, 2), (tensor_parallel, fsdp, 3),
    (both, both, 4), (both, tensor_parallel, 2), (fsdp, both, 4)])
def test_parts_of_tensors_come_back_in_parts_of_another_kind(trained, tmp_path, saved_by, loaded_by, world):
    """Sums over parts have an order of their own: the same layout alone takes the same step."""
    before, folder = trained(saved_by)
    for results in run(world, tmp_path, (load_and_go_on, loaded_by, folder)):
        assert results[0] == before[0]
        assert results[1] == before[1] or (saved_by, 4) != (loaded_by, world)
