# SPDX-License-Identifier: Apache-2.0

"""Staging to folders that somebody else prepared, and from servers that answer what was not asked."""

import json
import os
import random
import shutil
import stat

import pytest
from servers import Files, environment_of, s3

from penstock import stage
from penstock.stage import manifest, names, remote
from penstock.stage.failures import ChangedError
from penstock.stage.source import Found

PART = 1 << 16
TEMPORARY = f"{'a' * 32}.part"
EVIL = b"evil content"


class Prepared:
    """A folder with a journal of somebody else's beside files of a victim."""

    def __init__(self, root):
        self.to, self.victim, self.source = root / "to", root / "victim", root / "source"
        self.state = self.to / ".penstock-stage"
        for each in (self.state, self.victim):
            each.mkdir(parents=True)
        (self.victim / "precious").write_bytes(b"precious")
        self.source.write_bytes(bytes(range(256)) * 300)

    def journal(self, *lines):
        (self.state / "journal").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def stage(self):
        try:
            return stage.stage([self.source], [self.to], part_bytes=PART)
        finally:
            assert {path.name: path.read_bytes() for path in self.victim.iterdir()} == {"precious": b"precious"}


@pytest.fixture
def prepared(tmp_path):
    return Prepared(tmp_path)


def begun(name="x", temporary=TEMPORARY, **other):
    return {"begin": name, "temporary": temporary, "source": "s", "size": len(EVIL), "version": None,
            "part_bytes": 4096, **other}


OTHERS = [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path.parents[2] / "victim/precious"),
          lambda path: path.hardlink_to(path.parents[2] / "victim/precious")]
OUT = ["../victim/precious", "/etc/x", "a/../../victim/precious", "a//b", "", ".", "..", ".penstock-stage/journal",
       stage.MANIFEST, "a\nb", "a\0b", 5, None, ["a"]]


@pytest.mark.parametrize("name", OUT)
def test_a_journal_gives_no_file_a_name_that_leads_elsewhere(prepared, name):
    (prepared.state / TEMPORARY).write_bytes(EVIL)
    facts = (prepared.state / TEMPORARY).stat()
    prepared.journal(begun(name), {"of": name, "part": 0, "sum": 0}, {"whole": name, "mtime_ns": facts.st_mtime_ns})
    with pytest.raises(stage.StageError, match=f"^read {prepared.state}/journal: line 1 is none that stage has written"
                                               f".* check who can write to {prepared.to}, remove {prepared.state},"):
        prepared.stage()
    with pytest.raises(stage.StageError, match="line 1 is none that stage has written"):
        stage.plan([prepared.source], [prepared.to])


@pytest.mark.parametrize("temporary", ["../../victim/precious", "precious", "journal", "", ".", f"../{TEMPORARY}",
                                       f"{TEMPORARY}\n", TEMPORARY.upper(), 5, None])
def test_a_journal_removes_and_moves_no_file_elsewhere(prepared, temporary):
    for name in ("source", "x"):
        prepared.journal(begun(name, temporary))
        with pytest.raises(stage.StageError, match="line 1 is none that stage has written"):
            prepared.stage()


@pytest.mark.parametrize("lines", [
    [5], [[]], [{}], [{"forget": "none"}], [begun(size=-1)], [begun(part_bytes=0)], [begun(part_bytes=1 << 40)],
    [begun(size="1")], [begun(version=5)], [begun(source=None)], [begun(sums={})], [begun(mtime_ns=5)],
    [begun(), {"of": "x", "part": 1, "sum": 0}], [begun(), {"of": "x", "part": -1, "sum": 0}],
    [begun(), {"of": "x", "part": 0, "sum": "1"}], [begun(), {"of": "y", "part": 0, "sum": 0}],
    [begun(), {"whole": "x", "mtime_ns": 1}], [begun(), {"of": "x", "part": 0, "sum": 0}, {"whole": "x"}],
    [begun(), begun("y")]])
def test_a_journal_that_no_run_has_written_is_told_and_changes_nothing(prepared, lines):
    (prepared.state / TEMPORARY).write_bytes(EVIL)
    prepared.journal(*lines)
    before = (prepared.state / "journal").read_bytes()
    for _ in range(2):  # The first one lets go of the folder.
        with pytest.raises(stage.StageError, match=f"line {len(lines)} is none that stage has written"):
            prepared.stage()
    assert (prepared.state / "journal").read_bytes() == before and (prepared.state / TEMPORARY).read_bytes() == EVIL


def test_a_journal_of_one_endless_line_is_cut(prepared):
    with open(prepared.state / "journal", "wb") as journal:
        journal.truncate(100 << 20)
    assert prepared.stage().fetched == 76800


@pytest.mark.parametrize("make", [*OTHERS, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("call", [Prepared.stage, lambda place: stage.plan([place.source], [place.to])])
def test_a_journal_that_is_no_file_of_its_own_is_told_at_once(prepared, make, call):
    make(prepared.state / "journal")
    with pytest.raises(stage.StageError, match=f"^read {prepared.state}/journal: it is a .*: remove {prepared.state}"):
        call(prepared)
    assert (prepared.victim / "precious").read_bytes() == b"precious"


@pytest.mark.parametrize("make", OTHERS)
def test_an_unfinished_file_that_is_somebody_elses_is_not_written_to(prepared, make):
    facts = prepared.source.stat()
    make(prepared.state / TEMPORARY)
    prepared.journal({**begun("source"), "source": str(prepared.source), "size": facts.st_size, "part_bytes": PART,
                      "version": f"{facts.st_size}-{facts.st_mtime_ns}"})
    with pytest.raises(stage.StageError, match=f"go on with .*{TEMPORARY}: it is no file that stage has made"):
        prepared.stage()


def test_what_stage_cannot_clear_away_is_named(prepared):
    (prepared.state / "folder").mkdir()
    with pytest.raises(stage.StageError, match=f"remove {prepared.state}/folder, which stage has not made: "):
        prepared.stage()
    (prepared.state / "folder").rmdir()
    (prepared.state / "other").symlink_to(prepared.victim / "precious")
    prepared.stage()
    assert sorted(os.listdir(prepared.to)) == [stage.MANIFEST, "source"]


def test_a_folder_in_the_place_of_a_whole_file_is_told(prepared):
    (prepared.state / TEMPORARY).write_bytes(EVIL)
    (prepared.to / "x").mkdir()
    prepared.journal(begun(), {"of": "x", "part": 0, "sum": 0}, {"whole": "x", "mtime_ns": 1})
    with pytest.raises(stage.StageError, match=f"name {prepared.to}/x: a folder has that name: remove it"):
        prepared.stage()


@pytest.mark.parametrize("name", [each for each in OUT if isinstance(each, str)])
def test_a_manifest_that_names_what_lies_elsewhere_is_told(prepared, name):
    entry = {"source": "s", "size": 8, "version": None, "part_bytes": 4096, "sums": [1], "mtime_ns": 1}
    (prepared.to / stage.MANIFEST).write_text(json.dumps({"format": 1, "files": {name: entry}}))
    for call in (prepared.stage, lambda: stage.check([prepared.to])):
        with pytest.raises(stage.StageError, match="it is no manifest of stage .it names .*: remove it"):
            call()


def test_a_manifest_of_endless_size_is_not_read(prepared):
    with open(prepared.to / stage.MANIFEST, "wb") as made:
        made.truncate(1 << 40)
    with pytest.raises(stage.StageError, match="it has more than the [0-9]+ bytes that such a file may have"):
        stage.check([prepared.to])


def test_a_pipe_that_takes_the_place_of_a_file_is_told_at_once(prepared, monkeypatch):
    prepared.stage()
    (prepared.to / "source").unlink()
    os.mkfifo(prepared.to / "source")
    monkeypatch.setattr("penstock.stage.run.facts_of", lambda *words: os.stat(prepared.source))  # It looked before.
    assert stage.check([prepared.to]).bad == {
        str(prepared.to / "source"): "source: it is a pipe, where a regular file is wanted"}


def test_a_source_that_becomes_a_pipe_is_told_at_once(prepared, monkeypatch):
    begin = names.new_temporary

    def swap():
        if stat.S_ISREG(prepared.source.stat().st_mode):
            prepared.source.unlink()
            os.mkfifo(prepared.source)
        return begin()

    monkeypatch.setattr("penstock.stage.jobs.new_temporary", swap)
    with pytest.raises(stage.StageError, match="fetch .*: it is a pipe, where a regular file is wanted"):
        prepared.stage()


# ---- Answers that are not of the question

@pytest.fixture
def web():
    with Files() as opened:
        opened.contents = {"/a": random.Random(1).randbytes(5 * PART + 99)}
        yield opened


@pytest.mark.parametrize("lie", [
    lambda begin, end, size: (f"bytes 0-{end - begin - 1}/{size}", 0),  # A cache that has the beginning alone.
    lambda begin, end, size: (f"bytes {begin}-{end}/{size}", begin),
    lambda begin, end, size: (f"bytes {begin + 1}-{end}/{size}", begin + 1),
    lambda begin, end, size: (f"bytes */{size}", begin), lambda begin, end, size: ("nonsense", begin),
    lambda begin, end, size: (None, 0), lambda begin, end, size: (f"items {begin}-{end - 1}/{size}", begin)])
@pytest.mark.parametrize("has_tags", [True, False])
def test_a_part_of_other_bytes_than_were_asked_for_is_refused(web, tmp_path, monkeypatch, lie, has_tags):
    web.lie, web.has_tags = lie, has_tags
    monkeypatch.setattr(remote.Http, "_version", lambda self, facts: facts.get("ETag", "by date"))
    with pytest.raises(stage.StageError, match=f"fetch {web.url('/a')}: the server, or a cache before it, answered with"
                                               ".* where bytes [0-9]+ to [0-9]+ were asked for: give --part-bytes 331"):
        stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    assert not (tmp_path / "a").exists()
    stage.stage([web.url("/a")], [tmp_path], part_bytes=331776)  # In one piece, of which no range is told.
    assert (tmp_path / "a").read_bytes() == web.contents["/a"]


def test_a_part_of_a_file_that_has_another_size_by_now_is_not_taken(web, tmp_path):
    web.lie = lambda begin, end, size: (f"bytes {begin}-{end - 1}/{2 * size}", begin)
    with pytest.raises(stage.StageError, match="it changed while it was fetched, 3 times"):
        stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    web.lie = lambda begin, end, size: (f"bytes {begin}-{end - 1}/*", begin)
    stage.stage([web.url("/a")], [tmp_path], part_bytes=PART)
    assert (tmp_path / "a").read_bytes() == web.contents["/a"]


FILE = Found(None, "", "s3://bucket/key", "s3://bucket/key", "key", 100, None)


@pytest.mark.parametrize(("answer", "failure"), [
    ((0, 10, 206, "bytes 0-9/100"), None), ((90, 10, 206, "bytes 90-99/100"), None), ((0, 100, 200, None), None),
    ((0, 100, 206, "bytes 0-99/100"), None), ((0, 10, 206, "Bytes 0-9/*"), None),
    ((0, 100, 206, None), "without a Content-Range"), ((0, 10, 200, None), "answered 200 to a Range"),
    ((0, 10, 200, "bytes 0-9/100"), "answered 200 to a Range"), ((0, 100, 203, None), "answered 203"),
    ((0, 10, 204, None), "answered 204"), ((0, 10, 206, "bytes 10-19/100"), "'bytes 10-19/100'"),
    ((0, 10, 206, "bytes 0-9"), "'bytes 0-9'"), ((0, 10, 206, "bytes 0-9/100, bytes 20-29/100"), "20-29"),
    ((0, 10, 206, "bytes 0-9/99"), ChangedError), ((0, 10, 206, f"bytes 0-{'9' * 40}/100"), "9999")])
def test_what_was_asked_is_compared_with_what_came(answer, failure):
    begin, size, status, said = answer
    if failure is None:
        remote._check_answer(FILE, begin, size, status, said)
    else:
        with pytest.raises(ChangedError if failure is ChangedError else stage.StageError) as refused:
            remote._check_answer(FILE, begin, size, status, said)
        assert failure is ChangedError or failure in str(refused.value)


@pytest.mark.parametrize("lie", [lambda asked, answer: answer.pop("ContentRange"),
                                 lambda asked, answer: answer.update(ContentRange="bytes 0-65535/262144")])
def test_an_object_of_s3_of_which_other_bytes_come_is_refused(tmp_path, monkeypatch, lie):
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto.server", reason="moto's server is not installed")
    call = s3fs.S3FileSystem._call_s3

    async def lying(self, method, *words, **named):
        answer = await call(self, method, *words, **named)
        if method == "get_object":
            lie(named, answer)
        return answer

    with s3() as (client, port):
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        client.create_bucket(Bucket="data")
        client.put_object(Bucket="data", Key="a", Body=bytes(range(256)) * 1024)
        stage.stage(["s3://data/a"], [tmp_path / "right"], part_bytes=PART)
        monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", lying)
        with pytest.raises(stage.StageError, match="fetch s3://data/a: the server, or a cache before it, answered"):
            stage.stage(["s3://data/a"], [tmp_path / "wrong"], part_bytes=PART)
    assert (tmp_path / "right/a").read_bytes() == bytes(range(256)) * 1024 and not (tmp_path / "wrong/a").exists()


def test_a_manifest_of_any_length_is_not_read(prepared):
    with open(prepared.to / stage.MANIFEST, "wb") as file:
        file.truncate(manifest.BYTES_MAX + 1)

    with pytest.raises(stage.StageError, match=str(manifest.BYTES_MAX)):
        prepared.stage()


def test_what_would_have_a_manifest_that_is_not_read_is_told_before_anything_is_fetched(prepared, monkeypatch):
    shutil.rmtree(prepared.state)
    monkeypatch.setattr(manifest, "BYTES_MAX", 250)

    with pytest.raises(stage.StageError, match="nothing was fetched.*--part-bytes"):
        prepared.stage()

    assert [path.name for path in prepared.to.iterdir() if path.is_file()] == []
