# SPDX-License-Identifier: Apache-2.0

"""Parses a configuration as DeepSpeed does, by the rules of HJSON (a superset of JSON), and records the place of each
key, which existing parsers do not.

The file is untrusted: its size and depth are limited, and a duplicate key is refused, as by DeepSpeed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

BYTES_MAX = 1 << 20
NESTING_MAX = 32
INTEGRAL_MAX = 1e10  # Up to this value DeepSpeed's parser converts 1e8 and 8.0 to integers.

SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
QUOTED = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|' r"'(?:[^'\\\x00-\x1f]|\\.)*'")
TEXT_BLOCK = re.compile(r"'''(.*?)'''", re.DOTALL)
LITERAL = re.compile(r"(true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
                     r"[ \t]*(?=[,\]}#\r\n]|//|/\*|\Z)")
BARE_KEY = re.compile(r"[^\s{}\[\],:]+(?=\s*:)")
BARE_TEXT = re.compile(r"[^\s{}\[\],:][^\r\n]*")
SIGN = re.compile(r'\\.|"', re.DOTALL)


class Fault(ValueError):
    """Why the file cannot be read. line: 0 if it concerns the whole file; column: 0 if only the line is known."""

    def __init__(self, sentence: str, line: int = 0, column: int = 0) -> None:
        super().__init__(sentence)
        self.line, self.column = line, column


@dataclass(frozen=True)
class Document:
    """A configuration, the line of each key by its full name ("aio.block_size"), and the place where it is not JSON."""

    root: dict[str, Any]
    lines: dict[str, int]
    not_json: tuple[int, str] | None  # The line, and the error of Python's JSON parser.


def parse(content: bytes) -> Document:
    """Raises Fault."""
    if len(content) > BYTES_MAX:
        raise Fault("is larger than 1 MiB; no DeepSpeed configuration is")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Fault("is not JSON here: a byte is no UTF-8", line,
                    error.start - content.rfind(b"\n", 0, error.start)) from None
    reader = _Reader(text)
    return Document(reader.whole(), reader.lines, _not_json(text))


def _not_json(text: str) -> tuple[int, str] | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self._text, self._at = text, 0
        self._line, self._counted = 1, 0  # The current line, and the offset up to which lines are counted.
        self._names: list[str] = []  # Names of the enclosing blocks of the next key; blocks in a list have none.
        self._depth = self._lists = 0

    def whole(self) -> dict[str, Any]:
        if self._next() == "{":
            root = self._object()
        elif BARE_KEY.match(self._text, self._at):
            root = self._members("")  # HJSON's outermost braces are optional.
        else:
            raise self._wrong() if self._next() == "" else Fault("must be one object: { ... }", self._here())
        if self._next():
            raise self._wrong()
        return root

    def _next(self) -> str:
        """The first character after blanks and comments; "" at the end."""
        space = SPACE.match(self._text, self._at)
        assert space is not None  # The pattern also matches the empty string.
        self._at = space.end()
        return self._text[self._at:self._at + 1]

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _wrong(self) -> Fault:
        sign = self._text[self._at:self._at + 1]
        return Fault(f"is not JSON here, nor HJSON, which DeepSpeed reads, at: {sign or 'its end'}; correct it",
                     self._here(), self._at - self._text.rfind("\n", 0, self._at))

    def _enter(self) -> None:
        self._at += 1
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise Fault(f"is nested deeper than {NESTING_MAX} levels", self._here())

    def _object(self) -> dict[str, Any]:
        self._enter()
        made = self._members("}")
        self._leave()
        return made

    def _members(self, end: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while (sign := self._next()) != end:
            line, key = self._here(), self._key(sign)
            self._names.append(key)
            name = ".".join(self._names)
            if key in made:
                raise Fault(f'"{name}" is given twice, in line {lines[key]} too: say it once; DeepSpeed refuses such a '
                            "file", line)
            lines[key] = line
            if not self._lists:
                self.lines[name] = line
            made[key] = self._value()
            self._names.pop()
            self._end_of_item()
        return made

    def _list(self) -> list[Any]:
        self._enter()
        self._lists += 1
        made = []
        while self._next() != "]":
            made.append(self._value())
            self._end_of_item()
        self._lists -= 1
        self._leave()
        return made

    def _leave(self) -> None:
        self._at += 1
        self._depth -= 1

    def _end_of_item(self) -> None:
        """Parses the comma, which is optional, and allowed before the end."""
        if self._next() == ",":
            self._at += 1

    def _key(self, sign: str) -> str:
        if sign and sign in "\"'":
            key = self._quoted()
        else:
            key = self._taken(BARE_KEY)
        if self._next() != ":":
            raise self._wrong()
        self._at += 1
        return key

    def _taken(self, pattern: re.Pattern[str]) -> str:
        if (found := pattern.match(self._text, self._at)) is None:
            raise self._wrong()
        self._at = found.end()
        return found[found.lastindex or 0]

    def _value(self) -> Any:
        sign = self._next()
        if sign == "{":
            return self._object()
        if sign == "[":
            return self._list()
        if self._text.startswith("'''", self._at):
            return self._taken(TEXT_BLOCK)
        if sign and sign in "\"'":
            return self._quoted()
        if LITERAL.match(self._text, self._at):
            return self._literal()
        return self._taken(BARE_TEXT).rstrip()

    def _literal(self) -> Any:
        value = self._decoded(self._at, self._taken(LITERAL))
        is_whole = isinstance(value, float) and abs(value) < INTEGRAL_MAX and value.is_integer()
        return int(value) if is_whole else value

    def _quoted(self) -> str:
        """A single-quoted string may contain double quotes, which JSON escapes."""
        begin, words = self._at, self._taken(QUOTED)[1:-1]
        in_json = SIGN.sub(lambda each: {'"': '\\"', "\\'": "'"}.get(each[0], each[0]), words)
        return str(self._decoded(begin, f'"{in_json}"'))

    def _decoded(self, begin: int, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:  # For instance an unknown escape, or a number with thousands of digits.
            self._at = begin
            raise self._wrong() from None
