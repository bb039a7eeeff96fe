# SPDX-License-Identifier: Apache-2.0

"""A configuration's values as DeepSpeed interprets them, and the findings about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.deepspeed.document import Document
from penstock.deepspeed.judge import Refusals
from penstock.deepspeed.keys import KEYS, PARAM, VERSION, WRITER, is_model, taken
from penstock.terminal import printable

FINDINGS_MAX = 256  # A file can have a million unknown keys.
SHOWN_MAX = 60
SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """severity: "error", "warning" (DeepSpeed runs, but not as the file reads) or "note". code: stable. key: its full
    name, "" for the file as a whole. value: as text. line: 0 if the key is not in the file; column: 0 if only the line
    is known. expected, remedy: may be "".
    """

    severity: str
    code: str
    key: str = ""
    value: str = ""
    line: int = 0
    column: int = 0
    expected: str = ""
    cause: str = ""
    remedy: str = ""


class Config:
    """The file's values, and the findings so far. refusals: DeepSpeed's own; None if it is not installed."""

    def __init__(self, document: Document, refusals: Refusals | None = None) -> None:
        self.root, self.lines, self.not_json = document.root, document.lines, document.not_json
        self.refusals = refusals
        self.is_judged = refusals is not None and not refusals.failure  # DeepSpeed itself has judged it.
        self.version = refusals.version if refusals is not None and self.is_judged else VERSION
        self._findings: list[Finding] = []

    def find(self, name: str) -> Any:
        """The value of a full name; None if it is missing or null."""
        at: Any = self.root
        for word in name.split("."):
            at = at.get(word) if isinstance(at, dict) else None
        return at

    def value(self, block: str, name: str) -> Any:
        """The value of a key of the table, as DeepSpeed interprets it, or its default."""
        key = KEYS[block][name]
        given = taken(key, self.find(f"{block}.{name}"), is_model(block))
        return key.initial if given is None else given

    @property
    def stage(self) -> int:
        stage = self.find("zero_optimization.stage")
        return stage if type(stage) is int and 0 <= stage <= 3 else 0

    @property
    def has_writer(self) -> bool:
        return isinstance(self.find(WRITER), dict)

    @property
    def has_fast_writer(self) -> bool:
        return self.has_writer and self.value(WRITER, "type") == "fast"

    def swaps(self, block: str) -> bool:
        return self.stage == 3 and self.value(block, "device") == "nvme"

    @property
    def uses_gds(self) -> bool:
        """Whether aio.use_gds is on and used by this configuration."""
        return bool(self.value("aio", "use_gds")) and (self.swaps(PARAM) or self.has_fast_writer)

    def add(self, severity: str, code: str, key: str, expected: str, cause: str, remedy: str = "") -> None:
        if len(self._findings) < FINDINGS_MAX:
            self._findings.append(Finding(severity, code, shown(key), _value_text(self.find(key)),
                                          self.lines.get(key, 0), 0, expected, cause, remedy))

    def may_refuse(self, key: str) -> bool:
        """Whether DeepSpeed may refuse the key; its own models decide about their keys."""
        return self.refusals is None or not (self.is_judged and is_model(key)) or key in self.refusals.by_key

    def has_error_at(self, key: str) -> bool:
        """Whether there is an error at the key or below it."""
        return any(each.severity == "error" and f"{each.key}.".startswith(f"{key}.") for each in self._findings)

    def findings(self) -> list[Finding]:
        """The worst first."""
        return sorted(self._findings, key=lambda each: SEVERITIES.index(each.severity))


def shown(text: str) -> str:
    """A part of untrusted text, made fit for a message."""
    return printable(text[:SHOWN_MAX]) + ("..." if len(text) > SHOWN_MAX else "")


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return "{ ... }" if isinstance(value, dict) else "[ ... ]" if isinstance(value, list) else shown(json.dumps(value))
