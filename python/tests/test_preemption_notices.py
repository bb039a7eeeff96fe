# SPDX-License-Identifier: Apache-2.0

"""How a guard learns that its machine goes: signals, files, and the metadata services of clouds, which lie at times."""

import email.utils
import json
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
import types
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.checkpoint import notices
from penstock.checkpoint.preemption import Guard
from waiting import SECONDS_MAX, wait_until

POLL_S = 0.01
ACTION = "/latest/meta-data/spot/instance-action"


class Service:
    """A metadata service on loopback. answers: by method and path a (status, text), or a function of the headers that
    gives one. What is not among them is a 404. asked: the requests that came, with their headers."""

    def __init__(self):
        self.answers, self.asked, self.let_go = {}, [], threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                service.asked.append((self.command, self.path, dict(self.headers)))
                answer = service.answers.get((self.command, self.path), (404, "none"))
                status, text, *headers = answer(self.headers) if callable(answer) else answer
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text if isinstance(text, bytes) else text.encode())

            do_GET = do_PUT = answer

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def hangs(self, headers):
        self.let_go.wait(SECONDS_MAX)
        return 200, "TRUE"

    def close(self):
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def proxies(monkeypatch):
    """None of them is there: whoever asks one gets nothing."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


NOW = 1_900_000_000


@pytest.fixture(autouse=True)
def clocks_stand_still(monkeypatch):
    """By them how long a notice leaves is exact, however long it takes on a busy machine to come and to be read."""
    monkeypatch.setattr(notices, "time", types.SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic))


def guarded(tmp_path, *sources, **options):
    standing = {"signals": (), "budget_s": 100, "clock": lambda: 1000.0}
    return Guard(tmp_path, notices=sources, poll_s=POLL_S, **{**standing, **options})


def utc(seconds_from_now):
    return datetime.fromtimestamp(NOW + seconds_from_now, timezone.utc)


def aws(service, action, tokens=("first",)):
    """IMDSv2: no action without a token that is valid, which is the last of the tokens."""
    given = iter(tokens)
    service.answers["PUT", "/latest/api/token"] = lambda headers: (
        (200, next(given, tokens[-1])) if headers["X-aws-ec2-metadata-token-ttl-seconds"] else (400, ""))
    service.answers["GET", ACTION] = lambda headers: (
        action if headers["X-aws-ec2-metadata-token"] == tokens[-1] else (401, ""))
    return notices.Aws(service.url)


# ---- The clouds ----

def test_aws_tells_its_time_and_renews_its_token(service, tmp_path):
    source = aws(service, (404, ""), tokens=("old",))
    with guarded(tmp_path, source) as guard:
        wait_until(lambda: len(service.asked) > 6, "polling")
        assert not guard.is_noticed and guard.seconds_left is None
        said = json.dumps({"action": "terminate", "time": utc(50).strftime("%Y-%m-%dT%H:%M:%SZ")})
        aws(service, (200, said), tokens=("newer",))
        wait_until(lambda: guard.is_noticed, "notice")
        assert guard.notice.source == f"Aws at {service.url}" and guard.seconds_left == 50
    asked = [method for method, _, _ in service.asked]
    assert asked == ["PUT", *["GET"] * (len(asked) - 3), "PUT", "GET"] and {path for _, path, _ in service.asked} == {
        "/latest/api/token", ACTION}


@pytest.mark.parametrize("when, left", [
    (lambda: utc(1000).isoformat(), 100),   # No more than the budget.
    (lambda: utc(-1000).isoformat(), 100),  # Clocks differ: the machine is there.
    (lambda: "soon", 100), (lambda: None, 100), (list, 100), (lambda: "9999-99-99T00:00:00Z", 100),
    (lambda: utc(50).replace(tzinfo=None).isoformat(), 50),
])
def test_a_time_shortens_the_budget_and_never_lengthens_it(service, tmp_path, when, left):
    with guarded(tmp_path, aws(service, (200, json.dumps({"action": "stop", "time": when()})))) as guard:
        wait_until(lambda: guard.is_noticed, "notice")
        assert guard.seconds_left == left


def test_gce_says_true(service, tmp_path):
    said = ["FALSE"]
    service.answers["GET", "/computeMetadata/v1/instance/preempted"] = lambda headers: (
        (200, said[0]) if headers["Metadata-Flavor"] == "Google" else (403, ""))
    with guarded(tmp_path, notices.Gce(service.url)) as guard:
        wait_until(lambda: len(service.asked) > 2, "polling")
        assert not guard.is_noticed
        said[0] = "TRUE\n"
        wait_until(lambda: guard.is_noticed, "notice")
        assert guard.notice.source == f"Gce at {service.url}" and guard.seconds_left == 100


def events(*said):
    return json.dumps({"DocumentIncarnation": 1, "Events": [
        {"EventId": "1", "EventType": kind, "ResourceType": "VirtualMachine", "Resources": [vm], "EventStatus":
         "Scheduled", "NotBefore": email.utils.format_datetime(utc(left), usegmt=True) if left else ""}
        for kind, vm, left in said]})


@pytest.mark.parametrize("vm, said, left", [
    (None, [("Preempt", "a", 30)], 30),
    ("a", [("Preempt", "b", 10), ("Preempt", "a", 40), ("Preempt", "a", 60)], 40),
    (None, [("Reboot", "a", 10), ("Preempt", "a", 0)], 100),
    (None, [("Preempt", "a", 0), ("Preempt", "b", 40), ("Preempt", "c", -60)], 40),
])
def test_azure_tells_what_is_meant_for_this_machine(service, tmp_path, vm, said, left):
    path = "/metadata/scheduledevents?api-version=2020-07-01"
    others = [("Reboot", "a", 5)] + ([("Preempt", "b", 5)] if vm else [])
    answer = [events(*others)]
    service.answers["GET", path] = lambda headers: (200, answer[0]) if headers["Metadata"] == "true" else (400, "")
    with guarded(tmp_path, notices.Azure(service.url, vm=vm)) as guard:
        wait_until(lambda: len(service.asked) > 2, "polling")
        assert not guard.is_noticed
        answer[0] = events(*said)
        wait_until(lambda: guard.is_noticed, "notice")
        assert guard.seconds_left == left


@pytest.mark.parametrize("when", ["5", "[7]", '{"a": 1}', "null", '"soon"'])
def test_a_preemption_whose_time_cannot_be_read_is_told_all_the_same(service, tmp_path, when):
    answer = events(("Preempt", "a", 0)).replace('"NotBefore": ""', f'"NotBefore": {when}')
    service.answers["GET", "/metadata/scheduledevents?api-version=2020-07-01"] = (200, answer)
    with guarded(tmp_path, notices.Azure(service.url)) as guard:
        wait_until(lambda: guard.is_noticed, "notice")


def test_a_plain_url_says_yes_by_200(service, tmp_path):
    service.answers["GET", "/gone?me=1"] = (204, "")
    with guarded(tmp_path, notices.Url(f"{service.url}/gone?me=1")) as guard:
        wait_until(lambda: len(service.asked) > 2, "polling")
        assert not guard.is_noticed
        service.answers["GET", "/gone?me=1"] = (200, "")
        wait_until(lambda: guard.is_noticed, "notice")


GARBAGE = ["", "{", "null", "[" * 50_000, '{"Events": 7}', '{"Events": [7]}', '{"action": {}}', b"\xff\xfe\x00",
           "x" * (1 << 20)]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("kind", [notices.Aws, notices.Gce, notices.Azure])
def test_garbage_is_no_notice_and_told_once(service, tmp_path, caplog, kind, content):
    service.answers["GET", "/computeMetadata/v1/instance/preempted"] = (200, content)
    service.answers["GET", "/metadata/scheduledevents?api-version=2020-07-01"] = (200, content)
    aws(service, (200, content))
    with guarded(tmp_path, kind(service.url)) as guard:
        wait_until(lambda: len(service.asked) > 4, "polling")
        assert not guard.is_noticed
    seen = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(seen) == 1 and service.url in seen[0].getMessage() and "leave it out of notices" in seen[0].getMessage()


@pytest.mark.parametrize("answer", [
    (301, "", ("Location", "/elsewhere")), (302, "", ("Location", "http://127.0.0.1:1/")), (500, ""), (403, "")])
def test_what_redirects_or_refuses_is_no_notice(service, tmp_path, caplog, answer):
    service.answers["GET", "/gone"] = answer
    service.answers["GET", "/elsewhere"] = (200, "")
    with guarded(tmp_path, notices.Url(f"{service.url}/gone")) as guard:
        wait_until(lambda: len(service.asked) > 2, "polling")
        assert not guard.is_noticed
    assert {path for _, path, _ in service.asked} == {"/gone"}
    assert len(caplog.records) == 1 and f"status {answer[0]}" in caplog.text


def test_a_token_that_is_no_text_is_no_header(service, tmp_path, caplog):
    aws(service, (404, ""), tokens=("a\r\nHost: other",))
    with guarded(tmp_path, notices.Aws(service.url)) as guard:
        wait_until(lambda: caplog.records, "warning")
        assert not guard.is_noticed and "its token is not text" in caplog.text


# ---- What is missing, or hangs ----

def test_a_service_that_hangs_disturbs_neither_training_nor_other_notices(service, tmp_path, caplog):
    service.answers["GET", "/slow"] = service.hangs
    silent = socket.create_server(("127.0.0.1", 0))  # It takes connections, and never says a word.
    slow = notices.Url(f"{service.url}/slow", timeout_s=0.05)
    mute = notices.Url(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout_s=0.05)
    never = threading.Event()
    with silent, guarded(tmp_path, slow, mute, never.wait, notices.File(tmp_path / "gone")) as guard:
        wait_until(lambda: len(caplog.records) == 2, "warning of each")
        assert not guard.is_noticed and caplog.text.count("timed out") == 2
        (tmp_path / "gone").touch()
        wait_until(lambda: guard.is_noticed, "notice")
        assert guard.notice.source == f"file {tmp_path / 'gone'}"
    never.set()


def test_a_service_that_gives_a_byte_now_and_then_has_no_more_time(tmp_path, caplog):
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip():
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        while not stop.wait(0.01):
            try:
                connection.sendall(b"T")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    source = notices.Url(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout_s=0.1)
    with server, guarded(tmp_path, source):
        wait_until(lambda: caplog.records, "warning")
        assert "takes over 0.1 s" in caplog.text
        stop.set()
        thread.join()


def test_a_service_that_is_missing_or_speaks_no_http_is_told_once(tmp_path, caplog):
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    calls = []

    def broken():
        calls.append(1)
        raise LookupError

    with guarded(tmp_path, notices.Gce(f"http://127.0.0.1:{port}"), broken, lambda: "yes") as guard:
        wait_until(lambda: len(calls) > 5, "polling")
        wait_until(lambda: len(caplog.records) >= 3, "warning of each")
        assert not guard.is_noticed and len(caplog.records) == 3
    assert "Connection refused" in caplog.text and "broken failed: LookupError" in caplog.text
    assert "it gave 'yes': expected None, True, False or the seconds" in caplog.text


@pytest.mark.parametrize("make, sentence", [
    (lambda: notices.Url("127.0.0.1/gone"), "expected one with http"),
    (lambda: notices.Aws("file:///etc/passwd"), "expected one with http"),
    (lambda: notices.Gce(timeout_s=0), "timeout_s is 0"),
    (lambda: Guard(".", budget_s=0), "budget_s is 0"), (lambda: Guard(".", budget_s=float("nan")), "budget_s is nan"),
    (lambda: Guard(".", poll_s=-1), "poll_s is -1"), (lambda: Guard(".", keep=0), "keep is 0"),
    (lambda: Guard(".", notices=["gone"]), "expected callables"),
    (lambda: Guard(".", signals=[signal.SIGKILL]), "no process can take"),
    (lambda: Guard(".").agree(every=0), "every is 0"),
])
def test_what_makes_no_sense_is_refused_by_name(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


# ---- Files and callables ----

def test_a_file_tells_by_being_there_or_by_what_it_says(tmp_path):
    annotations = tmp_path / "annotations"
    annotations.write_text('app="trainer"\n')
    assert not notices.File(tmp_path / "none")() and notices.File(annotations)()
    source = notices.File(annotations, contains='preempted="true"')
    assert not source()
    annotations.write_text('app="trainer"\npreempted="true"\n')
    assert source()
    os.mkfifo(tmp_path / "pipe")
    assert not notices.File(tmp_path / "pipe", contains="x")()  # It does not wait for a writer.


@pytest.mark.parametrize("answer, left", [(True, 100), (7, 7), (float("nan"), 100), (0, 100)])
def test_a_callable_tells_by_what_it_gives(tmp_path, answer, left):
    with guarded(tmp_path, lambda: answer) as guard:
        wait_until(lambda: guard.is_noticed, "notice")
        assert guard.seconds_left == left


# ---- Signals ----

@pytest.fixture
def handler():
    """One that was there before, and what came to it."""
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    yield came
    signal.signal(signal.SIGTERM, before)


def test_a_handler_that_was_there_is_put_back_and_called_at_the_end(tmp_path, handler):
    mine = signal.getsignal(signal.SIGTERM)
    with Guard(tmp_path, signals=[signal.SIGTERM, signal.SIGUSR1]) as guard:
        assert not guard.is_noticed
        signal.raise_signal(signal.SIGTERM)
        first = guard.notice
        assert guard.is_noticed and first.source == "SIGTERM" and first.deadline == first.at + 30 and handler == []
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGUSR1)
        assert guard.notice is first and guard.save({"loop": {"step": 1}}).notice is first
    assert handler == [signal.SIGTERM] and signal.getsignal(signal.SIGTERM) is mine
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    with Guard(tmp_path):
        pass
    assert handler == [signal.SIGTERM]


def test_a_guard_that_ends_by_an_exception_puts_handlers_back(tmp_path, handler):
    mine = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyError), Guard(tmp_path):
        raise KeyError
    assert signal.getsignal(signal.SIGTERM) is mine and handler == []


def test_a_guard_is_entered_once_and_on_the_main_thread(tmp_path):
    with Guard(tmp_path) as guard, pytest.raises(RuntimeError, match="entered already"):
        guard.__enter__()
    logged = []

    def enter():
        try:
            Guard(tmp_path).__enter__()
        except RuntimeError as error:
            logged.append(str(error))
        with Guard(tmp_path, signals=()):
            logged.append("entered")

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert logged == ["signals can be taken on the main thread alone: enter the guard there, or give it signals=() and "
                    "notices", "entered"]


def test_a_process_that_is_forked_ends_by_the_signal(tmp_path):
    context = multiprocessing.get_context("fork")
    begun = context.Event()

    def run():
        begun.set()
        while True:  # Python sees a signal between two calls, and may sleep through one that comes right before.
            time.sleep(0.01)

    with Guard(tmp_path) as guard:
        child = context.Process(target=run)
        child.start()
        assert begun.wait(SECONDS_MAX)  # Python forgets a signal that comes while it forks.
        child.terminate()
        child.join(30)
        assert child.exitcode == -signal.SIGTERM and not guard.is_noticed
