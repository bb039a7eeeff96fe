# SPDX-License-Identifier: Apache-2.0

"""One object in files on several drives."""

import os

import pytest

import penstock

SIZE = 3_000_001


@pytest.fixture
def object_of_two(session, tmp_path):
    content = os.urandom(SIZE)
    folders = [tmp_path / "d0", tmp_path / "d1"]
    for folder in folders:
        folder.mkdir()
    with session.create_stripe(tmp_path / "object", folders, SIZE, stripe_bytes=65536) as file:
        file.write(content[:1_000_000])
        file.write_async(content[1_000_000:], 1_000_000).result()
    return tmp_path / "object", content


def test_what_was_written_is_read_by_calls_and_futures(session, object_of_two):
    manifest, content = object_of_two
    with session.open_stripe(manifest) as file:
        found = bytearray(SIZE)
        report = file.read(found)
        assert report.bytes == SIZE and found == content
        piece = bytearray(500_000)
        assert file.read_async(piece, 123_456).result().bytes == 500_000
        assert piece == content[123_456:623_456]
        parts = [bytearray(70_000), bytearray(3), bytearray(200_000)]
        file.readv(parts, 10)
        assert b"".join(parts) == content[10:10 + 270_003]
        assert file.info()["size"] == SIZE


def test_its_members_are_ordinary_files(session, object_of_two):
    manifest, content = object_of_two
    with session.open_stripe(manifest) as file:
        facts = file.stripe_info()
    assert facts["size"] == SIZE and facts["stripe_bytes"] == 65536 and len(facts["members"]) == 2
    with open(facts["members"][1], "rb") as member:
        assert member.read(65536) == content[65536:131072]


def test_a_member_that_is_missing_or_cut_off_is_named(session, object_of_two):
    manifest, _ = object_of_two
    with session.open_stripe(manifest) as file:
        member = os.fsdecode(file.stripe_info()["members"][0])
    os.truncate(member, 10)
    with pytest.raises(penstock.BadStripeError, match="it has 10 bytes instead of") as caught:
        session.open_stripe(manifest)
    assert member in str(caught.value)
    os.remove(member)
    with pytest.raises(penstock.BadStripeError, match="it is missing"):
        session.open_stripe(manifest)


def test_what_fails_leaves_nothing(session, tmp_path):
    with pytest.raises(ZeroDivisionError), session.create_stripe(tmp_path / "object", [tmp_path], 100) as file:
        file.write(b"x" * (1 // 0))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(penstock.PenstockError):
        session.create_stripe(tmp_path / "object", [tmp_path], 100, stripe_bytes=1000)
