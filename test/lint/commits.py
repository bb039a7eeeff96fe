#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Checks the commits since SINCE as CONTRIBUTING.md asks for them: one thing, at most 400 changed lines, and why.

    commits.py [ROOT [SINCE]]

A file that is moved counts the lines that differ, a file that is removed as a whole counts none, and neither do
recorded data. A commit whose message ends with the trailer "Mechanical: yes" may have any number of lines: it then says
by which command it was made. Exits with 77 where there is no history to look at.
"""

import re
import subprocess
import sys
from pathlib import Path

# Whoever moves it says why in the message: what lies before is not looked at again.
SINCE = "19216bf96eb3a9c0026520a17b30f6941a1ea59c"
LINES_MAX = 400
SUBJECT_MAX = 120
SKIPPED = 77
SUBJECT = re.compile(r"[\w*./, -]{1,60}: \S")
TRAILER = re.compile(r"[A-Z][\w-]*: \S")
DATA = re.compile(r"^test/(?:fixtures|fuzz/corpus)/|^test/.*\.json$|^bench/.*\.json$|^docs/reference/")


def git(root, *words):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), *words], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace").stdout


def why_not(root, since):
    """Why there is nothing to look at, or None."""
    try:
        if git(root, "rev-parse", "--show-cdup").strip():
            return "this tree is no git repository of its own"
        git(root, "merge-base", "--is-ancestor", since, "HEAD")
    except FileNotFoundError:
        return "git is not installed"
    except subprocess.CalledProcessError:
        return f"the history of this tree does not reach back to {since[:12]}: it is shallow, exported or another one"
    return None


def lines_changed(root, commit):
    removed = set(git(root, "show", "--format=", "--name-only", "-M", "--diff-filter=D", "-z", commit).split("\0"))
    count = 0
    for row in git(root, "show", "--format=", "--numstat", "-M", commit).splitlines():
        added, deleted, name = row.split("\t", 2)
        new_name = re.sub(r"\{[^}]* => ([^}]*)\}", r"\1", name).rpartition(" => ")[2].replace("//", "/")
        if added != "-" and name not in removed and not DATA.search(new_name):
            count += int(added) + int(deleted)
    return count


def findings_of(subject, body, lines):
    """What is wrong with one commit."""
    paragraphs = [line for line in body.splitlines() if line.strip()]
    if not SUBJECT.match(subject) or subject.startswith(("fixup! ", "squash! ")):
        yield "subject", "write the room and what changed: 'queue: completions are reaped with a time limit'"
    if len(subject) > SUBJECT_MAX:
        yield "subject", f"{len(subject)} columns; {SUBJECT_MAX} are allowed"
    if ";" in subject:
        yield "one thing", "two things are two commits"
    if all(TRAILER.match(line) for line in paragraphs):
        yield "why", "no body says why the change is made"
    if lines > LINES_MAX and "Mechanical: yes" not in paragraphs:
        yield "size", f"{lines} changed lines; {LINES_MAX} are allowed but for what a command made (Mechanical: yes)"


def lint(root, since):
    for commit in git(root, "rev-list", "--reverse", "--no-merges", f"{since}..HEAD").split():
        subject, _, body = git(root, "show", "--no-patch", "--format=%B", commit).partition("\n")
        for rule, what in findings_of(subject, body, lines_changed(root, commit)):
            yield f"{commit[:12]} '{subject}': {rule}: {what}"


def main(arguments):
    root = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).resolve().parents[2]
    since = arguments[2] if len(arguments) > 2 else SINCE
    reason = why_not(root, since)
    if reason:
        print(f"skipped: {reason}: no commit was looked at")
        return SKIPPED
    findings = list(lint(root, since))
    print("\n".join(findings) if findings else "commits: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
