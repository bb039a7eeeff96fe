# SPDX-License-Identifier: Apache-2.0

"""A page's commands as its reader gives them: in order, one after the other, in one shell, from a clean clone.

Blocks fenced as `sh` are commands; of those fenced as `console` the lines behind "$ " are, with the lines that they go
on in. What cannot be run by a test stands in NOT_RUN, with the reason; each is counted, and shown as a skip.
"""

import os
import re
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).resolve().parent / "stand_ins"
SKIPPED = 77
SLOW_SECONDS = 10
MARK = "\x1e"

# The first that is found in a command counts.
NOT_RUN = [
    (r"^\./dev test\b", "it is what runs this test"),
    (r"^sudo |\bpodman |^cd build/packages|^tar -xf penstock-|^~/penstock-\*",
     "it needs root, a container engine or what ./dev package builds: ./dev package-test does that"),
    (r"^pip |scripts/make_wheel|scikit_build_core",
     "it builds or fetches packages for minutes: python/tests has wheels and archives of sources"),
    (r"^python -m penstock stage", "it needs a bucket"),
    (r"^python -m penstock", "it needs what the page's Python has made: python/tests runs both"),
    (r"^(vllm|sglang|lmcache) ", "it needs a serving engine, a model and a GPU"),
    (r"^helm template .* -f values\.yaml", "the values are the reader's"),
    (r"\bpython (train|program)\.py", "the program is the reader's"),
    (r"^penstock stats \d+", "the process is the reader's"),
    (r"--root /host|--read /data|^penstock-k8s verify  ", "it needs a pod, a node or a GPU of a cluster"),
    (r"^penstock kv (inspect|verify|compact|bench) |kv_trace\.py", "it needs a store of the reader's, or 200 GB"),
]


class Command:
    def __init__(self, page, line, text):
        self.page, self.line, self.text = page, line, text
        self.reason = next((reason for pattern, reason in NOT_RUN if re.search(pattern, text)), None)

    def place(self):
        return f"{self.page.name}:{self.line}"


def goes_on(text):
    """Whether a shell would wait for the rest of it."""
    return text.rstrip().endswith(("\\", "|", "&&", "||")) or text.count("'") % 2 == 1 or text.count('"') % 2 == 1


def commands_of(page):
    for block in page.blocks:
        if block.kind == "sh":
            yield Command(page, block.line, block.text)
        elif block.kind == "console":
            yield from console_commands(page, block)


def console_commands(page, block):
    text, first = None, 0
    for number, line in enumerate(block.text.splitlines(), block.line):
        if text is not None and goes_on(text):
            text += "\n" + line
            continue
        if text is not None:
            yield Command(page, first, text)
        text, first = (line[2:], number) if line.startswith("$ ") else (None, 0)
    if text is not None:
        yield Command(page, first, text)


def can_clone():
    return shutil.which("git") is not None and (ROOT / ".git").exists()


def clean_clone(folder):
    """Of the tree as it would be committed now: with what is changed, and without what git ignores."""
    def git(*words):
        return subprocess.run(["git", "-c", "safe.directory=*", *words], check=True, capture_output=True,
                              text=True).stdout

    git("clone", "-q", str(ROOT), str(folder))
    changed = git("-C", str(ROOT), "ls-files", "-z", "--modified", "--others", "--exclude-standard").split("\0")
    for name in filter(None, changed):
        (folder / name).unlink(missing_ok=True)
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def environment(home, path):
    ours = ("PENSTOCK_", "CUFILE_", "GIT_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    cache = os.environ.get("CCACHE_DIR") or str(Path.home() / ".cache/ccache")  # As it is without a HOME of one's own.
    return {**clean, "HOME": str(home), "CCACHE_DIR": cache, "PENSTOCK_DEVICE": "host", "PENSTOCK_NO_INSTALL": "1",
            "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]])}


def script_of(commands):
    """Goes on behind a command that fails, as a reader's shell would, and tells of each."""
    lines = ["set -Euo pipefail", "at=0",
             'trap \'echo "failed $at $? $BASH_COMMAND" | head -n 1 >&9\' ERR']
    for at, command in enumerate(commands):
        lines += [f"at={at}; echo began $at $SECONDS >&9; printf '{MARK}%s\\n' {at}", command.text.rstrip("\n")]
    return "\n".join([*lines, "echo end $at $SECONDS >&9", ""])


def run_chain(commands, folder, env, replaced):
    """(what went wrong, the commands that said by exit code 77 that they do not apply here)"""
    commands = [command for command in commands if command.reason is None]
    text = script_of(commands)
    for name, path in replaced.items():
        text = text.replace(name, str(path))
    with tempfile.TemporaryDirectory() as scratch:
        script, told = Path(scratch, "script"), Path(scratch, "told")
        script.write_text(text)
        with open(told, "wb") as faults:
            done = subprocess.run(["bash", "-c", f"exec 9>&{faults.fileno()}; . {script}"], cwd=folder, env=env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", check=False, pass_fds=[faults.fileno()])
        lines = told.read_text(errors="replace").splitlines()
    outputs = dict(part.partition("\n")[::2] for part in done.stdout.split(MARK)[1:])
    failures, skipped = [], []
    for line in lines:
        word, at, status, *rest = [*line.split(" ", 3), "", "", ""][:4]
        if word != "failed":
            continue
        command = commands[int(at)]
        if status == str(SKIPPED):
            skipped.append(command)
        else:
            failures.append(f"{command.place()}: ends with exit code {status}: {''.join(rest)}\n{outputs.get(at, '')}")
    tell_times(commands, lines)
    if not any(line.startswith("end ") for line in lines):
        last = max(map(int, outputs), default=0)
        failures.append(f"{commands[last].place()}: the shell ended there\n{outputs.get(str(last), '')}")
    return failures, skipped


def tell_times(commands, lines):
    """Which commands took long, for who would make the tests quicker."""
    marks = [(int(at), int(seconds)) for word, at, seconds, *_ in (f"{line}   ".split(" ") for line in lines)
             if word in ("began", "end")]
    for (at, began), (_, ended) in pairwise(marks):
        if ended - began >= SLOW_SECONDS:
            print(f"{commands[at].place()}: took {ended - began} s")


def tell_not_run(commands):
    """As scripts/test_summary counts them."""
    for command in commands:
        if command.reason is not None:
            print(f"SKIPPED [1] {command.place()}: not run: {command.reason}")
