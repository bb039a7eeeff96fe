# SPDX-License-Identifier: Apache-2.0

"""What sources fail with: which failures are of the moment, and what users are told of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from penstock.stage.urls import said_without_secrets, without_secrets

T = TypeVar("T")

TRIES = 5
AGAIN = {408, 425, 429, 500, 502, 503, 504}


class StageError(OSError):
    """What was asked for cannot be staged, or what was staged is damaged. The text names step, cause and remedy, and
    no user, password or query of a URL."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*(without_secrets(word) if isinstance(word, str) else word for word in words))

    def __str__(self) -> str:  # Without its number.
        return str(self.args[-1])


class NotApplicableError(StageError):
    """It makes no sense on this machine."""


class ChangedError(Exception):
    """The source is not what was listed any more."""


class TransientError(Exception):
    """It may go well another time."""


def with_cause(call: Any, *words: Any, **named: Any) -> Any:
    """What the call gives, or its failure as ChangedError, TransientError or OSError."""
    try:
        return call(*words, **named)
    except (StageError, ChangedError, TransientError):
        raise
    except Exception as error:
        status = status_of(error)
        if status is None and isinstance(error, (FileNotFoundError, PermissionError)):
            raise
        if status == 412 or status == 416:
            raise ChangedError from error
        if status in AGAIN or status is None and _is_of_network(error):
            raise TransientError(f"{said_of(error)}") from error
        if status == 404:
            raise FileNotFoundError(said_of(error)) from error
        if status in (401, 403):
            raise PermissionError(said_of(error)) from error
        raise OSError(said_of(error)) from error


def patiently(call: Callable[[], T], wait: Callable[[float], object] = time.sleep) -> T:
    """What the call gives, tried TRIES times where a failure is of the moment."""
    for count in range(TRIES):
        try:
            return cast(T, with_cause(call))
        except TransientError:
            if count + 1 == TRIES:
                raise
        wait(min(0.2 * 2**count, 5.0))
    raise AssertionError


def failure_of(step: str, error: Exception, url: str = "") -> StageError:
    """With the remedy. url: the source as it was said, whose secrets are left out of what is told."""
    if isinstance(error, StageError):
        return error
    remedy = "look at what the source says of it"
    if isinstance(error, TransientError):
        remedy = f"it was tried {TRIES} times: see that the server is well and can be reached, and give the command " \
                 "again, which goes on"
    elif isinstance(error, PermissionError):
        remedy = "name credentials that may read it, as the source's own programs take them (AWS_PROFILE, " \
                 "AWS_ACCESS_KEY_ID; a file's mode), or ask its owner"
    elif isinstance(error, FileNotFoundError):
        remedy = "check the name of the bucket, server or folder, and that of the file"
    elif "redential" in str(error):
        remedy = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket " \
                 "FSSPEC_S3_ANON=true"
    return StageError(f"{step}: {said_without_secrets(said_of(error), url)}: {remedy}")


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status that it came of."""
    while error is not None:
        if isinstance(status := getattr(error, "status", None), int):
            return status
        told = getattr(error, "response", None)
        if isinstance(told, dict):
            return cast(int | None, told.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        error = error.__cause__
    return None


def _is_of_network(error: BaseException) -> bool:
    """By the libraries' names, which may not be installed."""
    if isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError)):
        return True
    names = {each.__name__ for each in type(error).__mro__}
    return bool(names & {"ClientError", "HTTPClientError", "IncompleteRead", "FSTimeoutError", "ResponseParserError",
                         "ClientPayloadError", "ConnectionError", "ProtocolError"})


def said_of(error: BaseException) -> str:
    """One line."""
    status = status_of(error)
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{text} (HTTP {status})" if status and str(status) not in text else text
