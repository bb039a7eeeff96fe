#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The parts of the guest harness that need no guest: what is fetched, packed, read from logs, and how it is judged."""

import lzma
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import dmabuf_cases
import expect
import fetch_kernel
import initramfs
import kernel_module
import machine as machines
import run
import witness
from cases import MACHINES
from pattern import KIB, pattern

HERE = Path(__file__).resolve().parent
KERNEL = "linux-binary-{}+deb13-cloud-amd64"


class FetchingTheKernel(unittest.TestCase):
    def test_the_measured_version_is_preferred_to_a_newer_one(self):
        names = [KERNEL.format("7.3.4"), fetch_kernel.PREFERRED + fetch_kernel.CLOUD, KERNEL.format("6.18.15")]
        self.assertEqual(fetch_kernel.choose_package(names), names[1])

    def test_without_it_the_newest_is_taken_by_number(self):
        names = [KERNEL.format("7.9.1"), KERNEL.format("7.10.0"), KERNEL.format("6.17.13")]
        self.assertEqual(fetch_kernel.choose_package(names), KERNEL.format("7.10.0"))

    def test_kernels_that_cannot_do_it_are_not_taken(self):
        names = [KERNEL.format("6.16.12"), "linux-image-6.12.1+deb13-cloud-amd64", "linux-image-cloud-amd64",
                 "linux-binary-7.2.12+deb13-rt-amd64", "linux-binary-7.2.12+deb13-cloud-arm64"]
        self.assertIsNone(fetch_kernel.choose_package(names))

    def test_each_flavour_is_chosen_for_itself(self):
        names = [KERNEL.format("7.3.4"), "linux-binary-7.4.1+deb13-amd64", "linux-binary-7.4.1+deb13-rt-amd64"]
        self.assertEqual(fetch_kernel.choose_package(names), names[0])
        self.assertEqual(fetch_kernel.choose_package(names, fetch_kernel.GENERIC), names[1])

    def test_a_signed_build_goes_before_an_unsigned_one(self):
        names = ["linux-binary-unsigned-7.4.1+deb13-cloud-amd64", KERNEL.format("7.4.1")]
        self.assertEqual(fetch_kernel.choose_package(names), KERNEL.format("7.4.1"))

    def test_the_mirror_is_the_archive_and_not_the_security_updates(self):
        targets = ("http://one.test/debian-security Debian Debian-Security\n"
                   "http://two.test/others Other Other\nhttp://three.test/archive Debian Debian\n")
        self.assertEqual(fetch_kernel.choose_mirror(targets), "http://three.test/archive")
        self.assertEqual(fetch_kernel.choose_mirror("http://four.test/debian/  \n"), "http://four.test/debian/")
        self.assertIsNone(fetch_kernel.choose_mirror("http://two.test/others Other Other\n"))

    def test_what_is_in_the_cache_is_used_and_an_unfinished_download_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            for name in ("fetching.abc/package", KERNEL.format("7.4.1"), KERNEL.format("7.5.1")):
                image = cache / name / "kernel/usr/lib/modules/any/vmlinuz"
                image.parent.mkdir(parents=True)
                image.touch()
            found = [path.relative_to(cache).parts[0] for path in fetch_kernel.cached_kernels(cache)]
        self.assertEqual(found, [KERNEL.format("7.5.1"), KERNEL.format("7.4.1")])

    def test_without_a_mirror_it_skips_with_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, says in (("apt-get", ""), ("apt-cache", ""), ("dpkg-deb", "")):
                tool = Path(folder) / name
                tool.write_text(f"#!/bin/sh\necho '{says}'\n")
                tool.chmod(0o755)
            done = subprocess.run(["/usr/bin/env", "python3", "-B", str(HERE / "fetch_kernel.py"), f"{folder}/cache"],
                                  env={"PATH": f"{folder}:{os.environ['PATH']}"}, capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("skipped: apt is configured with no Debian mirror", done.stderr)


class CompilingTheStandIn(unittest.TestCase):
    def test_the_headers_are_those_of_the_kernel(self):
        release = kernel_module.release_of(Path("/cache/usr/lib/modules/7.2.12+deb13-cloud-amd64/vmlinuz"))
        self.assertEqual(kernel_module.packages_of(release),
                         ("linux-headers-7.2.12+deb13-cloud-amd64", "linux-headers-7.2.12+deb13-common",
                          "linux-kbuild-7.2.12+deb13"))

    def test_a_kernel_of_one_s_own_has_no_headers(self):
        with self.assertRaisesRegex(fetch_kernel.Missing, "not in a folder that is named like"):
            kernel_module.release_of(Path("/boot/vmlinuz"))

    def test_the_compiler_is_spared_the_words_that_it_does_not_know(self):
        with tempfile.TemporaryDirectory() as folder:
            older = Path(folder) / "older"
            older.write_text('#!/bin/sh\ncase "$*" in *-fmin-*) exit 1 ;; esac\nprintf "%s," "$@"\n')
            older.chmod(0o755)
            wrapper = Path(folder) / "wrapper"
            kernel_module.write_compiler(wrapper, str(older))
            said = subprocess.run([str(wrapper), "-c", "-fmin-function-alignment=16", "-fstrict-flex-arrays=3", "a b"],
                                  capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, "-c,-fstrict-flex-arrays=3,a b,")

    def test_a_tool_finds_its_libraries_wherever_the_folder_is(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder) / "first", Path(folder) / "second"
            libraries = first / "libraries/usr/lib/x86_64-linux-gnu"
            libraries.mkdir(parents=True)
            kernel_module.write_wrapper(libraries / "ld-linux-x86-64.so.2", ["echo"])
            tool = first / "headers/scripts/mod/tool"
            tool.parent.mkdir(parents=True)
            tool.touch()
            kernel_module.use_libraries([tool], first / "libraries")
            first.rename(second)
            moved = second / "headers/scripts/mod/tool"
            words = subprocess.run([str(moved), "more"], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(words[0], "--library-path")
        self.assertEqual(Path(words[1]).resolve(), second / "libraries/usr/lib/x86_64-linux-gnu")
        self.assertEqual(words[2:], [f"{moved}.program", "more"])


def module(name, depends):
    return b"\x7fELF\0name=" + name + b"\0depends=" + depends + b"\0"


class Packing(unittest.TestCase):
    def test_modules_come_after_what_they_need_and_built_in_ones_are_passed_over(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "md").mkdir()
            (root / "md/raid0.ko.xz").write_bytes(lzma.compress(module(b"raid0", b"md-mod")))
            (root / "md/md-mod.ko").write_bytes(module(b"md_mod", b"built_in"))
            ordered = initramfs.modules_in_order(root, ["raid0", "md_mod"])
        self.assertEqual([name for name, _ in ordered], ["md_mod", "raid0"])
        self.assertEqual(ordered[1][1], module(b"raid0", b"md-mod"))

    def test_libraries_are_read_from_ldd(self):
        said = ("\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n"
                "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n")
        self.assertEqual(list(initramfs.libraries_in(said)), ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"])
        with self.assertRaises(initramfs.Unreadable):
            list(initramfs.libraries_in("\tlibgone.so => not found\n"))


class Machines(unittest.TestCase):
    def test_near_drives_share_the_switch_and_far_ones_have_a_port_of_their_own(self):
        words = " ".join(machines.qemu_words(MACHINES["switch"], "kernel", "archive", Path("w")))
        self.assertIn("nvme,drive=drive_peer,serial=peer,cmb_size_mb=64,bus=down0", words)
        self.assertIn("xio3130-downstream,id=down1,bus=up", words)
        self.assertRegex(words, r"pcie-root-port,id=(root\d+),.*serial=far,bus=\1")
        self.assertNotIn("intel-iommu", words)

    def test_a_parted_drive_has_two_halves_that_do_not_touch(self):
        table = machines.partition_table(machines.Drive("parted", holds="parted"))
        self.assertEqual((len(table), table[-2:]), (512, b"\x55\xaa"))
        (one, size), (two, other) = (struct.unpack_from("<II", table, 446 + 16 * i + 8) for i in range(2))
        self.assertLessEqual(one + size, two)
        self.assertLessEqual((two + other) * 512, machines.SMALLEST["parted"])

    def test_an_iommu_comes_before_the_devices_behind_it(self):
        words = machines.qemu_words(MACHINES["dropping"], "kernel", "archive", Path("w"))
        self.assertLess(words.index("intel-iommu,intremap=on,caching-mode=on"),
                        next(at for at, word in enumerate(words) if word.startswith("pcie-root-port")))

    def test_every_case_has_a_name_of_its_own_and_every_machine_a_test(self):
        listed = (HERE / "CMakeLists.txt").read_text()
        for machine in MACHINES.values():
            names = [case.name for case in machine.cases]
            self.assertEqual(len(names), len(set(names)))
            self.assertRegex(listed, rf"(foreach\(machine IN ITEMS|set\(long).* {machine.name}\b.*\)")

    def test_scripts_are_shell(self):
        everyone = [*MACHINES.values(), *dmabuf_cases.machines(10, True, ("fio", "kvikio"))]
        scripts = [(HERE / "init").read_text()] + [run.scenario_of(machine) for machine in everyone]
        for script in scripts:
            done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_memory_behind_two_bars_is_one_file(self):
        machine = next(one for one in dmabuf_cases.machines(10, rehearsed=True) if one.bar_mib)
        words = " ".join(machines.qemu_words(machine, "kernel", "archive", Path("w")))
        self.assertEqual(words.count("mem-path=w/bar,size=256M,share=on"), 2)
        self.assertEqual(words.count("ivshmem-plain,"), 2)

    def test_a_rehearsal_has_every_case_of_the_real_run(self):
        for real, rehearsed in zip(dmabuf_cases.machines(10, False), dmabuf_cases.machines(10, True)):
            self.assertEqual(real.cases, rehearsed.cases[:len(real.cases)])
            names = [case.name for case in rehearsed.cases]
            self.assertEqual(len(names), len(set(names)))

    def test_clients_that_were_built_are_cases_of_some_machines(self):
        all_clients = dmabuf_cases.machines(10, True, ("fio", "kvikio"))
        for without, machine in zip(dmabuf_cases.machines(10, True), all_clients):
            names = {case.name for case in machine.cases} - {case.name for case in without.cases}
            self.assertEqual(names, {"fio-raw", "fio-file", "kvikio"} if machine.name in dmabuf_cases.WITH_CLIENTS
                             else set())

    def test_a_raid0_is_read_chunk_by_chunk(self):
        self.assertEqual(machines.interleave([b"aabb", b"1122"], 2), b"aa11bb22")


class Witnesses(unittest.TestCase):
    def test_bytes_belong_to_the_mark_before_them(self):
        log = ["pci_nvme_map_addr addr 0x1000 len 512",
               f"pci_nvme_read cid 1 nsid 1 nlb 1 count 512 lba 0x{witness.FIRST_MARK + 7:x}",
               "pci_nvme_map_addr addr 0x1000 len 4096", "pci_nvme_map_addr addr 0x2000 len 4096",
               "pci_nvme_read cid 2 nsid 1 nlb 8 count 4096 lba 0x80", "pci_nvme_map_addr addr 0x1ff8 len 8",
               f"pci_nvme_read cid 3 nsid 1 nlb 1 count 512 lba 0x{witness.FIRST_MARK + 8:x}"]
        counts, total = witness.bytes_by_mark(log, 0x1000, 0x1fff)
        self.assertEqual(counts, {7: 4096 + 8, 8: 0})
        self.assertEqual(total, 512 + 4096 + 8)

    def test_results_are_found_among_other_words_and_a_torn_one_is_not_lost(self):
        console = '[  1.0] noise @@ {"case": "a", "op": "read"}\r\nnoise\n@@ {"case": "b", "op'
        results = list(witness.results_of(console))
        self.assertEqual(results[0], {"case": "a", "op": "read"})
        self.assertTrue(results[1]["op"].startswith("unreadable"))

    def test_what_a_tool_said_is_its_case_s_alone(self):
        self.assertEqual(witness.said_of("| a one\r\n| ab no\n| a \n| a two\n", "a"), "one\n\ntwo")

    def test_the_pattern_is_a_function_of_offset_and_salt(self):
        whole = pattern(4 * KIB, 0, 3)
        self.assertEqual(pattern(1 * KIB, 2 * KIB, 3), whole[2 * KIB:3 * KIB])
        self.assertNotEqual(pattern(8, 0), pattern(8, 0, 1))
        self.assertEqual(len({whole[at:at + 8] for at in range(0, len(whole), 8)}), 512)


def row(**changes):
    seen = {"error": "", "size": 4096, "bytes": 4096, "equal": True, "mappings": 1, "cached": 0, "offset": 0,
            "salt": 5, "writes": False}
    return {**seen, **changes}


class Judging(unittest.TestCase):
    def test_a_direct_read_satisfies_all_witnesses(self):
        self.assertEqual(list(expect.wrong_with(row(), expect.DIRECT, 4096)), [])

    def test_each_witness_can_object_to_direct(self):
        for changes, dma, words in (({"equal": False}, 4096, "bytes are wrong"), ({}, 0, "emulator saw 0"),
                                    ({}, 8192, "emulator saw 8192"), ({"cached": 1}, 4096, "page cache grew"),
                                    ({"mappings": 0}, 4096, "mapped device memory 0"),
                                    ({"bytes": 512}, 4096, "512 of 4096"),
                                    ({"error": "EIO", "bytes": 0, "equal": False}, 0, "gave EIO")):
            with self.subTest(words):
                self.assertIn(words, "; ".join(expect.wrong_with(row(**changes), expect.DIRECT, dma)))

    def test_a_copy_by_the_cpu_is_not_direct_and_direct_is_no_copy(self):
        copied = row(mappings=0, cached=1)
        self.assertEqual(list(expect.wrong_with(copied, expect.COPIED, 0)), [])
        self.assertNotEqual(list(expect.wrong_with(copied, expect.DIRECT, 0)), [])
        self.assertNotEqual(list(expect.wrong_with(row(), expect.COPIED, 4096)), [])

    def test_lost_bytes_are_a_success_with_wrong_bytes(self):
        self.assertEqual(list(expect.wrong_with(row(equal=False), expect.LOST, 4096)), [])
        self.assertIn("the bytes are right", "; ".join(expect.wrong_with(row(), expect.LOST, 4096)))

    def test_a_refusal_names_its_error(self):
        refused = row(error="EINVAL", bytes=0, equal=False)
        self.assertEqual(list(expect.wrong_with(refused, expect.refused("EINVAL"), 0)), [])
        self.assertNotEqual(list(expect.wrong_with(refused, expect.refused("EFAULT"), 0)), [])
        self.assertNotEqual(list(expect.wrong_with(row(), expect.refused("EINVAL"), 4096)), [])

    def test_half_done_is_neither_all_nor_nothing(self):
        half = row(error="EINVAL", bytes=0, equal=False)
        self.assertEqual(list(expect.wrong_with(half, expect.HALF_DONE, 2048)), [])
        self.assertNotEqual(list(expect.wrong_with(half, expect.HALF_DONE, 0)), [])
        self.assertNotEqual(list(expect.wrong_with(half, expect.HALF_DONE, 4096)), [])

    def test_a_tool_is_held_to_its_status_words_facts_bytes_and_cache(self):
        tool = expect.Tool("t", "run", says=("fine",), facts={"paths.0.reason": "none"}, dma=4096, file="/data")
        good, said = {"exit": 0, "cached": -1}, 'fine\n{"paths": [{"reason": "none"}]}'
        self.assertEqual(list(tool.wrong_with(good, said, 4096)), [])
        for result, said_instead, dma, words in (
                ({"exit": 1, "cached": 0}, said, 4096, "ended with 1"), (good, said[5:], 4096, "does not say 'fine'"),
                (good, said.replace("none", "loop"), 4096, "is 'loop' instead of 'none'"),
                (good, "fine", 4096, "prints no JSON"), (good, said, 0, "saw 0 bytes"),
                ({"exit": 0, "cached": 2}, said, 4096, "grew by 2")):
            with self.subTest(words):
                self.assertIn(words, "; ".join(tool.wrong_with(result, said_instead, dma)))

    def test_a_tool_that_says_nothing_has_not_said_that_a_fact_is_missing(self):
        tool = expect.Tool("t", "run", facts={"read.dmabuf": None})
        good = {"exit": 0, "cached": 0}
        self.assertEqual(list(tool.wrong_with(good, '{"read": {}}', 0)), [])
        self.assertNotEqual(list(tool.wrong_with(good, "", 0)), [])

    def test_a_tool_is_held_to_the_sum_of_what_it_moved(self):
        tool = expect.Tool("t", "run", total={"read": 12})
        good = {"exit": 0, "cached": 0}
        self.assertEqual(list(tool.wrong_with(good, '{"read": {"dmabuf": {"none": 8}, "bounce": {"off": 4}}}', 0)), [])
        self.assertIn("has 8 in all instead of 12", "; ".join(
            tool.wrong_with(good, '{"read": {"dmabuf": {"none": 8}}}', 0)))

    def test_a_bytes_count_that_depends_on_time_is_not_asked(self):
        tool = expect.Tool("t", "run", dma=None)
        self.assertEqual(list(tool.wrong_with({"exit": 0, "cached": 0}, "", 12345)), [])

    def test_the_image_has_its_say_from_outside(self):
        written, old = pattern(4096, 0, 5), pattern(4096)
        outside = lambda outcome, content: list(expect.wrong_outside(row(writes=True), outcome, content, pattern))
        self.assertEqual(outside(expect.DIRECT, written), [])
        self.assertNotEqual(outside(expect.DIRECT, old), [])
        self.assertEqual(outside(expect.refused("EINVAL"), old), [])
        self.assertNotEqual(outside(expect.refused("EINVAL"), written), [])
        self.assertNotEqual(outside(expect.refused("EINVAL"), bytes(4096)), [])

    def test_least_dma_is_asked_where_its_sum_depends_on_time(self):
        tool = expect.Tool("t", "run", dma=None, dma_min=4096)
        self.assertEqual(list(tool.wrong_with({"exit": 0, "cached": 0}, "", 8192)), [])
        self.assertIn("saw 0 bytes", "; ".join(tool.wrong_with({"exit": 0, "cached": 0}, "", 0)))

    def test_a_write_that_the_drive_lacks_is_seen_from_outside(self):
        with tempfile.TemporaryDirectory() as folder:
            image = Path(folder) / "raw.img"
            image.write_bytes(bytes(512) + bytes((i * 31 + i // 257 + 15) & 255 for i in range(1024)))
            self.assertEqual(list(expect.Written("w", "raw", 512, 1024, 2).wrong_with(Path(folder))), [])
            self.assertNotEqual(list(expect.Written("w", "raw", 0, 1024, 2).wrong_with(Path(folder))), [])

    def test_memory_that_lacks_a_page_is_seen_from_outside(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "raw.img").write_bytes(pattern(8 * KIB))
            once = expect.InBar("s", "raw", 0, 8 * KIB)
            for memory, is_right in ((pattern(8 * KIB), True), (pattern(4 * KIB) + bytes(4 * KIB), False),
                                     (2 * pattern(8 * KIB), False)):
                (Path(folder) / "bar").write_bytes(memory)
                self.assertEqual(not list(once.wrong_with(Path(folder))), is_right)


if __name__ == "__main__":
    unittest.main()
