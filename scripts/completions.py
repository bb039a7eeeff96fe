#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What bash, zsh and fish complete for the tools, out of what --help of the built tools says.

    completions.py BUILD FOLDER    write FOLDER/bash/penstock, FOLDER/zsh/_penstock, FOLDER/fish/penstock.fish, ...

BUILD is a build folder with tools/ in it.
"""

import re
import sys
from pathlib import Path

from manual import QUESTIONS, Help, helps

FILES, FOLDERS = "files", "folders"
KINDS = {"FILE": FILES, "JOBFILE": FILES, "LIBRARY": FILES, "SRC": FILES, "DST": FILES, "DIR": FOLDERS}  # By help.
MOST_NUMBERS = 16  # More of them are no help.


class Option:
    """What an option is called, what it takes ("" for a flag), and what of that can be offered: words, or a kind."""

    def __init__(self, term, text):
        parts = re.fullmatch(r"(-[^\s,]+(?:, ?-[^\s,]+)*)(?: (\S+))?( \.\.\.)?", term)
        if parts is None:
            raise SystemExit(f"completions: a --help has the option '{term}'; it must be like '-o, --option VALUE'")
        self.names = re.split(", ?", parts[1])
        self.value, self.repeats, self.text = parts[2] or "", bool(parts[3]), text
        self.words, self.kind = words_of(self.value), KINDS.get(self.value)


def words_of(value):
    """Of "read|write" both, of "0..4" all five."""
    if "|" in value:
        return value.split("|")
    ends = re.fullmatch(r"(\d+)\.\.(\d+)", value)
    numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else []
    return [str(number) for number in numbers] if len(numbers) <= MOST_NUMBERS else []


class Command:
    """A program, or a command of one: its words, its options, with those of its other questions, its commands, and what
    it works on: words, or a kind of files."""

    def __init__(self, page, words, pages):
        self.words, self.text, self.commands, self.operands = words, page.summary, [], []
        self.options = [Option(term, text) for term, text in page.options()]
        for flag, _ in page.items(QUESTIONS):
            known = {name for option in self.options for name in option.names}
            more = [Option(term, text) for term, text in pages[" ".join([*page.words, flag])].options()]
            self.options += [option for option in more if not known & set(option.names)]
        for term, text in page.items("Subcommands"):
            if term == "help":  # Has no page.
                asking = Command(Help([*words, term], text), [*words, term], pages)
                asking.operands = [command.last for command in self.commands]
                self.commands.append(asking)
            else:
                self.commands.append(Command(pages[" ".join([*page.words, term])], [*words, term], pages))
        # In the lines of usage, outside of what options take.
        names = re.findall(r"\b[A-Z]+\b", re.sub(r"\([^)]*\)|\[OPTIONS\]", "", " ".join(page.usage)))
        self.kind = next((KINDS[name] for name in names if name in KINDS), None)

    @property
    def name(self):
        return " ".join(self.words)

    @property
    def last(self):
        return self.words[-1]

    def all(self):
        yield self
        for command in self.commands:
            yield from command.all()


def programs(tools):
    """Each program by each of its names: gdscheck.py is gdscheck."""
    pages = {" ".join(page.words): page for page in helps(tools)}
    for name in [name for name in pages if " " not in name]:
        yield Command(pages[name], [name], pages)
        if (tools / f"{name}.py").exists():
            yield Command(pages[name], [f"{name}.py"], pages)


def header(comment, name):
    return [*comment, "# SPDX-License-Identifier: Apache-2.0", "",
            f"# Completions of {name}, made of what its --help says.", ""]


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def identifier(name):
    return "_" + re.sub(r"\W", "_", name)


# ---- bash -----------------------------------------------------------------------------------------------------------

BASH = """\
{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} at={name} offered='' options=''
  if [ "$word" = = ]; then  # Of --option=word.
    word=''
  elif [ "$before" = = ]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
{walk}  case $at in
{rows}
  esac
  case "$at $before" in
{values}
    *) [[ $word != -* && $offered ]] || offered=$options ;;
  esac
  COMPREPLY=()
  case $offered in
    @files) compopt -o default ;;
    @folders) compopt -o dirnames ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word") ;;
  esac
}}
complete -F {function} {name}
"""
BASH_WALK = """\
  local each
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case "$at $each" in
      {commands}) at+=" $each" ;;
    esac
  done
"""


def bash_offer(words, kind):
    return quoted(" ".join(words) or (f"@{kind}" if kind else ""))


def bash_pattern(names):
    return " | \\\n      ".join(quoted(name) for name in names)


def bash_row(command):
    offered = bash_offer([each.last for each in command.commands] or command.operands, command.kind)
    names = " ".join(name for option in command.options for name in option.names)
    return f"    {quoted(command.name)})\n      offered={offered}\n      options={quoted(names)}\n      ;;"


def bash(program):
    commands, values = list(program.all()), {}
    below = commands[1:]
    for command in commands:
        for option in command.options:
            if option.value:
                names = [f"{command.name} {name}" for name in option.names]
                values.setdefault(bash_offer(option.words, option.kind), []).extend(names)
    return "\n".join(header([], program.name)) + "\n" + BASH.format(
        function=identifier(program.name), name=program.name,
        walk=BASH_WALK.format(commands=bash_pattern([each.name for each in below])) if below else "",
        rows="\n".join(bash_row(command) for command in commands),
        values="\n".join(f"    {bash_pattern(names)}) offered={offered} ;;" for offered, names in values.items()))


# ---- zsh ------------------------------------------------------------------------------------------------------------


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_action(words, kind):
    return f"({' '.join(words)})" if words else {FILES: "_files", FOLDERS: "_files -/"}.get(kind, " ")


def zsh_options(option):
    value = f":{zsh_text(option.value)}:{zsh_action(option.words, option.kind)}" if option.value else ""
    start = "*" if option.repeats else f"({' '.join(option.names)})"
    for name in option.names:
        yield quoted(f"{start}{name}[{zsh_text(option.text)}]{value}")


def zsh_function(command):
    arguments = [each for option in command.options for each in zsh_options(option)]
    out = [f"{identifier(command.name)}() {{"]
    if command.commands:
        out += ["  local curcontext=$curcontext state line", "  typeset -A opt_args"]
        arguments += ["'1: :->command'", "'*:: :->rest'"]
    elif command.operands or command.kind:
        arguments.append(quoted(f"{'1' if command.operands else '*'}: :{zsh_action(command.operands, command.kind)}"))
    out.append(f"  _arguments{' -C' if command.commands else ''} \\\n    " + " \\\n    ".join(arguments))
    if command.commands:

        called = [f"        {each.last}) {identifier(each.name)} ;;" for each in command.commands]
        described = ["        " + quoted(f"{each.last}:{each.text}") for each in command.commands]
        out += ["  case $state in", "    command)", "      local -a commands=(", *described, "      )",
                "      _describe command commands", "      ;;", "    rest)", "      case $line[1] in", *called,
                "      esac", "      ;;", "  esac"]
    return "\n".join([*out, "}"])


def zsh(program):
    functions = [zsh_function(command) for command in program.all()]
    return "\n".join([*header([f"#compdef {program.name}"], program.name), *functions, "",
                      f'{identifier(program.name)} "$@"']) + "\n"


# ---- fish -----------------------------------------------------------------------------------------------------------

FISH = """\
function {function}_at --description 'Whether these are the first words of the command line, without its options'
    set -l words (string match --invert -- '-*' (commandline -opc))[2..]
    set -l count (count $argv)
    test $count -eq 0; or test "$words[1..$count]" = "$argv"
end
function {function}_is --description 'Whether these are all of them'
    test (count (string match --invert -- '-*' (commandline -opc))[2..]) -eq (count $argv); and {function}_at $argv
end
complete -c {name} -f
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


FISH_FOLDERS = "-a '(__fish_complete_directories)'"


def fish_value(option):
    if option.words:
        return f" -x -a {fish_quoted(' '.join(option.words))}"
    kinds = {FILES: " -r -F", FOLDERS: f" -x {FISH_FOLDERS}"}
    return kinds.get(option.kind, " -x") if option.value else ""


def fish_command(program, command):
    question = f"{identifier(program.name)}_{'is' if command.commands else 'at'}"
    start = f"complete -c {program.name} -n {fish_quoted(' '.join([question, *command.words[1:]]))}"
    for each in command.commands:
        yield f"{start} -a {each.last} -d {fish_quoted(each.text)}"
    for option in command.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        yield f"{start} {names}{fish_value(option)} -d {fish_quoted(option.text)}"
    if command.operands:
        yield f"{start} -a {fish_quoted(' '.join(command.operands))}"
    elif command.kind:
        yield f"{start} {'-F' if command.kind == FILES else FISH_FOLDERS}"


def fish(program):
    lines = [line for command in program.all() for line in fish_command(program, command)]
    return "\n".join(header([], program.name)) + "\n" + FISH.format(
        function=identifier(program.name), name=program.name) + "\n".join(lines) + "\n"


SHELLS = {"bash": (bash, "{}"), "zsh": (zsh, "_{}"), "fish": (fish, "{}.fish")}


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build, folder = (Path(argument).resolve() for argument in arguments)
    for program in programs(build / "tools"):
        for shell, (text_of, file_name) in SHELLS.items():
            path = folder / shell / file_name.format(program.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text_of(program), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
