// SPDX-License-Identifier: Apache-2.0

#include "topology/direct_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

std::string codes_of(const Findings& findings) {
  std::string text;
  for (const Finding& one : findings) {
    text += (text.empty() ? "" : " ") + std::string(one.code());
    if (one.certainty == Certainty::possible) text += "?";
  }
  return text;
}

std::string codes_at(const std::string& machine, const std::string& path, Op op) {
  const Root root = captured_machine(machine);
  return codes_of(judge_direct_file(root, MountTable::read(root), captured_file(root, path), op).findings);
}

TEST(DirectFileTest, AMountTellsWhatHoldsForItsFiles) {
  struct Case {
    const char* machine;
    const char* path;
    const char* reads;
    const char* writes;
  };
  const Case cases[] = {
      {"dgx-ready", "/data/0/weights", "", ""},
      {"dgx-ready", "/dev/nvme0n1", "", ""},
      {"laptop", "/home", "", "checksums"},
      {"laptop", "/tmp/file", "memory", "memory"},
      {"cmb-peer", "/pool/file", "", "checksums"},
      {"old-driver", "/data/file", "data_journal", "data_journal"},
      {"nfs-tcp", "/models/file", "nfs_tcp", "nfs_tcp"},
      {"nfs-rdma", "/models/file", "nfs_rdma", "nfs_rdma"},
      {"nfs", "/mnt/models/file", "nfs_rdma", "nfs_rdma"},  // Without mountstats, from the mount's options.
      {"container-overlay", "/file", "overlay?", "overlay?"},
      {"container-overlay", "/models/file", "", ""},
      {"host-overlay", "/srv/one/file", "", ""},
      {"host-overlay", "/srv/two/file", "memory", "memory"},
      {"dgx-h100", "/boot/efi/file", "file_system", "file_system"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(codes_at(one.machine, one.path, Op::read), one.reads) << one.machine << " " << one.path;
    EXPECT_EQ(codes_at(one.machine, one.path, Op::write), one.writes) << one.machine << " " << one.path;
  }
}

TEST(DirectFileTest, AnOverlaysFileLiesOnTheMountOfItsLayer) {
  const Root root = captured_machine("host-overlay");
  const MountTable table = MountTable::read(root);
  const auto report = judge_direct_file(root, table, captured_file(root, "/srv/one/a/b"), Op::write);
  ASSERT_TRUE(report.mount);
  EXPECT_EQ(report.mount->mount_point, "/var/lib/containers");
  ASSERT_TRUE(report.storage);
  EXPECT_EQ(read_block_device(root, table, *report.storage)->name, "nvme0n1");
}

// The second mount asked for TCP and got the connection of the first.
TEST(DirectFileTest, TheTransportInUseCountsNotTheOneAskedFor) {
  TestTree tree;
  tree.put("/proc/self/mountinfo",
           "1 0 0:50 / /a\\040b rw - nfs4 server:/x rw,proto=tcp\n2 0 0:51 / /c rw - nfs4 server:/y rw,proto=tcp\n");
  tree.put("/proc/self/mountstats",
           "device rootfs mounted on / with fstype rootfs\n"
           "device server:/x mounted on /a\\040b with fstype nfs4 statvers=1.1\n\topts:\trw\n\txprt:\trdma 0 0\n"
           "device server:/y mounted on /c with fstype nfs4 statvers=1.1\n\txprt:\ttcp 0 0\n");
  const Root root = tree.root();
  const MountTable table = MountTable::read(root);
  EXPECT_EQ(codes_of(judge_direct_file(root, table, captured_file(root, "/a b/f"), Op::read).findings), "nfs_rdma");
  EXPECT_EQ(codes_of(judge_direct_file(root, table, captured_file(root, "/c/f"), Op::read).findings), "nfs_tcp");
}

TEST(DirectFileTest, AFileCanDifferFromItsMount) {
  struct Case {
    std::function<void(DirectFile&)> change;
    const char* reads;
    const char* writes;
  };
  const Case cases[] = {
      {[](DirectFile& file) { file.is_encrypted = Tristate::yes; }, "encrypted", "encrypted"},
      {[](DirectFile& file) { file.is_verity = Tristate::yes; }, "verity", "verity"},
      {[](DirectFile& file) { file.is_journaled = Tristate::yes; }, "data_journal", "data_journal"},
      {[](DirectFile& file) { file.has_inline_data = Tristate::yes; }, "inline_data", "inline_data"},
      {[](DirectFile& file) { file.extents.inline_bytes = 100; }, "inline_data", "inline_data"},
      {[](DirectFile& file) { file.is_compressed = Tristate::yes; }, "compressed", "compressed"},
      {[](DirectFile& file) {
         file.is_compressed = Tristate::yes;
         file.extents.is_known = true;
       },
       "compressed?", "compressed?"},
      {[](DirectFile& file) { file.extents.encoded_bytes = 1; }, "compressed", "compressed"},
      {[](DirectFile& file) { file.extents.encrypted_bytes = 1; }, "encrypted", "encrypted"},
      {[](DirectFile& file) { file.extents.shared_bytes = 1; }, "", "shared_extents"},
      {[](DirectFile& file) { file.extents.hole_bytes = 1; }, "holes", "holes"},
      {[](DirectFile& file) { file.extents.unwritten_bytes = 1; }, "unwritten_extents", "unwritten_extents"},
      {[](DirectFile& file) { file.has_block_map = Tristate::yes; }, "", "block_map"},
      {[](DirectFile& file) { file.takes_direct_io = Tristate::no; }, "no_direct_io", "no_direct_io"},
      {[](DirectFile& file) { file.direct_error = EINVAL; }, "no_direct_descriptor", "no_direct_descriptor"},
      // A finding that explains another one replaces it.
      {[](DirectFile& file) {
         file.is_encrypted = Tristate::yes;
         file.takes_direct_io = Tristate::no;
       },
       "encrypted", "encrypted"},
  };
  const Root root = captured_machine("dgx-ready");
  const MountTable table = MountTable::read(root);
  for (const Case& one : cases) {
    DirectFile file = captured_file(root, "/data/1/file");
    one.change(file);
    EXPECT_EQ(codes_of(judge_direct_file(root, table, file, Op::read).findings), one.reads);
    EXPECT_EQ(codes_of(judge_direct_file(root, table, file, Op::write).findings), one.writes);
  }
}

TEST(DirectFileTest, AFileWithoutCopyOnWriteHasNoChecksums) {
  const Root root = captured_machine("laptop");
  DirectFile file = captured_file(root, "/home");
  file.is_copied_on_write = Tristate::no;
  EXPECT_EQ(codes_of(judge_direct_file(root, MountTable::read(root), file, Op::write).findings), "");
}

TEST(DirectFileTest, AFileSystemOfSeveralDevicesSaysSo) {
  TestTree tree;
  tree.put("/proc/self/mountinfo", "1 0 0:50 / / rw - btrfs /dev/sda rw\n").put("/sys/class/block/sda/dev", "8:0\n");
  tree.put("/sys/fs/btrfs/x/devices/sda/dev", "").put("/sys/fs/btrfs/features/y", "");
  const Root root = tree.root();
  const MountTable table = MountTable::read(root);
  EXPECT_EQ(codes_of(judge_direct_file(root, table, captured_file(root, "/f"), Op::read).findings), "");
  tree.put("/sys/fs/btrfs/x/devices/sdb/dev", "");
  EXPECT_EQ(codes_of(judge_direct_file(root, table, captured_file(root, "/f"), Op::read).findings), "several_devices?");
}

TEST(DirectFileTest, ARequestIsAlignedAndInsideOrSaysSo) {
  DirectFile file;
  file.size = 1 << 20;
  EXPECT_EQ(codes_of(request_findings(file, Op::write, 0, 1 << 20, 0)), "");
  EXPECT_EQ(codes_of(request_findings(file, Op::write, 4096, 1 << 20, 0)), "extending_write");
  EXPECT_EQ(codes_of(request_findings(file, Op::read, 4096, 1 << 20, 0)), "");
  EXPECT_EQ(codes_of(request_findings(file, Op::write, UINT64_MAX - 4095, 4096, 0)), "extending_write");
  EXPECT_EQ(codes_of(request_findings(file, Op::read, 512, 4096, 0)), "misaligned");
  file.direct_offset_align = 512;
  file.direct_memory_align = 4;
  EXPECT_EQ(codes_of(request_findings(file, Op::read, 512, 4096, 4)), "");
  EXPECT_EQ(codes_of(request_findings(file, Op::read, 512, 4096, 2)), "misaligned");
  file.is_block_device = true;
  EXPECT_EQ(codes_of(request_findings(file, Op::write, 2 << 20, 4096, 0)), "");
}

// ---- A file of this machine

class OpenFileTest : public testing::Test {
 protected:
  // A unique name: tests run in parallel, each in a process.
  OpenFileTest() {
    char name[] = "penstock-direct-file-XXXXXX";
    fd_ = UniqueFd(::mkostemp(name, O_CLOEXEC));
    ::unlink(name);
  }
  UniqueFd fd_;
};

TEST_F(OpenFileTest, HolesAndUnwrittenExtentsAreCounted) {
  ASSERT_TRUE(fd_.valid());
  const std::string block(64 << 10, 'x');
  ASSERT_EQ(::pwrite(fd_.get(), block.data(), block.size(), 0), static_cast<ssize_t>(block.size()));
  ASSERT_EQ(::fsync(fd_.get()), 0);
  ASSERT_EQ(::ftruncate(fd_.get(), 256 << 10), 0);
  auto file = read_direct_file(fd_.get());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size, 256u << 10);
  EXPECT_NE(file->path, "");
  if (!file->extents.is_known) GTEST_SKIP() << "the file system of the working directory does not tell extents";
  EXPECT_TRUE(file->extents.is_complete);
  EXPECT_EQ(file->extents.hole_bytes, 192u << 10);
  EXPECT_EQ(read_direct_file(fd_.get(), 0, 64 << 10)->extents.hole_bytes, 0u);
  EXPECT_EQ(read_direct_file(fd_.get(), 60 << 10, 8 << 10)->extents.hole_bytes, 4u << 10);
  EXPECT_EQ(read_direct_file(fd_.get(), UINT64_MAX, UINT64_MAX)->extents.hole_bytes, 0u);
  if (::fallocate(fd_.get(), 0, 128 << 10, 128 << 10) != 0) GTEST_SKIP() << "no fallocate here";
  file = read_direct_file(fd_.get());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->extents.hole_bytes, 64u << 10);
  EXPECT_EQ(file->extents.unwritten_bytes, 128u << 10);
}

// A writer leaves such a file if it is killed after preallocating a large write.
TEST_F(OpenFileTest, WhatIsAllocatedBehindTheEndIsCounted) {
  ASSERT_TRUE(fd_.valid());
  ASSERT_EQ(::pwrite(fd_.get(), "abc", 3, 0), 3);
  ASSERT_EQ(::fsync(fd_.get()), 0);
  auto file = read_direct_file(fd_.get());
  ASSERT_TRUE(file.ok());
  if (!file->extents.is_known) GTEST_SKIP() << "the file system of the working directory does not tell extents";
  EXPECT_EQ(file->allocated_behind_end, 0u);
  if (::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, 8 << 20) != 0) GTEST_SKIP() << "no fallocate here";

  file = read_direct_file(fd_.get());

  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size, 3u);
  EXPECT_GE(file->allocated_behind_end, (8u << 20) - 4096);
  EXPECT_LE(file->allocated_behind_end, 8u << 20);
}

TEST_F(OpenFileTest, ItsMountAndDeviceAreFound) {
  const Root root = std::move(Root::open("").value());
  const MountTable table = MountTable::read(root);
  const auto file = read_direct_file(fd_.get());
  ASSERT_TRUE(file.ok());
  const auto report = judge_direct_file(root, table, *file, Op::read);
  ASSERT_TRUE(report.mount);
  EXPECT_FALSE(report.mount->type.empty());
  if (file->device.major != 0) {
    EXPECT_EQ(report.storage, file->device);
  }
}

TEST(ReadDirectFileTest, OnlyFilesAndBlockDevicesAreLookedAt) {
  EXPECT_FALSE(read_direct_file(-1).ok());
  const UniqueFd folder(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(read_direct_file(folder.get()).status().is(Code::unsupported_file));
}

}  // namespace
}  // namespace penstock::core
