# SPDX-License-Identifier: Apache-2.0

"""`python -m penstock` where the command penstock is not installed, as pip leaves it without CLI11 or fmt: what is
advertised works, and what is not here is said with the way to it."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from penstock import errors, launcher
from penstock.__main__ import main
from cufile_program import USES_CUFILE
from waiting import SECONDS_MAX


def run_without_the_command(*words, **more):
    environment = {**os.environ, "PATH": "/nowhere", "PENSTOCK_DEVICE": "host", **more}
    return subprocess.run([sys.executable, "-m", "penstock", *words], capture_output=True, text=True,
                          timeout=SECONDS_MAX, env=environment)


def test_run_puts_the_library_in_front_without_the_command():
    done = run_without_the_command("run", sys.executable, "-c", USES_CUFILE)
    library = launcher.library().resolve()
    assert (done.returncode, done.stderr) == (3, f"penstock run: {library}, which is Penstock's, is in front of any "
                                              "other; --report says at the end what went through it\n")
    assert str(launcher.library().resolve()) in done.stdout
    again = run_without_the_command("run", "--", sys.executable, "-c", USES_CUFILE, LD_PRELOAD="libm.so.6")
    assert again.returncode == 3 and "libm.so.6" in again.stdout and "libcufile" in again.stdout


def test_a_report_is_what_the_library_tells_of_itself(tmp_path):
    done = run_without_the_command("run", "--report", sys.executable, "-c", USES_CUFILE)
    assert done.returncode == 3 and done.stderr != ""
    file = tmp_path / "report-%p.json"
    assert run_without_the_command("run", f"--report={file}", sys.executable, "-c", USES_CUFILE).returncode == 3
    output, = tmp_path.glob("report-*.json")
    assert json.loads(output.read_text())


@pytest.mark.parametrize("option", ["--which", "--report=load.json", "--library=x", "--help"])
def test_what_the_command_alone_can_do_is_said_with_the_way_to_it(option):
    done = run_without_the_command("run", option, "true")
    assert done.returncode == 1 and done.stdout == ""
    wanted = f"run {option}: only the command penstock has this option, and it is not here: `pip install .`"
    assert wanted in done.stderr


def test_programs_that_cannot_be_run_are_told_as_the_command_tells_them(tmp_path):
    (tmp_path / "text").write_text("no program")
    for words, code, output in ((["no-such-program"], 127, "no-such-program: there is no such program"),
                              ([str(tmp_path / "text")], 126, "Permission denied"), ([], 2, "which program?"),
                              (["--report"], 2, "which program?")):
        done = run_without_the_command("run", *words)
        assert done.returncode == code and output in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("is_here", [True, False])
def test_commands_of_the_tool_are_said_to_be_there(monkeypatch, capsys, is_here):
    monkeypatch.setattr(launcher, "has_tool", lambda: is_here)
    monkeypatch.setattr(launcher, "tool", lambda: "/usr/bin/penstock")
    for command in ("bench", "stats", "gdsio"):
        assert main([command, "x"]) == 2
        output = capsys.readouterr().err
        assert f"penstock: {command}: this is a command of penstock, and not of python -m penstock: " in output
        assert (f"`/usr/bin/penstock {command}`" if is_here else "which is not here: `pip install .` of the sources "
                "builds it where CLI11 and fmt are (Debian: libcli11-dev, libfmt-dev)") in output


@pytest.mark.parametrize("is_here", [True, False])
def test_the_help_tells_how_to_get_the_command_where_it_is_not_here(monkeypatch, capsys, is_here):
    monkeypatch.setattr(launcher, "has_tool", lambda: is_here)
    with pytest.raises(SystemExit):
        main(["--help"])
    assert ("The command penstock is not here: `pip install .`" in capsys.readouterr().out) == (not is_here)


def test_of_paths_the_command_has_the_word_where_it_is_here(monkeypatch, tmp_path):
    tool = tmp_path / "penstock"
    tool.write_text("#!/bin/sh\n[ \"$2\" = --root ] && exit 7\n"
                    "echo '{\"paths\": [{\"path\": \"p2pdma\", \"standing\": \"off\", \"needs\": []}]}'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(launcher, "tool", lambda: tool)
    monkeypatch.setattr(launcher, "has_tool", lambda: True)
    assert launcher.checked_paths() == [{"path": "p2pdma", "standing": "off"}]
    assert main(["check", "--root", "captured"]) == 7
    assert main(["check", "--root", "captured", "--all", "--json"]) == 7
    monkeypatch.setattr(launcher, "has_tool", lambda: False)
    assert launcher.checked_paths() == []
    with pytest.raises(SystemExit) as ended:
        main(["check", "--root", "captured"])
    assert ended.value.code == 2


def test_the_list_of_the_tools_commands_is_that_of_its_help():
    tool = shutil.which("penstock")
    if tool is None:
        pytest.skip("the command penstock is not on PATH")
    output = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
    lines = output.partition("Subcommands:\n")[2].partition("\n\n")[0].splitlines()
    by_nvidias_names = {name for name in launcher.TOOLS if name.startswith("gds")}
    assert {line.split()[0] for line in lines} - {"check", "explain", "run"} == set(launcher.TOOLS) - by_nvidias_names


def test_a_remedy_names_the_command_that_is_here(monkeypatch):
    sentence = "open x: there is no such device: run 'penstock check' to see what is missing"
    monkeypatch.setattr(launcher, "has_tool", lambda: False)
    assert str(errors.of_status(0, 11, "", "open x", sentence, None)) == (
        "open x: there is no such device: run 'python -m penstock check' to see what is missing")
    monkeypatch.setattr(launcher, "has_tool", lambda: True)
    assert str(errors.of_status(0, 11, "", "open x", sentence, None)) == sentence
