# SPDX-License-Identifier: Apache-2.0

"""A checkpoint goes from a node's drive to shared storage: whole or not at all, and a kill costs what was under way."""

import errno
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed.checkpoint as dcp

from penstock import checkpoint, weights
from penstock.__main__ import main
from penstock.checkpoint import draining, layout, reading, storing
from penstock.checkpoint.safetensors import SafetensorsWriter
from saves import short_of_descriptors
from tensors import raw
from waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def state():
    return {f"{i}": torch.randn(5000 + 700 * i) for i in range(8)} | {"empty": torch.zeros(0, 3), "step": 7}


@pytest.fixture
def local(tmp_path, state, monkeypatch):
    """In several files."""
    monkeypatch.setattr(storing, "FILE_BYTES_MIN", 1 << 15)
    checkpoint.save(state, tmp_path / "local" / "step-7")
    assert len(list((tmp_path / "local" / "step-7").glob("*.data"))) > 4
    return tmp_path / "local" / "step-7"


def has(folder, state):
    loaded = checkpoint.load(folder)
    return loaded["step"] == state["step"] and all(
        raw(loaded[name]) == raw(tensor) for name, tensor in state.items() if name != "step")


def identities(folder):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_it_is_found_there_and_a_second_time_changes_nothing(local, tmp_path, state):
    shared, steps = tmp_path / "a" / "shared", []
    assert checkpoint.drain(local, shared, on_progress=lambda progress: steps.append(progress.bytes_done)) == (
        shared / "step-7")
    assert checkpoint.latest(shared) == shared / "step-7" and has(shared / "step-7", state)
    checkpoint.verify(shared / "step-7")
    assert steps == sorted(steps) and steps[-1] == sum(state[name].nbytes for name in state if name != "step")
    before = identities(shared / "step-7")
    checkpoint.drain(local, shared)
    assert identities(shared / "step-7") == before


def test_pieces_larger_than_what_is_in_memory_at_a_time(local, tmp_path, state, monkeypatch):
    monkeypatch.setattr(draining, "BATCH_BYTES", 30_000)
    assert has(checkpoint.drain(local, tmp_path / "shared"), state)


def test_damage_on_the_way_is_told_by_name_and_nothing_is_published(local, tmp_path):
    file = max(local.glob("*.data"), key=lambda path: path.stat().st_size)
    damage(file)
    with pytest.raises(checkpoint.CheckpointError, match=f"{file}: the checksum of '.*' is wrong between bytes"):
        checkpoint.drain(local, tmp_path / "shared")
    there = tmp_path / "shared" / "step-7"
    assert not (there / layout.NAME).exists() and not (there / file.name).exists()
    assert checkpoint.latest(tmp_path / "shared") is None
    os.truncate(file, 5)
    with pytest.raises(checkpoint.CheckpointError, match=f"{file}: it has 5 bytes, and .* it was cut"):
        checkpoint.drain(local, tmp_path / "shared")


def test_what_is_there_is_believed_by_its_checksums_alone(local, tmp_path, state):
    checkpoint.drain(local, tmp_path / "shared")
    there = tmp_path / "shared" / "step-7"
    (there / layout.NAME).unlink()
    names = sorted(path.name for path in there.glob("*.data"))
    damage(there / names[0])
    os.truncate(there / names[1], 9)
    (there / names[2]).unlink()
    (there / names[3]).touch()  # When it was written does not matter.
    before = identities(there)
    checkpoint.drain(local, tmp_path / "shared")
    after = identities(there)
    assert [name for name in names if before.get(name) == after[name]] == names[3:]
    assert has(there, state)
    damage(there / names[4])  # Also of one that is published.
    checkpoint.drain(local, tmp_path / "shared")
    assert has(there, state)


def drain_and_stop(local, shared, count):
    """Dies when so many files are there."""
    draining.FILES_AT_ONCE = 1
    copy, left = draining._copy, [count]

    def copy_or_die(*arguments):
        if left[0] == 0:
            os.kill(os.getpid(), 9)
        left[0] -= 1
        copy(*arguments)

    draining._copy = copy_or_die
    checkpoint.drain(local, shared)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_kill_in_between_and_again(local, tmp_path, state, count):
    killed = multiprocessing.get_context("fork").Process(target=drain_and_stop,
                                                         args=(local, tmp_path / "shared", count))
    killed.start()
    killed.join(60)
    there = tmp_path / "shared" / "step-7"
    assert killed.exitcode == -9 and checkpoint.latest(tmp_path / "shared") is None
    before = {name: found for name, found in identities(there).items() if not name.endswith(".lease")}
    assert len(before) == count
    checkpoint.drain(local, tmp_path / "shared")
    assert before.items() <= identities(there).items() and has(there, state)


def drain_again_and_again(local, shared, turns):
    while True:
        turns.put(str(checkpoint.drain(local, shared / f"{turns.qsize()}")))


def test_killed_at_any_moment_what_latest_finds_is_whole(local, tmp_path):
    context = multiprocessing.get_context("fork")
    for turn in range(5):
        place, turns = tmp_path / f"shared-{turn}", context.Queue()
        killed = context.Process(target=drain_again_and_again, args=(local, place, turns))
        killed.start()
        wait_until(lambda place=place: len(list(place.glob("*/*/*.data"))) > 3 * turn, "file")
        killed.kill()
        killed.join()
        for root in place.iterdir():
            if checkpoint.latest(root) is not None:
                checkpoint.verify(root / "step-7")
            checkpoint.drain(local, root)
            checkpoint.verify(root / "step-7")


def test_a_file_that_cannot_be_looked_at_is_not_told_as_missing(local, tmp_path, monkeypatch):
    real = Path.lstat

    def fail(path):
        if path.suffix == ".data":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return real(path)

    monkeypatch.setattr(Path, "lstat", fail)
    with pytest.raises(OSError, match=r"Too many open files: .*\.data"):
        checkpoint.drain(local, tmp_path / "shared")
    monkeypatch.setattr(Path, "lstat", lambda path: fail(path) if "away" in path.parts else real(path))
    assert checkpoint.drain([tmp_path / "away", local], tmp_path / "shared").name == local.name


def test_folders_of_several_nodes_become_one(local, tmp_path, state):
    """As nodes have them that save to drives of their own: each its own files, rank 0 the description."""
    nodes = [tmp_path / f"node-{i}" / "step-7" for i in range(3)]
    for node in nodes:
        node.mkdir(parents=True)
    for i, file in enumerate(sorted(local.glob("*.data"))):
        file.rename(nodes[i % 3] / file.name)
    (local / layout.NAME).rename(nodes[1] / layout.NAME)
    with pytest.raises(checkpoint.CheckpointError, match="and in none of .* name the folders of all"):
        checkpoint.drain(nodes[:2], tmp_path / "shared")
    with pytest.raises(checkpoint.CheckpointError, match="there is no checkpoint.json in"):
        checkpoint.drain([nodes[0], nodes[2]], tmp_path / "shared")
    assert not (tmp_path / "shared").exists()
    assert has(checkpoint.drain(nodes, tmp_path / "shared"), state)
    checkpoint.save({"other": 1}, nodes[2])
    with pytest.raises(checkpoint.CheckpointError, match="have different checkpoints"):
        checkpoint.drain(nodes, tmp_path / "shared")


def test_another_checkpoint_of_the_name_is_left_as_it_is(local, tmp_path, state):
    checkpoint.save({"mine": 1}, tmp_path / "shared" / "step-7")
    before = identities(tmp_path / "shared" / "step-7")
    with pytest.raises(checkpoint.CheckpointError, match="another checkpoint has this name"):
        checkpoint.drain(local, tmp_path / "shared")
    (tmp_path / "shared" / "step-7" / layout.NAME).write_text("damaged")
    with pytest.raises(checkpoint.CheckpointError, match="checkpoint.json: this is no checkpoint"):
        checkpoint.drain(local, tmp_path / "shared")
    assert identities(tmp_path / "shared" / "step-7").keys() == before.keys()


def test_places_that_it_cannot_go_to(local, tmp_path, state):
    (tmp_path / "link").symlink_to(local.parent)
    for to in (local.parent, tmp_path / "link"):
        with pytest.raises(checkpoint.CheckpointError, match="this is what would be copied"):
            checkpoint.drain(local, to)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        checkpoint.drain(local, tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        checkpoint.drain(local, tmp_path / "file" / "below")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "step-7").write_text("")
    with pytest.raises(OSError, match="step-7"):
        checkpoint.drain(local, tmp_path / "other")
    for nothing in ([], tmp_path / "nowhere"):
        with pytest.raises(checkpoint.CheckpointError, match="there is no checkpoint.json in"):
            checkpoint.drain(nothing, tmp_path / "shared")
    there = tmp_path / "odd" / "step-7"
    there.mkdir(parents=True)
    name = max(path.name for path in local.glob("*.data"))
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(local / name, path)):
        make(there / name)
        with pytest.raises(checkpoint.CheckpointError, match=f"{there / name}: this is no regular file: remove it"):
            checkpoint.drain(local, tmp_path / "odd")
        assert os.listdir(there) == [name]
        (there / name).rmdir() if make is os.mkdir else (there / name).unlink()
    (tmp_path / "current").symlink_to(local)
    assert checkpoint.drain(tmp_path / "current", tmp_path / "shared") == tmp_path / "shared" / "step-7"
    assert has(local, state)


def test_what_does_not_fit_is_refused_before_the_first_byte(local, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "penstock-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here: a full disk was not tested")
    try:
        with pytest.raises(OSError, match="are free: nothing was written"):
            checkpoint.drain(local, place)
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_checkpoints_of_safetensors_are_drained_with_all_that_stock_readers_want(tmp_path):
    state = {"a": torch.randn(50), "b": torch.arange(3)}
    dcp.save(state, storage_writer=SafetensorsWriter(tmp_path / "a"), no_dist=True)
    there = checkpoint.drain(tmp_path / "a", tmp_path / "shared")
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    (there / layout.NAME).unlink()
    assert raw(weights.Weights(there).plan().load()["b"]) == raw(state["b"])


def test_a_command_that_is_interrupted_or_may_print_nowhere_ends_without_a_traceback(tmp_path, capsys, monkeypatch):
    def interrupted(folder, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "verify", interrupted)
    assert main(["checkpoint", "verify", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "penstock: interrupted\n"
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["checkpoint", "retain", str(tmp_path), "--keep", "1"]) == 0


def test_commands_for_those_who_write_no_python(local, tmp_path, capsys, monkeypatch):
    shared = tmp_path / "shared"
    assert main(["checkpoint", "latest", str(shared)]) == 77
    assert "no whole checkpoint" in capsys.readouterr().err
    assert main(["checkpoint", "drain", str(local), "--to", str(shared), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(shared / "step-7")}
    checkpoint.save({"a": torch.ones(3)}, shared / "step-8")
    assert main(["checkpoint", "latest", str(shared)]) == 0
    assert capsys.readouterr() == (f"{shared}/step-8\n", "")
    with monkeypatch.context() as short:
        short.setattr(reading, "open_regular", short_of_descriptors)
        assert main(["checkpoint", "latest", str(shared)]) == 1, "a script begins anew for 77 alone"
    assert "Too many open files" in capsys.readouterr().err
    assert main(["checkpoint", "verify", str(shared / "step-8"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(shared / "step-8"), "names": 1, "bytes": 12}
    assert main(["checkpoint", "retain", str(shared), "--keep", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": [str(shared / "step-7")]}
    assert main(["checkpoint", "retain", str(shared), "--keep", "1"]) == 0
    assert capsys.readouterr().out == "removed nothing\n"
    damage(next((shared / "step-8").glob("*.data")))
    assert main(["checkpoint", "verify", str(shared / "step-8")]) == 1
    assert "the checksum of 'a' is wrong" in capsys.readouterr().err
    assert main(["checkpoint", "verify", str(shared)]) == 1
    assert "there is no checkpoint: no save to this folder has ended" in capsys.readouterr().err
    for wrong in (["drain", str(local)], ["retain", str(shared), "--keep", "0"], ["sideways"], []):
        with pytest.raises(SystemExit) as ended:
            main(["checkpoint", *wrong])
        assert ended.value.code == 2


def test_on_a_terminal_it_tells_how_far_it_is(local, tmp_path):
    leader, follower = os.openpty()
    done = subprocess.run([sys.executable, "-m", "penstock", "checkpoint", "drain", str(local), "--to",
                           str(tmp_path / "shared")], stderr=follower, stdout=subprocess.PIPE, text=True,
                          timeout=SECONDS_MAX)
    os.close(follower)
    said = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert done.returncode == 0 and done.stdout.endswith("step-7 is whole, checked and on the disk\n")
    assert "bytes copied" in said
