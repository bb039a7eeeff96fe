# SPDX-License-Identifier: Apache-2.0

"""Staging: what comes from where, where it goes, what is left of it, and what is checked."""

import base64
import json
import os
import random
import sys
from pathlib import Path

import pytest

import penstock
from penstock import stage
from penstock.__main__ import main
from penstock.stage import folders as placing
from penstock.stage import remote

pytest.importorskip("s3fs", reason="s3fs is not installed")
pytest.importorskip("moto.server", reason="moto's server is not installed")
from servers import Files, environment_of, s3

PART = 1 << 16
CONTENTS = {name: random.Random(name).randbytes(size) for name, size in
            {"big.bin": 5 * PART + 777, "sub/one part": PART, "sub/deep/x": 3, "empty": 0}.items()}


@pytest.fixture(scope="module")
def server():
    with s3() as opened:
        yield opened


@pytest.fixture
def bucket(server, request, monkeypatch):
    client, port = server
    for name, value in environment_of(port).items():
        monkeypatch.setenv(name, value)
    name = f"test-{abs(hash(request.node.name))}"
    client.create_bucket(Bucket=name)
    for key, content in CONTENTS.items():
        client.put_object(Bucket=name, Key=f"data/{key}", Body=content)
    return name


@pytest.fixture
def tree(tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(content)
    return tmp_path / "source"


@pytest.fixture
def web():
    with Files() as opened:
        yield opened


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*")
            if path.is_file() and path.name != stage.MANIFEST}


def test_a_folder_of_s3_comes_whole_and_is_not_fetched_twice(bucket, server, tmp_path):
    server[0].put_object(Bucket=bucket, Key="data/sub/", Body=b"")  # As consoles mark a folder.
    done = stage.stage([f"s3://{bucket}/data"], [tmp_path / "to"], part_bytes=PART)
    assert files_in(tmp_path / "to") == CONTENTS
    assert done.fetched == done.nbytes == sum(map(len, CONTENTS.values())) and done.skipped == 0
    assert done.files["sub/deep/x"] == tmp_path / "to/sub/deep/x"
    again = stage.stage([f"s3://{bucket}/data"], [tmp_path / "to"], part_bytes=PART)
    assert (again.fetched, again.skipped) == (0, len(CONTENTS))
    assert sorted(os.listdir(tmp_path / "to")) == ["big.bin", "empty", stage.MANIFEST, "sub"]


def test_a_file_or_a_pattern_of_s3_is_named_below_what_is_fixed_in_it(bucket, tmp_path):
    stage.stage([f"s3://{bucket}/data/sub/deep/x", f"s3://{bucket}/data/*.bin"], [tmp_path / "to"], part_bytes=PART)
    assert files_in(tmp_path / "to") == {"x": CONTENTS["sub/deep/x"], "big.bin": CONTENTS["big.bin"]}


def test_an_object_of_several_parts_whose_tag_is_no_md5_comes_whole(bucket, server, tmp_path):
    client, content = server[0], random.Random(3).randbytes((5 << 20) + 9)
    upload = client.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    tags = [client.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=number, Body=body)["ETag"]
            for number, body in ((1, content[:5 << 20]), (2, content[5 << 20:]))]
    client.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]})
    stage.stage([f"s3://{bucket}/parts"], [tmp_path], part_bytes=1 << 20)
    assert (tmp_path / "parts").read_bytes() == content


def test_the_checksum_of_an_object_is_compared_where_its_tag_is_none(bucket, server, tmp_path, monkeypatch):
    content = CONTENTS["big.bin"]
    right = penstock.default_session().crc32c(content)[0]
    monkeypatch.setattr(remote, "md5_of", lambda tag: None)
    server[0].put_object(Bucket=bucket, Key="k", Body=content, ChecksumAlgorithm="CRC32C",
                         ChecksumCRC32C=base64.b64encode(right.to_bytes(4, "big")).decode())
    stage.stage([f"s3://{bucket}/k"], [tmp_path], part_bytes=PART)
    assert (tmp_path / "k").read_bytes() == content
    monkeypatch.setattr(remote.S3, "checksum_of", lambda *words: right ^ 1)
    with pytest.raises(stage.StageError, match=f"compare s3://.*/k with its checksum: .* {right:08x}"):
        stage.stage([f"s3://{bucket}/k"], [tmp_path / "other"], part_bytes=PART)


@pytest.mark.parametrize("part_bytes", [PART, 8 * PART])
def test_the_tag_of_an_encrypted_object_is_no_md5(bucket, server, tmp_path, monkeypatch, part_bytes):
    server[0].put_object(Bucket=bucket, Key="k", Body=CONTENTS["big.bin"], ServerSideEncryption="aws:kms")
    monkeypatch.setattr(remote, "md5_of", lambda tag: "0" * 32)
    stage.stage([f"s3://{bucket}/k"], [tmp_path], part_bytes=part_bytes)
    assert (tmp_path / "k").read_bytes() == CONTENTS["big.bin"]


@pytest.mark.parametrize("said", ["source", "source/", "file"])
def test_local_folders_need_no_fsspec(tree, tmp_path, monkeypatch, said):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    stage.stage([tree.as_uri() if said == "file" else f"{tmp_path}/{said}"], [tmp_path / "to"], part_bytes=PART)
    assert files_in(tmp_path / "to") == CONTENTS
    with pytest.raises(stage.StageError, match=r"fsspec is not installed: pip install 'penstock\[stage\]'"):
        stage.stage(["s3://bucket/x"], [tmp_path / "to"])


def test_local_patterns_and_single_files(tree, tmp_path):
    stage.stage([f"{tree}/**/x", tree / "big.bin"], [tmp_path / "to"], part_bytes=PART)
    assert files_in(tmp_path / "to") == {"sub/deep/x": CONTENTS["sub/deep/x"], "big.bin": CONTENTS["big.bin"]}


def test_http_files_come_in_parts_by_their_last_name(web, tmp_path):
    web.contents = {"/a/big%20one.bin": CONTENTS["big.bin"]}
    stage.stage([web.url("/a/big%20one.bin")], [tmp_path], part_bytes=PART)
    assert files_in(tmp_path) == {"big one.bin": CONTENTS["big.bin"]}
    assert len(web.asked) == 6
    web.has_ranges = False
    web.contents = {"/b": CONTENTS["big.bin"]}
    with pytest.raises(stage.StageError, match="serves no part of a file .* give --part-bytes"):
        stage.stage([web.url("/b")], [tmp_path], part_bytes=PART)
    stage.stage([web.url("/b")], [tmp_path], part_bytes=8 * PART)
    assert (tmp_path / "b").read_bytes() == CONTENTS["big.bin"]


def test_a_folder_of_http_comes_by_its_page_of_links(web, tmp_path):
    web.contents = {"/d/": b'<a href="x.bin">x</a> <a href="sub/">below</a> <a href="../">above</a>',
                    "/d/sub/": b'<a href="y">y</a>', "/d/x.bin": b"xxx", "/d/sub/y": b"yy", "/up": b"up"}
    stage.stage([web.url("/d/")], [tmp_path / "to"])
    assert files_in(tmp_path / "to") == {"x.bin": b"xxx", "sub/y": b"yy"}
    web.contents["/d/"] += b'<a href="../up">elsewhere</a>'
    with pytest.raises(stage.StageError, match="lead out of the folder"):
        stage.stage([web.url("/d/")], [tmp_path / "to"])


def test_files_are_spread_over_folders_by_size_and_stay_where_they_are(tree, tmp_path):
    to = [tmp_path / "drive0", tmp_path / "drive1"]
    done = stage.stage([tree], to, part_bytes=PART)
    assert done.files["big.bin"].parent == to[0] and done.files["sub/one part"].parent == to[1] / "sub"
    assert files_in(to[0]) | files_in(to[1]) == CONTENTS
    assert stage.stage([tree], to[::-1], part_bytes=PART).fetched == 0
    assert stage.check(to).files == len(CONTENTS)


def test_what_is_staged_has_no_holes_and_the_mode_that_others_would_give_it(tree, tmp_path):
    stage.stage([tree], [tmp_path / "to"], part_bytes=PART)
    facts = (tmp_path / "to/big.bin").stat()
    assert facts.st_blocks * 512 >= facts.st_size
    assert facts.st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_source_that_changed_is_fetched_anew_and_the_rest_is_not(tree, tmp_path):
    stage.stage([tree], [tmp_path / "to"], part_bytes=PART)
    (tree / "sub/one part").write_bytes(b"another")
    done = stage.stage([tree], [tmp_path / "to"], part_bytes=PART)
    assert (done.fetched, done.skipped) == (7, 3)
    assert (tmp_path / "to/sub/one part").read_bytes() == b"another"


def test_a_staged_file_that_somebody_wrote_to_is_fetched_anew(tree, tmp_path):
    stage.stage([tree], [tmp_path / "to"], part_bytes=PART)
    (tmp_path / "to/big.bin").write_bytes(b"mine")
    (tmp_path / "to/sub/deep/x").unlink()
    assert stage.stage([tree], [tmp_path / "to"], part_bytes=PART).skipped == 2
    assert files_in(tmp_path / "to") == CONTENTS


def test_the_check_names_what_is_damaged(tree, tmp_path, capsys):
    to = tmp_path / "to"
    stage.stage([tree], [to], part_bytes=PART)
    assert main(["stage", "--check", str(to)]) == 0
    assert "every checksum is right" in capsys.readouterr().out
    facts = (to / "big.bin").stat()
    with open(to / "big.bin", "r+b") as file:
        file.seek(3 * PART + 5)
        flipped = file.read(1)[0] ^ 4
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([flipped]))
    os.utime(to / "big.bin", ns=(facts.st_atime_ns, facts.st_mtime_ns))  # As a drive would, which changes no time.
    (to / "sub/one part").write_bytes(b"short")
    (to / "empty").unlink()
    assert main(["stage", "--check", str(to), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["bad"] == {
        str(to / "big.bin"): f"bytes {3 * PART} to {4 * PART} are not those that were staged",
        str(to / "sub/one part"): f"it has 5 bytes, and {PART} were staged", str(to / "empty"): "it is gone"}
    assert main(["stage", "--check", str(tree)]) == 1
    assert "it has no penstock-stage.json" in capsys.readouterr().err


def test_a_dry_run_says_what_would_come_and_leaves_nothing(tree, tmp_path, capsys):
    assert main(["stage", str(tree), str(tmp_path / "to"), "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fetched"] == {name: len(content) for name, content in CONTENTS.items()} and document["fits"]
    assert document["bytes"] == sum(map(len, CONTENTS.values())) and not (tmp_path / "to").exists()
    stage.stage([tree], [tmp_path / "to"], part_bytes=PART)
    assert main(["stage", str(tree), str(tmp_path / "to"), "--dry-run"]) == 0
    assert f"0 of {len(CONTENTS)} files would be fetched, 0 bytes" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["only-one"], ["a", "--to"], ["--check"], ["a", "b", "--gpu", "-1"],
                                   ["a", "b", "--parallel", "0"]])
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["stage", *words])
    assert ended.value.code == 2 and "usage:" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_not_applicable(tree, tmp_path, capsys):
    assert main(["stage", str(tree), str(tmp_path / "to"), "--gpu", "99"]) == 77
    assert "there is no such GPU here" in capsys.readouterr().err and not (tmp_path / "to").exists()


def test_the_folders_nearest_to_the_gpu_are_taken(tmp_path):
    def drive(address, *below):
        return {"pci_address": address, "below": list(below)}

    stacks = {"/": drive("d0"), "/nowhere/1": drive("d1"), "/nowhere/md": drive("", drive("d1"), drive("d2")),
              "/nowhere/shm": None}
    machine = {"placement": [{"drive": each, "gpu": "g0", "relation": relation} for each, relation in
                             (("d0", "node"), ("d1", "switch"), ("d2", "apart"))],
               "file_systems": [{"mount_point": place, "stack": stack} for place, stack in stacks.items()]}
    one, md, shm, root = (Path("/nowhere", each) for each in ("1/data", "md", "shm/x", "other"))
    assert placing.nearest([root, one, md], "g0", machine) == [one]
    assert placing.nearest([md, root, shm], "g0", machine) == [root]
    with pytest.raises(stage.StageError, match="how far the drives of /nowhere/shm/x are is not known"):
        placing.nearest([shm], "g0", machine)


def test_any_other_file_system_of_fsspec_serves_too(tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    try:
        for name, content in CONTENTS.items():
            memory.pipe_file(f"/tree/{name}", content)
        stage.stage(["memory://tree"], [tmp_path / "to"], part_bytes=PART)
        assert files_in(tmp_path / "to") == CONTENTS
        assert stage.stage(["memory://tree"], [tmp_path / "to"], part_bytes=PART).fetched == 0
    finally:
        memory.rm("/tree", recursive=True)
