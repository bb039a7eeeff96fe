# SPDX-License-Identifier: Apache-2.0
"""Reads what each program says of a machine. Each reader raises what it likes where an answer is not as it should be:
an answer that cannot be read is a failure, never left out."""

from __future__ import annotations

import json
import re
from typing import Any

from said import BY_HOST, BY_NVIDIA_FS, DIRECT, DIRECTLY, NOT_OPEN, NOWHERE, STATES, Answers, Danger, best

CORRUPTION = "silent_corruption"
NO_DEVICE = [{"code": "peer_unseen", "effect": "refused", "certainty": "certain"}]  # Where explain names no route.
COPIES = ("part_copied", "slower")  # Effects that close no path.
SWITCHES = ("nvidia_export", "nvfs_setting")
OPEN, OFF, UNKNOWN, CLOSED = (frozenset({state}) for state in ("open", "off", "unknown", "closed"))


class Unreadable(Exception):
    pass


def expect(is_so: bool, what: str) -> None:
    if not is_so:
        raise Unreadable(what)


def stops(obstacle: dict[str, Any]) -> bool:
    return obstacle["certainty"] == "certain" and obstacle["effect"] not in COPIES


def state_of_route(obstacles: list[dict[str, Any]]) -> frozenset[str]:
    return CLOSED if any(stops(one) for one in obstacles) else UNKNOWN if obstacles else OPEN


def note_dangers(answers: Answers, place: str, routes: list[list[dict[str, Any]]]) -> None:
    """A path is dangerous where each route that is left may corrupt bytes."""
    left = [route for route in routes if not any(stops(one) for one in route)]
    if left and all(any(one["effect"] == CORRUPTION for one in route) for route in left):
        answers.dangers.add(Danger(place, "p2pdma"))


def whole_words(text: str) -> str:
    return " ".join(text.split())


# ---- penstock check


def read_check_json(answers: Answers, out: str) -> None:
    told = json.loads(out)
    for path in told["paths"]:
        reason = "" if path["usable"] else path["reason"]
        answers.state("check --json", "", path["path"], OPEN if path["usable"] else NOT_OPEN - {"unknown"}, reason)
        missing = [need for need in path["needs"] if need["state"] == "missing"]
        if missing:
            answers.same_reason.append(frozenset({path["reason"], missing[0]["code"], missing[0]["text"]}))
        if any("corrupt" in need["text"] and need["state"] != "ok" for need in path["needs"]):
            answers.dangers.add(Danger("", path["path"]))
    if not told["usable"] and told["cufile"]["refused"]:
        answers.say("check --json", "", "", "bytes", {NOWHERE})
    for one in told["file_systems"]:
        for path in DIRECT:
            answers.state("check --json", one["mount_point"], path, OPEN if path in one["paths"] else NOT_OPEN)
        answers.say("check --json", one["mount_point"], "", "bytes", {(one["paths"] or [NOWHERE])[0]})
        pairs = [pair["obstacles"] for pair in told["pairs"] if pair["mount_point"] == one["mount_point"]]
        note_dangers(answers, one["mount_point"], pairs)
    note_dangers(answers, "", [pair["obstacles"] for pair in told["pairs"]])
    for pair in told["pairs"]:
        for one in pair["obstacles"]:
            answers.same_reason.append(frozenset({one["code"], one["sentence"]}))


def read_check(answers: Answers, out: str) -> None:
    paths, verdict = out.split("\nPaths, best first\n")[1].split("\nVerdict\n")
    for found in re.finditer(r"^  (\w+) +(usable|may be tried|not usable \((\w+)\))(.*(?:\n    .*)*)", paths, re.M):
        path, words, reason, needs = found.groups()
        is_off = any(f"unknown  {switch}" in needs or f"missing  {switch}" in needs for switch in SWITCHES)
        doubts = {"unknown"} if "unknown  " in needs else set()
        answers.state("check", "", path, CLOSED if reason and not is_off else NOT_OPEN if reason else OPEN | doubts,
                      reason or "")
    first = whole_words(verdict)
    by = re.match(r"files reach device memory by (\w+)", first)
    expect(by is not None or first.startswith("no path can move bytes"), "the verdict names no path")
    answers.say("check", "", "", "bytes", {by[1] if by else NOWHERE})


# ---- penstock explain


def read_explain_json(answers: Answers, out: str, place: str, is_overlay: bool = False) -> None:
    told = json.loads(out)
    expect(is_overlay or told["file"]["mount"]["point"] == place, f"the file is at {told['file']['mount']['point']}")
    direct = told["p2pdma"]
    of_file = direct["obstacles"] + direct["request_obstacles"]
    routes = [of_file + route["obstacles"] for route in direct["routes"]]
    for route in direct["routes"]:
        is_closed = state_of_route(route["obstacles"]) == CLOSED
        expect(route["possible"] != is_closed, "'possible' is not what the obstacles say")
    state = best(state_of_route(route) for route in routes or [NO_DEVICE])
    firsts = {next(one["code"] for one in route if stops(one) or state == UNKNOWN)
              for route in routes or [NO_DEVICE] if state_of_route(route) == state and state != OPEN}
    answers.state("explain --json", place, "p2pdma", state)
    if firsts:
        answers.say("explain --json", place, "p2pdma", "reason", firsts)
    note_dangers(answers, place, routes)


def read_explain(answers: Answers, out: str, place: str, is_overlay: bool = False) -> None:
    names_place = re.search(rf"^  mount: \S+ on {re.escape(place)}, ", out, re.M) is not None
    expect(is_overlay or names_place, "it names another mount")
    direct = out.split("only its self-test can tell)\n")[1]
    words = {"nothing": OPEN, "perhaps": UNKNOWN, "closed": CLOSED}
    routes = [words[word] for name, word in re.findall(r"^  (\S+|any device) +(nothing|perhaps|closed)$", direct, re.M)
              if name != "file"]
    if re.search("^  devices +none that offers its memory to a drive$", direct, re.M):
        routes = [CLOSED]
    expect(bool(routes), "no device is named")
    marks = re.findall(r"^  (\w+)(\??)  +.*: ", re.split("\n  (?:0000:|any device|devices)", direct)[0], re.M)
    of_file = CLOSED if any(not mark for _, mark in marks) else UNKNOWN if marks else OPEN
    worst = min((of_file, best(routes)), key=lambda each: STATES.index(next(iter(each))))
    answers.state("explain", place, "p2pdma", worst)


# ---- NVIDIA's names


def read_gdscheck(answers: Answers, out: str, exit_code: int) -> None:
    drivers = out.split("DRIVER CONFIGURATION:")[1].split("CUFILE CONFIGURATION:")[0]
    answers.state("gdscheck", "", "p2pdma", OPEN if "p2pdma" in drivers else NOT_OPEN)
    gpus = re.findall(r"^ GPU index .*$", out, re.M)
    expect(bool(gpus) or " No GPU was found" in out, "no row of a GPU")
    if gpus:
        supported = any("supports GDS (nvfs may be tried)" in row for row in gpus)
        answers.state("gdscheck", "", BY_NVIDIA_FS, OPEN if supported else NOT_OPEN)
        answers.state("gdscheck", "", "p2pdma",
                      OPEN if any("p2pdma may be tried" in row for row in gpus) else NOT_OPEN)
    end = re.search(r"^ Platform verification (succeeded(?: \((.*)\))?|failed: .*)$", out, re.M)
    expect(end is not None and (exit_code == 0) == end[1].startswith("succeeded"), "no verdict that the exit code has")
    ways = {"compat only": BY_HOST, None: DIRECTLY} if exit_code == 0 else {end[2]: frozenset({NOWHERE})}
    if end[2] in ways:  # Else p2pdma may serve some of a program's memory.
        answers.say("gdscheck", "", "", "bytes", ways[end[2]])
    for place, ways in re.findall(r"^ (/\S*) +: \S+, (.*), O_DIRECT: \w+$", out.split("FILE SYSTEMS:")[1], re.M):
        read_ways(answers, place, ways.split(", "))


def read_ways(answers: Answers, place: str, ways: list[str]) -> None:
    answers.state("gdscheck", place, "p2pdma", OPEN if "p2pdma" in ways else NOT_OPEN)
    answers.state("gdscheck", place, BY_NVIDIA_FS, OPEN if "nvfs" in ways else NOT_OPEN)
    if "p2pdma" not in ways or "nvfs" in ways:
        bytes_take = DIRECTLY if "nvfs" in ways else BY_HOST if "compat" in ways else {NOWHERE}
        answers.say("gdscheck", place, "", "bytes", bytes_take)


def read_gds_install_check(answers: Answers, out: str, exit_code: int) -> None:
    told = json.loads(out)
    expect(told["verified"] == (exit_code == 0), "'verified' is not what the exit code says")
    checks = [one for one in told["checks"] if one["code"] not in ("libcufile", "peer_memory", "cufile_json")]
    missing = [one["code"] for one in checks if one["state"] == "missing"]
    unmounted = any(one["state"] == "optional" for one in checks)
    unknown = [one["code"] for one in checks if one["state"] == "unknown"]
    state = CLOSED if missing else UNKNOWN if unknown and not told["verified"] else OPEN
    if not unmounted:  # All is installed, for storage that is not mounted.
        answers.state("gds_install_check", "", "vendor", state, (missing or [""])[0])
    settings = [one["state"] for one in told["checks"] if one["code"] == "cufile_json"]
    expect(len(settings) == 1, "no row of cufile.json")
    if settings == ["missing"]:
        answers.say("gds_install_check", "", "", "bytes", {NOWHERE})


# ---- penstock node


def read_features(answers: Answers, out: str) -> None:
    labels = dict(line.split("=", 1) for line in out.splitlines() if not line.startswith("#"))
    for path in ("p2pdma", "nvfs", "vendor", "pagecache", "bounce", "host"):
        word = labels[f"feature.node.kubernetes.io/penstock-path-{path}"]
        answers.state("node --nfd", "", path, {"true": OPEN, "false": NOT_OPEN}[word])


def read_metrics(answers: Answers, out: str) -> None:
    rows = re.findall(r'^penstock_path_available\{path="(\w+)",reason="(\w+)"\} ([01])$', out, re.M)
    expect(set(DIRECT) <= {path for path, _, _ in rows}, "a path has no row")
    for path, reason, available in rows:
        expect((reason == "none") == (available == "1") or path == "bounce", "a reason beside an available path")
        answers.state("node metrics", "", path, OPEN if available == "1" else NOT_OPEN,
                      reason if available == "0" else "")


def read_problem_detector(answers: Answers, out: str, exit_code: int, path: str) -> None:
    state = {0: OPEN, 1: NOT_OPEN - {"unknown"}, 2: UNKNOWN}[exit_code]
    line = out.splitlines()[0]
    expect(line.startswith(f"{path} is "), "it speaks of another path")
    expect((line == f"{path} is available") == (exit_code == 0), "the words are not what the exit code says")
    answers.state("node --problem-detector", "", path, state, line.split(": ")[1] if exit_code == 1 else "")


# ---- penstock-k8s


def read_k8s_verify(answers: Answers, node: dict[str, Any]) -> None:
    for storage in node["storages"]:
        for path in storage["paths"]:
            expect(path["standing"] in STATES, f"'{path['standing']}' is no state")
            answers.state("k8s verify", storage["mount_point"], path["path"], {path["standing"]},
                          path["rule"] if path["standing"] != "open" else "")


def read_k8s_choose(answers: Answers, node: dict[str, Any], group: str) -> None:
    """Of one kind of storage: what is chosen must be possible in the best place of that kind."""
    paths = {"p2pdma": "p2pdma", "nvidia-fs": BY_NVIDIA_FS}
    expect(node["path"] in (None, "bounce", *paths), f"'{node['path']}' is no path")
    for refusal in node["refusals"]:
        if refusal["path"] in paths:
            answers.state("k8s choose", group, paths[refusal["path"]], NOT_OPEN, refusal["rule"])
    if node["path"] in paths:
        answers.state("k8s choose", group, paths[node["path"]], OPEN | UNKNOWN)
    if node["path"] == "bounce":
        answers.say("k8s choose", group, "", "bytes", BY_HOST | {NOWHERE})


# ---- penstock validate


def read_validate_json(answers: Answers, out: str) -> None:
    rows = json.loads(out)["rows"]
    failed = {row["code"]: row["sentence"] for row in rows if row["state"] == "fail"}
    if "settings" in failed:
        answers.say("validate --json", "", "", "bytes", {NOWHERE})
    dangers = {"iommu": ["p2pdma"], "nvidia_fs_driver": ["nvfs", "vendor"]}
    for code, paths in dangers.items():
        if re.search("corrupt|go wrong|EFAULT", failed.get(code, "")):
            answers.dangers.update(Danger("", path) for path in paths)
    for row in rows:
        if row["code"] == "path":
            read_path_row(answers, row)
        elif row["code"] == "storage":
            read_storage_row(answers, row)


def read_path_row(answers: Answers, row: dict[str, Any]) -> None:
    words = row["sentence"]
    closed = re.search(r"closed: (.*?)(?:; \w+ may serve instead)?$", words)
    if row["state"] == "pass":
        state = OPEN
    elif closed or row["state"] == "not_applicable":
        state = CLOSED
    else:
        expect(row["state"] == "unknown", f"a path's row is '{row['state']}'")
        state = OFF if " off unless " in words else UNKNOWN
    answers.state("validate --json", "", row["subject"], state, closed[1] if closed else "")


def read_storage_row(answers: Answers, row: dict[str, Any]) -> None:
    by = re.match(r"(\w+) (?:may|might) serve it(, once that is switched on|, and cuFile's)?", row["sentence"])
    place = row["subject"]
    if row["direct"] is not None:
        bytes_take = {"now": DIRECTLY, "once_set": BY_HOST, "no": BY_HOST | {NOWHERE}}[row["direct"]]
        answers.say("validate --json", place, "", "bytes", bytes_take)
    if by is None:
        expect("no direct path serves it" in row["sentence"], "the storage's row names no path")
        for path in DIRECT:
            answers.state("validate --json", place, path, NOT_OPEN)
    else:
        states = {None: OPEN, ", once that is switched on": OFF}
        answers.state("validate --json", place, by[1], states.get(by[2], CLOSED))


def read_validate(answers: Answers, out: str) -> None:
    ways = {"directly, if the path's self-test passes": DIRECTLY,
            "through host memory, until a direct path is switched on": BY_HOST,
            "through host memory: no direct path serves it": BY_HOST}
    if "How bytes of GPU memory go" not in out:
        expect("Layer 1, drivers" in out, "no summary and no rows")
        return
    summary = out.split("How bytes of GPU memory go, as the machine is set\n")[1].split("\n\n")[0]
    for line in re.split(r"\n  (?=/)", "\n" + summary)[1:]:
        places, words = whole_words(line).split(": ", 1)
        for place in re.sub(r" and \d+ more$", "", places).split(", "):
            answers.say("validate", place, "", "bytes", ways[words])
