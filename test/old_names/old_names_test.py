#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The last release's names of commands answer as they did: old_names_test.py BUILD [--record]

recordings.json has what the tool answered when each name was its own command. An old name keeps the exit code and the
form of stdout; where that names a command, as in objects that are rendered, it is by the new words. stderr begins with
the line that says them. The new words (NEW) give the same answer, without that line. --record writes the recordings
anew, which only a case of another question needs: what a name answered is not to change.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cases

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
RECORDINGS = HERE / "recordings.json"
BUILD = Path(sys.argv[1]).resolve()
TOOL = BUILD / "tools" / "penstock"

# Old words, and the new ones for them.
NEW = {"k8s": ["penstock-k8s"], "model": ["penstock-model"], "doctor": ["explain", "--measure"],
       "prepare": ["explain", "--fix"], "demo": ["bench", "--every-path"], "suite": ["bench", "--suite"],
       "top": ["stats", "--live"], "node": ["serve"]}


def fill(folder):
    (folder / "data").write_bytes(bytes(range(250)) * 20)
    (folder / "other").write_bytes(b"abc")
    (folder / "garbage.json").write_bytes(b"\xff\xfe{[" + bytes(range(32)))
    (folder / cases.HOSTILE).write_bytes(b"text")
    with open(folder / "sparse", "wb") as sparse:
        sparse.truncate(1 << 20)
    (folder / "full").mkdir()
    (folder / "full" / "file").write_bytes(b"x" * 10000)
    (folder / "second").mkdir()
    os.mkfifo(folder / "pipe")


def wait_for(path, child):
    while child.poll() is None and not path.exists():
        time.sleep(0.02)


def ask(words, kind="text"):
    """Exit code, stdout and stderr, in a folder of its own. For metrics: the file in place of stdout."""
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        folder = Path(name)
        fill(folder)
        known = {"machines": str(BUILD / "machines"), "fixtures": str(FIXTURES), "hostile": cases.HOSTILE}
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        environment |= {"PENSTOCK_DEVICE": "host", "COLUMNS": "120"}
        program = [TOOL, *words]
        if words[0].startswith("penstock-"):  # A program beside the tool.
            program = [TOOL.with_name(words[0]), *words[1:]]
        with subprocess.Popen([str(word).format(**known) for word in program], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            if kind == "metrics":
                wait_for(folder / "full" / "penstock.prom", child)
                child.terminate()
            out, err = child.communicate(timeout=300)
        if kind == "metrics":
            out = (folder / "full" / "penstock.prom").read_bytes()
    texts = [stream.decode("utf-8", "replace").replace(name, "WORK").replace(str(BUILD), "BUILD")
             .replace(str(FIXTURES), "FIXTURES") for stream in (out, err)]
    return child.returncode, *texts


def without_values(line):
    """Numbers as N, whatever their unit, and columns without their widths."""
    line = re.sub(r"(?<![\w.])\d+(\.\d+)*(e-?\d+)?( ?[KMGT]?i?B\b| ?[nmu]?s\b)?", "N", line)
    return re.sub(r"(?<=\S) {2,}", "  ", line).rstrip()


def is_heading(line):
    return not re.search(r"\bN\b", line) and len(re.split(r" {2,}", line.strip())) > 3


def form(value):
    """Keys and types; of a list, those that its items have together."""
    if isinstance(value, dict):
        return {key: form(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return ["any of", *sorted({json.dumps(form(each), sort_keys=True) for each in value})]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def keys(value, depth=2):
    if isinstance(value, dict) and depth > 0:
        return {key: keys(each, depth - 1) for key, each in sorted(value.items())}
    return "value"


def held(kind, out):
    """What of an answer is compared."""
    if kind in ("json", "keys"):
        return (form if kind == "json" else keys)(json.loads(out))
    lines = [without_values(line) for line in out.splitlines()]
    if kind == "metrics":
        return sorted(line for line in lines if line.startswith("# TYPE"))
    return {"text": lines, "first": lines[:1], "columns": [line for line in lines if is_heading(line)]}[kind]


def has_all(told, recorded):
    """Keys may come; none goes, and none changes."""
    if isinstance(told, dict) and isinstance(recorded, dict):
        return all(key in told and has_all(told[key], value) for key, value in recorded.items())
    return told == recorded


def answer(kind, words):
    code, out, err = ask(words, kind)
    return {"exit": code, "out": held(kind, out)}, err


def answers(questions):
    """Of pairs of a kind and words, in their order. Most of the time of each is waiting."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda question: answer(*question), questions))


def name_of(line):
    return line.split()[0]


def listed():
    return set(re.findall(r"^  ([\w.]+) {2,}", ask(["--help"])[1], re.MULTILINE))


def record():
    told = answers((kind, line.split()) for kind, line in cases.CASES)
    text = ",\n".join(f"{json.dumps(line)}: {json.dumps(each)}" for (_, line), (each, _) in zip(cases.CASES, told))
    RECORDINGS.write_text("{\n" + text + "\n}\n", encoding="utf-8")


class OldNames(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.recorded = json.loads(RECORDINGS.read_text(encoding="utf-8"))

    def check(self, told, recorded, err):
        if not has_all(told, recorded):
            self.assertEqual(told, recorded, err)

    def test_each_case_has_a_recording_and_each_recording_a_case(self):
        self.assertEqual(set(self.recorded), {line for _, line in cases.CASES})

    def test_an_old_name_answers_as_it_did(self):
        names = listed()
        for (_, line), (told, err) in zip(cases.CASES, answers((kind, line.split()) for kind, line in cases.CASES)):
            with self.subTest(line):
                self.check(told, self.recorded[line], err)
                is_old = name_of(line) not in names and name_of(line).isidentifier() and line != "version"
                self.assertEqual(err.startswith(f"penstock: 'penstock {name_of(line)}' is now '"), is_old, err)

    def test_the_new_words_give_the_same_answer(self):
        lines = [(kind, line) for kind, line in cases.CASES if name_of(line) in NEW]
        words = [(kind, [*NEW[name_of(line)], *line.split()[1:]]) for kind, line in lines]
        for (_, line), (_, new), (told, err) in zip(lines, words, answers(words)):
            with self.subTest(" ".join(new)):
                self.check(told, self.recorded[line], err)
                self.assertNotIn("' is now '", err)


if __name__ == "__main__":
    if sys.argv[2:] == ["--record"]:
        record()
    else:
        unittest.main(argv=sys.argv[:1])
