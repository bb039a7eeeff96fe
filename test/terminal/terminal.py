# SPDX-License-Identifier: Apache-2.0

"""A terminal with somebody before it: a window of tmux, with keys to type and a screen to read."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

PATIENCE_S = 600  # Of a test that would hang else: nothing is judged by it.


class Terminal:
    """Runs words in a window of so many columns and rows, by a tmux server of its own. To be used as a context."""

    def __init__(self, columns, rows, words, folder, environment=()):
        self.size = (columns, rows)
        self.words, self.folder, self.environment = words, folder, dict(environment)

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # The killed server may still write there.
        self.socket = Path(self.place.name) / "tmux"
        columns, rows = self.size
        # Nothing of who runs the tests: their NO_COLOR, their settings of Penstock.
        clean = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": self.place.name, "TERM": "xterm-256color",
                 "PENSTOCK_DEVICE": "host", **self.environment}
        subprocess.run(["tmux", "-u", "-S", self.socket, "-f", "/dev/null", "start-server", ";", "set", "-g", "status",
                        "off", ";", "new-session", "-d", "-x", str(columns), "-y", str(rows), *self.words],
                       env=clean, cwd=self.folder, check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False)
        self.place.cleanup()

    def tmux(self, *words):
        return subprocess.run(["tmux", "-u", "-S", self.socket, *words], capture_output=True, text=True,
                              encoding="utf-8", check=True).stdout

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def all_lines(self, with_colors=False):
        """Since it began. What was wrapped at the edge is one line."""
        words = ["capture-pane", "-p", "-J", "-S", "-", *(["-e"] if with_colors else [])]
        return [line.rstrip() for line in self.tmux(*words).splitlines()]

    def state(self):
        """Whether it shows its second page, its cursor, and wraps lines: "0 1 1" for a shell's."""
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}").strip()

    def wait_for(self, what, there, patience_s=PATIENCE_S):
        """Until `there`, of the screen, says so."""
        end = time.monotonic() + patience_s
        while not there(screen := self.screen()):
            if time.monotonic() > end:
                raise AssertionError(f"not seen in {patience_s} s: {what}; the screen:\n{screen}")
            time.sleep(0.02)
        return screen
