# SPDX-License-Identifier: Apache-2.0

"""Exceptions. All are `PenstockError`, which is an `OSError`.

The text is a sentence that names the file, the step, the cause and the remedy. `errno` is set if the operating system
reported one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._native import Report

__all__ = [
    "BadSettingError", "BadStripeError", "CanceledError", "ClosedError", "DeviceError", "LimitError",
    "PathRefusedError", "PenstockError", "TimedOutError", "UnsupportedError",
]

_DOMAINS = ("penstock", "os", "driver")


class PenstockError(OSError):
    """A call of Penstock failed.

    Attributes:
        domain: the origin of `code`: "penstock", "os" (an errno) or "driver" (of a device's driver). code: the number;
        names are in penstock.h, penstock_code. driver: in domain "driver" the kind of device ("cuda"); else "". step:
        what failed, as a verb phrase. report: a `Report` of the bytes moved before the failure, or None if there can be
        none. filename: the file, if it was opened by name, else None. The text begins with it.
    """

    domain: str = "penstock"
    code: int = 0
    driver: str = ""
    step: str = ""
    report: Report | None = None

    def __str__(self) -> str:
        sentence = str(self.args[0]) if self.args else type(self).__name__
        name = None if self.filename is None else os.fsdecode(self.filename)
        return sentence if name is None or name in sentence else f"{name}: {sentence}"


class ClosedError(PenstockError):
    """The session or file is closed, or belongs to the process that forked this one."""


class BadStripeError(PenstockError):
    """A striped object's manifest or a member is missing, truncated, torn or from another object; the message names
    it."""


class TimedOutError(PenstockError, TimeoutError):
    """The deadline of a request has passed. A read's destination is not written afterwards."""


class CanceledError(PenstockError):
    """The request was canceled before it began."""


class PathRefusedError(PenstockError):
    """The settings allow only paths that cannot move this request."""


class BadSettingError(PenstockError, ValueError):
    """An unknown setting, or a value that it does not accept."""


class LimitError(PenstockError):
    """Too much at once: pinned memory, handles."""


class DeviceError(PenstockError):
    """There is no such device, its driver failed, or it went away."""


class UnsupportedError(PenstockError):
    """Not supported with this file, kernel, device or version."""


_BY_CODE: dict[int, type[PenstockError]] = {
    5: UnsupportedError, 6: UnsupportedError, 11: DeviceError, 12: PathRefusedError, 13: UnsupportedError,
    16: LimitError, 17: ClosedError, 18: UnsupportedError, 19: DeviceError, 21: BadSettingError, 22: PathRefusedError,
    23: PathRefusedError, 25: CanceledError, 26: TimedOutError,
    27: BadStripeError,
}


# Replaces the library's message where Python knows more.
_CLOSED = {"use a closed file": "could not use the file: it is closed; open it anew",
           "use a file of a closed session": "could not use the file: its session is closed; open it with another one"}


def of_status(domain: int, code: int, driver: str, step: str, sentence: str, report: Report | None,
              filename: str | None = None) -> PenstockError:
    """The exception for the penstock_status of a request."""
    with contextlib.suppress(OSError, ImportError):  # Where no file can be opened, that is what has failed already.
        from penstock import launcher

        sentence = launcher.named(sentence)
    if domain == 1 and code == errno.EEXIST:
        sentence = sentence.replace("allow the file to be replaced", "allow the file to be replaced (replace=True)")
    if domain == 0:
        sentence = _CLOSED.get(step, sentence)
    if domain == 1 and code in (errno.ENOENT, errno.ENOTDIR) and step == "open the folder" and filename is not None:
        sentence = (f"could not open the folder {os.path.dirname(filename) or '.'!r}: {os.strerror(code)}; check the "
                    "name, or make the folder first")
    if domain == 2:
        kind: type[PenstockError] = DeviceError
    elif domain == 1:
        kind = PenstockError
    else:
        kind = _BY_CODE.get(code, PenstockError)
    error = kind(sentence)
    error.filename = filename
    error.domain = _DOMAINS[domain] if 0 <= domain < len(_DOMAINS) else str(domain)
    error.code, error.driver, error.step, error.report = code, driver, step, report
    if domain == 1:
        error.errno = code
    error.strerror = sentence
    return error
