#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Prometheus's own checker takes the page of `penstock serve`, and the alerts: promtool_test.py BUILD

Exit code 77 where there is no promtool (Debian's package prometheus).
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import deploy_test  # noqa: E402

MONITOR = deploy_test.ROOT / "deploy/helm/penstock/templates/podmonitor.yaml"
PROMTOOL = shutil.which("promtool")


# What one node serves for an hour and a half and then, by minutes; and which alerts stand at the end of it.
STORIES = (
    ("all is well", {"penstock_path_available{path=\"p2pdma\"}": "1x200",
                     "penstock_node_look_timestamp_seconds": "0+60x200"}, ()),
    ("a path is lost", {"penstock_path_available{path=\"p2pdma\"}": "1x100 0x100",
                        "penstock_node_look_timestamp_seconds": "0+60x200"}, ("PenstockPathLost",)),
    ("most goes through host memory now", {"penstock_node_bytes_total{path=\"bounce\"}": "0+100x100 10000+900x100",
                                           "penstock_node_bytes_total{path=\"p2pdma\"}": "0+900x100 90000+100x100",
                                           "penstock_node_look_timestamp_seconds": "0+60x200"},
     ("PenstockFallback",)),
    ("most always goes through host memory", {"penstock_path_available{path=\"p2pdma\"}": "1x200",
                                              "penstock_node_bytes_total{path=\"bounce\"}": "0+900x200",
                                              "penstock_node_bytes_total{path=\"p2pdma\"}": "0+100x200",
                                              "penstock_node_look_timestamp_seconds": "0+60x200"}, ()),
    ("a node lost its path by a reboot, which gave its pod another address",
     {"penstock_path_available{path=\"p2pdma\",address=\"10.0.0.1:9760\",pod=\"penstock-a\"}": "1x100 stale",
      "penstock_path_available{path=\"p2pdma\",address=\"10.0.0.9:9760\",pod=\"penstock-b\"}": "_x101 0x99",
      "penstock_node_look_timestamp_seconds": "0+60x200"}, ("PenstockPathLost",)),
    ("nvidia-fs has no driver", {"penstock_nvidia_fs_loaded": "1x200",
                                 "penstock_node_look_timestamp_seconds": "0+60x200"},
     ("PenstockNvidiaFsWithoutStorage",)),
    ("sessions are left out", {"penstock_node_sessions_left_out{cause=\"limit\"}": "3x200",
                               "penstock_node_look_timestamp_seconds": "0+60x200"}, ("PenstockSessionsLeftOut",)),
    ("it hangs", {"penstock_node_look_timestamp_seconds": "0+60x100 6000x100"}, ("PenstockNodeHangs",)),
    ("it cannot write", {"penstock_node_write_errors_total{file=\"nfd\"}": "0+1x200",
                         "penstock_node_look_timestamp_seconds": "0+60x200"}, ("PenstockNodeCannotWrite",)),
)


def rules():
    """What stands under `spec` is a rule file."""
    inside = deploy_test.ALERTS.read_text(encoding="utf-8").partition("\nspec:\n")[2]
    return "".join(line[2:] + "\n" for line in inside.splitlines())


def scraped(name):
    """The series as the chart's PodMonitor gives it to Prometheus: the pod runs on the node one, and has an address."""
    name, _, inside = name.rstrip("}").partition("{")
    labels = dict(re.findall(r'(\w+)="([^"]*)"', inside))
    labels["instance"] = labels.pop("address", "10.0.0.1:9760")
    of_node = r"sourceLabels: \[__meta_kubernetes_pod_node_name\]\n +targetLabel: (\w+)"
    labels |= dict.fromkeys(re.findall(of_node, MONITOR.read_text(encoding="utf-8")), "one")
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def story_file(series, expected):
    """A test of promtool's, which is JSON as well as YAML: every alert has its count of those that stand."""
    named = [{"series": scraped(name), "values": values} for name, values in series.items()]
    asked = [{"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)', "eval_time": "199m",
              "exp_samples": [{"labels": "{}", "value": int(alert in expected)}]}
             for alert in re.findall(r"- alert: (\w+)", rules())]
    return json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m",
                       "tests": [{"interval": "1m", "input_series": named, "promql_expr_test": asked}]})


def check(what, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        with open(file.name, encoding="utf-8") as page:
            words = [PROMTOOL, "check", what] + ([file.name] if what == "rules" else [])
            return subprocess.run(words, stdin=page, capture_output=True, text=True)


class Promtool(unittest.TestCase):
    def test_the_page_is_well_formed(self):
        done = check("metrics", deploy_test.served_page())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_alerts_are_rules(self):
        done = check("rules", rules())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_stands_where_it_should_and_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "rules.yaml").write_text(rules(), encoding="utf-8")
            for name, series, expected in STORIES:
                with self.subTest(name):
                    (Path(folder) / "story.json").write_text(story_file(series, expected), encoding="utf-8")
                    done = subprocess.run([PROMTOOL, "test", "rules", "story.json"], cwd=folder, capture_output=True,
                                          text=True)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if PROMTOOL is None:
        print("skipped: promtool is not installed (package prometheus)")
        sys.exit(77)
    sys.exit(unittest.main())
