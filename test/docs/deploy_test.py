#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What deploy/ and the manual say of the metrics of `penstock serve` is true of the page that it really serves:
deploy_test.py BUILD
"""

import json
import re
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "dev").resolve()
DASHBOARD = ROOT / "deploy/helm/penstock/files/dashboard.json"
ALERTS = ROOT / "deploy/helm/penstock/files/alerts.yaml"
PAGE = ROOT / "docs" / "reference" / "serve.md"
METRIC = re.compile(r"\bpenstock_[a-z0-9_]+")


def served_page():
    """In Prometheus's text format, of a process that has looked once."""
    node = subprocess.Popen([BUILD / "tools" / "penstock", "serve", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                            text=True)
    try:
        url = re.search(r"http://\S+", node.stderr.readline())[0]
        request = urllib.request.Request(url, headers={"Accept": "text/plain"})
        while True:
            try:
                return urllib.request.urlopen(request).read().decode()
            except urllib.error.HTTPError as error:
                if error.code != 503:  # The first look has not ended yet.
                    raise
    finally:
        node.terminate()
        node.wait()
        node.stderr.close()


def expressions(value):
    """All that a dashboard asks of Prometheus."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("expr", "definition"):
                yield inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


class Deploy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        page = served_page()
        cls.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
        parts = {name + part: "counter" for name, kind in cls.types.items() if kind == "histogram"
                 for part in ("_bucket", "_sum", "_count")}
        cls.series = cls.types | parts
        cls.dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        cls.alerts = ALERTS.read_text(encoding="utf-8")

    def test_every_metric_of_the_dashboard_is_served(self):
        asked = list(expressions(self.dashboard))
        self.assertGreater(len(asked), 8)
        for expression in asked:
            named = METRIC.findall(expression)
            self.assertNotEqual(named, [], expression)
            self.assertEqual([name for name in named if name not in self.series], [], expression)

    def test_every_metric_of_the_alerts_is_served(self):
        named = set(METRIC.findall(self.alerts))
        self.assertGreater(len(named), 5)
        self.assertEqual(sorted(named - set(self.series)), [])

    def test_rates_are_of_counters(self):
        for text in [*expressions(self.dashboard), self.alerts]:
            for name in re.findall(r"\b(?:rate|increase)\((penstock_\w+)", text):
                self.assertEqual(self.series[name], "counter", name)

    def test_the_dashboard_takes_any_prometheus_and_its_panels_are_apart(self):
        panels = self.dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        for panel in panels:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
        self.assertTrue(self.dashboard["uid"])
        self.assertGreater(self.dashboard["schemaVersion"], 30)

    def test_every_alert_waits_has_a_severity_and_a_summary(self):
        alerts = self.alerts.split("- alert: ")[1:]
        self.assertGreater(len(alerts), 3)
        for alert in alerts:
            for part in ("expr:", "for: ", "severity: ", "summary: "):
                self.assertIn(part, alert)

    def test_the_manual_lists_what_is_served_and_nothing_else(self):
        rows = re.findall(r"^\| `(penstock_[a-z0-9_]+)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(dict(rows), self.types)


if __name__ == "__main__":
    sys.exit(unittest.main())
