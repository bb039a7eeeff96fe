# SPDX-License-Identifier: Apache-2.0

"""Failures of sources: which are temporary, and the messages for the others."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from penstock.stage.urls import said_without_secrets, without_secrets

T = TypeVar("T")

TRIES = 5
NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
AGAIN = {408, 425, 429, 500, 502, 503, 504}


class StageError(OSError):
    """The files cannot be staged, or staged files are damaged. The text names step, cause and remedy, but no user,
    password or query of a URL."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*(without_secrets(word) if isinstance(word, str) else word for word in words))

    def __str__(self) -> str:  # Without the errno.
        return str(self.args[-1])


class NotApplicableError(StageError):
    """The request makes no sense on this machine."""


class ChangedError(Exception):
    """The source has changed since it was listed."""


class TransientError(Exception):
    """A later try may succeed."""


class UntrustedError(OSError):
    """The server shows a certificate that this machine does not trust."""


class UnknownServerError(OSError):
    """No server has this name."""


def with_cause(call: Any, *words: Any, **named: Any) -> Any:
    """Returns the call's result, or raises its failure as ChangedError, TransientError or OSError."""
    try:
        return call(*words, **named)
    except (StageError, ChangedError, TransientError):
        raise
    except Exception as error:
        cause = _cause_of(error)
        status = status_of(cause)
        if status is None and isinstance(cause, (FileNotFoundError, PermissionError)):
            raise cause from None
        raise _kind_of(cause, status)(said_of(cause)) from error


def _cause_of(error: Exception) -> BaseException:
    """fsspec reports any failure of its first request as a missing file with its URL; the real failure is the cause of
    that."""
    while (isinstance(error, OSError) and error.errno is None and isinstance(error.__cause__, Exception)
           and ("://" in str(error) or " " not in str(error))):
        error = error.__cause__
    return error


def _kind_of(error: BaseException, status: int | None) -> type[Exception]:
    behind = list(_chain_of(error))
    if status in (412, 416):
        return ChangedError
    if status in AGAIN:
        return TransientError
    if status is not None:
        return {404: FileNotFoundError, 410: FileNotFoundError, 401: PermissionError, 403: PermissionError}.get(
            status, OSError)
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in behind):
        return UntrustedError
    if any(isinstance(each, socket.gaierror) and each.errno in NO_SUCH_NAME for each in behind):
        return UnknownServerError
    return TransientError if _is_of_network(error) else OSError


def _chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, which libraries store in different attributes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(of_system := getattr(error, "os_error", None), OSError) and of_system is not error:
            yield of_system
        error = error.__cause__ or error.__context__


def patiently(call: Callable[[], T], wait: Callable[[float], object] = time.sleep) -> T:
    """Returns the call's result, with TRIES tries for temporary failures."""
    for count in range(TRIES):
        try:
            return cast(T, with_cause(call))
        except TransientError:
            if count + 1 == TRIES:
                raise
        wait(min(0.2 * 2**count, 5.0))
    raise AssertionError


def failure_of(step: str, error: Exception, url: str = "") -> StageError:
    """The StageError with its remedy. url: the source as given; its secrets are removed from the message."""
    if isinstance(error, StageError):
        return error
    remedy = "look at what the source says of it"
    if isinstance(error, TransientError):
        remedy = f"it was tried {TRIES} times: check that the server is up and can be reached, and run the command " \
                 "again to resume"
    elif isinstance(error, PermissionError):
        remedy = "name credentials that may read it, as the source's own programs take them (AWS_PROFILE, " \
                 "AWS_ACCESS_KEY_ID; a file's mode), or ask its owner"
    elif isinstance(error, UntrustedError):
        remedy = "see that this is the server that you mean; where its certificate is of an authority of your own, " \
                 "name that one's file by SSL_CERT_FILE (S3: AWS_CA_BUNDLE)"
    elif isinstance(error, UnknownServerError):
        remedy = "check the name of the server, and that this machine asks the DNS that knows it"
    elif isinstance(error, FileNotFoundError):
        remedy = "check the name of the bucket, server or folder, and that of the file"
    elif "redential" in str(error):
        remedy = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket " \
                 "FSSPEC_S3_ANON=true"
    return StageError(f"{step}: {said_without_secrets(said_of(error), url)}: {remedy}")


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status that caused it."""
    while error is not None:
        if isinstance(status := getattr(error, "status", None), int):
            return status
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            return cast(int | None, response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        error = error.__cause__
    return None


def _is_of_network(error: BaseException) -> bool:
    """Compares class names, since the libraries may not be installed."""
    if isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError)):
        return True
    names = {each.__name__ for each in type(error).__mro__}
    return bool(names & {"ClientError", "HTTPClientError", "IncompleteRead", "FSTimeoutError", "ResponseParserError",
                         "ClientPayloadError", "ConnectionError", "ProtocolError"})


def said_of(error: BaseException) -> str:
    """The message in one line, with the system's error appended if it lacks that."""
    status = status_of(error)
    text = " ".join(str(error).split()) or type(error).__name__
    if status and str(status) not in text:
        text += f" (HTTP {status})"
    for each in _chain_of(error):
        if isinstance(each, OSError) and each.errno and (each.strerror or "") not in text:
            text += f" ({each.strerror})"
            break
    return text
