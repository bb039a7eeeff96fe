#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The pages that --html writes, as a browser lays them out, narrow and wide, light, dark and printed: nothing runs out
of the page, all words can be read, every axis has its unit, and the foot says where the page is from.

    pages_test.py BUILD
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
BROWSER = next(filter(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome")), None)
CONTRAST_MIN = 4.5  # As accessibility guidelines ask of small text (WCAG 2, level AA).
PAGES = {
    "bench": "penstock bench data --repeat 2 --ramp 0 --sweep bs=4k,64k depth=1,16",
    "doctor": "penstock explain --measure data --time 0.1",
    "suite": "penstock bench --suite . --only save-7b --scale 0.0005 --turns 2",
    "checkpoint": "penstock-model checkpoint --example 140gb",
    "registration": "penstock-model registration --example",
    "contention": "penstock-model contention --machine dgx-h100 --size 64M",
}

MEASURE = """
function rgb(text) { return text.match(/[\\d.]+/g).map(Number); }
function light(color) {
  const part = one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = color.map(one => part(one / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(element) {
  for (; element; element = element.parentElement) {
    const color = rgb(getComputedStyle(element).backgroundColor);
    const box = element.tagName === 'g' && element.querySelector('rect');
    if (box) return rgb(getComputedStyle(box).fill);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
}
const faint = [], outside = [], small = [];
for (const element of document.querySelectorAll('#page *')) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  const box = element.getBoundingClientRect(), name = element.tagName + ': ' + element.textContent.trim().slice(0, 40);
  if (!element.checkVisibility() || box.width === 0) continue;
  if (box.right > innerWidth + 1 && !element.closest('.wide')) outside.push(name);
  if (!own || element.tagName === 'title') continue;
  const style = getComputedStyle(element), shown = element.tagName === 'text' ? style.fill : style.color;
  const ink = light(rgb(shown).slice(0, 3));
  const paper = light(behind(element).slice(0, 3));
  const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  if (contrast < CONTRAST) faint.push(contrast.toFixed(1) + ' ' + name);
  if (element.tagName === 'text' && box.height < 8) small.push(name);
}
const unnamed = [];
for (const chart of Object.values(Chart.instances)) {
  const edge = chart.canvas.getBoundingClientRect();
  if (edge.right > innerWidth + 1) outside.push('a plot');
  for (const scale of Object.values(chart.scales)) {
    const isOfNumbers = ['linear', 'logarithmic'].includes(scale.type);
    if (isOfNumbers && !scale.options.title.text) unnamed.push(chart.canvas.ariaLabel || scale.id);
  }
}
document.body.dataset.measured = JSON.stringify({
  width: innerWidth, dark: matchMedia('(prefers-color-scheme: dark)').matches,
  whole: document.documentElement.scrollWidth, faint, outside, small, unnamed,
  foot: document.querySelector('.made').textContent, text: page.innerText});
""".replace("CONTRAST", str(CONTRAST_MIN))


def printed(page):
    """The page on a screen by the rules of print, which no flag of a browser asks for."""
    dark = "@media screen and (prefers-color-scheme: dark)"
    return page.replace("@media print", "@media all").replace(dark, "@media print")


@unittest.skipIf(BROWSER is None, "no Chromium here; Debian's package chromium-headless-shell has one")
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "data").write_bytes(os.urandom(1 << 20))
        cls.pages = {}
        for name, words in PAGES.items():
            command = [BUILD / "tools" / words.split()[0], *words.split()[1:], "--html", f"{name}.html"]
            done = subprocess.run(command, cwd=cls.folder, capture_output=True, text=True,
                                  env={**os.environ, "PENSTOCK_DEVICE": "host"})
            if done.returncode == 77:
                raise unittest.SkipTest(done.stderr)
            assert done.returncode == 0, f"{words}: {done.stderr}"
            cls.pages[name] = (cls.folder / f"{name}.html").read_text()

    def measured(self, page, width, is_dark=False):
        path = self.folder / "measured.html"
        script = f"<script>addEventListener('load', () => {{{MEASURE}}});</script>"
        path.write_text(page.replace("</body>", f"{script}</body>"))
        dom = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom",
             f"--window-size={width},900", f"--blink-settings=preferredColorScheme={0 if is_dark else 1}",
             f"file://{path}"],
            capture_output=True, text=True, env={**os.environ, "HOME": str(self.folder)}, timeout=120).stdout
        found = re.search(r'<body[^>]* data-measured="([^"]*)"', dom)
        self.assertIsNotNone(found, dom[-2000:])
        told = json.loads(html.unescape(found[1]))
        self.assertEqual((told["width"], told["dark"]), (width, is_dark))
        return told

    def check(self, told):
        self.assertEqual({name: told[name] for name in ("faint", "outside", "small", "unnamed")},
                         {"faint": [], "outside": [], "small": [], "unnamed": []})
        self.assertLessEqual(told["whole"], told["width"])

    def test_nothing_runs_out_and_all_can_be_read(self):
        for name, page in self.pages.items():
            for width, is_dark in ((480, False), (1280, True), (1920, False)):
                with self.subTest(page=name, width=width, dark=is_dark):
                    self.check(self.measured(page, width, is_dark))

    def test_printed_pages_are_light_and_whole(self):
        for name, page in self.pages.items():
            with self.subTest(page=name):
                self.check(self.measured(printed(page), 720))

    def test_the_foot_says_when_where_by_what_and_how(self):
        version = subprocess.run([BUILD / "tools/penstock", "--version"], capture_output=True, text=True, check=True)
        for name, page in self.pages.items():
            with self.subTest(page=name):
                foot = self.measured(page, 800)["foot"]
                host = re.escape(os.uname().nodename)
                self.assertRegex(foot, rf"^Made \d{{4}}-\d\d-\d\d \d\d:\d\d UTC on {host} by Penstock ")
                self.assertIn(version.stdout.split()[1], foot)
                self.assertIn(f": {PAGES[name]} --html {name}.html", foot)

    def test_inputs_have_units(self):
        text = self.measured(self.pages["checkpoint"], 1280)["text"]
        self.assertIn("140 GB", text)
        self.assertNotRegex(text, r"\d{9,}|\de[+-]\d")


if __name__ == "__main__":
    sys.exit(unittest.main())
