# SPDX-License-Identifier: Apache-2.0

"""Who saves is told from who is dead by a lock and by no clock; what the dead have left goes, and nothing else does."""

import errno
import json
import os
import resource
import threading
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed.checkpoint as dcp

from penstock import checkpoint
from penstock.checkpoint import (
    ids, layout, leases, leftovers, preemption, publishing, reading, removal, renaming, starting,
)
from penstock.checkpoint.distributed import Reader, Writer
from penstock.checkpoint.layout import Layout
from penstock.checkpoint.preemption import Guard
from penstock.checkpoint.safetensors import SafetensorsWriter
from saves import number_in, save

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def ahead(monkeypatch, seconds=7200):
    """The clock of whoever looks is ahead of that of the files."""
    now = time.time
    monkeypatch.setattr(leftovers.time, "time", lambda: now() + seconds)


def killed(work):
    """Work is done in a process that then dies as by kill -9."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(9)
    os.waitpid(child, 0)


def die(*arguments, **settings):
    os._exit(9)


# ---- Who is alive

def test_a_clock_that_is_ahead_takes_nothing_from_a_save_that_goes_on(tmp_path, monkeypatch):
    save(tmp_path / "a", 1)
    give_name = publishing.give_name

    def after_others_have_looked(*arguments, **settings):
        with monkeypatch.context() as patched:
            ahead(patched)
            checkpoint.retain(tmp_path, 1)
            leftovers.sweep(tmp_path / "a")
        give_name(*arguments, **settings)

    monkeypatch.setattr(publishing, "give_name", after_others_have_looked)
    save(tmp_path / "a", 2)
    save(tmp_path / "b", 3)
    assert (number_in(tmp_path / "a"), number_in(tmp_path / "b")) == (2, 3)


@pytest.mark.parametrize("writer", [Writer, SafetensorsWriter])
def test_a_save_by_torch_that_goes_on_is_left_alone_too(tmp_path, monkeypatch, writer):
    written = writer.finish

    def after_others_have_looked(*arguments, **settings):
        with monkeypatch.context() as patched:
            ahead(patched)
            checkpoint.retain(tmp_path, 1)
        written(*arguments, **settings)

    monkeypatch.setattr(writer, "finish", after_others_have_looked)
    dcp.save({"a": torch.ones(50)}, storage_writer=writer(tmp_path / "a"), no_dist=True)
    checkpoint.verify(tmp_path / "a")


def test_where_there_are_no_locks_what_has_a_lease_is_not_removed(tmp_path, monkeypatch):
    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(leases.fcntl, "flock", no_locks)
    killed(lambda: (monkeypatch.setattr(publishing, "give_name", die), save(tmp_path / "a", 1)))
    before = sorted(os.listdir(tmp_path / "a"))
    assert len(before) == 2
    ahead(monkeypatch)
    save(tmp_path / "b", 2)
    checkpoint.retain(tmp_path, 1)
    assert sorted(os.listdir(tmp_path / "a")) == before and sorted(os.listdir(tmp_path / "b"))[-1] == layout.NAME
    assert len(os.listdir(tmp_path / "b")) == 2


def lease_of_another_machine(folder):
    folder.mkdir()
    save_id = ids.new_save_id(folder)
    (folder / f".{save_id}.lease").write_text("another machine\n")
    (folder / f"{save_id}-1-0.data").write_text("left")


@pytest.mark.parametrize("mount, is_removed", [
    ("ext4 /dev/x rw", True), ("nfs4 server:/x rw,vers=4.2,local_lock=none", True), ("ceph mon:/ rw", True),
    ("nfs server:/x rw,vers=3,local_lock=all", False), ("nfs server:/x rw,nolock", False),
    ("lustre x rw,localflock", False), ("fuse.other x rw", False), ("beegfs x rw", False)])
def test_another_machines_lease_is_free_only_where_its_lock_would_be_seen(tmp_path, monkeypatch, mount, is_removed):
    lease_of_another_machine(tmp_path / "a")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 1 0:1 / / rw - ext4 /dev/root rw\n2 1 0:2 / {tmp_path} rw shared:1 - {mount}\n")
    real = open
    monkeypatch.setattr("builtins.open", lambda name, *arguments, **settings: real(
        mounts if name == "/proc/self/mountinfo" else name, *arguments, **settings))
    checkpoint.retain(tmp_path, 1)
    assert (tmp_path / "a").exists() != is_removed


def test_a_forked_child_does_not_let_go_of_its_parents_lease(tmp_path):
    lease = leases.take(tmp_path, ids.new_save_id(tmp_path))
    killed(lease.close)
    killed(lease.end)
    (name,) = os.listdir(tmp_path)
    assert leases.take_over(tmp_path / name) is None
    lease.close()
    assert leases.take_over(tmp_path / name) is not None


def test_a_lease_that_is_being_removed_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "TRIES", 3)
    save_id = ids.new_save_id(tmp_path)
    leases.take(tmp_path, save_id).close()
    remover = leases.take_over(tmp_path / f".{save_id}.lease")
    with pytest.raises(OSError, match="is being removed just now: try again"):
        leases.take(tmp_path, save_id)
    remover.end()
    assert leases.take(tmp_path, save_id).save_id == save_id


def test_who_looks_at_a_lease_for_a_moment_fails_no_save(tmp_path):
    save_id = ids.new_save_id(tmp_path)
    leases.take(tmp_path, save_id).close()
    looking = leases.take_over(tmp_path / f".{save_id}.lease")
    threading.Timer(0.1, looking.close).start()

    assert leases.take(tmp_path, save_id).save_id == save_id


# ---- What the dead have left

@pytest.mark.parametrize("step", ["give_name", "remove_behind"])
def test_what_a_killed_save_left_goes_with_the_next(tmp_path, monkeypatch, step):
    save(tmp_path / "a", 1)
    killed(lambda: (monkeypatch.setattr(publishing, step, die), save(tmp_path / "a", 2)))
    # Data of two saves, a lease, and perhaps the checkpoint.json before.
    assert len(os.listdir(tmp_path / "a")) == (4 if step == "give_name" else 5)
    assert number_in(tmp_path / "a") == (1 if step == "give_name" else 2)
    save(tmp_path / "a", 3)
    leftovers.wait_for_removals()
    assert len(os.listdir(tmp_path / "a")) == 2 and number_in(tmp_path / "a") == 3


@pytest.mark.parametrize("kind", ["save", "Writer", "SafetensorsWriter"])
def test_what_a_killed_save_left_in_a_folder_of_its_own_goes_with_retain(tmp_path, monkeypatch, kind):
    save(tmp_path / "step-1", 1)
    state = {"a": torch.ones(50)}

    def work():
        monkeypatch.setattr("penstock.checkpoint.safetensors.give_name", die)
        monkeypatch.setattr(publishing, "give_name", die)
        if kind == "save":
            checkpoint.save(state, tmp_path / "step-2")
        writer = {"Writer": Writer, "SafetensorsWriter": SafetensorsWriter, "save": None}[kind]
        dcp.save(state, storage_writer=writer(tmp_path / "step-2"), no_dist=True)

    killed(work)
    assert len(os.listdir(tmp_path)) == 2
    checkpoint.retain(tmp_path, 1)
    assert os.listdir(tmp_path) == ["step-1"]


def test_a_save_to_a_folder_that_retain_sweeps_away_meanwhile_makes_it_again(tmp_path, monkeypatch):
    save(tmp_path / "step-1", 1)
    killed(lambda: (monkeypatch.setattr(publishing, "give_name", die), save(tmp_path / "step-2", 2)))
    sweep = starting.sweep

    def behind_retain(folder):
        checkpoint.retain(tmp_path, 1)
        assert not folder.exists()
        return sweep(folder)

    monkeypatch.setattr(starting, "sweep", behind_retain)
    save(tmp_path / "step-2", 3)
    assert number_in(tmp_path / "step-2") == 3


def test_what_killed_saves_left_beside_one_folder_of_safetensors_goes_with_the_next_to_another(tmp_path, monkeypatch):
    def work():
        monkeypatch.setattr("penstock.checkpoint.safetensors.put_in_place", die)
        dcp.save({"a": torch.ones(50)}, storage_writer=SafetensorsWriter(tmp_path / "step-1"), no_dist=True)

    killed(work)
    assert os.listdir(tmp_path) == [".step-1.saving"]
    dcp.save({"a": torch.ones(50)}, storage_writer=SafetensorsWriter(tmp_path / "step-2"), no_dist=True)
    assert os.listdir(tmp_path) == ["step-2"]


def test_folders_that_got_nothing_and_a_note_alone_go_and_a_strangers_stay(tmp_path):
    save(tmp_path / "step-1", 1)
    checkpoint.verify(tmp_path / "step-1")
    for name in ("step-2", "step-3", "results", "noted", "verdicts"):
        (tmp_path / name).mkdir()
    (tmp_path / "noted" / "verified.json").write_bytes((tmp_path / "step-1" / "verified.json").read_bytes())
    (tmp_path / "verdicts" / "verified.json").write_text('{"verdict": "good"}')
    for name in ("step-2", "results"):
        os.utime(tmp_path / name, (1, 1))
    checkpoint.retain(tmp_path, 1)  # step-3 is of somebody who may just begin.
    assert sorted(os.listdir(tmp_path)) == ["results", "step-1", "step-3", "verdicts"]


def test_a_drill_that_goes_on_is_left_by_a_clock_that_is_ahead_and_a_dead_one_goes(tmp_path, monkeypatch):
    verify = preemption.verify

    def after_another(*arguments, **settings):
        with monkeypatch.context() as patched:
            patched.setattr(preemption, "verify", verify)
            ahead(patched)
            Guard(tmp_path).drill({"loop": {}})
        return verify(*arguments, **settings)

    monkeypatch.setattr(preemption, "verify", after_another)
    Guard(tmp_path).drill({"model": {"a": torch.ones(3)}})
    monkeypatch.setattr(preemption, "verify", die)
    killed(lambda: Guard(tmp_path).drill({"model": {"a": torch.ones(3)}}))
    assert len(os.listdir(tmp_path)) == 2
    monkeypatch.setattr(preemption, "verify", verify)
    Guard(tmp_path).drill({"model": {"a": torch.ones(3)}})
    assert os.listdir(tmp_path) == ["rates.json"]


def test_ranks_that_die_before_the_save_is_published_lose_it_nothing(tmp_path, monkeypatch):
    """Rank 1 has written, and is dead; somebody sweeps before rank 0 names its files, and somebody while it does."""
    save(tmp_path, 1)
    give_name = publishing.give_name
    other = ids.new_lease(tmp_path)
    (tmp_path / f"{other.save_id}-1-0.data").write_bytes(b"12345678")
    other.close()
    stored = Layout(other.save_id, files={f"{other.save_id}-1-0.data": 8})

    def while_others_look(*arguments, **settings):
        leftovers.sweep(tmp_path)
        give_name(*arguments, **settings)

    monkeypatch.setattr(publishing, "give_name", while_others_look)
    publishing.publish(tmp_path, stored, ids.new_lease(tmp_path))
    assert reading.read_layout(tmp_path).save_id == other.save_id and (tmp_path / f"{other.save_id}-1-0.data").exists()
    leftovers.wait_for_removals()
    assert len(os.listdir(tmp_path)) == 2
    with pytest.raises(checkpoint.CheckpointError, match="removed or cut before the save ended"):
        publishing.publish(tmp_path, Layout("1" * 20 + "-00000000", files={f"{'1' * 20}-00000000-1-0.data": 8}),
                            ids.new_lease(tmp_path))
    assert reading.read_layout(tmp_path).save_id == other.save_id


def test_more_ranks_than_a_process_has_descriptors_for_are_published(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "room_for_leases", lambda: 2)
    files = {}
    for rank in range(1, 6):
        lease = ids.new_lease(tmp_path)
        files[f"{lease.save_id}-{rank}-0.data"] = 8
        (tmp_path / f"{lease.save_id}-{rank}-0.data").write_bytes(b"12345678")
        lease.close()
    own = ids.new_lease(tmp_path)
    publishing.publish(tmp_path, Layout(own.save_id, files=files), own)
    leftovers.wait_for_removals()
    assert sorted(os.listdir(tmp_path)) == sorted([*files, "checkpoint.json"])


def test_leases_leave_descriptors_for_what_is_opened_besides():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, limits[1]))
    try:
        assert 0 < leases.room_for_leases() <= 300 - leases.SPARE_DESCRIPTORS
        resource.setrlimit(resource.RLIMIT_NOFILE, (leases.SPARE_DESCRIPTORS, limits[1]))
        assert leases.room_for_leases() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_new_folder_of_another_save_that_has_no_lease_yet_stays(tmp_path):
    new, old = tmp_path / ".critic.saving", tmp_path / ".gone.saving"
    for folder in (new, old):
        folder.mkdir()
    os.utime(old, (1, 1))
    leftovers.sweep_staging(tmp_path)
    assert os.listdir(tmp_path) == [".critic.saving"]
    old.mkdir()
    os.utime(old, (1, 1))
    leftovers.sweep_all(tmp_path)
    assert os.listdir(tmp_path) == [".critic.saving"]


# ---- Looking after the fact

def test_a_save_that_ends_between_retains_look_and_its_removal_stays(tmp_path, monkeypatch):
    save(tmp_path / "same", 1)
    save(tmp_path / "b", 2)
    name_aside = removal.name_aside

    def after_another_save(save_id):
        monkeypatch.setattr(removal, "name_aside", name_aside)
        save(tmp_path / "same", 3)
        return name_aside(save_id)

    monkeypatch.setattr(removal, "name_aside", after_another_save)
    assert checkpoint.retain(tmp_path, 1) == []
    leftovers.wait_for_removals()
    assert number_in(tmp_path / "same") == 3 and len(os.listdir(tmp_path / "same")) == 2


def publish_within(monkeypatch, *saves):
    """The first save is held up where it has looked for what it will replace, until the second is whole, and so on."""
    look, left = publishing.files_of_checkpoint, [*saves[1:]]

    def and_another(folder):
        found = look(folder)
        if left:
            left.pop(0)()
            leftovers.wait_for_removals()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "files_of_checkpoint", and_another)
        saves[0]()
    leftovers.wait_for_removals()


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("options", [{}, {"durable": False}, {"changed_only": True}])
def test_saves_to_one_folder_that_publish_in_one_moment_leave_the_last_alone(tmp_path, monkeypatch, options, is_first):
    def save_number(number):
        state = {"n": number, "frozen": torch.arange(5000), "a": torch.full((50,), number)}
        checkpoint.save(state, tmp_path / "a", **options)

    if not is_first:
        save_number(0)
    publish_within(monkeypatch, *(lambda number=number: save_number(number) for number in (1, 2, 3)))
    found = checkpoint.load(tmp_path / "a")
    assert found["n"] == 1 and found["a"].tolist() == [1] * 50
    assert {*os.listdir(tmp_path / "a")} == {layout.NAME, *reading.read_layout(tmp_path / "a").files}
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "a").glob("*.data"))


def test_who_is_killed_when_it_has_replaced_a_save_of_that_moment_leaves_what_the_next_removes(tmp_path, monkeypatch):
    replaced = publishing._replaced

    def work():
        monkeypatch.setattr(publishing, "_replaced",
                            lambda *given: die() if number_in(tmp_path / "a") == 1 else replaced(*given))
        publish_within(monkeypatch, *(lambda number=number: save(tmp_path / "a", number) for number in (1, 2)))

    save(tmp_path / "a", 0)
    killed(work)
    assert number_in(tmp_path / "a") == 1 and len(list((tmp_path / "a").glob("*.data"))) > 1
    save(tmp_path / "a", 3)
    leftovers.wait_for_removals()
    assert number_in(tmp_path / "a") == 3
    assert {*os.listdir(tmp_path / "a")} == {layout.NAME, *reading.read_layout(tmp_path / "a").files}


def test_where_names_cannot_be_exchanged_a_save_replaces_all_the_same(tmp_path, monkeypatch):
    """By seccomp's answer, and by a file system's, that of project quotas among them."""
    for number in (errno.EPERM, errno.EINVAL, errno.EXDEV):
        monkeypatch.setattr(renaming, "_rename", lambda *arguments, number=number: number)
        save(tmp_path / "a", 1)
        save(tmp_path / "a", 2)
        leftovers.wait_for_removals()
        assert number_in(tmp_path / "a") == 2 and len(os.listdir(tmp_path / "a")) == 2


def test_a_description_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(publishing.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/checkpoint.json'"):
        publishing.give_name(tmp_path, Layout("1"), durable=True)
    assert os.listdir(tmp_path) == []


def test_a_name_that_comes_or_goes_while_it_is_taken_is_taken_all_the_same(tmp_path, monkeypatch):
    rename, calls = renaming._rename, []

    def beside_another(one, other, flags):
        calls.append(flags)
        if len(calls) == 1:
            other.unlink()   # As a removal does.
        elif len(calls) == 2:
            other.write_text("another's")
        return rename(one, other, flags)

    monkeypatch.setattr(renaming, "_rename", beside_another)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    renaming.take_name(tmp_path / "a", tmp_path / "b")
    assert len(calls) == 3 and (tmp_path / "b").read_text() == "a" and (tmp_path / "a").read_text() == "another's"


def test_an_exchange_that_fails_may_have_been_done_and_is_not_made_again(tmp_path, monkeypatch):
    rename = renaming._rename
    monkeypatch.setattr(renaming, "_rename", lambda *given: rename(*given) or errno.EIO)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with pytest.raises(OSError, match="b'$") as raised:
        renaming.take_name(tmp_path / "a", tmp_path / "b")
    assert raised.value.errno == errno.EIO and (tmp_path / "b").read_text() == "a"


@pytest.mark.parametrize("has_come", [False, True])
def test_whoever_dies_with_a_checkpoint_set_aside_costs_nobody_one(tmp_path, monkeypatch, has_come):
    save(tmp_path / "same", 1)
    save(tmp_path / "b", 2)
    name_aside = removal.name_aside

    def after_another_save(save_id):
        if has_come:
            save(tmp_path / "same", 3)
            leftovers.wait_for_removals()
        return name_aside(save_id)

    def work():
        monkeypatch.setattr(removal, "name_aside", after_another_save)
        monkeypatch.setattr(removal, "read_description", die)
        checkpoint.retain(tmp_path, 1)

    killed(work)
    assert not (tmp_path / "same" / layout.NAME).exists()
    assert checkpoint.latest(tmp_path) == tmp_path / ("same" if has_come else "b")
    checkpoint.retain(tmp_path, 2)
    assert sorted(os.listdir(tmp_path)) == (["b", "same"] if has_come else ["b"])
    assert not has_come or (number_in(tmp_path / "same") == 3 and len(os.listdir(tmp_path / "same")) == 2)


@pytest.mark.parametrize("known", ["renameat2", "link", "rename"])
def test_what_was_set_aside_is_put_back_by_what_the_file_system_knows(tmp_path, monkeypatch, known):
    if known != "renameat2":
        monkeypatch.setattr(renaming, "_rename", lambda *arguments: errno.EINVAL)
    if known == "rename":
        def no_links(*arguments):
            raise PermissionError(errno.EPERM, "no links")

        monkeypatch.setattr(renaming.os, "link", no_links)
    (tmp_path / "a").write_text("a")
    renaming.rename_where_free(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").write_text("c")
    with pytest.raises(FileExistsError):
        renaming.rename_where_free(tmp_path / "c", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "a" and sorted(os.listdir(tmp_path)) == ["b", "c"]


# ---- What is asked for that is not there

@pytest.mark.parametrize("use", [checkpoint.load, checkpoint.verify, checkpoint.remove, Reader,
                                 lambda none: checkpoint.load_into({}, none), lambda none: checkpoint.drain(none, "x")])
def test_none_of_latest_is_told_what_it_is(tmp_path, use):
    with pytest.raises(FileNotFoundError, match="latest.. gives None where it finds none. Ask `if newest is not None`"):
        use(checkpoint.latest(tmp_path))


def test_what_torch_calls_a_save_and_a_load_is_told(tmp_path):
    """As torch's own test_compatibility asks of its storage."""
    for kind in (Writer, SafetensorsWriter):
        writer, reader = kind(tmp_path / "a"), Reader(tmp_path / "a")
        assert writer.save_id is None
        dcp.save({"a": torch.ones(3)}, storage_writer=writer, no_dist=True)
        stored = reader.read_metadata().storage_meta
        assert stored is not None and str(stored.checkpoint_id) == str(tmp_path / "a")
        assert stored.save_id == writer.save_id == json.loads(
            (tmp_path / "a" / layout.NAME).read_text())["body"]["save_id"]
        assert stored.load_id == reader.load_id and reader.load_id
        assert str(writer.storage_meta().checkpoint_id) == str(tmp_path / "a")
        assert writer.storage_meta().save_id == writer.save_id
        before = reader.load_id
        dcp.load({"a": torch.zeros(3)}, storage_reader=reader, checkpoint_id=tmp_path / "a", no_dist=True)
        assert reader.load_id != before
