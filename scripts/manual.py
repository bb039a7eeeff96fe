#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Man pages and reference pages out of what is built, so that they say what --help and the library say.

    manual.py man BUILD VERSION FOLDER    write FOLDER/penstock.1, penstock-check.1, gdsio.1, ...
    manual.py reference BUILD FILE        write all that --help says into one page
    manual.py pages BUILD                 rewrite the generated parts of docs/reference/
    manual.py pages BUILD --check         say whether they would change: exit code 1

BUILD is a build folder with tools/ in it; the pages need lib/ too. A generated part of a page stands between the
comments `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

import argparse
import ctypes
import datetime
import difflib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
REASONS_MAX = 1024  # Numbers that are asked for; most are not in use.
UNKNOWN = "unknown"
WIDTH = 100  # The width of the manual.
# Of those that the build has. The last five are NVIDIA's names, links to the first.
PROGRAMS = ("penstock", "penstock-k8s", "penstock-model", "gds_install_check", "gds_stats", "gdscheck", "gdsio",
            "gdsio_verify")
QUESTIONS = "Other questions"  # The title of the flags that have options of their own.
TITLES = {"Positionals": "Arguments", "Subcommands": "Commands"}  # As manuals call them.


# ---- What --help says -----------------------------------------------------------------------------------------------


class Help:
    """A command by its words, with the parts of its --help: summary, usage, sections by title, closing paragraphs."""

    def __init__(self, words, text):
        self.words, self.text = words, text
        self.summary, *lines = text.splitlines()
        self.usage, self.sections, self.paragraphs = [], {}, []
        part = None
        for line in lines:
            if line.startswith("Usage: "):
                self.usage = part = [line.removeprefix("Usage: ")]
            elif re.fullmatch(r"[A-Z][\w ]*:", line):
                part = self.sections.setdefault(line[:-1], [])
            elif not line:
                part = None
            elif line[0].isspace():
                part = self.sections.setdefault("Options", []) if part is None else part
                part.append(line)
            elif not line.startswith("Exit code: ") and any(part is paragraph for paragraph in self.paragraphs):
                part.append(line)
            else:
                part = [line]
                self.paragraphs.append(part)

    @property
    def name(self):
        return "-".join(word.lstrip("-") for word in self.words)

    def items(self, title):
        """Pairs of a term and its text in a section of two columns."""
        found = []
        for line in self.sections.get(title, []):
            match = re.match(r" {1,6}(\S.*?)(?: {2,}(\S.*))?$", line)
            if match:
                found.append([match[1], match[2] or ""])
            elif found:
                found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
        return found

    def options(self):
        """Those of all groups."""
        return [item for title in self.sections for item in self.items(title) if item[0].startswith("-")]


def helps(tools):
    """The programs, their commands, theirs, and the other questions that a flag of them asks, depth first."""

    def ask(words):
        return subprocess.run([tools / words[0], *words[1:], "--help"], capture_output=True, text=True,
                              check=True).stdout

    def below(words):
        page = Help(words, ask(words))
        yield page
        for command, _ in page.items("Subcommands"):
            if command != "help":
                yield from below([*words, command])
        for flag, _ in page.items(QUESTIONS):
            yield Help([*words, flag], ask([*words, flag]))

    return [page for name in PROGRAMS if (tools / name).exists() for page in below([name])]


# ---- Man pages ------------------------------------------------------------------------------------------------------


# What troff would take for something else, or print as what no shell understands.
ROFF = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def roff(text):
    escaped = text.translate(str.maketrans(ROFF))
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def verbatim(lines):
    return [".EX", *(roff(line) for line in lines), ".EE"]


def date():
    """The day that a reproducible build is said to be of, or none: the same sources give the same pages."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not seconds:
        return ""
    try:
        return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        raise SystemExit(f"manual: SOURCE_DATE_EPOCH={seconds} is no time in seconds since 1970") from None


def man_page(page, others, version):
    def section(title):
        return f'.SH "{title.upper()}"'

    out = [f'.TH "{page.name.upper()}" 1 "{date()}" "penstock {version}" "Penstock"',
           section("Name"), f"{roff(page.name)} \\- {roff(page.summary)}",
           section("Synopsis"), *verbatim(line.strip() for line in page.usage)]
    for title in page.sections:
        if title == "Examples":
            continue
        out.append(section(TITLES.get(title, title)))
        for term, text in page.items(title):
            out += [".TP", f"\\fB{roff(term)}\\fR", roff(text)]
    if "Examples" in page.sections:
        out += [section("Examples"), *verbatim(line.removeprefix("  ") for line in page.sections["Examples"])]
    for paragraph in page.paragraphs:
        text = " ".join(paragraph)
        if text.startswith("Exit code: "):
            out += [section("Exit status"), roff(text.removeprefix("Exit code: "))]
        else:
            out += [section("Notes"), roff(text)]
    out += [section("See also"), ",\n".join(f"\\fB{roff(name)}\\fR(1)" for name in others if name != page.name)]
    return "\n".join(out) + "\n"


def related(page, pages):
    """penstock(1) names all pages; others name the tool, their own commands and their parent."""
    if page.words == ["penstock"]:
        return [other.name for other in pages]
    return ["penstock"] + [other.name for other in pages
                           if other.words not in (page.words, ["penstock"]) and
                           (other.words[:len(page.words)] == page.words or other.words == page.words[:-1])]


def write_man_pages(tools, version, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.1"):
        old.unlink()
    pages = helps(tools)
    for page in pages:
        (folder / f"{page.name}.1").write_text(man_page(page, related(page, pages), version), encoding="utf-8")
    for other_name in tools.glob("*.py"):  # gdscheck.py is gdscheck.
        (folder / f"{other_name.name}.1").write_text(f".so man1/{other_name.stem}.1\n", encoding="utf-8")


# ---- All of --help in one page --------------------------------------------------------------------------------------


COMMAND_LINE = """\
# Command line

What the programs and their commands say of themselves by `--help`. The man pages have the same text. Sizes take K, M, G
and T, for powers of 1024. Exit codes are the same everywhere: 0 done, 1 failed, 2 wrong usage, 77 for what does not
apply on this machine.
"""


def write_command_line(tools, file):
    def folded(line):
        return line if line.startswith(" ") else textwrap.fill(line, WIDTH)

    parts = []
    for page in helps(tools):
        text = "\n".join(map(folded, page.text.rstrip().splitlines()))
        parts.append(f"## {' '.join(page.words)}\n\n```text\n{text}\n```\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([COMMAND_LINE, *parts]), encoding="utf-8")


# ---- Pages of docs/reference ----------------------------------------------------------------------------------------


def reasons(build):
    library = ctypes.CDLL(str(build / "lib" / "libpenstock.so"))

    def ask(name, number):
        function = getattr(library, name)
        function.restype = ctypes.c_char_p
        return function(ctypes.c_int(number)).decode()

    rows = ["| number | reason | what it means | what to do |", "|---|---|---|---|"]
    for number in range(REASONS_MAX):
        name = ask("penstock_reason_name", number)
        if name != UNKNOWN:
            sentence, remedy = (ask(f"penstock_reason_{part}", number) for part in ("sentence", "remedy"))
            rows.append(f"| {number} | `{name}` | {sentence} | {remedy} |")
    return "\n".join(rows) + "\n"


def settings(build):
    return subprocess.run([build / "tools" / "penstock", "settings", "--markdown"], capture_output=True, text=True,
                          check=True).stdout


def k8s_rules(build):
    return subprocess.run([build / "tools" / "penstock-k8s", "lint", "--rules", "--markdown"], capture_output=True,
                          text=True, check=True).stdout


GENERATED = {"reasons.md": ("reasons", reasons), "settings.md": ("settings", settings),
             "k8s-rules.md": ("rules", k8s_rules)}


def with_part(text, name, part):
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise SystemExit(f"manual: no {begin.strip()} with its end in the page")
    return f"{head}{begin}\n{part}\n{end}{tail}"


def refresh_pages(build, check):
    stale = 0
    for page, (name, generate) in GENERATED.items():
        path = REFERENCE / page
        old = path.read_text(encoding="utf-8")
        new = with_part(old, name, generate(build))
        if new == old:
            continue
        stale += 1
        if check:
            lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "as it is", "as it should be")
            print("".join(lines))
            print(f"docs/reference/{page} does not say what the build says: ./dev manual rewrites it")
        else:
            path.write_text(new, encoding="utf-8")
    return 1 if check and stale else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    man = commands.add_parser("man")
    man.add_argument("build", type=Path)
    man.add_argument("version")
    man.add_argument("folder", type=Path)
    reference = commands.add_parser("reference")
    reference.add_argument("build", type=Path)
    reference.add_argument("file", type=Path)
    pages = commands.add_parser("pages")
    pages.add_argument("build", type=Path)
    pages.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.command == "man":
        write_man_pages(options.build.resolve() / "tools", options.version, options.folder)
        return 0
    if options.command == "reference":
        write_command_line(options.build.resolve() / "tools", options.file)
        return 0
    return refresh_pages(options.build.resolve(), options.check)


if __name__ == "__main__":
    sys.exit(main())
