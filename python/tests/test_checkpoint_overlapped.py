# SPDX-License-Identifier: Apache-2.0

"""Saves that are copied beside the trainer: what may change when, whose updates wait for what, and what is refused."""

import contextlib
import ctypes
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

from penstock import checkpoint
from penstock.checkpoint import copying
from tensors import DEVICES, raw
from torch.optim import optimizer
from waiting import SECONDS_MAX


@pytest.fixture
def held_up(monkeypatch):
    """Copies beside the trainer begin when `held_up.set()` is called."""
    goes_on, run = threading.Event(), copying.Copying.run

    def late(self):
        assert goes_on.wait(SECONDS_MAX)
        run(self)

    monkeypatch.setattr(copying.Copying, "run", late)
    yield goes_on
    goes_on.set()


@pytest.fixture
def saver():
    """On a GPU, it sets all aside before an update, since `held_up` lets nothing be copied."""
    with contextlib.closing(checkpoint.Saver("overlapped", durable=False, device_budget_mib=64)) as made:
        yield made


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


class Training:
    """A model with a buffer, and an optimizer that has made a step since the Saver was made."""

    def __init__(self, device="cpu", optimizer=torch.optim.AdamW, **options):
        torch.manual_seed(3)
        self.device = device
        self.model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40)).to(device)
        self.optimizer = optimizer(self.model.parameters(), lr=0.1, **options)
        self.average = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.step()

    def backward(self):
        self.model(torch.randn(8, 30, device=self.device)).square().sum().backward()

    def step(self):
        self.backward()
        self.optimizer.step()

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "average": self.average}


def bytes_in(state):
    """All bytes of the tensors, by the way to them."""
    if isinstance(state, dict):
        return {f"{key}.{way}": found for key, each in state.items() for way, found in bytes_in(each).items()}
    if isinstance(state, (list, tuple)):
        return bytes_in(dict(enumerate(state)))
    return {"": raw(torch.as_tensor(state)) if hasattr(state, "dtype") else state}


def saved(folder):
    return bytes_in(checkpoint.load(folder))


def may_change(batch):
    """By what the current stream is given from now on."""
    return batch.is_whole or batch.lane.stream() in batch.behind


def test_save_returns_before_anything_is_copied_and_the_update_waits_for_it(saver, device, held_up, tmp_path):
    training = Training(device)
    expected = bytes_in(training.state())

    saving = saver.save(training.state(), tmp_path / "a")
    assert not saving.done()
    training.step()

    held_up.set()
    saving.result(60)
    assert saved(tmp_path / "a") == expected != bytes_in(training.state())


def test_saves_at_every_step_have_each_its_own(saver, device, tmp_path):
    training, expected = Training(device), {}
    for number in range(4):
        expected[number] = bytes_in(training.state())
        saver.save(training.state(), tmp_path / f"{number}")
        training.step()
    saver.close()
    assert {number: saved(tmp_path / f"{number}") for number in expected} == expected


def test_what_changes_elsewhere_is_copied_before_save_returns(saver, device, held_up, tmp_path):
    """Statistics of a batch norm, an average of the weights, a random state and numpy's arrays."""
    training = Training(device)
    state = {**training.state(), "random": torch.get_rng_state(), "table": numpy.arange(9.0)}
    expected = bytes_in(state)

    saving = saver.save(state, tmp_path / "a")
    training.backward()
    for each in [*training.average, state["random"]]:
        each.zero_()
    state["table"][:] = 0

    held_up.set()
    saving.result(60)
    assert saved(tmp_path / "a") == expected


def by_address(tensor):
    if tensor.is_cuda:
        class Words:
            __cuda_array_interface__ = {"shape": (1,), "typestr": "<i4", "data": (tensor.data_ptr(), False),
                                        "version": 2}
        torch.as_tensor(Words(), device="cuda").fill_(7)
    else:
        ctypes.memset(tensor.data_ptr(), 0x55, 4)


def by_array(tensor):
    """One that shares the memory."""
    if tensor.is_cuda:
        torch.from_dlpack(tensor.detach()).reshape(-1)[0] = 7
    else:
        tensor.detach().numpy().reshape(-1)[0] = 7


def by_data(tensor):
    tensor.data.add_(1)


def in_place(tensor):
    with torch.no_grad():
        tensor.mul_(3)


@pytest.mark.parametrize("change", [by_address, by_array, by_data, in_place])
@pytest.mark.parametrize("which", ["parameter", "optimizer"])
def test_a_tensor_that_changes_too_early_fails_the_save_with_its_name(which, change, saver, device, held_up, tmp_path):
    training = Training(device)
    checkpoint.save(training.state(), tmp_path / "a")
    weight = training.model[0].weight
    saving = saver.save(training.state(), tmp_path / "a")

    change(weight if which == "parameter" else training.optimizer.state[weight]["exp_avg"])
    if device == "cuda":
        torch.cuda.synchronize()

    held_up.set()
    name = "model.0.weight" if which == "parameter" else "optimizer.state.0.exp_avg"
    with pytest.raises(checkpoint.CheckpointError, match=f"'{name}' changed while it was saved"):
        saving.result(60)
    assert checkpoint.verify(tmp_path / "a").names  # The one before.


def test_an_optimizer_waits_for_its_own_tensors_alone(saver, device, held_up, tmp_path):
    """Of two, the second makes no step, and its tensors are left to the thread."""
    first, second = Training(device), Training(device, torch.optim.SGD)
    expected = bytes_in([first.state(), second.state()])
    saving = saver.save([first.state(), second.state()], tmp_path / "a")

    first.step()
    owned = [batch for batch in saver._copying._batches if batch.owners]
    assert {batch.owners: may_change(batch) for batch in owned} == {
        frozenset([id(first.optimizer)]): True, frozenset([id(second.optimizer)]): False}

    held_up.set()
    saving.result(60)
    assert saved(tmp_path / "a") == expected


def test_gradients_gather_over_steps_and_the_copy_has_until_the_update(saver, device, held_up, tmp_path):
    training = Training(device)
    saving = saver.save(training.state(), tmp_path / "a")
    owned = [batch for batch in saver._copying._batches if batch.owners]
    for _ in range(3):
        training.backward()
    assert not any(may_change(batch) for batch in owned)
    training.optimizer.step()
    assert all(may_change(batch) for batch in owned)
    held_up.set()
    saving.result(60)


def test_a_step_within_the_backward_pass_waits_for_one_parameter(saver, device, held_up, tmp_path):
    model = torch.nn.Linear(4, 4).to(device)
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}
    for each, optimizer in optimizers.items():
        each.register_post_accumulate_grad_hook(lambda each: optimizers[each].step())
    model(torch.ones(1, 4, device=device)).sum().backward()
    expected = bytes_in(model.state_dict())

    saving = saver.save(model.state_dict(), tmp_path / "a")
    model(torch.ones(1, 4, device=device)).sum().backward()

    held_up.set()
    saving.result(60)
    assert saved(tmp_path / "a") == expected


def test_a_compiled_step_waits_too(saver, device, held_up, tmp_path):
    training = Training(device)
    step = torch.compile(training.optimizer.step, backend="eager")
    training.backward()
    step()
    expected = bytes_in(training.state())

    saving = saver.save(training.state(), tmp_path / "a")
    training.backward()
    step()

    held_up.set()
    saving.result(60)
    assert saved(tmp_path / "a") == expected


def test_a_loop_of_numpy_says_what_its_updates_change_and_when(saver, held_up, tmp_path):
    weights, counts = numpy.arange(1000.0), numpy.arange(5)
    saving = saver.save({"weights": weights, "counts": counts}, tmp_path / "a", until_update={"w": [weights]})
    counts += 1

    saver.before_update()
    weights += 1

    held_up.set()
    saving.result(60)
    loaded = checkpoint.load(tmp_path / "a", framework="np")
    assert loaded["weights"].tolist() == list(range(1000)) and loaded["counts"].tolist() == list(range(5))


def test_what_is_named_and_changes_without_a_word_fails_the_save(saver, held_up, tmp_path):
    weights = numpy.arange(1000.0)
    saving = saver.save({"weights": weights}, tmp_path / "a", until_update=[weights])
    weights[3] = 0
    held_up.set()
    with pytest.raises(checkpoint.CheckpointError, match="'weights' changed while it was saved"):
        saving.result(60)


def test_frozen_weights_that_are_named_are_waited_for_by_nobody(saver, held_up, tmp_path):
    """The base of a model under LoRA."""
    training, base = Training(), torch.ones(100)
    saving = saver.save([training.state(), base], tmp_path / "a", until_update=[base])
    training.step()
    assert [batch.nbytes for batch in saver._copying._batches if not may_change(batch)] == [400]
    held_up.set()
    saving.result(60)


@pytest.mark.parametrize("end", ["result", "close"])
def test_a_save_that_no_update_follows_is_made_whole(end, tmp_path):
    saver = checkpoint.Saver("overlapped")
    training = Training()
    expected = bytes_in(training.state())
    saving = saver.save(training.state(), tmp_path / "a")
    saver.close() if end == "close" else saving.result(60)
    assert saved(tmp_path / "a") == expected


def test_an_optimizer_in_a_cuda_graph_tells_nobody_and_is_staged(saver, tmp_path, monkeypatch, caplog):
    training = Training("cpu", torch.optim.SGD)
    with monkeypatch.context() as recording:
        recording.setattr(torch.cuda, "is_initialized", lambda: True)
        recording.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        training.step()
    expected = bytes_in(training.state())

    saving = saver.save(training.state(), tmp_path / "a")
    by_data(training.model[0].weight)  # As a replay would, at any time.

    saving.result(60)
    assert saved(tmp_path / "a") == expected
    assert "a CUDA graph holds an optimizer's step" in caplog.text


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_the_replay_of_a_graph_changes_nothing_that_is_saved(saver, tmp_path):
    training, graph = Training("cuda", capturable=True), torch.cuda.CUDAGraph()
    training.backward()
    with torch.cuda.graph(graph):
        training.optimizer.step()
    expected = bytes_in(training.state())
    saving = saver.save(training.state(), tmp_path / "a")
    graph.replay()
    saving.result(60)
    assert saved(tmp_path / "a") == expected


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_large_tensors_of_a_gpu_are_copied_beside_steps_with_and_without_room(tmp_path):
    for mib in (0, 100, 1000):
        with checkpoint.Saver("overlapped", durable=False, device_budget_mib=mib) as saver:
            training = Training("cuda")
            weights = torch.nn.Parameter(torch.randn(50_000_000, device="cuda"))
            optimizer = torch.optim.AdamW([weights])
            expected = {}
            for number in range(4):
                weights.grad = torch.randn_like(weights)
                optimizer.step()
                training.step()
                state = {"weights": weights, "moments": optimizer.state_dict(), "rest": training.state()}
                expected[number] = bytes_in(state)
                saver.save(state, tmp_path / f"{mib}-{number}")
        for number, each in expected.items():
            assert saved(tmp_path / f"{mib}-{number}") == each


def test_a_saver_that_is_closed_or_gone_hears_of_no_steps(tmp_path):
    hooks = optimizer._global_optimizer_pre_hooks
    __import__("gc").collect()  # Of Savers of tests before.
    before = len(hooks)
    saver = checkpoint.Saver("overlapped")
    assert len(hooks) == before + 1
    saver.close()
    assert len(hooks) == before
    saver = checkpoint.Saver("overlapped")
    del saver
    __import__("gc").collect()
    assert len(hooks) == before


def test_a_budget_is_for_copies_beside_the_trainer():
    for mib, staging in ((-1, "overlapped"), (5, "staged")):
        with pytest.raises(ValueError, match=f"device_budget_mib is {mib}: expected 0, or MiB for Saver"):
            checkpoint.Saver(staging, device_budget_mib=mib)
