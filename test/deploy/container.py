# SPDX-License-Identifier: Apache-2.0

"""Containers without a daemon or an image: podman and runc, on a folder that holds one program."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run_tests():
    """unittest's main, whose tests may raise SkipTest: what could not be run counts as skipped, not as passed."""
    result = unittest.main(exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    for _test, why in result.skipped:
        skip(why)


def did_not_run(status):
    """Whether that exit code is podman's own: it could not run the program."""
    return status in (125, 126, 127)


def must_be_possible():
    for program in ("podman", "runc"):
        if not shutil.which(program):
            skip(f"{program} is missing: no container is run")
    if os.geteuid() != 0:
        skip("this user is not root: podman has no container here")


def work_folder(parent):
    """podman may still be writing there after it has ended, where it ran nothing."""
    return tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True)


def make_root(folder, program):
    """A root with the program as /program, and what the loader finds for it."""
    folder.mkdir()
    shutil.copy(program, folder / "program")
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", said):
        target = folder / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    return folder


def command(work, root, options, words):
    """Of podman: a container with the program of a root, with no right but those of the options."""
    return ["podman", "--root", f"{work}/store", "--runroot", f"{work}/run", "--tmpdir", f"{work}/tmp",
            "--storage-driver", "vfs", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "none",
            "--log-level", "error", "run", "--rm", "--read-only", "--security-opt", "no-new-privileges",
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", *options, "--rootfs", str(Path(root)),
            "/program", *words]


def options_of(pod, container, sources):
    """podman's, for what a pod's manifest says of one container; what is not known here must not be in it. `sources`
    has the folder for each of the pod's volumes."""
    context, rights = pod["securityContext"], container["securityContext"]
    assert set(rights) == {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}, rights
    assert set(context) <= {"seccompProfile", "runAsUser", "runAsGroup", "runAsNonRoot", "fsGroup"}
    options = ["--user", f"{context['runAsUser']}:{context.get('runAsGroup', 0)}"]
    if "fsGroup" in context:
        options += ["--group-add", str(context["fsGroup"])]
    if context["seccompProfile"]["type"] == "Localhost":
        name = Path(context["seccompProfile"]["localhostProfile"]).name
        options += ["--security-opt", f"seccomp={ROOT / 'deploy/seccomp' / name}"]
    for word in rights["capabilities"]["drop"]:
        options += ["--cap-drop", word.lower()]
    for word in rights["capabilities"].get("add", []):
        options += ["--cap-add", word]
    for each in container.get("env", []):
        options += ["-e", f"{each['name']}={each['value']}"]
    for mount in container.get("volumeMounts", []):
        ending = ":ro" if mount.get("readOnly") else ""
        options += ["-v", f"{sources[mount['name']]}:{mount['mountPath']}{ending}"]
    return options + ["--memory", re.sub("i$", "", container["resources"]["limits"]["memory"]).lower()]
