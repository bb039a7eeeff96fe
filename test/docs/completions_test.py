#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""A shell completes the commands and options of the built tools: completions_test.py SHELL BUILD

Exits 77 where the shell is not installed. bash and fish are asked what they complete; zsh, which only tells a terminal,
reads what is made for it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELL, BUILD = sys.argv[1], Path(sys.argv[2]).resolve()

# As bash does it at the end of the words; compopt, which works in there alone, says what it is told.
ASK_BASH = r"""
compopt() { printf 'compopt %s\n' "$*"; }
source "$1"
asked=$(complete -p "$2")
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
[[ $asked =~ -F\ ([^ ]+) ]] && "${BASH_REMATCH[1]}"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
"""


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.folder = Path(made.name)
        subprocess.run([sys.executable, "-B", ROOT / "scripts" / "completions.py", BUILD, cls.folder], check=True)
        cls.files = sorted((cls.folder / SHELL).iterdir())

    def run_shell(self, *arguments):
        environment = {"PATH": f"{BUILD / 'tools'}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder),
                       "LC_ALL": "C"}
        done = subprocess.run([SHELL, *arguments], capture_output=True, text=True, env=environment, cwd=self.folder,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout.splitlines()

    def test_the_shell_can_read_them(self):
        self.assertGreater(len(self.files), 1)
        for file in self.files:
            self.run_shell("-n", str(file))

    def test_every_program_has_one_and_none_names_a_folder_of_the_build(self):
        names = {file.name.removeprefix("_").removesuffix(".fish") for file in self.files}
        self.assertLessEqual({"penstock", "gdscheck", "gdscheck.py", "gdsio", "gds_stats"}, names)
        for file in self.files:
            self.assertNotIn(str(BUILD), file.read_text(encoding="utf-8"))

    def test_two_runs_make_the_same(self):
        again = self.folder / "again"
        subprocess.run([sys.executable, "-B", ROOT / "scripts" / "completions.py", BUILD, again], check=True)
        for file in self.files:
            self.assertEqual((again / SHELL / file.name).read_bytes(), file.read_bytes(), file.name)


class Asked:
    """What bash and fish complete alike, by `complete(words)`: the last word is completed."""

    def test_commands(self):
        self.assertEqual(self.complete("penstock", "ch"), ["check"])
        self.assertEqual(self.complete("penstock-model", "cons"), ["constants"])
        self.assertEqual(self.complete("penstock", "help", "sett"), ["settings"])
        self.assertEqual(self.complete("penstock", "check", "ch"), [])

    def test_options_of_a_command(self):
        self.assertEqual(self.complete("penstock", "bench", "--ver"), ["--verify", "--versus"])
        self.assertEqual(self.complete("penstock", "--ver"), ["--version"])
        self.assertEqual(self.complete("penstock-model", "load", "--ranks", "8", "--repl"), ["--replicated"])
        self.assertEqual(self.complete("penstock", "bench", "--every-path", "--di"), ["--dir", "--direct"])
        self.assertEqual(self.complete("penstock", "check", "--verify"), [])

    def test_words_that_an_option_takes(self):
        self.assertEqual(self.complete("penstock", "bench", "--rw", "rand"), ["randread", "randwrite"])
        self.assertEqual(self.complete("gdsio", "-I", ""), ["0", "1", "2", "3"])


class Bash(Completions, Asked):
    def complete(self, *words):
        return sorted(self.run_shell("-c", ASK_BASH, "bash", str(self.folder / "bash" / words[0]), *words))

    def test_a_word_behind_an_equals_sign(self):
        self.assertEqual(self.complete("penstock", "bench", "--memory", "=", "d"), ["device"])
        self.assertEqual(self.complete("penstock", "bench", "--memory", "="), ["device", "host"])

    def test_files_and_folders_are_left_to_readline(self):
        self.assertEqual(self.complete("penstock", "explain", "we"), ["compopt -o default"])
        self.assertEqual(self.complete("gdsio", "-f", "da"), ["compopt -o default"])
        self.assertEqual(self.complete("penstock", "check", "--root", "ca"), ["compopt -o dirnames"])
        self.assertEqual(self.complete("penstock", "bench", "--bs", ""), [])


class Fish(Completions, Asked):
    def complete(self, *words):
        ask = f"source {self.folder}/fish/{words[0]}.fish; complete -C (string join -- ' ' $argv)"
        return sorted(line.split("\t")[0] for line in self.run_shell("-c", ask, *words))

    def test_files_and_folders(self):
        (self.folder / "weights").touch()
        self.assertEqual(self.complete("penstock", "explain", "we"), ["weights"])
        self.assertEqual(self.complete("penstock", "check", "--root", "fi"), ["fish/"])
        self.assertEqual(self.complete("penstock", "stats", "we"), [])


def main():
    if shutil.which(SHELL) is None:
        print(f"skipped: {SHELL} is not installed, and its completions are not read (package {SHELL})")
        return 77
    chosen = {"bash": Bash, "zsh": Completions, "fish": Fish}[SHELL]
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(chosen)
    return 0 if unittest.TextTestRunner().run(tests).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
