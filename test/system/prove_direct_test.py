#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""scripts/prove-direct where nothing is to be proven, and with a penstock that says what it is told to say.

    prove_direct_test.py PENSTOCK

What it proves where there is something to prove, is seen in an emulated machine: test/guest/cases.py.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/prove-direct"
PENSTOCK = ""

# It moves a MiB by the first path of the list, says so, and copies with the system's means.
FAKE = """#!/bin/sh
[ "$2" != --fix ] || : >"$3"
for one; do case $previous in cp) from=$one ;; "$from") to=$one ;; esac; previous=$one; done
by='"bytes_by_path": {
    "'${PENSTOCK_PATHS%%,*}'": 1048576,
    "host": 0
  }'
case $1 in
  bench) echo "{
  $by,
  \\"paths\\": [
    {
      \\"reason\\": \\"none\\"
    }
  ],
  \\"result\\": {
    \\"cached_bytes\\": 0,
    \\"verified_bytes\\": 1048576
  }
}" ;;
  cp) cp "$from" "$to"; echo "{
  \\"read\\": {
  $by
  }
}" ;;
esac
"""


class ProvingDirect(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)
        self.tried = self.at / "tried"
        self.tried.mkdir()
        self.out = self.at / "proof.tar.gz"

    def fake(self, more=""):
        tool = self.at / "penstock"
        tool.write_text(FAKE + more)
        tool.chmod(0o755)
        return tool

    def words(self, *more, tool=None):
        return [str(SCRIPT), "--dir", str(self.tried), "--size", "1", "--out", str(self.out), "--penstock",
                str(tool or PENSTOCK), *more]

    def run_script(self, *more, tool=None, programs=None):
        """`programs` go before the system's of the same name: {name: shell}."""
        (self.at / "bin").mkdir(exist_ok=True)
        for name, body in (programs or {}).items():
            program = self.at / "bin" / name
            program.write_text(f"#!/bin/sh\n{body}\n")
            program.chmod(0o755)
        return subprocess.run(self.words(*more, tool=tool), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, env={**os.environ, "TMPDIR": str(self.at),
                                                "PATH": f"{self.at}/bin:{os.environ['PATH']}"})

    def results(self):
        with tarfile.open(self.out) as archive:
            return json.load(archive.extractfile("penstock-proof/results.json"))

    def assert_nothing_is_left(self):
        self.assertEqual(list(self.tried.iterdir()), [])
        self.assertEqual([path.name for path in self.at.iterdir() if path.name.startswith("tmp.")], [])
        events = Path("/sys/kernel/tracing/kprobe_events")
        if os.access(events, os.R_OK):
            self.assertNotIn("penstock_proof", events.read_text())

    def test_wrong_words_are_named(self):
        for words, says in ((["--size", "0"], "from 1 to 65536"), (["--path", "bounce"], "dmabuf, nvfs or vendor"),
                            (["--gpu", "x"], "expected a number"), (["--what"], "no option --what"),
                            (["--dir"], "needs a value"), (["--device", "tape"], "PENSTOCK_DEVICE=tape"),
                            (["--dir", "/nowhere"], "expected a folder"),
                            (["--format", "/dev/null"], "--format"), ([], "--yes")):
            with self.subTest(words):
                done = self.run_script(*words)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(says, done.stderr)
                self.assertFalse(self.out.exists())

    def test_help_says_what_root_is_for_and_how_it_ends(self):
        done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0)
        for words in ("As root it", "Exit code: 0", "77 nothing was proven"):
            self.assertIn(words, done.stdout)

    def test_a_dry_run_tells_and_does_nothing(self):
        done = self.run_script("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"into a new folder below {self.tried}", done.stdout)
        self.assertFalse(self.out.exists())
        self.assert_nothing_is_left()

    def test_the_archive_is_a_file_of_its_own_and_follows_no_link(self):
        victim = self.at / "victim"
        self.out.symlink_to(victim)
        done = self.run_script("--yes", tool=self.fake())
        self.assertEqual((done.returncode, victim.exists()), (2, False))
        self.assertIn(f"--out: {self.out} is there already", done.stderr)
        self.out.unlink()
        victim.write_text("mine", encoding="utf-8")
        # Somebody lays a link under its name while it is made.
        self.run_script("--yes", "--path", "nvfs", tool=self.fake(f"ln -sf {victim} {self.out}\n"))
        self.assertTrue(self.out.is_symlink())
        self.assertEqual(victim.read_text(encoding="utf-8"), "mine")

    def test_the_archive_has_a_name_that_nobody_knows_before(self):
        words = [str(SCRIPT), "--dir", str(self.tried), "--penstock", str(self.fake()), "--dry-run"]
        told = {subprocess.run(words, cwd=self.at, capture_output=True, text=True, check=True).stdout for _ in range(2)}
        self.assertEqual(len(told), 2)
        for one in told:
            self.assertRegex(one, r"\n- write penstock-proof-[0-9]{8}-[A-Za-z0-9]{6}\.tar\.(zst|gz)\n")

    def test_without_any_device_nothing_is_proven_and_that_is_said(self):
        done = self.run_script("--yes", "--device", "p2pmem")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        found = self.results()
        self.assertEqual((found["schema"], found["verdict"], found["proven"]), (1, "nothing", 0))
        self.assertEqual({trial["path"] for trial in found["trials"]}, {"p2pdma", "nvfs", "vendor", "bounce"})
        self.assertEqual({trial["verdict"] for trial in found["trials"]}, {"unavailable"})
        with tarfile.open(self.out) as archive:
            names = {name.removeprefix("penstock-proof/") for name in archive.getnames()}
        self.assertLessEqual({"check.json", "versions.txt", "machine.tree", "settings.json", "explain-dir1.txt"}, names)
        self.assert_nothing_is_left()

    def test_without_a_counter_nothing_is_proven(self):
        done = self.run_script("--yes", "--path", "nvfs", tool=self.fake())
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        verdicts = [(trial["what"], trial["verdict"]) for trial in self.results()["trials"] if trial["path"] == "nvfs"]
        self.assertEqual(verdicts, [("write", "unwitnessed"), ("read", "unwitnessed"), ("copy", "unwitnessed")])

    def test_dma_bufs_are_tried_only_if_they_are_named(self):
        tool = self.fake(f'echo "${{PENSTOCK_DMABUF:-off}}" >>{self.at}/switch\n')
        self.run_script("--yes", tool=tool)
        self.assertEqual(set((self.at / "switch").read_text().split()), {"off"})
        self.assertNotIn("dmabuf", {trial["path"] for trial in self.results()["trials"]})
        self.out.unlink()
        done = self.run_script("--yes", "--path", "dmabuf", tool=tool)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        verdicts = [trial["verdict"] for trial in self.results()["trials"] if trial["path"] == "dmabuf"]
        self.assertEqual(verdicts, ["unwitnessed"] * 3)
        self.assertIn("on", (self.at / "switch").read_text().split())

    def test_a_copy_with_wrong_bytes_fails_whatever_penstock_says(self):
        done = self.run_script("--yes", "--path", "nvfs", tool=self.fake('[ "$1" != cp ] || echo more >>"$to"\n'))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        copies = [trial for trial in self.results()["trials"] if trial["what"] == "copy" and trial["path"] == "nvfs"]
        self.assertEqual([(trial["verdict"], trial["contents"]) for trial in copies], [("failed", "no")])
        self.assert_nothing_is_left()

    def test_the_file_system_is_named_as_it_was_mounted_and_its_blocks_are_told(self):
        self.run_script("--yes", "--path", "nvfs", tool=self.fake())
        trial = self.results()["trials"][0]
        device = os.stat(self.tried).st_dev
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        types = {words[words.index("-") + 1] for words in mounts
                 if words[2] == f"{os.major(device)}:{os.minor(device)}"}
        if types:
            self.assertIn(trial["file_system"], types)
        self.assertEqual(trial["block_bytes"], os.statvfs(self.tried).f_bsize)

    def test_ext4_is_asked_for_extents_and_what_cannot_be_asked_is_unknown(self):
        ext4 = f'case $1 in -PT) echo "x ext4 4 2 2 50% /x y" ;; *) exec {shutil.which("df")} "$@" ;; esac'
        for says, extents in (("echo --------------e------- x", "yes"), ("echo ---------------------- x", "no"),
                              ("exit 1", "unknown")):
            with self.subTest(extents):
                self.out.unlink(missing_ok=True)
                self.run_script("--yes", "--path", "nvfs", tool=self.fake(), programs={"df": ext4, "lsattr": says})
                trials = self.results()["trials"]
                self.assertEqual({(trial["file_system"], trial["extents"]) for trial in trials}, {("ext4", extents)})

    def test_pages_in_the_cache_fail(self):
        fake = self.fake()
        fake.write_text(fake.read_text().replace('"cached_bytes\\": 0', '"cached_bytes\\": 4096'))
        self.assertEqual(self.run_script("--yes", "--path", "nvfs", tool=fake).returncode, 1)
        self.assertEqual(self.results()["trials"][0]["page_cache_untouched"], "no")

    def test_an_interrupt_undoes_everything(self):
        fake = self.fake('[ "$1" != bench ] || exec sleep 60\n')
        script = subprocess.Popen(self.words("--yes", tool=fake), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, start_new_session=True,
                                  env={**os.environ, "TMPDIR": str(self.at)})
        for _ in range(3000):
            if list(self.tried.glob("*/data")):
                break
            time.sleep(0.01)
        time.sleep(0.2)
        os.killpg(script.pid, signal.SIGINT)
        self.assertEqual(script.wait(timeout=30), 1)
        self.assertFalse(self.out.exists())
        self.assert_nothing_is_left()

    @unittest.skipIf(os.getuid() != 0, "loop devices need root")
    def test_a_device_that_holds_something_is_not_formatted(self):
        if shutil.which("mkfs.xfs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            self.skipTest("mkfs.xfs is not installed")
        image = self.at / "image"
        content = bytes(1 << 20) + b"somebody's" + bytes(3 << 20) + b"end"
        image.write_bytes(content + bytes(-len(content) % 512))
        attached = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True,
                                  check=False)
        if attached.returncode != 0:
            self.skipTest(f"no loop device: {attached.stderr}")
        loop = attached.stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "--detach", loop], check=True)
        before = image.read_bytes()
        done = subprocess.run([SCRIPT, "--format", loop, "--yes", "--out", self.out, "--penstock", PENSTOCK],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not empty at its ends", done.stderr)
        self.assertEqual(image.read_bytes(), before)


if __name__ == "__main__":
    PENSTOCK = sys.argv.pop(1)
    unittest.main()
