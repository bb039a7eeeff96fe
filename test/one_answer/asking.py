# SPDX-License-Identifier: Apache-2.0
"""Asks every program about a captured machine: one process a question, but where a program takes many machines."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

import readers
from said import DIRECT, NOWHERE, SETTINGS, Answers

SECONDS_MAX = 900.0
# As `python -m penstock` begins, once for each machine; its answers are ended by a zero byte and so are exit codes.
PYTHON_CHECK = """
import sys
from penstock.__main__ import main
for root in sys.argv[1:]:
    for words in (["--json"], []):
        print(f"\\0{main(['check', '--root', root, *words])}", end="\\0", flush=True)
"""


@dataclass(frozen=True)
class Setting:
    name: str
    variables: dict[str, str] = field(default_factory=dict)
    cufile: str = ""  # What /etc/cufile.json of the machine is; "": as it was captured.


SETTINGS_ASKED = (
    Setting("defaults"),
    Setting("nvidia_export on", {"PENSTOCK_NVIDIA_EXPORT": "on"}),
    Setting("dmabuf and nvfs on", {"PENSTOCK_DMABUF": "on", "PENSTOCK_DMABUF_FILES": "on", "PENSTOCK_NVFS": "on"}),
    Setting("compat mode forbidden", cufile='{"properties": {"allow_compat_mode": false}}\n'),
    Setting("broken cufile.json", cufile='{"properties": {"allow_compat_mode": fal\n'))


@dataclass(frozen=True)
class Place:
    point: str
    is_overlay: bool  # explain names the mount below it that has the file.


@dataclass
class Machine:
    root: pathlib.Path
    places: list[Place]
    facts: dict[str, Any]  # What check tells of it at the defaults.

    @property
    def name(self) -> str:
        return self.root.name


class Programs:
    """The built programs, and the built Python package where there is one."""

    def __init__(self, folder: pathlib.Path, package: pathlib.Path | None) -> None:
        self.folder, self.package = folder, package

    def start(self, setting: Setting, name: str, *words: str) -> subprocess.Popen[str]:
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PENSTOCK_", "CUFILE_"))}
        own = {"PATH": f"{self.folder}:{plain['PATH']}", "PYTHONPATH": str(self.package)}
        return subprocess.Popen([self.folder / name, *words], env={**plain, **own, **setting.variables}, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, setting: Setting, name: str, *words: str, given: str = "") -> tuple[str, int]:
        with self.start(setting, name, *words) as process:
            out, _ = process.communicate(given, timeout=SECONDS_MAX)
        return out, process.returncode

    def ask_python(self, setting: Setting, roots: list[str]) -> list[tuple[str, int]]:
        """What `python -m penstock check` says, for programs and for people, of each machine: by one process."""
        told, _ = self.ask(setting, sys.executable, "-c", PYTHON_CHECK, *roots)
        parts = told.split("\0")[:-1]
        return [(out, int(exit_code)) for out, exit_code in zip(parts[::2], parts[1::2])]


def machine_of(programs: Programs, root: pathlib.Path) -> Machine:
    told = json.loads(programs.ask(SETTINGS_ASKED[0], "penstock", "check", "--root", str(root), "--json")[0])
    places = [Place(one["mount_point"], one["type"] == "overlay") for one in told["file_systems"]]
    return Machine(root, places, told)


@contextlib.contextmanager
def with_cufile(machines: list[Machine], setting: Setting) -> Iterator[list[Machine]]:
    """Copies of the machines with that cufile.json; the files of a copy are links, since none is ever written."""
    if not setting.cufile:
        yield machines
        return
    with tempfile.TemporaryDirectory(dir=machines[0].root.parent.parent, prefix="one_answer_") as folder:
        copies = []
        for machine in machines:
            root = pathlib.Path(folder, machine.name)
            shutil.copytree(machine.root, root, symlinks=True, copy_function=os.link)
            (root / "etc").mkdir(exist_ok=True)
            (root / "etc/cufile.json").unlink(missing_ok=True)
            (root / "etc/cufile.json").write_text(setting.cufile, encoding="utf-8")
            copies.append(Machine(root, machine.places, machine.facts))
        yield copies


def node_files(programs: Programs, setting: Setting, machine: Machine) -> tuple[str, str]:
    """The feature file and the metrics, as serve writes them after its first look."""
    with tempfile.TemporaryDirectory() as folder:
        feature, metrics = pathlib.Path(folder, "penstock"), pathlib.Path(folder, "penstock.prom")
        words = ("serve", "--host", str(machine.root), "--listen", "none", "--nfd", folder, "--textfile", folder)
        with programs.start(setting, "penstock", *words) as process:
            end = time.monotonic() + SECONDS_MAX
            while not feature.exists() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.005)
            process.terminate()
            process.communicate(timeout=SECONDS_MAX)
        return feature.read_text(encoding="utf-8"), metrics.read_text(encoding="utf-8")


def node_object(machine: Machine, features: str) -> dict[str, Any]:
    """As a cluster has it: what the kubelet and NVIDIA's and our discovery tell of the machine."""
    facts = machine.facts
    labels = dict(line.split("=", 1) for line in features.splitlines() if not line.startswith("#"))
    if any(gpu["vendor"] == "10de" for gpu in facts["gpus"]):
        labels["feature.node.kubernetes.io/pci-10de.present"] = "true"
    if facts["nvidia"] and facts["nvidia"]["version"]:
        labels["nvidia.com/cuda.driver-version.full"] = facts["nvidia"]["version"]
    info = {"osImage": facts["platform"]["distribution"], "kernelVersion": facts["kernel"]["release"],
            "containerRuntimeVersion": "containerd://2.1.4", "architecture": "amd64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name, "labels": labels},
            "status": {"nodeInfo": info}}


def say_settings(answers: Answers, setting: Setting, machine: Machine) -> None:
    """What follows from the setting alone: a path that it keeps off is off, unless something else closes it."""
    switches = {"nvfs": "PENSTOCK_NVFS", "p2pdma": "PENSTOCK_NVIDIA_EXPORT", "dmabuf": "PENSTOCK_DMABUF"}
    for path, variable in switches.items():
        peers = {pair["peer"] for pair in machine.facts["pairs"]}
        if path == "p2pdma" and peers - {gpu["pci_address"] for gpu in machine.facts["gpus"]}:
            continue  # Memory of another device needs no switch.
        is_on = variable in setting.variables
        may_be = {"open", "unknown", "closed"} if is_on else {"off", "closed"}
        # A configuration that was captured with the machine may keep paths off, too.
        answers.state(SETTINGS, "", path, may_be | ({"off"} if machine.facts["cufile"]["file"] else set()))
    if setting.name == "compat mode forbidden":
        answers.say(SETTINGS, "", "", "bytes", {NOWHERE, *DIRECT})
    if setting.name == "broken cufile.json" or (not setting.cufile and machine.facts["cufile"]["refused"]):
        answers.say(SETTINGS, "", "", "bytes", {NOWHERE})


def files_of(out: str) -> list[dict[str, Any]]:
    """The documents of explain's answer: of one file it is that alone."""
    told = json.loads(out)
    return told["files"] if "files" in told else [told]


class Interview:
    """All questions about one machine with one setting."""

    def __init__(self, programs: Programs, setting: Setting, machine: Machine) -> None:
        self.programs, self.setting, self.machine = programs, setting, machine
        self.answers = Answers()
        self.features = ""
        self.checked: list[tuple[str, int]] = []
        self.in_short: tuple[str, int] = ("", 0)

    def hear(self, mouth: str, read: Callable[[], None]) -> None:
        try:
            read()
        except Exception as error:  # pylint: disable=broad-except
            self.answers.unread.add(mouth)
            print(f"{self.machine.name}, {self.setting.name}: {mouth}: {type(error).__name__}: {error}")

    def ask(self, name: str, *words: str) -> tuple[str, int]:
        return self.programs.ask(self.setting, name, *words, "--root", str(self.machine.root))

    def hold(self) -> None:
        answers = self.answers
        say_settings(answers, self.setting, self.machine)
        self.hear_check()
        self.hear_explain()
        self.hear("gdscheck", lambda: readers.read_gdscheck(answers, *self.ask("gdscheck", "-p", "-V")))
        self.hear("gds_install_check",
                  lambda: readers.read_gds_install_check(answers, *self.ask("gds_install_check", "--json")))
        self.hear("serve --nfd", self.hear_serve)
        for path in ("p2pdma", "nvfs"):
            self.hear("serve --problem-detector", functools.partial(self.hear_detector, path))

    def hear_check(self) -> None:
        self.checked = [self.ask("penstock", "check", "--json"), self.ask("penstock", "check", "--all")]
        self.in_short = self.ask("penstock", "check")
        self.hear("check --json", lambda: readers.read_check_json(self.answers, self.checked[0][0]))
        self.hear("check", lambda: readers.read_check(self.answers, self.checked[1][0]))
        self.hear("check in short", lambda: readers.read_check_in_short(self.answers, self.in_short[0]))
        self.hear_as_env("check --env", self.checked[0], "check", "--json")
        self.hear_as_env("check --env", self.checked[1], "check", "--all")

    def hear_explain(self) -> None:
        """Of a file at each place, for programs and for people, by one process each."""
        files = [place.point.rstrip("/") + "/file" for place in self.machine.places]
        told = [self.ask("penstock", "explain", *files, word) for word in ("--json", "-v")]
        self.hear("explain --json", lambda: self.read_explained(readers.read_explain_json, files_of(told[0][0])))
        self.hear("explain", lambda: self.read_explained(readers.read_explain, re.split("^(?=file: )", told[1][0],
                                                                                          flags=re.MULTILINE)[1:]))
        for word, answer in zip(("--json", "-v"), told):
            self.hear_as_env("explain --env", answer, "explain", *files, word)

    def read_explained(self, read: Callable[..., None], documents: list[Any]) -> None:
        for place, document in zip(self.machine.places, documents, strict=True):
            read(self.answers, document, place.point, place.is_overlay)

    def hear_as_env(self, mouth: str, told: tuple[str, int], *words: str) -> None:
        """The same of a process that has no variables, and is told of them."""
        variables = [word for name, value in self.setting.variables.items() for word in ("--env", f"{name}={value}")]
        if variables:
            root = ("--root", str(self.machine.root))
            other = self.programs.ask(SETTINGS_ASKED[0], "penstock", *words, *root, *variables)
            self.hear(mouth, lambda: readers.read_same(other, told))

    def hear_serve(self) -> None:
        self.features, metrics = node_files(self.programs, self.setting, self.machine)
        readers.read_features(self.answers, self.features)
        readers.read_metrics(self.answers, metrics)

    def hear_detector(self, path: str) -> None:
        words = ("serve", "--host", str(self.machine.root), "--problem-detector", path)
        readers.read_problem_detector(self.answers, *self.programs.ask(self.setting, "penstock", *words), path)


def hear_python(programs: Programs, setting: Setting, interviews: list[Interview]) -> None:
    if programs.package is None:
        return
    told = programs.ask_python(setting, [str(one.machine.root) for one in interviews])
    for one, answers in zip(interviews, zip(told[::2], told[1::2], strict=True), strict=True):
        for answer, checked in zip(answers, (one.checked[0], one.in_short)):
            one.hear("python -m penstock check",
                     lambda answer=answer, checked=checked: readers.read_same(answer, checked))


def hear_verify(programs: Programs, setting: Setting, interviews: list[Interview]) -> None:
    roots = [word for one in interviews for word in ("--root", str(one.machine.root))]
    out, _ = programs.ask(setting, "penstock-k8s", "verify", "--json", *roots)
    nodes = {node["root"]: node for node in json.loads(out)["nodes"]}
    for one in interviews:
        one.hear("k8s verify", lambda one=one: readers.read_k8s_verify(one.answers, nodes[str(one.machine.root)]))


def hear_choose(programs: Programs, setting: Setting, interviews: list[Interview]) -> None:
    nodes = [node_object(one.machine, one.features) for one in interviews]
    cluster = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    out, _ = programs.ask(setting, "penstock-k8s", "choose", "--json", given=cluster)
    told = {node["node"]: node for node in json.loads(out)["nodes"]}
    for one in interviews:
        one.hear("k8s choose", lambda one=one: readers.read_k8s_choose(one.answers, told[one.machine.name]))
