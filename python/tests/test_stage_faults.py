# SPDX-License-Identifier: Apache-2.0

"""Staging where things go wrong: kills, cut connections, sources that change, full drives, hostile names."""

import errno
import functools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import stage
from penstock.__main__ import main
from penstock.stage import failures, jobs, names, planning, remote

pytest.importorskip("s3fs", reason="s3fs is not installed")
pytest.importorskip("moto.server", reason="moto's server is not installed")
from servers import Files, Wire, environment_of, s3
from waiting import SECONDS_MAX

PART, PARALLEL = 1 << 16, 3
OVERHEAD = 1 << 16  # Bytes of heads and listings, of one run, at most.
CONTENTS = {"a": random.Random(1).randbytes(20 * PART + 99), "b/c": random.Random(2).randbytes(7 * PART),
            **{f"small/{i}": random.Random(i).randbytes(5000) for i in range(10)}}
TOTAL = sum(map(len, CONTENTS.values()))


@pytest.fixture(scope="module")
def bucket():
    """The port of a server that has it."""
    with s3() as (client, port):
        client.create_bucket(Bucket="data")
        for key, content in CONTENTS.items():
            client.put_object(Bucket="data", Key=key, Body=content)
        client.create_bucket(Bucket="hostile")
        client.put_object(Bucket="hostile", Key="x/../../y", Body=b"y")
        yield port


@pytest.fixture
def web():
    with Files() as opened:
        yield opened


@contextmanager
def staging(port, to, *more, **options):
    command = [sys.executable, "-m", "penstock", "stage", "s3://data", str(to), "--part-bytes", str(PART), "--parallel",
               str(PARALLEL), *more]
    with subprocess.Popen(command, env=environment_of(port), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          **options) as program:
        yield program


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*")
            if path.is_file() and path.name != stage.MANIFEST and ".penstock-stage" not in path.parts}


def assert_whole(folder):
    """What has its name is whole."""
    assert [name for name, content in files_in(folder).items() if CONTENTS[name] != content] == []


@pytest.mark.parametrize("seed", range(4))
def test_what_is_killed_again_and_again_goes_on_and_fetches_little_twice(bucket, tmp_path, seed):
    wire, to, chosen, kills = Wire(bucket), tmp_path / "to", random.Random(seed), 0
    while kills < 4:
        kill_at = wire.count + chosen.randrange(OVERHEAD, TOTAL // 3)
        with staging(wire.port, to) as program:
            wire.on_count = lambda count, at=kill_at, who=program: count >= at and not who.send_signal(signal.SIGKILL)
            code = program.wait(SECONDS_MAX)
        assert_whole(to)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    wire.on_count = lambda count: False
    with staging(wire.port, to) as program:
        assert (program.wait(SECONDS_MAX), program.stderr.read()) == (0, "")
    assert files_in(to) == CONTENTS and sorted(os.listdir(to)) == ["a", "b", stage.MANIFEST, "small"]
    assert kills >= 2
    assert wire.count <= TOTAL + kills * PARALLEL * PART + (kills + 2) * OVERHEAD
    assert stage.check([to]).bad == {}


def test_ctrl_c_ends_it_with_a_sentence_and_the_same_command_goes_on(bucket, tmp_path):
    wire = Wire(bucket)
    with staging(wire.port, tmp_path / "to") as program:
        def interrupt(count):
            """Nothing more arrives until it has ended, so that it cannot be done before it hears of the signal."""
            if count >= TOTAL // 2 and program.poll() is None:
                program.send_signal(signal.SIGINT)
                program.wait(SECONDS_MAX)
        wire.on_count = interrupt
        text = program.communicate(timeout=SECONDS_MAX)[1]
    assert program.returncode == 130
    assert text == ("penstock: interrupted: what is on the drives stays there; run the same command again to "
                    "resume\n")
    assert_whole(tmp_path / "to")
    wire.on_count = lambda count: False
    with staging(wire.port, tmp_path / "to") as program:
        assert program.wait(SECONDS_MAX) == 0
    assert files_in(tmp_path / "to") == CONTENTS and wire.count <= TOTAL + PARALLEL * PART + 2 * OVERHEAD


def test_connections_that_are_cut_are_made_anew(bucket, tmp_path, monkeypatch):
    wire, cuts = Wire(bucket), [OVERHEAD + i * 5 * PART for i in range(4)]
    wire.on_count = lambda count: bool(cuts) and count >= cuts[0] and bool(cuts.pop(0))
    for name, value in environment_of(wire.port).items():
        monkeypatch.setenv(name, value)
    assert main(["stage", "s3://data", str(tmp_path), "--part-bytes", str(PART), "--parallel", "3"]) == 0
    assert files_in(tmp_path) == CONTENTS and cuts == []


def test_failures_of_the_moment_are_tried_again(web, tmp_path):
    web.contents, web.answers = {"/a": CONTENTS["a"]}, [500, -100, 503, 200, -1]
    stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    assert (tmp_path / "a").read_bytes() == CONTENTS["a"] and web.answers == []


@pytest.mark.parametrize(("answers", "text"), [
    ([500] * 99, "500.*tried 3 times: check that the server is up.*again to resume"),
    ([-1] * 99, "tried 3 times"), ([403], "403.*credentials"), ([404], "404.*check the name"), ([418], "418")])
def test_failures_that_stay_are_told_with_step_cause_and_remedy(web, tmp_path, monkeypatch, answers, text):
    monkeypatch.setattr(failures, "TRIES", 3)
    web.contents, web.answers = {"/a": CONTENTS["a"]}, [200, *answers]
    with pytest.raises(stage.StageError, match=f"fetch http://.*/a from byte [0-9]+: .*{text}"):
        stage.stage([web.url("/a")], [tmp_path], part_bytes=PART, parallel=1)
    assert not (tmp_path / "a").exists()
    web.answers, before = [], web.sent
    stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    assert (tmp_path / "a").read_bytes() == CONTENTS["a"]
    assert web.sent - before == len(CONTENTS["a"]) - PART  # The first part was there.


def test_a_bucket_that_is_missing_and_a_server_that_is_away(bucket, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(failures, "TRIES", 2)
    for name, value in environment_of(bucket).items():
        monkeypatch.setenv(name, value)
    assert main(["stage", "s3://no-such-bucket/x", str(tmp_path)]) == 1
    assert "list s3://no-such-bucket/x: The specified bucket does not exist" in capsys.readouterr().err
    assert main(["stage", "s3://data/none", str(tmp_path)]) == 1
    assert "list s3://data/none: nothing has this name" in capsys.readouterr().err
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert main(["stage", "s3://data", str(tmp_path)]) == 1
    assert "tried 2 times: check that the server is up and can be reached" in capsys.readouterr().err
    assert main(["stage", "nonsense://data", str(tmp_path)]) == 1
    assert "fsspec knows no such scheme" in capsys.readouterr().err


# ---- Sources that change

@pytest.mark.parametrize("has_tags", [True, False])
def test_a_file_that_changes_while_it_is_fetched_comes_as_one_version(web, tmp_path, has_tags):
    new, web.has_tags = random.Random(9).randbytes(len(CONTENTS["a"])), has_tags
    web.contents = {"/a": CONTENTS["a"]}

    def change(path, begin):
        if begin >= 5 * PART:
            web.contents["/a"] = new

    web.before_get = change
    stage.stage([web.url("/a")], [tmp_path], part_bytes=PART if has_tags else 32 * PART)
    assert (tmp_path / "a").read_bytes() == (new if has_tags else CONTENTS["a"])


def test_a_file_that_changes_all_the_time_is_refused(web, tmp_path):
    def change(path, begin):
        web.contents["/a"] = random.Random(len(web.asked)).randbytes(3 * PART)

    change("/a", 0)
    web.before_get = change
    with pytest.raises(stage.StageError, match="it changed while it was fetched, 3 times"):
        stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    assert files_in(tmp_path) == {}


def test_parts_of_files_without_a_version_are_not_put_together(web, tmp_path):
    web.contents, web.has_tags = {"/a": CONTENTS["a"]}, False
    with pytest.raises(stage.StageError, match="the server names no version of it.*give --part-bytes 1314816"):
        stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    stage.stage([web.url("/a")], [tmp_path], part_bytes=1314816)
    web.contents["/a"] = new = random.Random(9).randbytes(len(CONTENTS["a"]))
    stage.stage([web.url("/a")], [tmp_path], part_bytes=1314816)
    assert (tmp_path / "a").read_bytes() == new


def test_what_was_begun_of_another_version_is_not_gone_on_with(web, tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "TRIES", 1)
    web.contents, web.answers = {"/a": CONTENTS["a"]}, [200] * 5 + [500]
    with pytest.raises(stage.StageError, match="500"):
        stage.stage([web.url("/a")], [tmp_path], part_bytes=PART, parallel=1)
    web.contents["/a"] = new = random.Random(9).randbytes(len(CONTENTS["a"]))
    done = stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    assert (tmp_path / "a").read_bytes() == new and done.fetched == len(new)


def test_a_local_file_that_changes_while_it_is_copied(tmp_path, monkeypatch):
    source, put = tmp_path / "a", jobs.Job.put
    source.write_bytes(CONTENTS["a"])

    def change(job, part, memory):
        put(job, part, memory)
        if job.attempt == 1 and part == 3:
            source.write_bytes(b"short")

    monkeypatch.setattr(jobs.Job, "put", change)
    stage.stage([source], [tmp_path / "to"], part_bytes=PART, parallel=1)
    assert files_in(tmp_path / "to") == {"a": b"short"}


# ---- Drives

@pytest.fixture
def begun(web, tmp_path, monkeypatch):
    """A folder in which six parts of a file are, and no more."""
    monkeypatch.setattr(failures, "TRIES", 1)
    web.contents, web.answers = {"/a": CONTENTS["a"]}, [200] * 6 + [500]
    with pytest.raises(stage.StageError, match="500"):
        stage.stage([web.url("/a")], [tmp_path / "to"], part_bytes=PART, parallel=1)
    return tmp_path / "to"


def test_parts_that_the_drive_lost_are_fetched_again(web, begun):
    partial, = (begun / ".penstock-stage").glob("*.part")
    with open(partial, "r+b") as file:
        file.seek(2 * PART + 17)
        file.write(b"damaged")
    done = stage.stage([web.url("/a")], [begun], part_bytes=PART)
    assert (begun / "a").read_bytes() == CONTENTS["a"]
    assert done.fetched == len(CONTENTS["a"]) - 5 * PART


def test_a_journal_that_was_cut_anywhere_costs_fetches_alone(web, begun, tmp_path):
    journal = (begun / ".penstock-stage/journal").read_bytes()
    fetched = set()
    for cut in sorted({*random.Random(5).sample(range(len(journal)), 12), 0, len(journal) - 1}):
        there = tmp_path / f"cut-{cut}"
        shutil.copytree(begun, there)
        (there / ".penstock-stage/journal").write_bytes(journal[:cut])
        fetched.add(stage.stage([web.url("/a")], [there], part_bytes=PART).fetched)
        assert files_in(there) == {"a": CONTENTS["a"]} and sorted(os.listdir(there)) == ["a", stage.MANIFEST]
    assert max(fetched) == len(CONTENTS["a"])


def test_a_drive_that_gives_back_other_bytes_is_told(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(CONTENTS["a"])
    monkeypatch.setattr(jobs.Job, "_sum_on_drive", lambda *words: 1)
    with pytest.raises(stage.StageError, match="read back .* the drive gives other bytes than were written"):
        stage.stage([tmp_path / "a"], [tmp_path / "to"], part_bytes=PART)
    assert files_in(tmp_path / "to") == {}
    stage.stage([tmp_path / "a"], [tmp_path / "to2"], part_bytes=PART, verify=False)


def test_bytes_that_are_not_those_of_the_tag_are_told(bucket, tmp_path, monkeypatch):
    for name, value in environment_of(bucket).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "md5_of", lambda tag: "0" * 32)
    for part_bytes in (PART, 64 * PART):
        with pytest.raises(stage.StageError, match="compare s3://data/a with its ETag"):
            stage.stage(["s3://data/a"], [tmp_path], part_bytes=part_bytes)
    assert files_in(tmp_path) == {}


@pytest.fixture
def small_drive(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "penstock-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here: a full drive was not tested")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_what_does_not_fit_is_refused_before_the_first_byte(web, small_drive, tmp_path, capsys):
    web.contents = {"/a": CONTENTS["a"]}
    assert main(["stage", web.url("/a"), str(small_drive)]) == 1
    text = capsys.readouterr().err
    assert "bytes, of which" in text and "are free: nothing was fetched. Free some space" in text and web.asked == []
    assert main(["stage", web.url("/a"), str(small_drive), "--dry-run"]) == 1
    assert "that does not fit" in capsys.readouterr().out
    with pytest.raises(OSError) as refused:
        stage.stage([web.url("/a")], [small_drive])
    assert refused.value.errno == errno.ENOSPC


def test_a_drive_that_is_full_in_the_midst_is_told_and_a_run_with_room_goes_on(small_drive, tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(CONTENTS["b/c"])
    monkeypatch.setattr("penstock.stage.run.check_room", lambda rooms: None)
    (small_drive / "filler").write_bytes(bytes(800 << 10))
    with pytest.raises(stage.StageError, match=f"allocate {small_drive}/a: No space left on device: free room"):
        stage.stage([tmp_path / "a"], [small_drive], part_bytes=PART)
    (small_drive / "filler").unlink()
    stage.stage([tmp_path / "a"], [small_drive], part_bytes=PART)
    assert files_in(small_drive) == {"a": CONTENTS["b/c"]}


def test_a_limit_on_the_size_of_files_is_told(bucket, tmp_path):
    limit = (10 * PART, 10 * PART)
    set_limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
    with staging(bucket, tmp_path / "to", preexec_fn=set_limit) as program:
        text = program.communicate(timeout=SECONDS_MAX)[1]
    assert program.returncode == 1 and f"allocate {tmp_path}/to/a: File too large" in text and "Traceback" not in text


def test_two_runs_to_one_folder_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    with planning.opened([tmp_path / "to"], None, is_dry=False):
        with pytest.raises(stage.StageError, match="another run stages to it just now: wait for its end"):
            stage.stage([tmp_path / "a"], [tmp_path / "to"])


# ---- Hostile names

@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//b", "", ".", "a/.", "a\nb", "a\0b", "\x7f",
                                  "\udcff", "a" * 256, "ä" * 128, ".penstock-stage/x", stage.MANIFEST])
def test_names_that_lead_out_or_that_no_drive_takes_are_refused(name):
    with pytest.raises(stage.StageError, match="list the sources: .*would be staged as"):
        names.check_name(name, "s3://bucket/key")


def test_hostile_keys_and_names_of_a_source_write_nothing(bucket, web, tmp_path, monkeypatch):
    for name, value in environment_of(bucket).items():
        monkeypatch.setenv(name, value)
    web.contents = {"/%2e%2e": b"x", "/a%2Fb%00": b"x"}
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/line\nbreak").write_bytes(b"x")
    for source in ("s3://hostile/x", web.url("/%2e%2e"), web.url("/a%2Fb%00"), tmp_path / "tree"):
        with pytest.raises(stage.StageError):
            stage.stage([source], [tmp_path / "below/to"])
    assert not (tmp_path / "below").exists()


def test_names_that_meet_are_refused(tmp_path):
    for name in ("one/a", "two/a", "three/a/b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(stage.StageError, match="would both be staged as 'a'"):
        stage.stage([tmp_path / "one", tmp_path / "two"], [tmp_path / "to"])
    with pytest.raises(stage.StageError, match="would be the file 'a', in which"):
        stage.stage([tmp_path / "one", tmp_path / "three"], [tmp_path / "to"])
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("at", ["a", "b", ".penstock-stage", stage.MANIFEST])
@pytest.mark.parametrize("make", [lambda path, elsewhere: path.symlink_to(elsewhere),
                                  lambda path, elsewhere: os.mkfifo(path)])
def test_links_and_pipes_in_the_folder_are_refused(tmp_path, at, make):
    elsewhere, to, source = tmp_path / "elsewhere", tmp_path / "to", tmp_path / "source"
    for folder in (elsewhere, to, source / "b"):
        folder.mkdir(parents=True)
    (source / "a").write_bytes(b"a")
    (source / "b/c").write_bytes(b"c")
    make(to / at, elsewhere)
    with pytest.raises(stage.StageError, match="remove"):
        stage.stage([source], [to])
    assert list(elsewhere.iterdir()) == [] and not (to / "a").is_file()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": 2, "files": {}}', b'{"format": 1, "files": {"a": 1}}',
                                  b'{"format": 1, "files": {"a": {"source": "s", "size": -1, "version": null, '
                                  b'"part_bytes": 4096, "sums": []}}}', b"[" * 100_000, b"\xff"])
def test_a_manifest_that_is_none_is_told(tmp_path, text):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / stage.MANIFEST).write_bytes(text)
    for call in (lambda: stage.check([tmp_path / "to"]), lambda: stage.stage([tmp_path / "a"], [tmp_path / "to"])):
        with pytest.raises(stage.StageError, match="it is no manifest of stage"):
            call()


def test_what_is_no_file_at_the_source_is_told(tmp_path):
    for name, make in (("pipe", os.mkfifo), ("dangling", lambda path: path.symlink_to("nowhere")),
                       ("folder", lambda path: path.symlink_to(tmp_path))):
        (tmp_path / name / "tree").mkdir(parents=True)
        make(tmp_path / name / "tree/x")
        with pytest.raises(stage.StageError, match="tree/x"):
            stage.stage([tmp_path / name / "tree"], [tmp_path / "to"])
