#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The chart's DaemonSet as a container: podman runs its arguments with exactly the rights that the manifest gives.

    pod_test.py PENSTOCK WORK
"""

import re
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from container import command, did_not_run, make_root, must_be_possible, options_of, run_tests, skip, work_folder

try:
    import helm_python
    import yaml
except ImportError as missing:
    skip(f"{missing.name} is missing: no chart is rendered")

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 600  # Of a test that would hang else: nothing is judged by it.
TOOL = WORK = ""


def daemonset(values):
    with helm_python.Chart.load(ROOT / "deploy/helm/penstock") as chart:
        text = chart.render(values, name="penstock", namespace="storage")["penstock/templates/daemonset.yaml"]
    return yaml.safe_load(text)["spec"]["template"]["spec"]


def processes(page, state):
    return int(re.search(rf'penstock_node_processes{{state="{state}"}} (\d+)', page)[1])


class Pod(unittest.TestCase):
    def page_of(self, values, *more):
        """What the container serves. The network is the host's, since podman has none of its own here."""
        with work_folder(WORK) as work:
            root = make_root(Path(work) / "root", TOOL)
            pod = daemonset(values)
            sources = {volume["name"]: volume["hostPath"]["path"] for volume in pod.get("volumes", [])}
            options = options_of(pod, pod["containers"][0], sources)
            words = [re.sub("0.0.0.0:.*", "127.0.0.1:0", word) for word in pod["containers"][0]["args"]]
            process = subprocess.Popen(command(work, root, ["--network", "host", *options, *more], words),
                                       stderr=subprocess.PIPE, text=True)
            page = None
            try:
                first = process.stderr.readline()
                url = re.search(r"http://\S+/metrics", first)
                if url:
                    page = self.page_at(url[0])
                else:  # It ends by itself, for whatever reason.
                    process.wait(WAIT_S)
            finally:
                process.terminate()
                _, said = process.communicate(timeout=WAIT_S)
            if did_not_run(process.returncode):
                self.skipTest(f"podman runs no container here: {first}{said.strip()[-300:]}")
            self.assertEqual(process.returncode, 0, f"it ends at SIGTERM: {first}{said}")
            self.assertIsNotNone(page, first)
            return page

    def page_at(self, url):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                return urllib.request.urlopen(url, timeout=WAIT_S).read().decode()
            except urllib.error.HTTPError:  # The first look has not ended yet.
                time.sleep(0.1)  # Between two questions.
        self.fail("no page came")

    def test_its_two_capabilities_show_it_what_is_hidden_without_them(self):
        without, with_rights = self.page_of({}), self.page_of({"processes": {"enabled": True}})
        for page in (without, with_rights):
            self.assertIn('penstock_path_available{path="bounce"', page)
        # Not none: on some machines a process is kept from everybody.
        self.assertLess(processes(with_rights, "forbidden"), 5)
        self.assertGreater(processes(with_rights, "read"), processes(without, "read"))


if __name__ == "__main__":
    TOOL, WORK = sys.argv[1:3]
    del sys.argv[1:3]
    must_be_possible()
    run_tests()
