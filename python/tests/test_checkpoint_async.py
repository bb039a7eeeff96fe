# SPDX-License-Identifier: Apache-2.0

"""penstock.checkpoint under async_save: threads, processes, several at a time; and planners that keep their plans."""

import pickle
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

import checkpoint_job
from checkpoint_job import state_of
from penstock import checkpoint
from penstock.checkpoint.distributed import Reader, Writer
from ranks import run

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")
SECONDS_MAX = 60


class HeldPlanner(dcp.DefaultSavePlanner):
    """Of a save that goes on no further than its plan before `let_go` is set."""

    def __init__(self):
        super().__init__()
        self.is_planned, self.let_go = threading.Event(), threading.Event()

    def finish_plan(self, new_plan):
        self.is_planned.set()
        assert self.let_go.wait(SECONDS_MAX)
        return super().finish_plan(new_plan)


def loaded(folder):
    state = {"w": torch.zeros(5), "n": 0}
    dcp.load(state, storage_reader=Reader(folder), no_dist=True)
    assert state["w"].tolist() == [float(state["n"])] * 5
    return state["n"]


@pytest.mark.parametrize("writers", ["one", "one each"])
def test_a_save_that_begins_while_another_goes_on_is_one_of_its_own(tmp_path, writers):
    shared = Writer(tmp_path / "unused")
    planner = HeldPlanner()

    def save(number, **options):
        where = ({"storage_writer": shared, "checkpoint_id": tmp_path / f"{number}"} if writers == "one"
                 else {"storage_writer": Writer(tmp_path / f"{number}")})
        return dcp.async_save({"w": torch.full((5,), float(number)), "n": number}, no_dist=True, **where, **options)

    first = save(1, planner=planner)
    assert planner.is_planned.wait(SECONDS_MAX)
    save(2).result(SECONDS_MAX)
    assert loaded(tmp_path / "2") == 2 and not (tmp_path / "1" / "checkpoint.json").exists()
    planner.let_go.set()
    first.result(SECONDS_MAX)
    assert (loaded(tmp_path / "1"), loaded(tmp_path / "2")) == (1, 2)
    assert not (tmp_path / "unused").exists()


def test_two_saves_at_a_time_to_one_folder_leave_one_of_them_whole(tmp_path):
    planner = HeldPlanner()
    first = dcp.async_save({"w": torch.full((5,), 1.0), "n": 1}, storage_writer=Writer(tmp_path), planner=planner,
                           no_dist=True)
    assert planner.is_planned.wait(SECONDS_MAX)
    dcp.async_save({"w": torch.full((5,), 2.0), "n": 2}, storage_writer=Writer(tmp_path), no_dist=True).result()
    assert loaded(tmp_path) == 2
    planner.let_go.set()
    first.result(SECONDS_MAX)
    assert loaded(tmp_path) == 1
    checkpoint.verify(tmp_path)
    assert len(list(tmp_path.glob("*.data"))) == 1


def test_a_folder_for_one_save_is_not_that_of_the_next(tmp_path):
    writer = Writer(tmp_path / "given")
    for number, named in ((1, tmp_path / "named"), (2, None)):
        dcp.save({"w": torch.full((5,), float(number)), "n": number}, storage_writer=writer, checkpoint_id=named,
                 no_dist=True)
    assert (loaded(tmp_path / "named"), loaded(tmp_path / "given")) == (1, 2)


def save_in_background(mesh, number, folder, kind, tell):
    """Two saves at a time where threads do it, each among a group of its own, and one after the other in processes.
    What becomes of the state meanwhile is none of theirs."""
    futures = []
    for each in (1, 2):
        state = state_of(mesh, each)
        group = dist.new_group(backend="gloo") if kind is AsyncCheckpointerType.THREAD else None
        futures.append(dcp.async_save(state, storage_writer=Writer(folder / f"{each}"), process_group=group,
                                      async_checkpointer_type=kind))
        state["model"]["p0"].to_local().zero_()
        state["step"].zero_()
        if kind is AsyncCheckpointerType.PROCESS:
            futures[-1].result(SECONDS_MAX)
    for future in futures:
        future.result(SECONDS_MAX)
    dist.barrier()
    for each in (1, 2):
        assert checkpoint_job.load(mesh, number, folder / f"{each}", tell) == each


@pytest.mark.parametrize("kind", AsyncCheckpointerType)
def test_the_background_saves_what_was_there_when_it_was_told_to(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert run(2, tmp_path, (save_in_background, tmp_path, kind)) == [["loaded 1", "loaded 2"]] * 2


def save_with_session(mesh, number, folder, tell):
    import penstock

    with penstock.Session(device="host") as session:
        future = dcp.async_save(state_of(mesh, 1), storage_writer=Writer(folder, session=session),
                                async_checkpointer_type=AsyncCheckpointerType.PROCESS)
        with pytest.raises(checkpoint.CheckpointError, match=r"given a session.*give it none"):
            future.result(SECONDS_MAX)


def test_a_writer_with_a_session_refuses_to_go_to_another_process(tmp_path, monkeypatch, session):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    run(1, tmp_path, (save_with_session, tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    with pytest.raises(checkpoint.CheckpointError, match="AsyncCheckpointerType.THREAD"):
        pickle.dumps(Writer(tmp_path, session=session))


def test_a_writer_is_the_same_in_another_process(tmp_path):
    writer = pickle.loads(pickle.dumps(Writer(tmp_path / "a", durable=False, direct=True)))
    assert (writer._durable, writer._direct) == (False, True)
    dcp.save({"w": torch.full((5,), 3.0), "n": 3}, storage_writer=writer, no_dist=True)
    assert loaded(tmp_path / "a") == 3


def save_with_kept_plans(mesh, number, folder, tell):
    """Three of the same plan to three folders, then one of another plan, and of that again."""
    planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
    for each in range(1, 6):
        state = state_of(mesh, each)
        if each > 3:
            state["more"] = torch.full((each,), 1.0)
        dcp.save(state, storage_writer=Writer(folder / f"{each}"), planner=planner)
    for each in range(1, 6):
        assert checkpoint_job.load(mesh, number, folder / f"{each}", tell) == each


def test_planners_that_keep_their_plans_save_to_one_folder_after_another(tmp_path):
    assert run(3, tmp_path, (save_with_kept_plans, tmp_path)) == [[f"loaded {i}" for i in range(1, 6)]] * 3
    for each in range(1, 6):
        assert checkpoint.verify(tmp_path / f"{each}").names == 9 + (each > 3)
