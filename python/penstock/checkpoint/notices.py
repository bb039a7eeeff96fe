# SPDX-License-Identifier: Apache-2.0

"""Sources of notices that this machine will be taken away: files and the metadata services of clouds.

A source is any callable without arguments. It returns None or False while the machine stays, and True or the seconds
left when it goes. Its caller runs it in a separate thread, and handles any exception.
"""

from __future__ import annotations

import email.utils
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ANSWER_BYTES_MAX = 1 << 16
METADATA = "http://169.254.169.254"  # An address, since resolving a name has no time limit.
AWS_TOKEN_S = 21600
AWS_ACTIONS = ("terminate", "stop", "hibernate")

Answer = float | bool | None
Source = Callable[[], Answer]


@dataclass
class File:
    """A file that appears: of a node's daemon, or mounted. contains: for a file that always exists, such as Kubernetes'
    annotations: the notice is this text in its first 64 KiB."""

    path: str | os.PathLike[str]
    contains: str | None = None

    def __call__(self) -> Answer:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        try:
            return self.contains is None or self.contains.encode() in os.read(fd, ANSWER_BYTES_MAX)
        finally:
            os.close(fd)

    def __str__(self) -> str:
        return f"file {Path(self.path)}"


@dataclass
class Url:
    """A URL that answers with 200 when the machine goes, and with 204 or 404 while it stays."""

    url: str
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url is {self.url!r}: expected one with http:// or https:// and a host")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s is {self.timeout_s}: expected more than 0")

    def __call__(self) -> Answer:
        status, _ = self._ask()
        return self._is_there(status, 204, 404)

    def __str__(self) -> str:
        return f"{type(self).__name__} at {self.url}"

    def _ask(self, path: str = "", method: str = "GET", headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Connects directly to the host: uses no proxy and follows no redirects."""
        parts = urlsplit(self.url + path)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout_s)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, self._content(response)
        except HTTPException as error:
            raise ValueError(f"it does not speak HTTP ({type(error).__name__})") from None
        finally:
            connection.close()

    def _content(self, response: HTTPResponse) -> str:
        """The time limit covers the whole response: a slow service gets no more time than a silent one."""
        until, content = time.monotonic() + self.timeout_s, b""
        while piece := response.read1(4096):
            content += piece
            if len(content) > ANSWER_BYTES_MAX or time.monotonic() > until:
                raise ValueError(f"its answer has over {ANSWER_BYTES_MAX} bytes or takes over {self.timeout_s} s")
        return content.decode(errors="replace")

    @staticmethod
    def _is_there(status: int, *none: int) -> bool:
        if status != 200 and status not in none:
            raise ValueError(f"it answers with status {status}")
        return status == 200


@dataclass
class Aws(Url):
    """The instance action of an EC2 spot instance (IMDSv2), two minutes before."""

    url: str = METADATA
    _token: str = field(default="", init=False, repr=False)

    def __call__(self) -> Answer:
        status, text = self._action() if self._token else (401, "")
        if status == 401:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(AWS_TOKEN_S)}
            status, token = self._ask("/latest/api/token", "PUT", headers)
            self._is_there(status)
            self._token = token.strip()
            status, text = self._action()
        if not self._is_there(status, 404):
            return None
        said = _object(text)
        if said.get("action") not in AWS_ACTIONS:
            raise ValueError(f"it names no action: {text[:80]!r}")
        return _seconds_until(said.get("time"), datetime.fromisoformat)

    def _action(self) -> tuple[int, str]:
        if not self._token.isascii() or not self._token.isprintable():
            raise ValueError("its token is not text")
        return self._ask("/latest/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": self._token})


@dataclass
class Gce(Url):
    """Whether a spot or preemptible machine of Google's is being preempted, about 30 seconds before."""

    url: str = METADATA

    def __call__(self) -> Answer:
        status, text = self._ask("/computeMetadata/v1/instance/preempted", headers={"Metadata-Flavor": "Google"})
        if not self._is_there(status) or text.strip() not in ("TRUE", "FALSE"):
            raise ValueError(f"it says neither TRUE nor FALSE: {text[:80]!r}")
        return text.strip() == "TRUE"


@dataclass
class Azure(Url):
    """The scheduled event Preempt of Azure, 30 seconds before. vm: only events that list this name among their
    resources; without it, events of any machine in the scale set."""

    url: str = METADATA
    vm: str | None = None

    def __call__(self) -> Answer:
        status, text = self._ask("/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"})
        self._is_there(status)
        events = _object(text).get("Events")
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise ValueError(f"it has no list of events: {text[:80]!r}")
        times = [_seconds_until(event.get("NotBefore"), email.utils.parsedate_to_datetime) for event in events
                if event.get("EventType") == "Preempt" and self._is_meant(event.get("Resources"))]
        ahead = [left for left in times if left is not True and left > 0]
        return min(ahead) if ahead else bool(times) or None

    def _is_meant(self, resources: Any) -> bool:
        return self.vm is None or (isinstance(resources, list) and self.vm in resources)


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ValueError(f"it answers with no object of JSON: {text[:80]!r}")
    return said


def _seconds_until(said: Any, parse: Callable[[str], datetime]) -> float | bool:
    """True if it has no readable time: the notice still counts."""
    try:
        when = parse(said)
        return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError, AttributeError):
        return True
