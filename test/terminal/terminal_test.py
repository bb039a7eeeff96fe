#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Commands as a person sees them, on terminals of 80 and of 200 columns: terminal_test.py BUILD [--record]

Exits 77 where tmux is not installed. --record writes the pages of test/fixtures/terminal anew, to be looked at before
they are committed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from terminal import PATIENCE_S, Terminal

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "test" / "fixtures" / "terminal"
RECORDS = "--record" in sys.argv
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "dev").resolve()
TOOL = BUILD / "tools" / "penstock"
WIDEST = 120  # Pages for people are no wider, on whatever terminal.
SIZES = ((80, 24), (200, 50))
MACHINE = "dgx-ready"
FILE_SIZE = 4 << 20
PROMPT = "ready> "
SHELLS_STATE = "0 1 1"
FIRST_RATES_S = 10  # After which top is started anew.


class World(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(dir=BUILD)))
        (self.folder / "data").write_bytes(os.urandom(FILE_SIZE))

    if sys.version_info < (3, 11):
        def enterContext(self, context):
            entered = context.__enter__()
            self.addCleanup(context.__exit__, None, None, None)
            return entered


class Pages(World):
    """What is printed and stays."""

    def lines_of(self, columns, words, with_colors=False, environment=()):
        """What the command prints, as lines, and its exit code."""
        script = '"$@"; printf "\\n<ended: %d>\\n" $?; read -r _'
        run = ["sh", "-c", script, "sh", str(TOOL), *words]
        with Terminal(columns, 50, run, self.folder, environment) as terminal:
            terminal.wait_for("the command's end", lambda screen: "<ended: " in screen)
            lines = terminal.all_lines(with_colors)
        last = next(i for i, line in enumerate(lines) if line.startswith("<ended: "))
        return lines[:last - 1], int(re.search(r"\d+", lines[last]).group())

    def unpack_machine(self):
        subprocess.run([sys.executable, "-B", ROOT / "scripts" / "machine-tree", "unpack",
                        ROOT / "test" / "fixtures" / "machines" / f"{MACHINE}.tree", self.folder], check=True)

    def commands(self):
        self.unpack_machine()
        return {"check": ["check", "--root", MACHINE], "topology": ["check", "--topology", "--root", MACHINE],
                "help": ["help", "stand_in"], "options": ["bench", "--help"],
                "bench": ["bench", "data", "--time", "0.1"], "every path": ["bench", "--every-path", "--size", "1M"],
                "explain": ["explain", "data"],
                "doctor": ["explain", "--measure", "--time", "0.1", "data"]}

    def test_no_line_is_wider_than_the_terminal(self):
        for name, words in self.commands().items():
            for columns, _ in SIZES:
                with self.subTest(name, columns=columns):
                    lines, code = self.lines_of(columns, words)
                    self.assertEqual(code, 0, lines)
                    self.assertGreater(len(lines), 1)
                    self.assertEqual([line for line in lines if len(line) > min(columns, WIDEST)], [])

    def test_a_message_is_broken_between_words_too(self):
        lines, code = self.lines_of(80, ["check", "folder"])
        self.assertEqual(code, 2)
        self.assertEqual([line for line in lines if len(line) > 80], [])
        self.assertTrue(lines[0].startswith("penstock: ") and lines[1].startswith("  "), lines)

    def test_colours_are_there_on_a_terminal_alone_and_not_with_no_color(self):
        words = self.commands()["check"]
        self.assertIn("\033[", "\n".join(self.lines_of(80, words, with_colors=True)[0]))
        without = self.lines_of(80, words, with_colors=True, environment={"NO_COLOR": "1"}.items())[0]
        self.assertNotIn("\033[", "\n".join(without))
        piped = subprocess.run([TOOL, *words], capture_output=True, text=True, cwd=self.folder, check=True,
                               env={**os.environ, "TERM": "xterm-256color"}).stdout
        self.assertNotIn("\033[", piped)

    def test_the_pages_are_as_they_were_recorded(self):
        commands = self.commands()
        for name in ("check", "topology", "help"):
            for columns, _ in SIZES:
                page = PAGES / f"{name}-{columns}.txt"
                shown = "\n".join(self.lines_of(columns, commands[name])[0]) + "\n"
                if RECORDS:
                    page.write_text(shown, encoding="utf-8")
                with self.subTest(page.name):
                    self.assertEqual(shown, page.read_text(encoding="utf-8"))


class Top(World):
    """A page that stays and changes, and a shell that gets its terminal back."""

    def setUp(self):
        super().setUp()
        self.read()

    def read(self):
        self.reader = subprocess.Popen([TOOL, "bench", "data", "--time", "3600"], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**os.environ, "PENSTOCK_DEVICE": "host"})
        self.addCleanup(self.reader.wait)
        self.addCleanup(self.reader.kill)

    def shell(self, columns=80, rows=24):
        terminal = self.enterContext(Terminal(columns, rows, ["bash", "--norc", "--noprofile", "-i"], self.folder,
                                              {"PS1": PROMPT}.items()))
        terminal.wait_for("a prompt", lambda screen: PROMPT.strip() in screen)
        self.say(terminal, "stty -g")
        return terminal

    def say(self, terminal, command):
        """A command that ends at once, and what it says."""
        before = terminal.screen().count(PROMPT.strip())
        terminal.type(command, "Enter")
        screen = terminal.wait_for(f"the end of {command}", lambda now: now.count(PROMPT.strip()) > before)
        return [line for line in screen.splitlines() if line.strip()][-2]

    def wait_for_prompt(self, terminal):
        return terminal.wait_for("a prompt", lambda now: now.rstrip().endswith(PROMPT.strip()))

    def start(self, terminal, *options):
        """Until it shows the reader with a rate. The settings of the terminal before it.

        A reader that has no CPU while the first rates are taken has none until the next ones: then top starts anew.
        """
        settings = self.say(terminal, "stty -g")
        row = re.compile(rf"^ *{self.reader.pid} penstock +\d+\.\d+ ", re.MULTILINE)
        for tries_left in reversed(range(PATIENCE_S // FIRST_RATES_S)):
            terminal.type(" ".join([str(TOOL), "stats", "--live", *options]), "Enter")
            try:
                terminal.wait_for(f"the process {self.reader.pid} with a rate", row.search, FIRST_RATES_S)
                break
            except AssertionError:
                if tries_left == 0:
                    raise
                terminal.type("q")
                self.wait_for_prompt(terminal)
        self.assertEqual(terminal.state(), "1 0 0")
        return settings

    def assert_restored(self, terminal, settings):
        terminal.wait_for("the shell's page", lambda _: terminal.state() == SHELLS_STATE)
        screen = self.wait_for_prompt(terminal)
        self.assertNotIn("by path:", screen)
        self.assertIn("stty -g", screen)  # What stood there before.
        self.assertEqual(self.say(terminal, "stty -g"), settings)

    def test_q_quits(self):
        for columns, rows in SIZES:
            with self.subTest(columns=columns):
                terminal = self.shell(columns, rows)
                settings = self.start(terminal, "--interval", "0.2")
                lines = terminal.screen().splitlines()
                self.assertTrue(lines[0].startswith("penstock stats: "), lines[0])
                self.assertTrue(lines[1].startswith("by path: "), lines[1])
                self.assertTrue(all(len(line) <= columns for line in lines), lines)
                terminal.type("q")
                self.assert_restored(terminal, settings)
                self.assertEqual(self.say(terminal, "echo $?"), "0")

    def test_ctrl_c_quits(self):
        terminal = self.shell()
        settings = self.start(terminal)
        terminal.type("C-c")
        self.assert_restored(terminal, settings)

    def test_a_crash_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT):
            with self.subTest(number.name):
                terminal = self.shell()
                settings = self.start(terminal, "--interval", "3600")
                child = terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
                children = Path(f"/proc/{child}/task/{child}/children").read_text(encoding="ascii").split()
                os.kill(int(children[0]), number)
                self.assert_restored(terminal, settings)

    def test_a_new_size_is_kept_at_once(self):
        terminal = self.shell(200, 50)
        self.start(terminal, "--interval", "3600")
        terminal.resize(60, 10)
        terminal.wait_for("lines of 60 columns", re.compile(r"^ +pid command .{41}\.\.\.$", re.MULTILINE).search)
        terminal.resize(24, 10)
        terminal.wait_for("lines of 24 columns", re.compile(r"^penstock stats: .{5}\.\.\.$", re.MULTILINE).search)

    def test_ctrl_z_gives_the_terminal_back_for_a_while(self):
        terminal = self.shell()
        settings = self.start(terminal)
        terminal.type("C-z")
        self.assert_restored(terminal, settings)
        terminal.type("fg", "Enter")
        terminal.wait_for("the page", lambda now: "by path:" in now)
        terminal.type("q")
        self.assert_restored(terminal, settings)

    def test_a_process_that_comes_later_is_found(self):
        self.reader.kill()
        self.reader.wait()
        terminal = self.shell()
        terminal.type(f"{TOOL} stats --live --interval 0.1", "Enter")
        # Others may run beside the test.
        terminal.wait_for("the page", lambda now: "no process that this user" in now or "read GB/s" in now)
        self.read()
        terminal.wait_for("the process", lambda now: f" {self.reader.pid} penstock" in now)
        terminal.type("q")


if __name__ == "__main__":
    if shutil.which("tmux") is None:
        print("skipped: tmux is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
