# SPDX-License-Identifier: Apache-2.0

"""What commands show on a terminal: names of strangers' files are text there, and nothing else."""

import json
import os
import subprocess
import sys

import pytest

import penstock
from penstock import terminal
from penstock.__main__ import main
from waiting import SECONDS_MAX

NAMES = [b"a\x1b[31m", b"a\x1b]0;title\x07", b"a\x9b2J", "a\u009b2J".encode(), b"a\xff\xfe", "a\u202etxt".encode(),
         b"a\rb", b"a\x7f", b"a\nb", "a\u2028b".encode()]


def is_harmless(text):
    """Of bytes: text with lines, and nothing that turns it around or steers a terminal."""
    return not terminal.HARMFUL.search(text.decode().replace("\n", ""))


@pytest.mark.parametrize(("text", "shown"), [
    ("model-00001 of 2", "model-00001 of 2"), ("Gewässer 模型 модель 🜄 a\\b \u00a0", "Gewässer 模型 модель 🜄 a\\b \u00a0"),
    ("a\x1b]0;t\a", "a\\x1b]0;t\\x07"), ("one\ntwo\r\t\x7f", "one\\x0atwo\\x0d\\x09\\x7f"), ("a\0b", "a\\x00b"),
    ("\u009b2J", "\\xc2\\x9b2J"), ("\udc9b2J", "\\x9b2J"), ("\udcff\udcfe", "\\xff\\xfe"),
    ("\ud800", "\\xed\\xa0\\x80"), ("\u202etxt", "\\xe2\\x80\\xaetxt"), ("\u2027\u202f\u2065\u206a",) * 2])
def test_what_is_printable_is_what_the_core_calls_so(text, shown):
    """The cases are those of src/base/printable_test.cc."""
    assert terminal.printable(text) == shown


def run(*words, **options):
    return subprocess.run([sys.executable, "-B", "-m", "penstock", *words], capture_output=True, timeout=SECONDS_MAX,
                          **{"env": {**os.environ, "PYTHONUTF8": "1"}, **options})


@pytest.mark.parametrize("name", [b"".join(NAMES[:-2]), b"a" + NAMES[-1] + NAMES[-2]])
def test_no_command_lets_a_name_steer_the_terminal(tmp_path, name):
    folder = os.path.join(os.fsencode(tmp_path), name)
    os.mkdir(folder)
    for words in (["checkpoint", "verify", folder + b"/c"], ["checkpoint", "latest", folder],
                  ["checkpoint", "retain", folder, "--keep", "1"],
                  ["checkpoint", "drain", folder, "--to", folder + b"/x"],
                  ["stage", folder + b"/none", tmp_path / "out"], ["stage", "--check", folder],
                  ["stage", b"http://" + name + b"/x", tmp_path / "out"], ["explain", folder + b"/none"],
                  ["convert", folder + b"/none", tmp_path / "out"], [name], ["explain", folder, name],
                  ["stage", folder, folder, "--parallel", name], ["checkpoint", name]):
        done = run(*words)
        assert is_harmless(done.stdout) and is_harmless(done.stderr), (words, done.stdout, done.stderr)
        assert b"Traceback" not in done.stderr


def test_json_is_json_whatever_the_names_are(tmp_path, capsys):
    names = [os.fsdecode(name) for name in NAMES if b"\n" not in name]
    terminal.say_json({"names": names, "bytes": b"\1\2"})
    output = capsys.readouterr().out
    assert output.isascii() and is_harmless(output.encode())
    assert json.loads(output) == {"names": names, "bytes": "0102"}


def test_a_line_is_one_line(capsys):
    terminal.say("one\ntwo", "three")
    terminal.complain("four\nfive")
    assert capsys.readouterr() == ("one\\x0atwo\nthree\n", "penstock: four\\x0afive\n")


def test_what_is_logged_and_what_nobody_catches_steers_nothing(tmp_path):
    program = ("import logging; from penstock import terminal; terminal.show_all_else();"
               "logging.getLogger('penstock.checkpoint').warning('saved %s', 'a\\x1b[31m');"
               "raise RuntimeError('b\\x1b[31m')")
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, timeout=SECONDS_MAX)
    assert is_harmless(done.stderr) and b"penstock: saved a\\x1b[31m\n" in done.stderr
    assert b"RuntimeError: b\\x1b[31m\n" in done.stderr and done.returncode == 1


def test_output_that_knows_no_such_letters_is_no_failure(tmp_path):
    (tmp_path / "模型").mkdir()
    done = run("explain", tmp_path / "模型/none", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1 and b"\\u6a21\\u578b/none" in done.stderr and b"Traceback" not in done.stderr


def test_a_closed_output_is_no_failure(tmp_path):
    assert run("check", preexec_fn=lambda: (os.close(1), os.close(2))).returncode == 0


def test_what_others_say_is_shown_as_text(monkeypatch, capsys):
    monkeypatch.setattr(penstock, "explain", lambda *words, **named: [
        {"path": "a\x1b[1m", "usable": False, "reason": "r", "sentence": "s\x1b[2m\n", "remedy": "m\x9b3m"}])
    assert main(["explain", "x"]) == 0
    assert is_harmless(capsys.readouterr().out.encode())
