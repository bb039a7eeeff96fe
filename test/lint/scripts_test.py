#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The scripts that other tests lean on: what counts as passed, where file systems and machines come from."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def case(name, status, output="", skip=None):
    skipped = f'<skipped message="{skip}"/>' if skip else ""
    return f'<testcase name="{name}" status="{status}">{skipped}<system-out>{output}</system-out></testcase>'


PASSES = case("T.Passes", "run")


class TestSummaryTest(unittest.TestCase):
    def summary(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<testsuite>" + "".join(cases) + "</testsuite>")
            file.flush()
            run = subprocess.run([SCRIPTS / "test_summary", file.name], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def test_a_pass_is_a_pass(self):
        self.assertEqual(self.summary(PASSES), (0, "1 passed, 0 failed, 0 skipped\n"))

    def test_no_test_at_all_fails(self):
        self.assertEqual(self.summary()[0], 1)
        self.assertEqual(self.summary(case("T.Off", "disabled"))[0], 1)

    def test_a_lost_or_broken_result_fails(self):
        self.assertEqual(self.summary("<testcase>")[0], 1)
        run = subprocess.run([SCRIPTS / "test_summary", "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertTrue(run.stdout.endswith("\n0 passed, 0 failed, 0 skipped\n"))

    def test_failures_are_named(self):
        status, text = self.summary(PASSES, case("T.Fails", "fail"))
        self.assertEqual(status, 1)
        self.assertEqual(text, "FAILED T.Fails\n1 passed, 1 failed, 0 skipped\n")

    def test_a_failure_is_told_with_the_end_of_what_it_printed(self):
        output = "\n".join(f"line {number}" for number in range(1000)) + "\nexpected 4, found 5" + 10_000 * " "
        text = self.summary(PASSES, case("T.Fails", "fail", output))[1]
        self.assertIn("    line 999\n    expected 4, found 5 ", text)
        self.assertLess(len(text), 2000)
        self.assertNotIn("line 900\n", text)

    def test_a_test_that_cannot_start_failed(self):
        status, text = self.summary(PASSES, case("T.Lost", "notrun", skip="Unable to find executable"))
        self.assertEqual(status, 1)
        self.assertIn("FAILED T.Lost: Unable to find executable\n", text)

    def test_what_pytest_skipped_within_a_file_is_counted(self):
        output = "..ss.\nSKIPPED [2] python/tests/test_torch.py:81: no GPU for torch\n3 passed, 2 skipped in 0.1s\n"
        status, text = self.summary(case("python_torch", "run", output))
        self.assertEqual(status, 0)
        self.assertEqual(text, "skipped, no GPU for torch:\n    python_torch, 2 times\n"
                               "1 passed, 0 failed, 2 skipped\n")

    def test_skips_of_googletest_give_their_reason(self):
        output = "[==========]\n/a/b_test.cc:7: Skipped\nno btrfs:\nno tools\n[  SKIPPED ] T.Skips (0 ms)\n"
        status, text = self.summary(PASSES, case("T.Skips", "notrun", output, "SKIP_REGULAR_EXPRESSION_MATCHED"))
        self.assertEqual(status, 0)
        self.assertEqual(text, "skipped, no btrfs: no tools:\n    T.Skips\n1 passed, 0 failed, 1 skipped\n")

    def test_skips_by_exit_status_give_their_last_line(self):
        status, text = self.summary(PASSES, case("T.S", "notrun", "x\nskipped: no qemu\n\n", "SKIP_RETURN_CODE=77"))
        self.assertEqual(status, 0)
        self.assertIn("skipped, no qemu:\n    T.S\n", text)

    def test_a_skip_without_a_reason_fails(self):
        self.assertEqual(self.summary(PASSES, case("T.S", "notrun", "", "SKIP_RETURN_CODE=77"))[0], 1)

    def test_a_failure_beside_a_skip_fails(self):
        for output in ["/a.cc:1: Skipped\nx\n[  SKIPPED ] T.S\n[  FAILED  ] T.T\n",
                       "/a.cc:1: Skipped\nx\n[  SKIPPED ] T.S\n==1==ERROR: LeakSanitizer: detected memory leaks\n"]:
            self.assertEqual(self.summary(PASSES, case("T.S", "notrun", output, "SKIP_REGULAR_EXPRESSION"))[0], 1)


class WithFilesystemsTest(unittest.TestCase):
    NAMES = {"ext4", "ext4-journal", "ext4-4k", "xfs", "btrfs", "tmpfs", "overlay"}

    def run_with(self, work, script, *options):
        return subprocess.run([SCRIPTS / "with_filesystems", *options, "sh", "-c", script], capture_output=True,
                              text=True, check=False, env={**os.environ, "TMPDIR": work}, timeout=60)

    def test_every_file_system_is_there_or_skipped_with_a_reason(self):
        with tempfile.TemporaryDirectory() as work:
            run = self.run_with(work, 'echo "$PENSTOCK_TEST_DIRS"; echo "$PENSTOCK_TEST_SKIPPED_DIRS"')
            offered, skipped = run.stdout.splitlines()
        there = dict(entry.split("=") for entry in offered.split(":") if entry)
        missing = dict(entry.split("=", 1) for entry in skipped.split(";") if entry)
        self.assertTrue(there)
        self.assertEqual((set(there) | set(missing)) - {"local"}, self.NAMES)
        self.assertFalse(set(there) & set(missing))
        self.assertEqual("local" in there, set(missing) == self.NAMES)
        for name, reason in missing.items():
            self.assertTrue(reason)
            self.assertIn(f"no {name}: {reason}", run.stderr)

    def test_they_can_be_written_and_leave_nothing_behind(self):
        with tempfile.TemporaryDirectory() as work:
            run = self.run_with(work, 'IFS=:; for d in $PENSTOCK_TEST_DIRS; do echo x >"${d#*=}/x" || exit 9; done')
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(os.listdir(work), [])
            self.assertNotIn(work, Path("/proc/self/mounts").read_text(encoding="utf-8"))
            for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
                self.assertNotIn(work, backing.read_text(encoding="utf-8"))

    def test_the_status_of_the_command_comes_through(self):
        with tempfile.TemporaryDirectory() as work:
            self.assertEqual(self.run_with(work, "exit 42").returncode, 42)

    def test_no_command_is_a_usage_error(self):
        run = subprocess.run([SCRIPTS / "with_filesystems"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("usage:", run.stderr)


class MachineTreeTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)

    def machine_tree(self, *arguments):
        return subprocess.run([SCRIPTS / "machine-tree", *arguments], capture_output=True, text=True, check=False)

    def unpack(self, text):
        (self.work / "one.tree").write_bytes(text)
        run = self.machine_tree("unpack", self.work / "one.tree", self.work / "out")
        return run, self.work / "out/one"

    def assert_packs_again(self, trees):
        self.assertEqual(self.machine_tree("unpack", *trees, self.work / "folders").stderr, "")
        self.assertEqual(self.machine_tree("pack", *self.work.glob("folders/*"), self.work / "again").stderr, "")
        for tree in trees:
            self.assertEqual((self.work / "again" / tree.name).read_bytes(), tree.read_bytes(), tree.name)

    def test_every_captured_machine_packs_again_to_what_it_was_unpacked_from(self):
        trees = list((SCRIPTS.parent / "test/fixtures/machines").glob("*.tree"))
        whole = [tree for tree in trees if not tree.read_bytes().startswith(b"= ")]
        self.assertGreater(len(whole), 20)
        self.assert_packs_again(whole)
        others = [tree for tree in trees if tree not in whole]
        self.assertGreater(len(others), 10)
        self.assertEqual(self.machine_tree("unpack", *others, self.work / "others").stderr, "")

    def test_a_tree_that_begins_with_another_has_what_that_has_but_for_what_it_changes(self):
        (self.work / "whole.tree").write_bytes(b"f a/one\n|1\nf a/two\n|2\nf b/three\n|3\nl to -> a\n")
        run, folder = self.unpack(b"= whole\n# A remark.\n- b\nf a/one\n|other\nf c\n|new\nl to -> c\n")
        self.assertEqual(run.stderr, "")
        self.assertEqual((folder / "a/one").read_bytes(), b"other\n")
        self.assertEqual((folder / "a/two").read_bytes(), b"2\n")
        self.assertEqual((folder / "to").read_bytes(), b"new\n")
        self.assertFalse((folder / "b").exists())

    def test_a_tree_that_begins_with_what_cannot_be_is_refused(self):
        for text, wrong in ((b"= one\n", "deep"), (b"= ../one\n", "no name of a tree"), (b"= none\n", "none.tree"),
                            (b"f a\n- a\n", "begins with"), (b"= whole\n- nothing\n", "not there"),
                            (b"= whole\nf to/lies-outside\n|x\n", "behind a link")):
            (self.work / "whole.tree").write_bytes(b"f a\n|1\nl to -> ..\n")
            run, _ = self.unpack(text)
            self.assertEqual(run.returncode, 1, text)
            self.assertIn(wrong, run.stderr)
            self.assertEqual(list(self.work.rglob("lies-outside")), [])
            shutil.rmtree(self.work / "out", ignore_errors=True)

    def test_what_is_captured_here_is_such_a_tree(self):
        captured = self.work / "here.tree"
        subprocess.run([SCRIPTS / "capture-machine", captured], capture_output=True, check=True)
        self.assertIn(b"\nf proc/sys/kernel/osrelease\n|", captured.read_bytes())
        self.assert_packs_again([captured])

    def test_whatever_a_folder_holds_is_there_again(self):
        text = (b"f bytes\nx00ff\nd empty\nf in/a folder\n|# no remark\n|\n\\no newline\nf nothing\n"
                b"l to -> in/a folder\n")

        run, folder = self.unpack(b"# A remark.\n" + text)

        self.assertEqual(run.stderr, "")
        self.assertEqual((folder / "bytes").read_bytes(), b"\x00\xff")
        self.assertEqual((folder / "to").read_bytes(), b"# no remark\n\nno newline")
        self.assertEqual((folder / "nothing").read_bytes(), b"")
        self.assertTrue((folder / "empty").is_dir())
        self.machine_tree("pack", folder, self.work / "again")
        self.assertEqual((self.work / "again/one.tree").read_bytes(), text)

    def test_nothing_is_written_outside_of_the_folder(self):
        for text in (b"f ../lies-outside\n|x\n", b"l a -> ..\nf a/lies-outside\n|x\n", b"f /lies-outside\n|x\n"):
            run, _ = self.unpack(text)
            self.assertEqual(run.returncode, 1)
            self.assertIn("one.tree: line ", run.stderr)
            self.assertEqual(list(self.work.rglob("lies-outside")), [])
            shutil.rmtree(self.work / "out")

    def test_a_folder_that_is_there_is_left_alone(self):
        self.unpack(b"f a\n|x\n")
        run, folder = self.unpack(b"f a\n|y\n")
        self.assertEqual(run.returncode, 1)
        self.assertEqual((folder / "a").read_bytes(), b"x\n")


class CaptureMachineTest(unittest.TestCase):
    # Of each kind of mount what may tell of somebody, all of it with a word of SECRETS. Behind "|" what is kept.
    MOUNTS = """\
/mnt/ssh rw,relatime - fuse.sshfs alice@build7.acme.com:/srv rw,user_id=1000|rw,relatime - fuse.sshfs x rw,x
/mnt/gluster rw - fuse.glusterfs gfs1.acme.com:/vol0 rw|rw - fuse.glusterfs x rw
/mnt/own rw - fuse.acme-files acme rw|rw - fuse.x x rw
/mnt/weka rw - wekafs be3.acme.com/fs0 rw,writecache,net=eth0/10.1.2.3/24,mgmt_ip=10.1.2.9|rw - wekafs x rw,writecache,x
/mnt/ceph rw - ceph 10.0.0.5:6789:/ rw,name=alice,secret=<hidden>,mon_addr=10.0.0.5:6789|rw - ceph server:/export rw,x
/mnt/s3 rw - fuse.s3fs acme-bucket rw|rw - fuse.s3fs x rw
/mnt/dav rw - fuse https://alice:s3cret@dav.acme.com/x rw|rw - fuse x rw
/mnt/orange rw - pvfs2 tcp://meta1.acme.com:3334/orangefs rw|rw - pvfs2 x rw
/mnt/gpfs rw - gpfs acme7 rw|rw - gpfs x rw
/mnt/cifs rw - cifs //acme/x rw,vers=3.0,username=alice,addr=10.9.8.7,password2=s3cret,servern=ACME,rdma|\
rw - cifs server:/export rw,vers=3.0,addr=x,rdma,x
/mnt/lus rw - lustre 10.1.1.1@o2ib:10.1.1.2@o2ib:/acme rw,flock|rw - lustre server@o2ib:/export rw,flock
/mnt/nfs rw - nfs4 acme:/e rw,vers=4.2,proto=rdma,clientaddr=10.2.2.2,addr=10.3.3.3,remoteports=10.1.1.1-10.1.1.9|\
rw - nfs4 server:/export rw,vers=4.2,proto=rdma,clientaddr=x,addr=x,remoteports=x
/mnt/9p rw - 9p acme rw,trans=tcp,port=564,aname=/home/alice|rw - 9p x rw,trans=tcp,port=564,x
/mnt/afs rw - afs #acme.com:root.cell rw|rw - afs x rw
/mnt/bee rw - beegfs beegfs_nodev rw,cfgFile=/etc/acme.conf,sysMgmtdHost=m.acme.com|rw - beegfs server:/export rw,x
/mnt/jfs rw - fuse.juicefs JuiceFS:acme rw|rw - fuse.juicefs x rw
/mnt/zfs rw - zfs acme/alice rw,xattr,noacl|rw - zfs x rw,xattr,noacl
/mnt/luks rw - ext4 /dev/mapper/luks-0a1b2c3d-0000-4000-8000-00000000acme rw|rw - ext4 /dev/x rw
/mnt/wwid rw - xfs /dev/mapper/3600508b400105acme0000 rw,noquota|rw - xfs /dev/x rw,noquota
/mnt/md rw - xfs /dev/md/acme:0 rw|rw - xfs /dev/x rw
/mnt/new rw,shared-acme - newfs acme rw,acme,key=acme,data=acme.com.x,10.1.2.3|rw,x - newfs x rw,x
/mnt/nvme rw shared:5 - xfs /dev/nvme0n1p2 rw,attr2,sunit=8,noquota|\
rw shared:5 - xfs /dev/nvme0n1p2 rw,attr2,sunit=8,noquota
/mnt/btrfs rw - btrfs /dev/sda1 rw,compress=zstd:1,subvolid=257,subvol=/alice|\
rw - btrfs /dev/sda1 rw,compress=zstd:1,subvolid=257,subvol=x
/mnt/over rw - overlay overlay rw,lowerdir=/mnt/nvme/alice:/acme,upperdir=/mnt/btrfs/alice/u,workdir=/mnt/btrfs/acme|\
rw - overlay overlay rw,lowerdir=/mnt/nvme/x:/x,upperdir=/mnt/btrfs/x,workdir=/mnt/btrfs/x"""
    SECRETS = ("acme", "alice", "s3cret", "10.", "build7", "gfs1", "0a1b2c3d", "3600508b")

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)

    def capture(self, *arguments):
        return subprocess.run([SCRIPTS / "capture-machine", *arguments], capture_output=True, text=True, check=False)

    def test_of_mounts_nothing_is_kept_that_is_not_known_to_tell_nothing(self):
        cases = [line.split("|") for line in self.MOUNTS.replace("|\n", "|").splitlines()]
        said = [f"{i} 25 0:{i} /{'alice' if i % 2 else ''} {mount}" for i, (mount, _) in enumerate(cases)]
        (self.work / "mountinfo").write_text("\n".join(said) + "\n", encoding="utf-8")
        run = self.capture("--mounts", self.work / "mountinfo")
        kept = run.stdout.splitlines()
        self.assertEqual((run.returncode, run.stderr, len(kept)), (0, "", len(cases)))
        for i, (mount, expected) in enumerate(cases):
            root = "/x" if i % 2 else "/"
            self.assertEqual(kept[i], f"{i} 25 0:{i} {root} {mount.split(' ')[0]} {expected}")
            self.assertEqual([word for word in self.SECRETS if word in kept[i].lower()], [])

    def test_it_writes_a_file_of_its_own_alone(self):
        (self.work / "there").write_text("mine", encoding="utf-8")
        (self.work / "dangling").symlink_to("nowhere")
        (self.work / "link").symlink_to("there")
        for name in ("there", "dangling", "link"):
            run = self.capture(self.work / name)
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"{name} cannot be made: name a file that is not there", run.stderr)
        self.assertEqual((self.work / "there").read_text(encoding="utf-8"), "mine")
        self.assertFalse((self.work / "nowhere").exists())

    def test_of_loop_devices_and_device_mapper_no_name_is_kept(self):
        for program in ("losetup", "dmsetup"):
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")
        image = self.work / "alice-image"
        with open(image, "wb") as made:
            made.truncate(8 << 20)
        loop = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
        if loop.returncode != 0:
            self.skipTest("no loop device can be made here")
        self.addCleanup(subprocess.run, ["losetup", "--detach", loop.stdout.strip()], check=True)
        name = f"luks-acme{os.getpid()}_corig"
        mapped = subprocess.run(["dmsetup", "create", name, "--uuid", f"CRYPT-LUKS2-{name}", "--table",
                                 f"0 2048 linear {loop.stdout.strip()} 0"], capture_output=True, check=False)
        if mapped.returncode == 0:
            self.addCleanup(subprocess.run, ["dmsetup", "remove", "--retry", name], check=True, capture_output=True)
        (self.work / "said").write_text(f"on {image}, {name} and {name}\n\nof {image}\n", encoding="utf-8")
        self.assertEqual(self.capture("--hide", self.work / "said").returncode, 0)
        hidden = name if mapped.returncode else "x"
        self.assertEqual((self.work / "said").read_text(encoding="utf-8"), f"on x, {hidden} and {hidden}\n\nof x\n")
        self.assertEqual(self.capture(self.work / "one.tree").returncode, 0)
        text = (self.work / "one.tree").read_text(encoding="utf-8")
        self.assertIn("/loop/backing_file\n|", text)
        self.assertNotIn("alice", text)
        self.assertNotIn("acme", text)
        if mapped.returncode == 0:
            self.assertRegex(text, r"/dm/name\n\|dm-[0-9]+_corig\n")
            self.assertIn("/dm/uuid\n|CRYPT-x\n", text)


if __name__ == "__main__":
    unittest.main()
