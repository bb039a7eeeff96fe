# SPDX-License-Identifier: Apache-2.0

"""What strangers have beside checkpoints: names that would change an order, files of theirs, descriptions that take
much memory."""

import errno
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed.checkpoint as dcp

import penstock
from penstock import checkpoint
from penstock.checkpoint import ids, layout, leftovers, publishing, retention
from penstock.checkpoint.layout import Layout, encode
from penstock.checkpoint.preemption import Guard, resume
from penstock.checkpoint.safetensors import SafetensorsWriter
from saves import number_in, save

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


# ---- Names of strangers

@pytest.mark.parametrize("name", ["09999999999999999999-00000000-0-0.data", "09999999999999999999-0000000f-0-0.data"])
def test_a_strangers_name_in_a_neighbour_moves_no_order(tmp_path, name):
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / name).touch()
    (tmp_path / "liar").mkdir()
    (tmp_path / "liar" / layout.NAME).write_text('{"penstock.checkpoint":1,"crc32c":"00000000","body":'
                                                 '{"save_id":"09223372036854775807-00000000","pie')
    for number in range(1, 13):
        save(tmp_path / f"s{number}", number)
        assert number_in(checkpoint.latest(tmp_path)) == number
    checkpoint.retain(tmp_path, 2)
    assert [place.name for place in retention.whole(tmp_path)] == ["s11", "s12"]


@pytest.mark.parametrize("number", [ids.CLOCK_MAX, ids.CLOCK_MAX + 1, 10**19 - 1, 10**20 - 1])
def test_a_strangers_whole_checkpoint_of_the_end_of_time_leaves_later_ones_later(tmp_path, number):
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / layout.NAME).write_bytes(encode(Layout(f"{number:020}-00000000", tree=[0])))
    os.utime(tmp_path / "stranger" / layout.NAME, (1, 1))
    for each in range(1, 13):
        save(tmp_path / f"s{each}", each)
        assert number_in(checkpoint.latest(tmp_path)) == each


@pytest.mark.parametrize("number", ["999999999999999999", "999999999999999", "1000000000000000", "9" * 30])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_strangers_generation_is_not_counted_from_where_none_can_follow(tmp_path, number, is_whole):
    stranger = tmp_path / f"generation-{number}"
    stranger.mkdir()
    if is_whole:
        save(stranger / "model", 0)
        (stranger / "generation.json").write_text('{"penstock.generation":1,"parts":["model"]}')
        os.utime(stranger / "generation.json", (1, 1))
    for each in range(1, 5):
        Guard(tmp_path, signals=(), keep=2).save({"model": {"n": each}})
        assert resume(tmp_path).load("model")["n"] == each
    (tmp_path / "generation-00000005").mkdir()
    Guard(tmp_path, signals=(), keep=2).save({"model": {"n": 5}})
    assert resume(tmp_path).load("model")["n"] == 5


# ---- What is not ours

def test_what_no_save_would_call_so_is_not_removed_whatever_a_checkpoint_names(tmp_path):
    for use in (lambda: save(tmp_path / "c", 1), lambda: checkpoint.remove(tmp_path / "c"),
                lambda: checkpoint.retain(tmp_path, 1)):
        (tmp_path / "c").mkdir(exist_ok=True)
        for name in ("dataset.data", "model.safetensors"):
            (tmp_path / "c" / name).write_text("mine")
        lie = Layout(ids.new_save_id(tmp_path / "c"), files={"dataset.data": 4, "model.safetensors": 4})
        (tmp_path / "c" / layout.NAME).write_bytes(encode(lie))
        save(tmp_path / "newer", 2)
        use()
        leftovers.wait_for_removals()
        assert {"dataset.data", "model.safetensors"} <= set(os.listdir(tmp_path / "c"))
    (tmp_path / "c" / layout.NAME).write_bytes(encode(lie))
    with pytest.raises(dcp.CheckpointException, match="it has '.*data', which is no part"):
        dcp.save({"a": torch.ones(3)}, storage_writer=SafetensorsWriter(tmp_path / "c"), no_dist=True)


def test_a_name_that_is_too_long_is_told_before_a_byte_is_written(tmp_path):
    with pytest.raises(OSError, match="the name has 256 bytes, and the file system takes 255: nothing was written"):
        penstock.default_session().create(tmp_path / ("x" * 256))
    with penstock.default_session().create(tmp_path / ("x" * 255)) as file:
        file.write(b"x")


# ---- Bounded memory

def body_of(tree):
    text = (b'{"save_id":"09000000000000000000-00000000","piece_bytes":16777216,"files":{},"tensors":{},"objects":{},'
            b'"paths":{},"tree":' + tree + b"}")
    return b'{"penstock.checkpoint":1,"crc32c":"%08x","body":' % layout.checksum(text) + text + b"}\n"


def bombs(place):
    """A sparse file, one that begins well, and one that JSON makes memory of."""
    for name in ("sparse", "begins", "json", "deep"):
        (place / name).mkdir(parents=True)
    with open(place / "sparse" / layout.NAME, "wb") as file:
        file.truncate(1900 << 20)
    with open(place / "begins" / layout.NAME, "wb") as file:
        file.write(b'{"penstock.checkpoint":1,"crc32c":"00000000","body":')
        file.truncate(1 << 41)
    (place / "json" / layout.NAME).write_bytes(body_of(b"[" + b"{}," * 14_000_000 + b"0]"))
    (place / "deep" / layout.NAME).write_bytes(body_of(b"[" * 200_000 + b"]" * 200_000))


def test_hostile_descriptions_beside_others_take_little_memory_and_stop_nobody(tmp_path, caplog):
    save(tmp_path / "root" / "mine", 1)
    bombs(tmp_path / "root")
    bombs(tmp_path / "guarded" / "generation-00000001")
    (tmp_path / "guarded" / "generation-00000001" / "generation.json").write_text(
        '{"penstock.generation":1,"parts":["sparse","begins","json","deep"]}')
    Guard(tmp_path / "guarded", signals=()).save({"model": {"n": 2}})

    def look():
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory() + (200 << 20),) * 2)
        assert checkpoint.latest(tmp_path / "root") == tmp_path / "root" / "mine"
        checkpoint.retain(tmp_path / "root", 1)
        assert resume(tmp_path / "guarded").load("model") == {"n": 2}
        save(tmp_path / "root" / "mine", 3)
        for name, sentence in (("sparse", "no checkpoint of Penstock's"), ("begins", "are not accepted"),
                               ("json", "14000001|dicts, lists and tuples"), ("deep", "makes no sense")):
            with pytest.raises(checkpoint.CheckpointError, match=sentence):
                checkpoint.load(tmp_path / "root" / name)

    assert in_child(look) == ""
    assert checkpoint.latest(tmp_path / "root") == tmp_path / "root" / "mine"
    assert f"passed over: {tmp_path / 'root' / 'begins' / layout.NAME}" in caplog.text


def memory():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmData")).split()[1]) << 10


def in_child(work):
    """What it raised, "" where nothing."""
    import traceback

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            said = ""
        except BaseException:
            said = traceback.format_exc()
        os.write(writer, said.encode()[-60000:])
        os._exit(0)
    os.close(writer)
    with open(reader) as opened:
        said = opened.read()
    os.waitpid(child, 0)
    return said


def test_what_is_saved_can_be_read_again(tmp_path, monkeypatch):
    """A state that would be refused when it is read is refused when it is saved."""
    monkeypatch.setattr(layout, "CONTAINERS_MAX", 1000)
    with pytest.raises(checkpoint.CheckpointError, match="keep what is so many numbers in tensors"):
        checkpoint.save({"a": [[]] * 2000}, tmp_path / "a")
    checkpoint.save({"a": [[1, 2]] * 500, "b": torch.ones(3)}, tmp_path / "a")
    checkpoint.load(tmp_path / "a")


def test_a_damaged_newest_is_not_what_retain_keeps(tmp_path):
    for number in (1, 2):
        save(tmp_path / f"s{number}", number)
    (tmp_path / "s3").mkdir()
    lie = encode(Layout(ids.new_save_id(tmp_path / "s3"))).replace(b'"tensors":{}', b'"tensors":[]')
    body = lie[layout.HEAD.match(lie).end():-2]
    (tmp_path / "s3" / layout.NAME).write_bytes(
        b'{"penstock.checkpoint":1,"crc32c":"%08x","body":' % layout.checksum(body) + body + b"}\n")
    assert checkpoint.latest(tmp_path) == tmp_path / "s2"
    checkpoint.retain(tmp_path, 1)
    assert number_in(checkpoint.latest(tmp_path)) == 2


def test_what_cannot_be_looked_at_is_not_told_as_removed(tmp_path, monkeypatch):
    give_name, stat = publishing.give_name, Path.stat

    def without_the_drive(folder, metadata, **settings):
        def fail(path, **how):
            if path.suffix == ".data":
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return stat(path, **how)

        with monkeypatch.context() as failing:
            failing.setattr(Path, "stat", fail)
            give_name(folder, metadata, **settings)

    monkeypatch.setattr(publishing, "give_name", without_the_drive)
    with pytest.raises(OSError, match=r"Input/output error: .*\.data"):
        checkpoint.save({"a": torch.zeros(3)}, tmp_path / "a")
