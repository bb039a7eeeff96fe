# SPDX-License-Identifier: Apache-2.0

"""The command `penstock` from Python: `run` with the libcufile of this package, however Penstock was installed, and
remedies if the package lacks the command, as built by pip without CLI11 or fmt.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn, cast

from penstock import _native
from penstock.records import Verdict
from penstock.terminal import complain

__all__ = ["TOOLS", "check_by_tool", "checked_machine", "checked_paths", "has_tool", "library", "named", "of_the_tool",
           "run", "tool"]

# Commands of `penstock` that `python -m penstock` lacks.
TOOLS = ("bench", "gds_install_check", "gds_stats", "gdscheck", "gdsio", "gdsio_verify", "help", "kv", "serve",
         "settings", "stats")
WHERE = ("`pip install .` of the sources builds it where CLI11 and fmt are (Debian: libcli11-dev, libfmt-dev), and a "
         "release's wheel and Debian's package have it")
NOT_FOUND, NOT_STARTED = 127, 126
SAFETENSORS = "--safetensors"


def library() -> Path:
    """The path of this package's libcufile.so.0."""
    return Path(_native.__file__).parent / "lib" / "libcufile.so.0"


def tool() -> Path:
    """The path of the command `penstock` installed with this package; else the one on PATH.

    Raises FileNotFoundError if there is none.
    """
    try:
        for file in metadata.files("penstock") or []:
            if (file.parent.name, file.name) == ("bin", "penstock"):
                return Path(str(file.locate())).resolve()
    except metadata.PackageNotFoundError:
        pass  # The package is in PYTHONPATH, not installed.
    on_path = shutil.which("penstock")
    if on_path is None:
        raise FileNotFoundError(f"the command penstock is neither part of this package nor on PATH: {WHERE}")
    return Path(on_path)


@functools.cache
def has_tool() -> bool:
    try:
        return tool() is not None
    except FileNotFoundError:
        return False


def named(text: str) -> str:
    """A remedy, with its commands as they must be called here."""
    return text if has_tool() else re.sub(r"'penstock (check|explain|run)\b", r"'python -m penstock \1", text)


def of_the_tool(command: str) -> str:
    """The message for commands that only `penstock` has, not `python -m penstock`."""
    where = f"`{tool()} {command}`" if has_tool() else f"which is not here: {WHERE}"
    return f"{command}: this is a command of penstock, and not of python -m penstock: {where}"


def checked_machine() -> dict[str, Any]:
    """The result of `penstock check` on this machine; None without the command."""
    if not has_tool():
        return {}
    done = subprocess.run([tool(), "check", "--json"], capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def checked_paths() -> list[Verdict]:
    """The verdicts of `penstock check` on each path of this machine, best first; empty without the command."""
    paths = checked_machine().get("paths", [])
    return [cast(Verdict, {name: path[name] for name in path if name != "needs"}) for path in paths]


def check_by_tool(options: list[str]) -> int:
    """Runs `penstock check` with options that only the command can answer, and returns its exit code."""
    if not has_tool():
        _refuse(f"check {options[0]}: only the command penstock can answer this, and it is not installed: {WHERE}", 2)
    return subprocess.run([tool(), "check", *options], check=False).returncode


def run(words: list[str]) -> NoReturn:
    """Replaces this process by `penstock run` with these arguments, or without that command by the program itself."""
    words = _with_safetensors(words)
    if has_tool():
        os.execv(tool(), ["penstock", "run", "--library", str(library()), *words])
    _become_program(words)


def _with_safetensors(words: list[str]) -> list[str]:
    """The arguments without --safetensors, which is carried out by what Python runs as it starts."""
    options = list(itertools.takewhile(lambda word: word.startswith("-") and word != "--", words))
    if SAFETENSORS not in options:
        return words
    startup = Path(__file__).parent / "startup"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{startup}{os.pathsep}{before}" if before else str(startup)
    is_reported = any(word.partition("=")[0] == "--report" for word in options)
    os.environ["SAFETENSORS_BY_PENSTOCK"] = "report" if is_reported else "quiet"
    return [*(word for word in options if word != SAFETENSORS), *words[len(options):]]


def _become_program(words: list[str]) -> NoReturn:
    """Runs the program with our library preloaded; each process that moves bytes writes its own report. Only the
    command can watch the program and report on all of its processes together."""
    report = None
    while words and words[0].startswith("-") and words[0] != "--":
        option, _, value = words.pop(0).partition("=")
        if option != "--report" or (value and value != "stderr" and "%p" not in value):
            _refuse(f"run {option}{f'={value}' if value else ''}: only the command penstock has this option, and it "
                    f"is not here: {WHERE}. Without it only `run PROGRAM`, `run --report` and `run "
                    "--report=FILE-%p.json` work, where each process reports on itself", 1)
        report = value or "stderr"
    program = words[1:] if words[:1] == ["--"] else words
    if not program:
        _refuse("run: which program? Give `run [--report] PROGRAM...`", 2)
    if set(str(library())) & set(" :"):
        _refuse(f"run: {library()}: LD_PRELOAD takes no path with a blank or a colon: install the package elsewhere", 1)
    if report is None:
        complain(f"{library().resolve()}, which is Penstock's, is in front of any other; --report says at the end what "
                 "went through it", "penstock run")
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{library()} {before}" if before else str(library())
    if report is not None:
        os.environ["PENSTOCK_REPORT"] = report
    try:
        os.execvp(program[0], program)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        _refuse(f"run: {program[0]}: {'there is no such program' if is_missing else error.strerror}",
                NOT_FOUND if is_missing else NOT_STARTED)


def _refuse(why: str, code: int) -> NoReturn:
    complain(why)
    sys.exit(code)
