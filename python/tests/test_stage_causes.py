# SPDX-License-Identifier: Apache-2.0

"""Why a source cannot be had: staging tells what failed, and not what a library takes it for."""

import datetime
import errno
import ipaddress
import socket
import ssl

import pytest
from servers import Files

from penstock import stage
from penstock.stage import failures

pytest.importorskip("aiohttp", reason="aiohttp is not installed")


@pytest.fixture
def web():
    with Files() as opened:
        opened.contents = {"/a": b"content"}
        yield opened


@pytest.fixture
def tries(monkeypatch):
    monkeypatch.setattr(failures, "TRIES", 2)


def refused(source, tmp_path):
    with pytest.raises(stage.StageError) as failure:
        stage.stage([source], [tmp_path / "to"])
    assert not (tmp_path / "to").exists() and "check the name of the bucket" not in str(failure.value)
    return str(failure.value)


def test_a_server_that_refuses_the_connection_is_told(tries, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    failure = refused(f"http://127.0.0.1:{port}/a", tmp_path)
    assert f"list http://127.0.0.1:{port}/a: Cannot connect to host 127.0.0.1:{port}" in failure
    assert "tried 2 times: check that the server is up and can be reached" in failure


@pytest.mark.parametrize(("status", "failure"), [
    (401, "401.*name credentials"), (403, "403.*name credentials"), (407, "407.*look at what the source says"),
    (429, "429.*tried 2 times"), (500, "500.*tried 2 times"), (503, "503.*tried 2 times")])
def test_a_server_that_refuses_at_the_first_look_is_told_by_its_answer(tries, tmp_path, web, status, failure):
    web.heads = status
    with pytest.raises(stage.StageError, match=f"list {web.url('/a')}: .*{failure}"):
        stage.stage([web.url("/a")], [tmp_path / "to"])


def test_a_name_that_no_server_has_is_told(tmp_path, monkeypatch):
    def unknown(*words, **named):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    failure = refused("http://no-such-server.invalid/a", tmp_path)
    assert "no-such-server.invalid" in failure and "Name or service not known" in failure
    assert failure.endswith("check the name of the server, and that this machine asks the DNS that knows it")


def test_a_resolver_that_is_away_is_tried_again(tries, tmp_path, monkeypatch):
    def away(*words, **named):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", away)
    failure = refused("http://server.invalid/a", tmp_path)
    assert "Temporary failure in name resolution" in failure and "tried 2 times" in failure


@pytest.fixture
def certified(tmp_path):
    """(the address of a server whose certificate is its own, that certificate's file)"""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(),
                                    now - datetime.timedelta(1), now + datetime.timedelta(1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), True)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .sign(key, hashes.SHA256()))
    file = tmp_path / "certificate"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    with Files() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.contents = {"/a": b"content"}
        yield server.url("/a").replace("http:", "https:"), file


def test_a_certificate_that_is_not_trusted_is_told_at_once(certified, tmp_path, monkeypatch):
    failure = refused(certified[0], tmp_path)
    assert f"list {certified[0]}: " in failure and "certificate verify failed" in failure and "tried" not in failure
    assert "see that this is the server that you mean" in failure and "SSL_CERT_FILE" in failure
    monkeypatch.setenv("SSL_CERT_FILE", str(certified[1]))
    context = ssl.create_default_context(cafile=str(certified[1]))
    stage.stage([certified[0]], [tmp_path / "to"], options={"ssl": context})
    assert (tmp_path / "to/a").read_bytes() == b"content"


def test_a_certificate_that_is_not_trusted_is_told_of_s3_too(certified, tmp_path, monkeypatch, tries):
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    for name, value in {"AWS_ENDPOINT_URL": certified[0][:-2], "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
                        "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    failure = refused("s3://bucket/a", tmp_path)
    assert "certificate verify failed" in failure and "AWS_CA_BUNDLE" in failure


def test_a_pattern_tells_what_could_not_be_listed(tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    listing = type(memory).ls

    def ls(self, path, **named):
        if "closed" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listing(self, path, **named)

    monkeypatch.setattr(type(memory), "ls", ls)
    try:
        for name in ("open/a", "closed/a"):
            memory.pipe_file(f"/tree/{name}", b"x")
        with pytest.raises(stage.StageError, match="list memory://tree/./a: .*Permission denied.*credentials"):
            stage.stage(["memory://tree/*/a"], [tmp_path / "to"])
    finally:
        memory.rm("/tree", recursive=True)
