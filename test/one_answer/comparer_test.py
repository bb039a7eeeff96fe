# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: programs that agree are left alone, and one lie of any of them is found, as is silence."""

from __future__ import annotations

import json
import sys
import unittest
from typing import Any

import readers
from said import SETTINGS, Answers, Contradiction, Danger, best, contradictions

# A machine with one GPU whose driver exports no memory, one drive, nvidia-fs that is switched off, and no library of
# NVIDIA's for it.
OBSTACLE = {"code": "driver_no_export", "effect": "refused", "certainty": "certain",
            "sentence": "driver 550.90.07: NVIDIA's driver before 565.57 cannot export device pages"}
OFF = "experimental: off unless PENSTOCK_NVFS=on"
NO_LIBRARY = "NVIDIA's libcufile.so.0 cannot be found"
STANDINGS = {"p2pdma": ("closed", "driver_no_export", "driver_no_export", OBSTACLE["sentence"]),
             "nvfs": ("off", "nvfs_off", "nvfs_setting", OFF),
             "vendor": ("closed", "vendor_library_missing", "vendor_library", NO_LIBRARY)}


def outlook() -> list[dict[str, Any]]:
    paths = [{"path": path, "standing": standing, "usable": False, "reason": reason, "sentence": text,
              "needs": [{"code": code, "state": "off" if standing == "off" else "missing", "text": text}]}
             for path, (standing, reason, code, text) in STANDINGS.items()]
    bounce = {"path": "bounce", "standing": "usable", "usable": True, "reason": "none", "sentence": "", "needs": []}
    return [*paths, bounce]


def findings() -> list[dict[str, Any]]:
    words = {"closed": ("fail", "closed: "), "off": ("warn", "off: ")}
    rows = [{"code": "path", "subject": path, "state": words[standing][0], "sentence": words[standing][1] + text}
            for path, (standing, _, _, text) in STANDINGS.items()]
    storage = {"code": "storage", "subject": "/data", "state": "pass", "direct": "once_set",
               "sentence": "nvfs may serve it, once that is switched on"}
    return [*rows, storage]


def check_json() -> dict[str, Any]:
    place = {"mount_point": "/data", "paths": ["bounce"], "outlook": outlook()}
    return {"usable": True, "cufile": {"refused": False}, "paths": outlook(), "file_systems": [place],
            "pairs": [{"mount_point": "/data", "standing": "closed", "reason": "driver_no_export",
                                               "obstacles": [OBSTACLE]}], "findings": findings()}


PATHS = """
  p2pdma     not usable (driver_no_export): driver 550.90.07: NVIDIA's driver before 565.57 cannot
             export device pages
    missing  driver_no_export   driver 550.90.07: NVIDIA's driver before 565.57 cannot export device
                                pages
  nvfs       off (nvfs_off): experimental: off unless PENSTOCK_NVFS=on
    off      nvfs_setting       experimental: off unless PENSTOCK_NVFS=on
  vendor     not usable (vendor_library_missing): NVIDIA's libcufile.so.0 cannot be found
    missing  vendor_library     NVIDIA's libcufile.so.0 cannot be found
  bounce     usable
"""

VERDICT = """
Verdict
  files reach device memory by bounce
"""

CHECK = """Penstock 0.2.0: the captured machine in m
""" + VERDICT + """
How bytes of GPU memory go, as the machine is set
  /data: through host memory, until settings allow a direct path

Device memory and storage: what stands in p2pdma's way (?: only its self-test can tell)
  GPU 0000:19:00.0
    closed      /data
      driver_no_export           driver 550.90.07: NVIDIA's driver before 565.57 cannot export device pages

Paths, best first""" + PATHS

IN_SHORT = """Penstock 0.2.0: the captured machine in m
""" + VERDICT + """
Between files and a direct path
  /data: nvfs is off, 1 step away
    nvfs_setting           experimental: off unless PENSTOCK_NVFS=on

Paths, best first""" + PATHS

EXPLAIN = """file: /data/file on the captured machine in m
  mount: /dev/nvme0n1 on /data, xfs, rw

Paths between it and device memory, best first""" + PATHS + VERDICT + """
p2pdma, a read: what stands in the way (?: only its self-test can tell)
  stored in       the file system does not tell
  file            nothing
  0000:19:00.0    closed
    driver_no_export           driver 550.90.07: NVIDIA's driver before 565.57 cannot export device pages
"""

GDSCHECK = """ DRIVER CONFIGURATION:
 NVMe                 : compat
 CUFILE CONFIGURATION:
 properties.use_pci_p2pdma : false
 GPU index 0 NVIDIA 10de:2330 bar:1 bar size (MiB):131072 served in compat mode, no direct path, IOMMU State: Disabled
 Platform verification succeeded (compat only)
 FILE SYSTEMS:
 /data                : xfs, compat, O_DIRECT: yes
"""

FEATURES = "# +expiry-time=2026-11-26T21:00:00Z\n" + "".join(
    f"feature.node.kubernetes.io/penstock-path-{path}=false\n"
    f"feature.node.kubernetes.io/penstock-path-{path}-standing={standing}\n"
    f"feature.node.kubernetes.io/penstock-path-{path}-reason={reason}\n"
    for path, (standing, reason, _, _) in STANDINGS.items()) + "".join(
        f"feature.node.kubernetes.io/penstock-path-{path}=true\n"
        f"feature.node.kubernetes.io/penstock-path-{path}-standing=usable\n"
        for path in ("pagecache", "bounce", "host"))

METRICS = """penstock_path_available{path="p2pdma",reason="driver_no_export"} 0
penstock_path_available{path="nvfs",reason="nvfs_off"} 0
penstock_path_available{path="vendor",reason="vendor_library_missing"} 0
penstock_path_available{path="bounce",reason="none"} 1
"""


def explain_json() -> dict[str, Any]:
    routes = [{"possible": False, "obstacles": [OBSTACLE]}]
    return {"file": {"mount": {"point": "/data"}}, "paths": outlook(), "would_use": "bounce",
            "p2pdma": {"obstacles": [], "request_obstacles": [], "routes": routes}}


def install_check() -> dict[str, Any]:
    codes = {"gpu": "ok", "vendor_library": "missing", "libcufile": "unknown", "cufile_json": "ok"}
    return {"verified": False, "checks": [{"code": code, "state": state} for code, state in codes.items()]}


def verify() -> dict[str, Any]:
    paths = [{"path": "p2pdma", "standing": "closed", "rule": "driver_no_export"},
             {"path": "nvidia-fs", "standing": "off", "rule": "nvfs_off"}]
    return {"storages": [{"mount_point": "/data", "paths": paths}]}


def choose() -> dict[str, Any]:
    return {"path": "nvidia-fs", "has_gpu": True, "standing": "off", "off_by": "nvfs_off",
            "against": {"path": "nvidia-fs", "rule": "nvfs_off"},
            "refusals": [{"path": "p2pdma", "rule": "driver_no_export"}]}


class World:
    """What each program prints; a test alters one of them."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {
            "check --json": check_json(), "check": CHECK, "check in short": IN_SHORT, "explain --json": explain_json(),
            "explain": EXPLAIN,
            "gdscheck": (GDSCHECK, 0), "gds_install_check": (install_check(), 1), "serve --nfd": FEATURES,
            "serve metrics": METRICS, "serve --problem-detector": ("p2pdma is not available: driver_no_export\n", 1),
            "k8s verify": verify(), "k8s choose": choose()}

    def replace(self, mouth: str, old: str, new: str) -> None:
        before = self.told[mouth]
        text, exit_code = before if isinstance(before, tuple) else (before, None)
        is_text = isinstance(text, str)
        whole = text if is_text else json.dumps(text)
        assert whole.count(old) >= 1, f"{mouth} does not say {old}"
        altered = whole.replace(old, new) if is_text else json.loads(whole.replace(old, new))
        self.told[mouth] = altered if exit_code is None else (altered, exit_code)

    def answers(self) -> Answers:
        told, answers = self.told, Answers()
        answers.state(SETTINGS, "", "p2pdma", {"off", "closed"})
        readers.read_check_json(answers, json.dumps(told["check --json"]))
        readers.read_check(answers, told["check"])
        readers.read_check_in_short(answers, told["check in short"])
        readers.read_explain_json(answers, told["explain --json"], "/data")
        readers.read_explain(answers, told["explain"], "/data")
        readers.read_gdscheck(answers, *told["gdscheck"])
        readers.read_gds_install_check(answers, json.dumps(told["gds_install_check"][0]), told["gds_install_check"][1])
        readers.read_features(answers, told["serve --nfd"])
        readers.read_metrics(answers, told["serve metrics"])
        readers.read_problem_detector(answers, *told["serve --problem-detector"], "p2pdma")
        readers.read_k8s_verify(answers, told["k8s verify"])
        readers.read_k8s_choose(answers, told["k8s choose"])
        return answers

    def found(self) -> list[Contradiction]:
        return contradictions(self.answers())


LABEL = "feature.node.kubernetes.io/penstock-path-"
# One lie a row: the program, what it said, what it says now.
LIES = (
    ("check --json", '"standing": "off", "usable": false', '"standing": "usable", "usable": true'),
    ("check --json", '"standing": "off"', '"standing": "closed"'),
    ("check --json", '"reason": "nvfs_off"', '"reason": "nvfs_missing"'),
    ("check --json", '"standing": "closed", "reason": "driver_no_export", "obstacles"',
     '"standing": "off", "reason": "nvidia_export", "obstacles"'),
    ("check", "    closed      /data", "    open        /data"),
    ("check", "nvfs       off (nvfs_off)", "nvfs       may be tried"),
    ("check", "p2pdma     not usable (driver_no_export)", "p2pdma     unknown (driver_no_export)"),
    ("check", "not usable (vendor_library_missing)", "not usable (nvidia_fs_missing)"),
    ("check", "memory by bounce", "memory by p2pdma, if its self-test passes"),
    ("check", "files reach device memory by bounce", "no path can move bytes"),
    ("check in short", "nvfs is off, 1 step away", "directly by nvfs, if its self-test passes"),
    ("check in short", "nvfs is off, 1 step away", "no direct path serves it on this machine"),
    ("check in short", "nvfs       off (nvfs_off)", "nvfs       may be tried"),
    ("explain --json", '"standing": "off"', '"standing": "unknown"'),
    ("explain --json", '"reason": "driver_no_export"', '"reason": "static_bar1_off"'),
    ("explain --json", '"would_use": "bounce"', '"would_use": "vendor"'),
    ("explain", "nvfs       off (nvfs_off)", "nvfs       off (not_listed)"),
    ("explain", "memory by bounce", "memory by pagecache"),
    ("explain", "vendor     not usable", "vendor     off"),
    ("gdscheck", "NVMe                 : compat", "NVMe                 : p2pdma, compat"),
    ("gdscheck", "served in compat mode, no direct path", "supports GDS (nvfs may be tried)"),
    ("gdscheck", "xfs, compat", "xfs, nvfs, compat"),
    ("gdscheck", "xfs, compat", "xfs, Unsupported"),
    ("gdscheck", "succeeded (compat only)", "succeeded"),
    ("serve --nfd", "path-nvfs=false\n{0}nvfs-standing=off", "path-nvfs=true\n{0}nvfs-standing=usable"),
    ("serve --nfd", "vendor-standing=closed", "vendor-standing=off"),
    ("serve --nfd", "vendor-reason=vendor_library_missing", "vendor-reason=udev"),
    ("serve --nfd", "path-bounce=true\n{0}bounce-standing=usable",
     "path-bounce=false\n{0}bounce-standing=off\n{0}bounce-reason=x"),
    ("serve metrics", 'driver_no_export"} 0', 'none"} 1'),
    ("serve metrics", "nvfs_off", "nvfs_missing"),
    ("serve --problem-detector", "driver_no_export", "acs_redirect"),
    ("serve --problem-detector", "not available", "off"),
    ("k8s verify", '"standing": "closed", "rule": "driver_no_export"', '"standing": "open", "rule": ""'),
    ("k8s verify", '"standing": "off"', '"standing": "unknown"'),
    ("k8s verify", '"rule": "nvfs_off"', '"rule": "nfs_by_tcp"'),
    ("k8s choose", '"nvfs_off"', '"not_listed"'),
    ("k8s choose", '"standing": "off", "off_by": "nvfs_off"', '"standing": "unknown", "off_by": null'),
    ("k8s choose", '"path": "nvidia-fs", "has_gpu"', '"path": "p2pdma", "has_gpu"'),
    ("k8s choose", '"rule": "driver_no_export"', '"rule": "p2pdma_needs"'),
    ("check --json", '"sentence": "closed: ' + NO_LIBRARY, '"sentence": "closed: the module is old'),
    ("check --json", '"state": "warn", "sentence": "off', '"state": "unknown", "sentence": "off'),
    ("check --json", '"direct": "once_set"', '"direct": "now"'),
    ("check --json", ", once that is switched on", ""),
    ("check", "through host memory, until settings allow a direct path",
     "directly, if the path's self-test passes"),
)


class ComparerTest(unittest.TestCase):
    def test_programs_that_agree_are_left_alone(self) -> None:
        self.assertEqual(World().found(), [])

    def test_one_lie_of_any_program_is_found(self) -> None:
        for mouth, old, new in LIES:
            with self.subTest(mouth=mouth, lie=new):
                world = World()
                world.replace(mouth, *(words.replace("{0}", LABEL) for words in (old, new)))
                self.assertTrue(any(mouth in one.kind for one in world.found()))

    def test_every_program_is_caught_at_a_lie(self) -> None:
        told = {mouth for mouth, _, _ in LIES} | {"gds_install_check"}
        self.assertEqual(told, set(World().told))

    def test_an_installation_that_is_called_whole_is_found(self) -> None:
        world = World()
        whole = install_check()
        whole["verified"], whole["checks"][1]["state"] = True, "ok"
        world.told["gds_install_check"] = (whole, 0)
        self.assertTrue(any("gds_install_check" in one.kind for one in world.found()))

    def test_a_path_that_is_off_must_not_be_called_open_by_all_at_once(self) -> None:
        answers = Answers()
        answers.state(SETTINGS, "", "p2pdma", {"off", "closed"})
        answers.state("check", "", "p2pdma", {"open"})
        answers.state("explain", "", "p2pdma", {"open"})
        self.assertEqual({one.kind for one in contradictions(answers)},
                         {"state: check, the settings", "state: explain, the settings"})

    def test_what_may_corrupt_bytes_must_not_be_called_open(self) -> None:
        answers = Answers(dangers={Danger("/data", "p2pdma")})
        answers.state("k8s verify", "/data", "p2pdma", {"open"})
        answers.state("k8s verify", "/", "p2pdma", {"open"})
        self.assertEqual([one.kind for one in contradictions(answers)], ["danger: k8s verify"])

    def test_a_danger_of_the_whole_machine_is_one_at_each_place(self) -> None:
        answers = Answers(dangers={Danger("", "nvfs"), Danger("", "vendor")})
        answers.state("gdscheck", "/data", "nvidia-fs", {"open"})
        self.assertIn("danger: gdscheck", [one.kind for one in contradictions(answers)])

    def test_a_program_that_contradicts_itself_is_found(self) -> None:
        answers = Answers()
        answers.state("check", "/data", "vendor", {"closed"})
        answers.state("check", "", "vendor", {"open"})
        self.assertIn("state: check, check", [one.kind for one in contradictions(answers)])

    def test_silence_is_a_failure(self) -> None:
        self.assertEqual([one.kind for one in contradictions(Answers(unread={"explain"}))], ["unread: explain"])

    def test_the_best_of_what_is_not_certain_is_not_certain(self) -> None:
        self.assertEqual(best([frozenset({"closed"}), frozenset({"off", "unknown"})]), {"off", "unknown"})
        self.assertEqual(best([frozenset({"open"}), frozenset({"off", "closed"})]), {"open"})


class ReadersTest(unittest.TestCase):
    """An answer of another shape, or none, is told: nothing is read as "says nothing"."""

    def test_no_reader_takes_an_empty_answer(self) -> None:
        for mouth, told in World().told.items():
            with self.subTest(mouth=mouth), self.assertRaises(Exception):
                world = World()
                empty: Any = "" if isinstance(told, str) else {}
                world.told[mouth] = (empty, told[1]) if isinstance(told, tuple) else empty
                world.answers()

    def test_an_exit_code_that_denies_the_words_is_told(self) -> None:
        for mouth in ("gdscheck", "gds_install_check", "serve --problem-detector"):
            with self.subTest(mouth=mouth), self.assertRaises(readers.Unreadable):
                world = World()
                text, exit_code = world.told[mouth]
                world.told[mouth] = (text, 1 - exit_code)
                world.answers()

    def test_the_same_question_must_have_the_same_answer(self) -> None:
        readers.read_same(("usable", 0), ("usable", 0))
        for other in (("off", 0), ("usable", 1)):
            with self.assertRaises(readers.Unreadable):
                readers.read_same(("usable", 0), other)

    def test_a_file_at_another_mount_is_told(self) -> None:
        with self.assertRaises(readers.Unreadable):
            readers.read_explain_json(Answers(), explain_json(), "/elsewhere")


if __name__ == "__main__":
    sys.exit(unittest.main())
