#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Counts the sentences in comments that name no subject, room by room, and lets no room get more of them.

    prose.py [ROOT]             prints each such sentence as file:line, and compares the counts with AT_MOST
    prose.py --counts [ROOT]    prints the counts alone

A comment is a sentence: subject, verb, object. Here a sentence is what stands between two of . ! ? : ; (a space or the
end behind them) or blank lines of one comment, and has three words or more. It is counted where it begins with What,
Who, Whose, That, Those, Of, As or Whether, in any case, or with Where and has no comma: such a beginning speaks of
something that the reader has to guess. To put "The" before it is no repair: say what the thing is.

AT_MOST is a ratchet. A room with more sentences than its number fails, and so does one with fewer, until its smaller
number is written down here. A room that is not named has none.
"""

import re
import sys
from pathlib import Path

import lint

AT_MOST = {
}

FOLDERS = ("src/", "facts/", "tools/", "kv/", "python/native/")
WORDS_MIN = 3
NO_SUBJECT = re.compile(r"(?:what|who|whose|that|those|of|as|whether)\b(?!')", re.IGNORECASE)
NO_PLACE = re.compile(r"where\b[^,]*$", re.IGNORECASE)
END = re.compile(r"[.!?:;]+[\"')\]]*(?=\s|$)|\n\s*\n")
WORD = re.compile(r"[A-Za-z0-9_]")
LITERAL = r"R\"(\w*)\(.*?\)\2\"|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'"
TOKEN = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/)|{LITERAL}", re.DOTALL)
NOT_PROSE = re.compile(r"SPDX-License-Identifier|NOLINT|clang-format (?:on|off)|(?:anonymous )?namespace\b")


def words_of(comment):
    """The comment without its marks, line by line."""
    if comment.startswith("//"):
        return [comment[2:].lstrip("/!").strip()]
    return [line.strip().lstrip("*").strip() for line in comment[2:-2].splitlines()]


def comments_of(text):
    """Each comment as a list of (line number, words); lines of // that stand under each other are one comment."""
    comment, expected = [], None
    for match in TOKEN.finditer(text):
        if match["comment"] is None or NOT_PROSE.match(match["comment"].lstrip("/ ")):
            continue
        line_start = text.rfind("\n", 0, match.start()) + 1
        number = text.count("\n", 0, match.start()) + 1
        column = match.start() - line_start
        alone = not text[line_start:match.start()].strip()
        if comment and not (alone and (number, column) == expected):
            yield comment
            comment = []
        comment += [(number + index, words) for index, words in enumerate(words_of(match["comment"]))]
        expected = (comment[-1][0] + 1, column)
    if comment:
        yield comment


def sentences_of(comment):
    """(line number, sentence) of each sentence of three words or more."""
    text = "\n".join(words for _, words in comment)
    begin = 0
    for end in [*(match.end() for match in END.finditer(text)), len(text)]:
        piece = text[begin:end]
        sentence = " ".join(piece.split()).lstrip("\"'([-* ")
        start = begin + len(piece) - len(piece.lstrip())
        if sum(1 for word in sentence.split() if WORD.search(word)) >= WORDS_MIN:
            yield comment[min(text.count("\n", 0, start), len(comment) - 1)][0], sentence
        begin = end


def is_without_subject(sentence):
    return bool(NO_SUBJECT.match(sentence) or NO_PLACE.match(sentence))


def counted(text):
    """How many sentences the comments of a C++ text have, and those without a subject."""
    sentences = [sentence for comment in comments_of(text) for sentence in sentences_of(comment)]
    return len(sentences), [(line, sentence) for line, sentence in sentences if is_without_subject(sentence)]


def room_of(name):
    """The folder that a count is kept for: src/path, tools/check, facts, kv, python/native."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in ("src", "python") or len(parts) > 2 and parts[0] == "tools" else parts[0]


def rooms_of(tree):
    """By room: how many sentences it has, and (name, line, sentence) of those without a subject."""
    rooms = {}
    for name in tree.of(lint.SOURCES | lint.HEADERS):
        if name.startswith(FOLDERS):
            count, found = counted(tree.text[name])
            room = rooms.setdefault(room_of(name), [0, []])
            room[0] += count
            room[1] += [(name, line, sentence) for line, sentence in found]
    return rooms


def table(rooms):
    whole = sum(count for count, _ in rooms.values())
    lines = [f"{room:<16}{len(found):>6} of {count:>6}{100 * len(found) / max(count, 1):>7.1f} %"
             for room, (count, found) in sorted(rooms.items())]
    found = sum(len(found) for _, found in rooms.values())
    return "\n".join([*lines, f"{'all':<16}{found:>6} of {whole:>6}{100 * found / max(whole, 1):>7.1f} %"])


def findings_of(rooms, at_most):
    """What is wrong with the counts of each room."""
    for room in sorted({*rooms, *at_most}):
        found = rooms[room][1] if room in rooms else []
        allowed = at_most.get(room, 0)
        if len(found) > allowed:
            yield from (f"{name}:{line}: prose: no subject: {sentence}" for name, line, sentence in found)
            yield f"{room}: prose: {len(found)} sentences without a subject; {allowed} are allowed"
        elif len(found) < allowed:
            yield f"{room}: prose: {len(found)} sentences without a subject: write down that in place of {allowed}"


def main(arguments):
    words = [word for word in arguments[1:] if word != "--counts"]
    rooms = rooms_of(lint.Tree(words[0] if words else Path(__file__).resolve().parents[2]))
    if not rooms:
        print("prose: no sources here", file=sys.stderr)
        return 2
    if "--counts" in arguments:
        print(table(rooms))
        return 0
    findings = list(findings_of(rooms, AT_MOST))
    print("\n".join(findings) if findings else "prose: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
