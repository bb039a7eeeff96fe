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
FINDINGS_JSON, FINDINGS = "check --json findings", "check findings"
COPIES = ("part_copied", "slower")  # Effects that close no path.
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


# ---- penstock check and explain


def state_of(standing: str) -> frozenset[str]:
    return {"usable": OPEN, "off": OFF, "unknown": UNKNOWN, "closed": CLOSED}[standing]


def read_outlook_json(answers: Answers, mouth: str, place: str, paths: list[dict[str, Any]]) -> None:
    for path in paths:
        expect(path["usable"] == (path["standing"] == "usable"), "'usable' is not what 'standing' says")
        answers.state(mouth, place, path["path"], state_of(path["standing"]), "" if path["usable"] else path["reason"])
    expect({*DIRECT} <= {path["path"] for path in paths}, "it does not tell of each direct path")


def bytes_by(paths: list[dict[str, Any]]) -> str:
    """The first that moves bytes of device memory, as the best is named first."""
    return next((path["path"] for path in paths if path["usable"] and path["path"] != "host"), NOWHERE)


def read_same(out: tuple[str, int], other: tuple[str, int]) -> None:
    """The same question, asked in another way."""
    expect(out == other, "it answers otherwise than where it is asked directly")


def read_check_json(answers: Answers, out: str) -> None:
    told, mouth = json.loads(out), "check --json"
    read_outlook_json(answers, mouth, "", told["paths"])
    for path in told["paths"]:
        reason = path["sentence"].partition("; besides, ")[0]
        first = [need["code"] for need in path["needs"] if need["text"] == reason]
        for words in [] if path["usable"] else [path["sentence"], *first[:1]]:
            answers.reason_names[path["path"], words] = path["reason"]
        if any("corrupt" in need["text"] and need["state"] != "ok" for need in path["needs"]):
            answers.dangers.add(Danger("", path["path"]))
    if told["cufile"]["refused"]:
        expect(not told["usable"], "it is usable with a configuration that is refused")
    for one in told["file_systems"]:
        read_outlook_json(answers, mouth, one["mount_point"], one["outlook"])
        answers.say(mouth, one["mount_point"], "", "bytes", {bytes_by(one["outlook"])})
        usable = [path["path"] for path in one["outlook"] if path["usable"]]
        expect(set(one["paths"]) <= set(usable), "'paths' names what is not usable")
        pairs = [pair for pair in told["pairs"] if pair["mount_point"] == one["mount_point"]]
        note_dangers(answers, one["mount_point"], [pair["obstacles"] for pair in pairs])
        read_pairs_json(answers, one["mount_point"], pairs)
    note_dangers(answers, "", [pair["obstacles"] for pair in told["pairs"]])
    read_findings_json(answers, told["findings"])


def read_pairs_json(answers: Answers, place: str, pairs: list[dict[str, Any]]) -> None:
    if pairs:
        top = best(state_of(pair["standing"]) for pair in pairs)
        answers.state("check --json pairs", place, "p2pdma", top)
    if pairs and top != OPEN:
        reasons = {pair["reason"] for pair in pairs if state_of(pair["standing"]) == top}
        answers.say("check --json pairs", place, "p2pdma", "reason", reasons)


def read_pairs(answers: Answers, out: str) -> None:
    """For people a row stands for several file systems, and of too many devices not each has one."""
    section = out.split("what stands in p2pdma's way (?: only its self-test can tell)\n")[1].split("\n\n")[0]
    words = {"open": OPEN, "reads only": OPEN, "off": OFF, "unknown": UNKNOWN, "closed": CLOSED}
    rows = re.findall(r"^    (open|reads only|off|unknown|closed) +/", section, re.M)
    expect(bool(rows) or "no device here offers" in section or "/" not in section, "no row of a pair")
    if rows and "and more devices" not in section:
        answers.state("check pairs", "", "p2pdma", best(words[word] for word in rows))


def read_outlook(answers: Answers, mouth: str, place: str, out: str) -> None:
    """The page of both commands: each path with a headline and its needs, and what bytes take."""
    told = set()
    words = {"usable": OPEN, "may be tried": OPEN, "off": OFF, "unknown": UNKNOWN, "not usable": CLOSED}
    for found in re.finditer(r"^  (\w+) +(usable|may be tried|off|unknown|not usable)(?: \((\w+)\)|:|$)", out, re.M):
        path, word, reason = found.groups()
        told.add(path)
        answers.state(mouth, place, path, words[word], "" if words[word] == OPEN else reason or "no reason")
    expect({*DIRECT, "bounce"} <= told, "it does not tell of each path")
    verdict = re.search(r"^  (?:files reach device memory by (\w+)|no path can move bytes)", out, re.M)
    expect(verdict is not None, "the verdict names no path")
    answers.say(mouth, place, "", "bytes", {verdict[1] or NOWHERE})


def read_check(answers: Answers, out: str) -> None:
    verdict = out.split("\nVerdict\n")[1].split("\n\n")[0]
    read_outlook(answers, "check", "", verdict + "\n" + out.split("\nPaths, best first\n")[1])
    read_pairs(answers, out)
    read_findings(answers, out)


def read_check_in_short(answers: Answers, out: str) -> None:
    """The first screen: of each file system that holds data, the direct path that is the nearest, and how near."""
    mouth = "check in short"
    verdict = out.split("\nVerdict\n")[1].split("\n\n")[0]
    read_outlook(answers, mouth, "", verdict + "\n" + out.split("\nPaths, best first\n")[1])
    first_steps = out.split("\nBetween files and a direct path\n")[1:]
    for group in re.split(r"\n  (?=/)", "\n" + "".join(first_steps).split("\n\n")[0])[1:]:
        places, words = whole_words(group.split("\n    ")[0]).split(": ", 1)
        by = re.match(r"directly by (\w+), if|(\w+) is (off|unknown|closed), ", words)
        expect(by is not None or words.startswith(("no direct path serves it", "no setting helps")), "no path is named")
        for place in re.sub(r" and \d+ more$", "", places).split(", "):
            for path in [by[1] or by[2]] if by else DIRECT:
                answers.state(mouth, place, path, OPEN if by and by[1] else {by[3]} if by else CLOSED)


def read_explain_json(answers: Answers, told: dict[str, Any], place: str, is_overlay: bool = False) -> None:
    mouth = "explain --json"
    expect(is_overlay or told["file"]["mount"]["point"] == place, f"the file is at {told['file']['mount']['point']}")
    read_outlook_json(answers, mouth, place, told["paths"])
    answers.say(mouth, place, "", "bytes", {told["would_use"] or NOWHERE})
    direct = told["p2pdma"]
    of_file = direct["obstacles"] + direct["request_obstacles"]
    routes = [of_file + route["obstacles"] for route in direct["routes"]] or [NO_DEVICE]
    for route in direct["routes"]:
        is_closed = state_of_route(route["obstacles"]) == CLOSED
        expect(route["possible"] != is_closed, "'possible' is not what the obstacles say")
    read_routes(answers, mouth, place, best(state_of_route(route) for route in routes))
    note_dangers(answers, place, routes)


def read_routes(answers: Answers, mouth: str, place: str, state: frozenset[str]) -> None:
    """What stands between devices and a file says nothing of switches, and nothing of what a driver may do."""
    answers.state(mouth, place, "p2pdma", CLOSED if state == CLOSED else {*state, "off", "unknown", "closed"})


def read_explain(answers: Answers, out: str, place: str, is_overlay: bool = False) -> None:
    names_place = re.search(rf"^  mount: \S+ on {re.escape(place)}, ", out, re.M) is not None
    expect(is_overlay or names_place, "it names another mount")
    read_outlook(answers, "explain", place, out)
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
    read_routes(answers, "explain", place, worst)


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
    if end[2] in ways and gpus:  # Else p2pdma may serve some of a program's memory, or memory of what is no GPU.
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
    settings = [one["state"] for one in told["checks"] if one["code"] == "cufile_json"]
    expect(len(settings) == 1, "no row of cufile.json")
    checks = [one for one in told["checks"] if one["code"] not in ("libcufile", "peer_memory", "cufile_json")]
    missing = ["settings"] * (settings == ["missing"])
    missing += [one["code"] for one in checks if one["state"] == "missing"]
    unmounted = any(one["state"] == "optional" for one in checks)
    unknown = any(one["state"] == "unknown" for one in checks)
    state = CLOSED if missing else UNKNOWN | OFF if unknown else OPEN | OFF  # What is set is no part of it.
    if missing or not unmounted:  # All is installed, for storage that is not mounted.
        answers.state("gds_install_check", "", "vendor", state, (missing or [""])[0])
    if settings == ["missing"]:  # Told as a row of its own.
        answers.say("gds_install_check", "", "", "bytes", {NOWHERE})


# ---- penstock serve


def read_features(answers: Answers, out: str) -> None:
    labels = dict(line.split("=", 1) for line in out.splitlines() if not line.startswith("#"))
    for path in ("p2pdma", "nvfs", "vendor", "pagecache", "bounce", "host"):
        label = f"feature.node.kubernetes.io/penstock-path-{path}"
        standing, is_usable = labels[label + "-standing"], labels[label] == "true"
        expect(labels[label] in ("true", "false") and is_usable == (standing == "usable"), "two labels disagree")
        answers.state("serve --nfd", "", path, state_of(standing), "" if is_usable else labels[label + "-reason"])


def read_metrics(answers: Answers, out: str) -> None:
    rows = re.findall(r'^penstock_path_available\{path="(\w+)",reason="(\w+)"\} ([01])$', out, re.M)
    expect(set(DIRECT) <= {path for path, _, _ in rows}, "a path has no row")
    for path, reason, available in rows:
        expect(reason != "none" or available == "1", "no reason beside a path that is not available")
        answers.state("serve metrics", "", path, OPEN if available == "1" else NOT_OPEN,
                      reason if available == "0" else "")


def read_problem_detector(answers: Answers, out: str, exit_code: int, path: str) -> None:
    line = out.splitlines()[0]
    found = re.fullmatch(rf"{path} is (available|off|unknown|not available)(?:: (\w+))?", line)
    expect(found is not None, f"'{line}' tells no state")
    word, reason = found.groups()
    exit_codes = {"available": 0, "off": 1, "not available": 1, "unknown": 2}
    expect(exit_codes[word] == exit_code, "the words are not what the exit code says")
    states = {"available": OPEN, "off": OFF, "unknown": UNKNOWN, "not available": CLOSED}
    answers.state("serve --problem-detector", "", path, states[word], "" if word == "available" else reason or word)


# ---- penstock-k8s


def read_k8s_verify(answers: Answers, node: dict[str, Any]) -> None:
    for storage in node["storages"]:
        for path in storage["paths"]:
            expect(path["standing"] in STATES, f"'{path['standing']}' is no state")
            answers.state("k8s verify", storage["mount_point"], path["path"], {path["standing"]},
                          path["rule"] if path["standing"] != "open" else "")


def read_k8s_choose(answers: Answers, node: dict[str, Any]) -> None:
    """Of the machine as a whole: its labels name no storage."""
    paths, mouth = {"p2pdma": "p2pdma", "nvidia-fs": BY_NVIDIA_FS}, "k8s choose"
    chosen, against = node["path"], node["against"]
    expect(chosen in (None, "bounce", *paths), f"'{chosen}' is no path")
    is_usable = node["standing"] == "usable"
    expect(chosen is None or is_usable == (against is None), "it is usable, with what is against it")
    expect(node["off_by"] == (against["rule"] if node["standing"] == "off" else None), "'off_by' names something else")
    for refusal in node["refusals"]:
        if refusal["path"] in paths:
            answers.state(mouth, "", paths[refusal["path"]], NOT_OPEN, refusal["rule"])
    if chosen in paths:
        answers.state(mouth, "", paths[chosen], state_of(node["standing"]), against["rule"] if against else "")
    elif node["has_gpu"]:
        answers.say(mouth, "", "", "bytes", BY_HOST if chosen and not against else {NOWHERE})


# ---- The findings of penstock check


def read_findings_json(answers: Answers, rows: list[dict[str, Any]]) -> None:
    failed = {row["code"]: row["sentence"] for row in rows if row["state"] == "fail"}
    if "settings" in failed:
        answers.say(FINDINGS_JSON, "", "", "bytes", {NOWHERE})
    dangers = {"iommu": ["p2pdma"], "nvidia_fs_driver": ["nvfs", "vendor"]}
    for code, paths in dangers.items():
        if re.search("corrupt|go wrong|EFAULT", failed.get(code, "")):
            answers.dangers.update(Danger("", path) for path in paths)
    expect({*DIRECT} <= {row["subject"] for row in rows if row["code"] == "path"}, "a path has no finding")
    for row in rows:
        if row["code"] == "path":
            read_path_row(answers, row)
        elif row["code"] == "storage":
            read_storage_row(answers, row)


def read_path_row(answers: Answers, row: dict[str, Any]) -> None:
    words = row["sentence"]
    closed = re.search(r"closed: (.*?)(?:; \w+(?:, once it is switched on,)? may serve instead)?$", words)
    if row["state"] == "pass":
        state = OPEN
    elif closed or row["state"] == "not_applicable":
        state = CLOSED
    else:
        state = {"warn": OFF, "unknown": UNKNOWN}[row["state"]]
    why = closed or re.match("(?:off|it may be tried, and only its self-test decides): (.*)$", words)
    answers.state(FINDINGS_JSON, "", row["subject"], state, why[1] if why else "")


def read_storage_row(answers: Answers, row: dict[str, Any]) -> None:
    place, words, mouth = row["subject"], row["sentence"], FINDINGS_JSON
    if row["direct"] is not None:
        ways = {"now": DIRECTLY, "unknown": DIRECTLY | BY_HOST, "once_set": BY_HOST, "no": BY_HOST,
                "nowhere": frozenset({NOWHERE})}
        answers.say(mouth, place, "", "bytes", ways[row["direct"]])
    by = re.search(r"(\w+) (?:may|might) serve it(, once that is switched on|, and cuFile's)?", words)
    if by is None:
        expect("no direct path serves it" in words, "the storage's row names no path")
        for path in DIRECT:
            answers.state(mouth, place, path, CLOSED)
    else:
        may = UNKNOWN if words.startswith("only a try tells") else OPEN
        states = {None: may, ", once that is switched on": OFF, ", and cuFile's": OFF | CLOSED}
        answers.state(mouth, place, by[1], states[by[2]])


def read_findings(answers: Answers, out: str) -> None:
    ways = {"directly, if the path's self-test passes": DIRECTLY,
            "through host memory, until settings allow a direct path": BY_HOST,
            "through host memory, unless a direct path works, which only a try tells": DIRECTLY | BY_HOST,
            "through host memory: no direct path serves it": BY_HOST,
            "not at all: no path may serve it as the settings are": frozenset({NOWHERE})}
    if "How bytes of GPU memory go" not in out:
        expect("Drivers and peer access" in out, "no summary and no rows")
        return
    summary = out.split("How bytes of GPU memory go, as the machine is set\n")[1].split("\n\n")[0]
    for line in re.split(r"\n  (?=/)", "\n" + summary)[1:]:
        places, words = whole_words(line).split(": ", 1)
        for place in re.sub(r" and \d+ more$", "", places).split(", "):
            answers.say(FINDINGS, place, "", "bytes", ways[words])
