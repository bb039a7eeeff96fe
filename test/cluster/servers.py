# SPDX-License-Identifier: Apache-2.0

"""API servers of Kubernetes without a cluster: those of make_servers, on loopback, each with an etcd in a folder that
goes with it."""

import contextlib
import http.client
import json
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

READY_S = 90


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def make_certificates(folder):
    """A CA, and a certificate of a user whom every API server lets do everything (group system:masters)."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    for name, subject in (("ca", "/CN=ca"), ("admin", "/O=system:masters/CN=admin")):
        openssl("genrsa", "-out", f"{name}.key", "2048")
        if name == "ca":
            openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", subject, "-days", "1", "-out", "ca.crt")
        else:
            openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                    "-days", "1", "-out", f"{name}.crt")


class Server:
    """What answers at one port."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self._connection = None

    def ask(self, method, path, content=None):
        """(status, the answer's JSON or text, its warnings)"""
        body = None if content is None else json.dumps(content)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context,
                                                               timeout=30)
            try:
                self._connection.request(method, path, body, {"Content-Type": kind, "Accept": "application/json"})
                answer = self._connection.getresponse()
                text = answer.read().decode()
                break
            except (http.client.HTTPException, OSError):
                self._connection = None
                if attempt == 2:
                    raise
        with contextlib.suppress(ValueError):
            text = json.loads(text)
        return answer.status, text, answer.headers.get_all("Warning") or []

    def wait_for(self, path, wanted=(200,)):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", path)[0] in wanted:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"the API server does not answer to {path}: "
                           f"{(self.folder / 'server.log').read_text()[-2000:]}")


@contextlib.contextmanager
def started(command, log):
    with open(log, "wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=out, cwd=log.parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def etcd(binaries, folder):
    client, peer = free_port(), free_port()
    url = f"http://127.0.0.1:{client}"
    command = [binaries / "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", url, "--advertise-client-urls",
               url, "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync"]
    with started(command, folder / "etcd.log"):
        yield url


@contextlib.contextmanager
def custom(binaries):
    """The API server for custom resources: no core kinds, no controllers."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        make_certificates(folder)
        nowhere = folder / "kubeconfig"
        nowhere.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "none",
            "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
            "users": [{"name": "none", "user": {}}]}))
        url, port = stack.enter_context(etcd(binaries, folder)), free_port()
        stack.enter_context(started([
            binaries / "apiextensions-apiserver", f"--etcd-servers={url}", "--bind-address=127.0.0.1",
            f"--secure-port={port}", f"--cert-dir={folder}", f"--client-ca-file={folder}/ca.crt",
            f"--kubeconfig={nowhere}", f"--authentication-kubeconfig={nowhere}",
            f"--authorization-kubeconfig={nowhere}", "--authentication-skip-lookup",
            "--disable-admission-plugins=NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,"
            "ValidatingAdmissionPolicy,MutatingAdmissionPolicy"], folder / "server.log"))
        server = Server(folder, port)
        server.wait_for("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        yield server


def install(server, definition):
    """A CustomResourceDefinition, and waits until its kind is served. Returns the path of its objects."""
    status, answer, _ = server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    if status != 201:
        raise RuntimeError(f"{definition['metadata']['name']}: {status} {answer}")
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    server.wait_for(path)
    return path


@contextlib.contextmanager
def core(binaries):
    """A whole control plane: API server with role-based access control, controllers, scheduler; no node."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        make_certificates(folder)
        url, port = stack.enter_context(etcd(binaries, folder)), free_port()
        subprocess.run(["openssl", "genrsa", "-out", "account.key", "2048"], cwd=folder, check=True,
                       capture_output=True)
        stack.enter_context(started([
            binaries / "kube-apiserver", f"--etcd-servers={url}", "--bind-address=127.0.0.1", f"--secure-port={port}",
            "--insecure-port=0", f"--cert-dir={folder}", f"--client-ca-file={folder}/ca.crt",
            f"--service-account-key-file={folder}/account.key",
            f"--service-account-signing-key-file={folder}/account.key",
            "--service-account-issuer=https://localhost", "--authorization-mode=RBAC", "--allow-privileged=true",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Of endpoints that nobody asks for; it must be none of loopback.
            "--advertise-address=192.0.2.1"], folder / "server.log"))
        server = Server(folder, port)
        server.wait_for("/readyz")
        config = folder / "admin.kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"https://127.0.0.1:{port}",
                                                      "insecure-skip-tls-verify": True}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
            "users": [{"name": "admin", "user": {"client-certificate": str(folder / "admin.crt"),
                                                 "client-key": str(folder / "admin.key")}}]}))
        stack.enter_context(started([
            binaries / "kube-controller-manager", f"--kubeconfig={config}", "--leader-elect=false", "--port=0",
            f"--secure-port={free_port()}", "--bind-address=127.0.0.1", f"--cert-dir={folder}",
            f"--service-account-private-key-file={folder}/account.key",
            "--controllers=*,-nodeipam,-nodelifecycle,-cloud-node-lifecycle"], folder / "controllers.log"))
        stack.enter_context(started([
            binaries / "kube-scheduler", f"--kubeconfig={config}", "--leader-elect=false", "--port=0",
            f"--secure-port={free_port()}", "--bind-address=127.0.0.1", f"--cert-dir={folder}"],
            folder / "scheduler.log"))
        yield server
