# SPDX-License-Identifier: Apache-2.0

"""python -m penstock check --deepspeed FILE: a page for people, a document for programs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from penstock.terminal import columns, complain, say, say_json

if TYPE_CHECKING:
    from penstock.deepspeed import Report


def run(file: str, as_json: bool) -> int:
    """Returns the exit code: 1 if there is an error, or the file cannot be read."""
    from penstock import deepspeed

    try:
        report = deepspeed.check(file)
    except OSError as error:
        why = f"{file}: could not open the file: {error.strerror}"
        complain(why)
        if as_json:
            say_json({"error": why, "exit_code": 1})
        return 1
    if as_json:
        say_json(report.document())
    elif report.is_readable:
        say(*page(report))
    else:
        fault = report.findings[0]
        complain(":".join([file, *(str(each) for each in (fault.line, fault.column) if each)]) + f": {fault.cause}")
    return 1 if report.count("error") else 0


def page(report: Report) -> list[str]:
    """The lines of the page, as wide as the terminal."""
    lines = _wrapped("", f"{report.file}: what of it has to do with files, as DeepSpeed {report.deepspeed} takes it")
    for each in report.findings:
        value, line = f" = {each.value}" * bool(each.value), f" (line {each.line})" * bool(each.line)
        lines += ["", *_wrapped("", f"{each.severity}: {each.key or 'the file'}{value}{line}")]
        for name, text in (("expected", each.expected), ("cause", each.cause), ("remedy", each.remedy)):
            lines += _wrapped(f"  {name + ':':<10}", text) if text else []
    counted = [(report.count(each), each) for each in ("error", "warning", "note")]
    return [*lines, "", ", ".join(f"{count} {each}{'s' * (count != 1)}" for count, each in counted)]


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(text, columns(), initial_indent=head, subsequent_indent=" " * len(head),
                         break_long_words=False, break_on_hyphens=False)
