# SPDX-License-Identifier: Apache-2.0

"""A guard saves in order of worth within a budget, says what it left out, and what it left is resumed from."""

import errno
import json
import os
import shutil
import subprocess

import numpy
import pytest

from penstock import checkpoint
from penstock.checkpoint import notes, preemption
from penstock.checkpoint.preemption import Guard, resume

NAMES = ("model", "optimizer", "loop")
MIB = 1 << 20


class ManualClock:
    """Saves take the seconds that a test says they take."""

    def __init__(self, monkeypatch):
        self.now, self.takes = 1000.0, {}
        monkeypatch.setattr(preemption, "save_state", self._save)

    def __call__(self):
        return self.now

    def _save(self, state, folder, **options):
        checkpoint.save(state, folder, **options)
        self.now += self.takes.get(folder.name, 0.0)


@pytest.fixture
def clock(monkeypatch):
    return ManualClock(monkeypatch)


def parts(number, nbytes=MIB):
    return {"model": {"w": numpy.full(nbytes // 4, number, "float32")},
            "optimizer": {"m": numpy.full(2 * nbytes // 4, number, "float32")}, "loop": {"step": number}}


def number_of(generation, name):
    state = generation.load(name, framework="np")
    return int(state["step"] if name == "loop" else next(iter(state.values()))[-1])


def numbers(generation):
    return {name: number_of(generation, name) for name in generation.parts}


def noticed(root, clock=None, **options):
    """A guard that was told just now."""
    guard = Guard(root, signals=(), **options, **({"clock": clock} if clock else {}))
    guard._heard("a test")
    return guard


# ---- Saving and resuming ----

def test_without_a_notice_all_is_saved_and_two_generations_stay(tmp_path):
    guard = Guard(tmp_path)
    assert resume(tmp_path) is None and resume(tmp_path / "nowhere") is None
    for number in range(1, 5):
        report = guard.save(parts(number))
        assert report.saved == NAMES and report.notice is None and report.seconds_left is None
        found = resume(tmp_path)
        assert found.folder == report.folder and found.missing == () and numbers(found) == dict.fromkeys(NAMES, number)
    assert sorted(os.listdir(tmp_path)) == ["generation-00000003", "generation-00000004", "rates.json"]
    assert "it lacks nothing" in str(found)


def test_what_does_not_fit_is_skipped_in_favour_of_what_does(tmp_path, clock):
    clock.takes = {"model": 10.0, "optimizer": 25.0, "loop": 1.0}
    Guard(tmp_path, clock=clock).save(parts(1))
    report = noticed(tmp_path, clock, budget_s=30).save(parts(2))
    assert [part.outcome for part in report.parts] == ["saved", "skipped", "saved"]
    assert report.parts[1].reason.startswith("by earlier saves it would take 25.0 s, and 20.0 s are left of 30 s: make")
    assert (report.notice.source, report.seconds_since_notice, report.seconds_left) == ("a test", 11.0, 19.0)
    assert (report.saved, report.missing) == (("model", "loop"), ("optimizer",))
    assert "saved 2 of 3 parts" in str(report) and "11.0 s after a test; 19.0 s are left" in str(report)
    found = resume(tmp_path)
    assert found.missing == ("optimizer",) and numbers(found) == {"model": 2, "loop": 2}
    assert str(found).endswith("has model, loop; it lacks optimizer")
    with pytest.raises(checkpoint.CheckpointError, match="it lacks 'optimizer': resume"):
        found.load("optimizer")


def test_generations_are_mixed_only_where_it_is_asked_for(tmp_path, clock):
    clock.takes = {"optimizer": 25.0}
    Guard(tmp_path, clock=clock).save(parts(1))
    noticed(tmp_path, clock, budget_s=20).save(parts(2))
    assert numbers(resume(tmp_path)) == {"model": 2, "loop": 2}
    mixed = resume(tmp_path, from_older=["optimizer"])
    assert mixed.older == ("optimizer",) and mixed.missing == ()
    assert numbers(mixed) == {"model": 2, "optimizer": 1, "loop": 2}
    assert "optimizer is of generation-00000001" in str(mixed)
    assert numbers(resume(tmp_path, need=["optimizer"])) == dict.fromkeys(NAMES, 1)
    with pytest.raises(ValueError, match="'model' is text: expected names of parts in a list"):
        resume(tmp_path, need="model")


def test_a_need_that_nothing_meets_is_told(tmp_path, caplog):
    Guard(tmp_path).save(parts(1))
    assert resume(tmp_path, need=["modle"]) is None
    assert "no generation has modle whole: there is nothing to resume from" in caplog.text


def test_after_a_notice_what_is_older_is_not_removed(tmp_path, clock):
    for number in (1, 2):
        Guard(tmp_path, keep=1).save(parts(number))
    noticed(tmp_path, clock, keep=1).save(parts(3))
    assert sorted(os.listdir(tmp_path))[:2] == ["generation-00000002", "generation-00000003"]


def test_a_generation_that_a_link_leads_to_is_not_removed(tmp_path):
    Guard(tmp_path / "elsewhere").save(parts(1))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "generation-00000001").symlink_to(tmp_path / "elsewhere" / "generation-00000001")
    for number in (2, 3):
        Guard(tmp_path / "root", keep=1).save(parts(number))
    assert numbers(resume(tmp_path / "elsewhere")) == dict.fromkeys(NAMES, 1)


def test_generations_that_lack_something_keep_older_ones_alive(tmp_path, clock):
    Guard(tmp_path, keep=1).save(parts(1))
    clock.takes = {"model": 50.0}
    for number in (2, 3):
        noticed(tmp_path, clock, budget_s=20).save(parts(number))
    assert numbers(resume(tmp_path, need=NAMES)) == dict.fromkeys(NAMES, 1)
    Guard(tmp_path, keep=1).save(parts(4))
    assert sorted(os.listdir(tmp_path)) == ["generation-00000004", "rates.json"]


def test_when_time_is_over_nothing_begins_and_nothing_is_left(tmp_path, clock):
    Guard(tmp_path).save(parts(1))
    guard = noticed(tmp_path, clock, budget_s=5)
    clock.now += 6
    report = guard.save(parts(2))
    assert report.folder is None and {part.reason for part in report.parts} == {"no time is left of 5 s"}
    assert report.seconds_left == -1 and numbers(resume(tmp_path)) == dict.fromkeys(NAMES, 1)
    assert sorted(os.listdir(tmp_path)) == ["generation-00000001", "rates.json"]


def test_a_notice_in_the_middle_of_a_save_holds_for_the_rest_of_it(tmp_path, clock, monkeypatch):
    clock.takes = {"optimizer": 25.0}
    Guard(tmp_path, clock=clock).save(parts(1))
    guard = Guard(tmp_path, clock=clock, budget_s=20)

    def save(state, folder, **options):
        checkpoint.save(state, folder, **options)
        guard._heard("a test")

    monkeypatch.setattr(preemption, "save_state", save)
    assert guard.save(parts(2)).missing == ("optimizer",)


def test_without_a_notice_a_failure_is_raised_and_leaves_nothing(tmp_path):
    guard = Guard(tmp_path)
    guard.save(parts(1))
    with pytest.raises(checkpoint.CheckpointError, match="a is of type set"):
        guard.save({**parts(2), "other": {"a": {1}}})
    assert numbers(resume(tmp_path)) == dict.fromkeys(NAMES, 1)
    assert sorted(os.listdir(tmp_path)) == ["generation-00000001", "rates.json"]


def test_after_a_notice_a_failure_costs_its_part_alone(tmp_path, clock, caplog):
    itself = []
    itself.append(itself)
    report = noticed(tmp_path, clock).save({"bad": {"a": {1}}, **parts(2), "itself": itself})
    assert report.missing == ("bad", "itself") and "a is of type set" in report.parts[0].reason
    assert "part bad was not saved: a is of type set" in caplog.text
    found = resume(tmp_path)
    assert found.missing == ("bad", "itself") and numbers(found) == dict.fromkeys(NAMES, 2)


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a/b", "a" * 101, 7, None])
def test_a_name_that_is_no_folders_is_refused(tmp_path, name):
    with pytest.raises(checkpoint.CheckpointError, match="is no name of a part"):
        Guard(tmp_path).save({name: {}})
    assert os.listdir(tmp_path) == []


def test_no_parts_are_refused(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match="there are 0 parts"):
        Guard(tmp_path).save({})


def test_what_is_damaged_counts_as_missing_where_it_is_read(tmp_path, caplog):
    guard = Guard(tmp_path, keep=5)
    for number in (1, 2, 3):
        guard.save(parts(number))
    newest, before = resume(tmp_path), tmp_path / "generation-00000002"
    for place in (newest.parts["model"], before / "optimizer"):
        data = next(place.glob("*.data"))
        content = bytearray(data.read_bytes())
        content[5000] ^= 1
        data.write_bytes(content)
    with pytest.raises(checkpoint.CheckpointError, match="checksum of 'w' is wrong"):
        resume(tmp_path).load("model", framework="np")
    assert resume(tmp_path, verified=True).missing == ("model",)
    assert numbers(resume(tmp_path, verified=True, need=["model"])) == {"model": 2, "loop": 2}
    assert numbers(resume(tmp_path, verified=True, need=NAMES)) == dict.fromkeys(NAMES, 1)
    assert numbers(resume(tmp_path, verified=True, from_older=["model"]))["model"] == 2
    assert "counts as missing" in caplog.text
    (newest.parts["loop"] / "checkpoint.json").write_text("damaged")
    assert resume(tmp_path).missing == ("loop",)


@pytest.mark.parametrize("said", [
    "", "[]", "{}", "[" * 60_000, '{"penstock.generation":1}', '{"penstock.generation":2,"parts":["model"]}',
    '{"penstock.generation":1,"parts":["../../model"]}', '{"penstock.generation":1,"parts":["model","model"]}',
    '{"penstock.generation":1,"parts":[{}]}', '{"penstock.generation":1,"parts":[]}', "{" + " " * notes.NBYTES_MAX])
def test_a_generation_that_says_nonsense_is_none(tmp_path, said):
    guard = Guard(tmp_path)
    guard.save(parts(1))
    guard.save(parts(2))
    (tmp_path / "generation-00000002" / "generation.json").write_text(said)
    assert numbers(resume(tmp_path)) == dict.fromkeys(NAMES, 1)
    guard.save(parts(3))
    assert numbers(resume(tmp_path)) == dict.fromkeys(NAMES, 3)


def test_a_shortage_is_no_reason_to_resume_from_nothing(tmp_path, monkeypatch, caplog):
    Guard(tmp_path).save({"loop": {"step": 7}})
    broken = [errno.ENFILE]

    def read(path):
        raise OSError(broken[0], os.strerror(broken[0]), str(path))

    monkeypatch.setattr("penstock.checkpoint.parts.read_note", read)
    with pytest.raises(OSError, match="Too many open files in system"):
        resume(tmp_path)
    broken[0] = errno.EIO
    assert resume(tmp_path) is None
    assert "passed over: [Errno 5] Input/output error" in caplog.text


def test_other_things_in_the_folder_are_left_alone(tmp_path):
    for name in ("generation-1", "generation-x", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "generation-00000007").write_text("a file")
    (tmp_path / "generation-00000008").mkdir()
    os.mkfifo(tmp_path / "generation-00000008" / "generation.json")
    guard = Guard(tmp_path, keep=1)
    assert guard.save(parts(1)).folder.name == "generation-00000009"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "rates.json") == [
        "generation-00000007", "generation-00000009", "generation-1", "generation-x", "notes"]


# ---- Knowing beforehand ----

def test_a_forecast_says_which_parts_fit_and_what_to_do(tmp_path, clock):
    guard = Guard(tmp_path, budget_s=30, clock=clock)
    unknown = guard.forecast(parts(1))
    assert unknown.holds is None and {part.fits for part in unknown.parts} == {None}
    assert str(unknown) == ("whether model (1.0 MB, unknown), optimizer (2.1 MB, unknown), loop (0 B, unknown) can be "
                            "saved in 30 s is unknown: not each part was saved here before. drill() measures it")
    clock.takes = {"model": 10.0, "optimizer": 25.0, "loop": 1.0}
    guard.save(parts(1))
    known = guard.forecast(parts(1))
    assert known.holds is False and [part.fits for part in known.parts] == [True, False, True]
    assert str(known) == ("model (1.0 MB, 10.0 s), loop (0 B, 1.0 s) fit into 30 s; optimizer (2.1 MB, 25.0 s) does "
                          "not fit into 30 s: make the state shorter, save to a faster drive, or have a budget_s of 36")
    # Another process knows it, too; a larger state takes longer; what is new is unknown, and so is what comes behind.
    later = Guard(tmp_path, budget_s=40, clock=clock)
    assert later.forecast(parts(1)).holds is True
    assert [part.seconds for part in later.forecast(parts(1, 2 * MIB)).parts] == [20.0, 50.0, 1.0]
    mixed = later.forecast({"model": parts(1)["model"], "new": {}, "loop": {}})
    assert [part.fits for part in mixed.parts] == [True, None, None] and mixed.holds is None
    assert not list(tmp_path.glob("*2"))


def test_the_slowest_of_the_last_three_saves_counts(tmp_path, clock):
    guard = Guard(tmp_path, clock=clock)
    for seconds in (50.0, 9.0, 5.0, 7.0):
        clock.takes = {"loop": seconds}
        guard.save({"loop": {}})
    assert guard.forecast({"loop": {}}).parts[0].seconds == pytest.approx(9.0)


def test_sizes_count_what_is_there_twice_once():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor, array = torch.zeros(100), numpy.zeros(10)
    itself = {"a": array, "b": [tensor, tensor.detach(), (array, b"12345", "text", 7)]}
    itself["again"] = itself
    assert preemption.nbytes_of(itself) == 400 + 80 + 5
    assert preemption.nbytes_of({"s": torch.zeros(3).to_sparse(), "m": numpy.zeros(2)}) >= 16


@pytest.mark.parametrize("said", [
    "", "null", "[1]", "[" * 60_000, '{"penstock.rates":2,"parts":{}}', '{"penstock.rates":1,"parts":[]}',
    '{"penstock.rates":1,"parts":{"../x":[[1,1.0]]}}', '{"penstock.rates":1,"parts":{"model":[[1]]}}',
    '{"penstock.rates":1,"parts":{"model":[[1,-1.0]]}}', '{"penstock.rates":1,"parts":{"model":[[true,1.0]]}}',
    '{"penstock.rates":1,"parts":{"model":[[1,NaN]]}}', '{"penstock.rates":1,"parts":{"model":[[1,Infinity]]}}',
    '{"penstock.rates":1,"parts":{"model":[[1,1e400]]}}', '{"penstock.rates":1,"parts":{"model":[[1,"1"]]}}',
    '{"penstock.rates":1,"parts":{"model":[[1,1],[1,1],[1,1],[1,1]]}}',
    '{"penstock.rates":1,"parts":{"model":[[' + "9" * 5000 + ',1]]}}', "{" + " " * notes.NBYTES_MAX + "}"])
def test_rates_that_make_no_sense_are_unknown_and_written_anew(tmp_path, said, caplog):
    (tmp_path / "rates.json").write_text(said)
    guard = Guard(tmp_path)
    assert "the times of earlier saves are unknown" in caplog.text and "rates.json" in caplog.text
    assert guard.forecast(parts(1)).holds is None
    assert guard.save(parts(1)).missing == ()
    assert set(json.loads((tmp_path / "rates.json").read_text())["parts"]) == set(NAMES)
    assert Guard(tmp_path).forecast(parts(1)).holds is True


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_rates_that_are_no_file_are_unknown(tmp_path, make, caplog):
    make(tmp_path / "rates.json")
    guard = Guard(tmp_path)
    assert "this is no regular file" in caplog.text
    assert guard.save(parts(1)).missing == () and resume(tmp_path).missing == ()


# ---- The drill ----

def test_a_drill_measures_and_leaves_nothing(tmp_path, clock):
    clock.takes = {"model": 4.0, "optimizer": 8.0, "loop": 1.0}
    guard = Guard(tmp_path, budget_s=10, clock=clock)
    Guard(tmp_path).save(parts(1))
    result = guard.drill(parts(2))
    assert [part.seconds for part in result.parts] == [4.0, 8.0, 1.0] and result.holds is False
    assert sorted(os.listdir(tmp_path)) == ["generation-00000001", "rates.json"]
    assert numbers(resume(tmp_path)) == dict.fromkeys(NAMES, 1)
    assert Guard(tmp_path, budget_s=20).forecast(parts(1)).holds is True
    assert Guard(tmp_path, budget_s=20, clock=clock).drill(parts(2)).holds is True


def test_a_drill_that_fails_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(checkpoint.CheckpointError, match="of type set"):
        Guard(tmp_path).drill({"model": {}, "bad": {1}})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 0, 100))
    with pytest.raises(OSError, match="the drill takes 3145728 bytes, of which 100 are free: nothing was") as caught:
        Guard(tmp_path).drill(parts(1))
    assert caught.value.errno == errno.ENOSPC and os.listdir(tmp_path) == []


def test_what_a_drill_that_was_killed_has_left_goes_when_it_is_old(tmp_path):
    for name in (".drill-old", ".drill-new"):
        (tmp_path / name / "model").mkdir(parents=True)
    os.utime(tmp_path / ".drill-old", (1, 1))
    Guard(tmp_path).drill({"loop": {}})
    assert sorted(os.listdir(tmp_path)) == [".drill-new", "rates.json"]
    assert resume(tmp_path) is None


# ---- A full disk ----

@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "penstock-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here: a full disk was not tested")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_on_a_full_disk_the_save_says_so_and_the_older_generation_stays(small_disk, clock):
    guard = Guard(small_disk)
    guard.save(parts(1))
    with pytest.raises(OSError, match="nothing was written. Remove older checkpoints") as caught:
        guard.save(parts(2, 2 * MIB))
    assert caught.value.errno == errno.ENOSPC
    assert numbers(resume(small_disk, verified=True)) == dict.fromkeys(NAMES, 1)
    report = noticed(small_disk, clock).save(parts(3, 2 * MIB))
    assert [part.outcome for part in report.parts] == ["saved", "failed", "saved"]
    assert "nothing was written. Remove older checkpoints" in report.parts[1].reason
    assert numbers(resume(small_disk, verified=True)) == {"model": 3, "loop": 3}
    assert numbers(resume(small_disk, need=NAMES)) == dict.fromkeys(NAMES, 1)
    with pytest.raises(OSError, match="the drill takes"):
        guard.drill(parts(4, 8 * MIB))


def test_where_nothing_at_all_can_be_written_the_report_says_so(small_disk, clock):
    Guard(small_disk).save(parts(1))
    with open(small_disk / "filler", "wb") as filler, pytest.raises(OSError):
        while True:
            os.write(filler.fileno(), bytes(4096))
    report = noticed(small_disk, clock).save(parts(2))
    assert report.saved == () and report.folder is None
    assert {part.outcome for part in report.parts} == {"failed"} and all(part.reason for part in report.parts)
    assert numbers(resume(small_disk, need=NAMES)) == dict.fromkeys(NAMES, 1)
