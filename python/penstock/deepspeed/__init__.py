# SPDX-License-Identifier: Apache-2.0

"""Checks the file I/O of a DeepSpeed configuration, and what Penstock would do for it on this machine.

    from penstock import deepspeed
    for finding in deepspeed.check("ds_config.json").findings:
        print(finding.severity, finding.key, finding.cause)

`python -m penstock check --deepspeed ds_config.json` prints it. DeepSpeed's own classes judge if it is installed; else
the rules of the named release.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import penstock
from penstock.deepspeed import judge, places, rules
from penstock.deepspeed.config import SEVERITIES, Config, Finding
from penstock.deepspeed.document import BYTES_MAX, Fault, parse
from penstock.deepspeed.keys import VERSION
from penstock.regular import open_regular

__all__ = ["Finding", "Report", "check"]


@dataclass(frozen=True)
class Report:
    """file: as given. deepspeed: the release whose rules were used. findings: the worst first."""

    file: str
    deepspeed: str
    findings: list[Finding]

    def count(self, severity: str) -> int:
        return sum(each.severity == severity for each in self.findings)

    @property
    def is_readable(self) -> bool:
        return not any(each.code == "unreadable" for each in self.findings)

    def document(self) -> dict[str, Any]:
        """The document for programs. Keys and codes are stable; new ones may be added. Unknown values are None."""
        unknown = {"key": "", "value": "", "line": 0, "column": 0}
        rows = [{name: None if name in unknown and value == unknown[name] else value
                 for name, value in asdict(each).items()} for each in self.findings]
        return {"schema": 1, "version": penstock.__version__, "deepspeed": self.deepspeed, "file": self.file,
                "findings": rows, **{f"{each}s": self.count(each) for each in SEVERITIES}}


def check(file: str | os.PathLike[str]) -> Report:
    """Reads the configuration, and checks the folders that it names. Writes nothing.

    A file that is not a DeepSpeed configuration has one finding, "unreadable". Raises the errors of reading it.
    """
    name, content = os.fspath(file), _read(os.fspath(file))
    try:
        document = parse(content)
    except Fault as fault:
        return Report(name, VERSION, [Finding("error", "unreadable", line=fault.line, column=fault.column,
                                                    cause=str(fault))])
    config = Config(document, judge.refusals(document.root))
    rules.check(config)
    places.check(config)
    return Report(name, config.version, config.findings())


def _read(name: str) -> bytes:
    """Reads at most one byte more than allowed. "-" is standard input."""
    fd = 0 if name == "-" else open_regular(name)
    with open(fd, "rb", closefd=fd != 0) as opened:
        return opened.read(BYTES_MAX + 1)
