# SPDX-License-Identifier: Apache-2.0

"""Ranks that load a model together: what each gets, what they read, and what the others see when one fails."""

import multiprocessing
import os
import signal
import subprocess
import traceback

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import penstock
from penstock import weights
from penstock.weights import plan as plans
from penstock.weights import processes

SECONDS_MAX = 60


def run_ranks(world, folder, function):
    """What function(rank) returned, or the exception it ended with, in a process of its own for each rank."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(world)]
    children = [context.Process(target=run_rank, args=(rank, world, folder, function, pipes[rank][1]))
                for rank in range(world)]
    for child in children:
        child.start()
    said = []
    for receiver, sender in pipes:
        sender.close()
        try:
            said.append(receiver.recv() if receiver.poll(SECONDS_MAX) else TimeoutError("the rank said nothing"))
        except EOFError as error:  # It was killed.
            said.append(error)
    for child in children:
        child.join(5)
        if child.is_alive():
            child.kill()
    return said


def run_rank(rank, world, folder, function, pipe):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=world)
    try:
        pipe.send(function(rank))
    except Exception as error:
        traceback.print_exc()
        pipe.send(error)


SHAPES = {"a.column": (24, 96), "b.row": (40, 96), "c.norm": (96,), "d.scalar": (), "e.empty": (0, 6),
          "f.cube": (6, 12, 10), "g.odd": (7, 5)}


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "RUN_BYTES", 3 * 4096)
    tensors = {name: torch.randn(shape) for name, shape in SHAPES.items()}
    weights.save_file(tensors, tmp_path / "model")
    return tmp_path, tensors


def parts_of(rank, world):
    return {"a.column": weights.Part.of_rank(24, 0, rank, world), "b.row": weights.Part.of_rank(96, 1, rank, world),
            "f.cube": weights.Part.of_rank(12, -2, rank, world)}


@pytest.mark.parametrize("world", [1, 2, 4])
def test_each_rank_gets_its_parts_and_everything_is_read_once(model, world):
    folder, tensors = model

    def load(rank):
        with penstock.Session(device="host") as session:
            plan = weights.Weights(folder / "model").plan(parts=parts_of(rank, world), session=session,
                                                          group=torch.distributed.group.WORLD)
            loaded = plan.load()
            read = sum(row["read_bytes"] for row in session.counters())
            assert plan.progress.bytes_done == plan.bytes_from_storage == read
        return {name: tensor.tolist() for name, tensor in loaded.items()}, read

    said = run_ranks(world, folder, load)
    for rank, (loaded, _) in enumerate(said):
        for name, tensor in tensors.items():
            part = parts_of(rank, world).get(name)
            expected = tensor if part is None else tensor.narrow(part.dim, part.start, part.stop - part.start)
            assert loaded[name] == expected.tolist()
    needed = weights.Weights(folder / "model").nbytes
    assert needed <= sum(read for _, read in said) <= 1.05 * needed


def test_a_rank_whose_file_was_cut_makes_all_of_them_fail(model):
    folder, _ = model

    def load(rank):
        plan = weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD)
        tensors = plan.stream()
        if rank == 1:
            plan.identities = {file: (0, 0, 0, 0) for file in plan.identities}
        return list(tensors)

    said = run_ranks(3, folder, load)
    assert all(isinstance(each, weights.WeightsError) for each in said)
    assert "replaced" in str(said[1])
    assert "rank 1 of the group failed or left" in str(said[0]) and "rank 1" in str(said[2])


def test_a_rank_that_leaves_keeps_nobody_waiting(model):
    folder, _ = model

    def load(rank):
        for number, _ in enumerate(weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD)):
            if rank == 0 and number == 1:
                return "left"

    said = run_ranks(2, folder, load)
    assert said[0] == "left" and "rank 0 of the group failed or left" in str(said[1])


def test_a_rank_without_memory_makes_all_of_them_fail_before_the_first_byte(model):
    folder, _ = model

    def load(rank):
        plan = weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD)
        if rank == 1:
            plan.arrays.free_bytes = lambda: 1
        plan.load()

    said = run_ranks(2, folder, load)
    assert isinstance(said[1], MemoryError)
    assert isinstance(said[0], weights.WeightsError) and "rank 1 of the group cannot load" in str(said[0])


def wanted_by(rank, world):
    """The names and parts of a rank: its own expert, rows that two ranks share, columns, and what others leave out."""
    half = rank * 2 // world
    names = ["a.column", "b.row", "f.cube", "g.odd", "[cde].*"][:5 - rank % 2]
    parts = {"a.column": weights.Part.of_rank(24, 0, half, 2), "b.row": weights.Part.of_rank(96, 1, rank, world),
             "f.cube": weights.Part(rank % 3, 1, 1 + rank)}
    if rank == 1:
        del parts["b.row"]
    return [*names, f"x.{rank}"], {**parts, "g.odd": weights.Part(0, rank, rank + 1)}


@pytest.mark.parametrize("dtype", [None, torch.float64])
@pytest.mark.parametrize("world", [2, 4])
def test_each_rank_gets_what_it_wants_and_no_byte_is_read_twice(model, world, dtype):
    folder, tensors = model
    tensors = {**tensors, **{f"x.{rank}": torch.randn(50, 96) for rank in range(world)}}
    weights.save_file(tensors, folder / "model")

    def load(rank):
        names, parts = wanted_by(rank, world)
        plan = weights.Weights(folder / "model").plan(names, parts=parts, dtype=dtype,
                                                      group=torch.distributed.group.WORLD)
        assert all(run.end - run.begin <= plans.RUN_BYTES for run in plan.runs if run.items and not run.is_kept)
        loaded = plan.load()
        kept = sum(tensor.nbytes for tensor in loaded.values())
        assert plan.bytes_on_device <= kept + (4 + len(plan.runs)) * (plans.RUN_BYTES + 3 * 4096)
        return {name: tensor.tolist() for name, tensor in loaded.items()}, plan.progress.bytes_done

    said = run_ranks(world, folder, load)
    for rank, (loaded, _) in enumerate(said):
        names, parts = wanted_by(rank, world)
        expected = weights.Weights(folder / "model").plan(names, parts=parts, dtype=dtype).names
        assert sorted(loaded) == sorted(expected)
        for name in loaded:
            part, tensor = parts.get(name), tensors[name]
            tensor = tensor if part is None else tensor.narrow(part.dim, part.start, part.stop - part.start)
            assert loaded[name] == tensor.to(dtype or tensor.dtype).tolist(), (rank, name)
    assert sum(read for _, read in said) <= 1.05 * weights.Weights(folder / "model").nbytes


def test_what_other_ranks_want_is_not_kept(model, monkeypatch):
    folder, tensors = model
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 20)

    def load(rank):
        names = ["a.*", "c.*", "b.*"][:2 if rank == 0 else 3]
        loaded = weights.Weights(folder / "model").plan(names, group=torch.distributed.group.WORLD).load()
        return {name: (tensor.tolist(), tensor.untyped_storage().nbytes()) for name, tensor in loaded.items()}

    said = run_ranks(3, folder, load)
    assert said[0] == {name: (tensors[name].tolist(), tensors[name].nbytes) for name in ("a.column", "c.norm")}
    assert said[1] == said[2] and {name: values for name, (values, _) in said[1].items()} == {
        name: tensors[name].tolist() for name in ("a.column", "c.norm", "b.row")}


def test_a_rank_that_cannot_plan_is_told_to_the_others(model):
    folder, _ = model

    def load(rank):
        names = ["a.*", "nobody"][:1 + rank]
        weights.Weights(folder / "model").plan(names, group=torch.distributed.group.WORLD)

    said = run_ranks(2, folder, load)
    assert all(isinstance(each, weights.WeightsError) and "no tensor is called 'nobody'" in str(each) for each in said)
    assert "rank 1 of the group cannot plan" in str(said[0])


def test_ranks_with_other_budgets_are_told(model, monkeypatch):
    folder, _ = model
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 20)

    def load(rank):
        found = weights.Weights(folder / "model")
        found.plan(group=torch.distributed.group.WORLD, budget=1 << 14 + 8 * rank).load()

    said = run_ranks(2, folder, load)
    assert all(isinstance(each, weights.WeightsError) and "do not read alike" in str(each) for each in said)


def test_a_rank_that_is_killed_keeps_nobody_waiting(model):
    folder, _ = model

    def load(rank):
        for number, _ in enumerate(weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD)):
            if rank == 1 and number == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    said = run_ranks(4, folder, load)
    assert isinstance(said.pop(1), EOFError)
    assert all(isinstance(each, weights.WeightsError) for each in said)


def test_a_process_that_ends_is_seen_where_nothing_else_tells(monkeypatch):
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0)
    with subprocess.Popen(["sleep", "1000"]) as child:
        others = processes.Processes()
        others.watch({3: (others.own[0], child.pid), 4: ("another host", 1)})
        answers = iter([False, False, True])
        others.wait(lambda: next(answers))
        child.kill()
        others.wait(lambda: True)
        with pytest.raises(weights.WeightsError, match="rank 3 of the group ended"):
            others.wait(lambda: False)


def test_ranks_with_other_files_are_told(model):
    folder, tensors = model
    (folder / "other").mkdir()
    weights.save_file({name: tensor + 1 for name, tensor in tensors.items()}, folder / "other" / "model")

    def load(rank):
        place = folder / "other" / "model" if rank == 1 else folder / "model"
        weights.Weights(place).plan(group=torch.distributed.group.WORLD).load()

    said = run_ranks(2, folder, load)
    assert all(isinstance(each, weights.WeightsError) and "other files" in str(each) for each in said)


def test_a_rank_that_drops_its_iteration_before_it_began_keeps_nobody_waiting(model):
    folder, _ = model

    def load(rank):
        tensors = iter(weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD))
        if rank == 0:
            del tensors
            return "dropped"
        return list(tensors)

    said = run_ranks(2, folder, load)
    assert said[0] == "dropped" and "rank 0 of the group failed or left" in str(said[1])


def test_two_iterations_of_one_plan_end_apart(model):
    folder, _ = model

    def load(rank):
        plan = weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD)
        first, second = iter(plan), iter(plan)
        for number, _ in enumerate(zip(first, second)):
            if rank == 0 and number == 1:
                return "left"

    said = run_ranks(2, folder, load)
    assert said[0] == "left" and "rank 0 of the group failed or left" in str(said[1])


def test_a_session_that_is_closed_on_one_rank_makes_all_of_them_fail(model):
    folder, _ = model

    def load(rank):
        session = penstock.Session(device="host")
        plan = weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD, session=session)
        if rank == 1:
            session.close()
        plan.load()

    said = run_ranks(2, folder, load)
    assert isinstance(said[1], penstock.ClosedError) and "rank 1 of the group failed or left" in str(said[0])


def test_arrays_of_numpy_are_not_exchanged(model):
    folder, _ = model

    def load(rank):
        weights.Weights(folder / "model").plan(group=torch.distributed.group.WORLD, framework="np")

    said = run_ranks(1, folder, load)
    assert "exchange tensors of torch" in str(said[0])
