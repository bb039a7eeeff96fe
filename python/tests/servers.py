# SPDX-License-Identifier: Apache-2.0

"""Servers on loopback for the tests of staging: S3 behind a wire that counts and can be cut, and files by HTTP."""

import hashlib
import http.server
import os
import socket
import threading
from contextlib import closing, contextmanager, suppress


class Wire:
    """Between a client and a server. `count`: bytes that the server has sent. `on_count(count)` is called after each
    piece; what it returns True for is cut off there."""

    def __init__(self, port):
        self.count, self.on_count = 0, lambda count: False
        self._port, self._lock = port, threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source, target, counts):
        with suppress(OSError), closing(source), closing(target):
            while piece := source.recv(1 << 14):
                if counts:
                    with self._lock:
                        self.count += len(piece)
                        if self.on_count(self.count):
                            break
                target.sendall(piece)
            for each in (source, target):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()


class Files(http.server.ThreadingHTTPServer):
    """Serves `contents` by path. Of `answers` the first is given in place of what was asked for, while there is one; a
    negative one cuts the answer after so many bytes. `asked` is what came, `sent` how many bytes of files went. What
    `lie(begin, end, size)` gives is what parts are said to be, in place of the truth: a Content-Range, or None; and
    where from they are. heads: what a look is answered. `on_headers` gets those of each request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents, self.answers, self.asked, self.sent = {}, [], [], 0
        self.has_ranges = self.has_tags = True
        self.before_get = lambda path, begin: None
        self.on_headers, self.heads = lambda headers: None, 200
        self.lie = lambda begin, end, size: (f"bytes {begin}-{end - 1}/{size}", begin)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def handle_error(self, request, client_address):
        pass  # Clients go away.


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.do_GET(is_head=True)

    def do_GET(self, is_head=False):
        server = self.server
        server.on_headers(dict(self.headers))
        asked = self.headers.get("Range") if server.has_ranges else None
        begin, end = (int(each) for each in asked[6:].split("-")) if asked else (0, None)
        if not is_head:
            server.asked.append((self.path, begin))
            server.before_get(self.path, begin)
        content = server.contents.get(self.path)
        answer = server.answers.pop(0) if server.answers and not is_head else 200
        if is_head or server.heads > 200:
            answer = server.heads
        if content is None or answer > 200:
            return self._end(404 if content is None else answer)
        tag = f'"{hashlib.sha1(content).hexdigest()}"'
        if server.has_tags and self.headers.get("If-Match", tag) != tag:
            return self._end(412)
        part = content[begin:None if end is None else end + 1]
        self.send_response(206 if asked else 200)
        if asked:
            said, where = server.lie(begin, begin + len(part), len(content))
            part = content[where:where + len(part)]
            if said is not None:
                self.send_header("Content-Range", said)
        self.send_header("Content-Length", str(len(part)))
        if server.has_tags:
            self.send_header("ETag", tag)
        self.end_headers()
        if not is_head:
            sent = part if answer == 200 else part[:-answer]
            server.sent += len(sent)
            self.wfile.write(sent)
            if answer < 0:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

    def _end(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def s3():
    """(a client of boto3, the port)"""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    import boto3

    port = server.get_host_and_port()[1]
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                          aws_access_key_id="test", aws_secret_access_key="test")
    try:
        yield client, port
    finally:
        server.stop()


def environment_of(port):
    """Of programs that take this server for Amazon's."""
    return {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
