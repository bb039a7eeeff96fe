// SPDX-License-Identifier: Apache-2.0

// For the tests of the path nvfs: a module in nvidia-fs's place (fake_nvfs.h), a real file of a known content with
// O_DIRECT, and a device whose memory the module reaches.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "fakes/block_storage.h"
#include "fakes/fake_nvfs.h"
#include "fakes/fake_peer.h"
#include "fakes/path_fixture.h"
#include "path/nvfs/nvfs_path.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {

class NvfsTest : public PathFixture {
 protected:
  static constexpr std::size_t kMemoryBytes = 1 << 20;

  void SetUp() override {
    std::string name = testing::TempDir() + "/penstock_nvfs_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    content_.resize(kFileBytes);
    for (std::size_t i = 0; i < kFileBytes; ++i) content_[i] = static_cast<char>(i * 31 + i / 257);
    std::ofstream(folder_ / "file") << content_;
    fd_.reset(::open((folder_ / "file").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::fsync(fd_.get()), 0);
    file_ = std::move(*File::open(storage_, fd_.get()));
    if (file_->direct_offset_align() == 1) GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    devices_ = open_devices();
    device_ = *devices_->device(0);
    memory_ = static_cast<char*>(*device_->memory().allocate(kMemoryBytes));
    make_path();
  }
  void TearDown() override {
    close_path();
    file_.reset();
    if (device_ != nullptr) device_->memory().release(memory_);
    devices_.reset();
    EXPECT_EQ(module_->mappings.load(), 0u) << "shadow buffers are left";
    EXPECT_EQ(module_->open_nodes.load(), 0u);
    std::filesystem::remove_all(folder_);
  }

  virtual std::unique_ptr<DeviceSet> open_devices() {
    peers_.add("0000:03:00.0", 64 << 20);
    peers_.give_each_its_own("0000:03:00.0");
    return std::move(*peers_.open());
  }
  Path& path() override { return *path_; }
  void close_path() {
    if (path_ != nullptr) path_->forget_file(*file_);
    path_.reset();
  }
  void make_path(bool strict = false) {
    close_path();
    file_->slot(PathId::nvfs).store(0);
    path_ = std::make_unique<NvfsPath>(storage_, *devices_, module_,
                                       NvfsRules{.strict = strict, .direct_io = direct_io_, .use = use_});
  }
  PointerFacts facts() { return devices_->describe(memory_); }
  Verdict judge(Op op = Op::read) { return path_->judge(*file_, facts(), op); }
  void register_memory() { path_->add_buffer(facts(), facts().base, kMemoryBytes); }
  void deregister_memory() { path_->remove_buffer(facts().base); }

  Completion run(Op op, std::uint64_t offset, std::uint64_t size) {
    return channel()->move_and_wait(request(op), plan(op, offset, size).chunk(0));
  }
  // Other bytes than the file's.
  void fill_memory(char seed) {
    for (std::size_t i = 0; i < kFileBytes + 65536; ++i)
      memory_[i] = static_cast<char>(i * 7 + static_cast<unsigned char>(seed));
  }
  std::string file_content() const {
    std::string bytes(kFileBytes + (1 << 20), '\0');
    bytes.resize(static_cast<std::size_t>(::pread(fd_.get(), bytes.data(), bytes.size(), 0)));
    return bytes;
  }
  void be_tested(Op op = Op::read) {
    ASSERT_TRUE(judge(op).usable);
    module_->requests.clear();
  }
  // Of requests to the module after that, those that go to memory of the user's.
  std::size_t requests_in_place() const {
    std::size_t count = 0;
    for (const auto& request : module_->requests) count += request.gpu_offset != 0 ? 1 : 0;
    return count;
  }

  using Bytes = std::map<Reason, std::uint64_t>;
  std::shared_ptr<FakeNvfs> module_ = std::make_shared<FakeNvfs>();
  NvfsUse use_ = NvfsUse::stand_in;
  bool direct_io_ = true;
  BlockStorage storage_;
  FakePeers peers_;
  std::filesystem::path folder_;
  std::string content_;
  UniqueFd fd_;
  std::unique_ptr<NvfsPath> path_;
};

// The module is open, and the file by its direct descriptor.
class OpenedNvfsTest : public NvfsTest {
 protected:
  void SetUp() override {
    NvfsTest::SetUp();
    if (IsSkipped()) return;
    Proof why_not;
    opened_ = NvfsModule::open(module_, NvfsUse::stand_in, why_not);
    ASSERT_NE(opened_, nullptr);
    direct_ = *file_->descriptor(IoMode::o_direct);
  }
  void TearDown() override {
    opened_.reset();
    NvfsTest::TearDown();
  }

  std::shared_ptr<NvfsModule> opened_;
  int direct_ = -1;
};

}  // namespace penstock::core
