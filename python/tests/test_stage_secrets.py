# SPDX-License-Identifier: Apache-2.0

"""What staging keeps to itself: passwords, signatures and tokens of URLs, and what belongs to one server alone."""

import http.server
import json
import os
import stat
import threading
import traceback
import warnings

import pytest
from servers import Files

from penstock import stage
from penstock.__main__ import main
from penstock.stage import failures, urls

aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
SECRETS = ["alice", "PASSWORD1", "SIGNATURE2", "TOKEN3", "CREDENTIAL4", "FRAGMENT5", "ANY6"]
QUERY = "?X-Amz-Signature=SIGNATURE2&token=TOKEN3&X-Amz-Credential=CREDENTIAL4/2026/s3/aws4_request&whatever=ANY6"
PART = 1 << 16


def secret(url):
    return url.replace("://", "://alice:PASSWORD1@") + f"{QUERY}#FRAGMENT5"


def assert_none_in(text):
    assert [each for each in SECRETS if each in text] == []


@pytest.fixture
def web():
    with Files() as opened:
        opened.contents = {f"/a{QUERY}": bytes(3 * PART), "/a": bytes(3 * PART)}
        yield opened


def files_below(folder):
    return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]


def test_no_file_keeps_what_opens_the_source(web, tmp_path, capsys):
    assert main(["stage", secret(web.url("/a")), str(tmp_path), "--part-bytes", str(PART), "--json"]) == 0
    output = capsys.readouterr()
    assert_none_in(output.out + output.err)
    assert sorted(os.listdir(tmp_path)) == ["a", stage.MANIFEST]
    text = (tmp_path / stage.MANIFEST).read_text()
    assert_none_in(text)
    assert json.loads(text)["files"]["a"]["source"].startswith(web.url("/a") + "?...")
    assert stat.S_IMODE((tmp_path / stage.MANIFEST).stat().st_mode) & 0o022 == 0
    assert main(["stage", secret(web.url("/a")), str(tmp_path), "--part-bytes", str(PART), "--dry-run", "--json"]) == 0
    assert_none_in(capsys.readouterr().out)


def test_what_is_begun_keeps_none_of_it_and_is_gone_on_with_under_a_new_signature(web, tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "TRIES", 1)
    web.answers = [200] * 2 + [500]
    with pytest.raises(stage.StageError, match="500"):
        stage.stage([secret(web.url("/a"))], [tmp_path], part_bytes=PART, parallel=1)
    for each in files_below(tmp_path):
        with open(each, "rb") as file:
            assert_none_in(file.read().decode(errors="replace") + each)
    signed_anew = QUERY.replace("SIGNATURE2", "ANOTHER")
    web.contents[f"/a{signed_anew}"] = bytes(3 * PART)
    assert stage.stage([web.url("/a") + signed_anew + "#FRAGMENT5"], [tmp_path], part_bytes=PART).fetched == PART


def test_urls_that_differ_in_what_is_not_shown_are_not_taken_for_one(web, tmp_path):
    web.contents = {f"/a?shard={i}": bytes([i]) * 99 for i in range(2)}
    web.has_tags = False
    for i in range(2):
        stage.stage([web.url(f"/a?shard={i}")], [tmp_path])
        assert (tmp_path / "a").read_bytes() == bytes([i]) * 99
    assert urls.origin_of("http://h/a?shard=0") != urls.origin_of("http://h/a?shard=1")


def test_a_manifest_of_an_earlier_release_loses_it(web, tmp_path):
    stage.stage([secret(web.url("/a"))], [tmp_path], part_bytes=PART)
    output = json.loads((tmp_path / stage.MANIFEST).read_text())
    output["files"]["a"]["source"] = secret(web.url("/a"))
    (tmp_path / stage.MANIFEST).write_text(json.dumps(output))
    assert stage.stage([secret(web.url("/a"))], [tmp_path], part_bytes=PART).skipped == 1
    assert_none_in((tmp_path / stage.MANIFEST).read_text())


@pytest.mark.parametrize("answers", [[403], [404], [500] * 99, [418], [-1] * 99])
def test_no_message_and_no_traceback_tells_it(web, tmp_path, monkeypatch, answers):
    monkeypatch.setattr(failures, "TRIES", 2)
    web.answers = answers
    with pytest.raises(stage.StageError) as output:
        stage.stage([secret(web.url("/a"))], [tmp_path], part_bytes=PART, parallel=1)
    assert_none_in(repr(output.value))
    assert_none_in("".join(traceback.format_exception(output.value)))


@pytest.mark.parametrize("url", [
    "http://127.0.0.1:9/x", "s3://bucket/x", "nonsense://bucket/x", "ftp://127.0.0.1:9/x", "sftp://127.0.0.1:9/x",
    "simplecache::http://127.0.0.1:9/x", "memory://none/x", "webdav://127.0.0.1:9/x", "gs://bucket/x"])
def test_no_kind_of_source_tells_it_when_it_fails(tmp_path, monkeypatch, capsys, url):
    monkeypatch.setattr(failures, "TRIES", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for source in (secret(url), secret(url.replace("/x", "/x/*")), secret(f"{url}/")):
        assert main(["stage", source, str(tmp_path)]) == 1
        output = capsys.readouterr().err
        assert_none_in(output)
        assert output.startswith("penstock: ")


@pytest.mark.parametrize(("said", "shown"), [
    ("s3://bucket/a b/c", "s3://bucket/a b/c"), ("/local/a?b#c", "/local/a?b#c"), ("file:///a?b", "file:///a?b"),
    ("http://u:p@h:80/a?b#c", "http://h:80/a"), ("http://u@h/a", "http://h/a"),
    ("http://u:p@[::1]:80/", "http://[::1]:80/"),
    ("http://u:p/q@h/a", "http://..."), ("http://u:p?q@h/a", "http://..."), ("http://u:p#q@h/a", "http://..."),
    ("http://u:a@b@h/a", "http://h/a"), ("x::http://u:p@h/a?b", "x::http://h/a"), ("http://h?token=x", "http://h"),
    ("http://h/http://u:p@i/a", "http://h/http://i/a"), ("http://h/@scope/a@1", "http://h/@scope/a@1")])
def test_what_is_shown_of_a_url(said, shown):
    assert urls.shown_of(said) == shown
    assert urls.shown_of(shown) == shown
    assert urls.origin_of(urls.origin_of(said)) == urls.origin_of(said)
    assert urls.without_secrets(f"open {said}: no") == f"open {shown}: no" or " " in said or said.startswith("file")


@pytest.mark.parametrize("text", [
    "X-Amz-Signature=SECRET&a", "token=SECRET", "api_key=SECRET", "aws_secret_access_key=SECRET", "password='SECRET x'",
    "X-Api-Key: SECRET", "Authorization: Bearer SECRET", "'Authorization': 'Basic SECRET'", "https://h/a?x=SECRET",
    "url='http://u:SECRET@h/'", "Cookie: SECRET", "sig=SECRET", '"secret"="SECRET"'])
def test_what_libraries_say_of_a_request_is_told_without_its_secrets(text):
    assert "SECRET" not in urls.said_without_secrets(f"failed: {text}, so")


@pytest.mark.parametrize("url", ["https://u:a'SECRET@h/x", "https://u:a''SECRET'@h/x", "https://u:a/b'SECRET@h/x",
                                 "https://h/x?sig=a'SECRET", "https://u:a\"SECRET@h/x", "https://u:a<SECRET>@h/x"])
def test_a_quotation_mark_within_a_url_does_not_end_what_is_hidden_of_it(url):
    for text in (f"open {url}: no", f"open '{url}': no", f"url={url!r}, so"):
        assert "SECRET" not in str(stage.StageError(text)), text


def test_what_is_none_stays_in_what_libraries_say():
    for text in ("The specified key does not exist.", "403, message='Forbidden', url='https://h/a'",
                 "get \"https://h/a\".", "(<https://h/a>)", "tokens: 5 left",
                 "/data/shard=5/x: no such file", "InvalidAccessKeyId: the key is not known", "monkey=5"):
        assert urls.said_without_secrets(text) == text


# ---- Redirects

class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Sends whoever asks to where `to` of the server says, and notes the headers that came."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.server.came.append(dict(self.headers))
        self.send_response(self.server.status)
        self.send_header("Location", self.server.to(self.path))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD


@pytest.fixture
def elsewhere():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        server.came, server.status = [], 302
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


GIVEN = {"X-Api-Key": "KEY4", "Authorization": "Bearer BEARER5", "Cookie": "COOKIE6", "X-Anything": "ANY7"}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    AUTH = aiohttp.BasicAuth("alice", "PASSWORD1")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("options", [
    {"headers": GIVEN}, {"client_kwargs": {"headers": GIVEN}}, {"auth": AUTH}, {"client_kwargs": {"auth": AUTH}},
    {"cookies": {"name": "COOKIE6"}}])
def test_what_belongs_to_a_server_does_not_go_along_to_another(web, elsewhere, tmp_path, status, options):
    elsewhere.status, elsewhere.to = status, web.url
    came = []
    web.on_headers = came.append
    stage.stage([f"{elsewhere.url}/a"], [tmp_path], part_bytes=PART, options=options)
    assert (tmp_path / "a").read_bytes() == bytes(3 * PART) and elsewhere.came and came
    wanted = {"Host", "Accept", "Accept-Encoding", "User-Agent", "Range", "If-Match"}
    assert [set(each) - wanted for each in came] == [set()] * len(came)
    assert all(set(each) - wanted for each in elsewhere.came)  # The one that was named got it.


def test_what_belongs_to_a_server_stays_with_it_when_it_redirects_to_itself(web, elsewhere, tmp_path):
    steps = iter(range(1000))
    elsewhere.to = lambda path: "/b" if next(steps) % 2 == 0 else web.url("/a")
    stage.stage([f"{elsewhere.url}/a"], [tmp_path], part_bytes=PART, options={"headers": GIVEN})
    assert all(set(GIVEN) <= set(each) for each in elsewhere.came) and len(elsewhere.came) % 2 == 0
