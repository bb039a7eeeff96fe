// SPDX-License-Identifier: Apache-2.0

// fakes/scripted_nvidia.h stands in for NVIDIA's kernel driver. Expected requests are written as bytes, apart from the
// structures that make them.
#include "device/cuda/nvidia_client.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fakes/scripted_nvidia.h"

namespace penstock::core {
namespace {

using namespace nvidia;

constexpr std::size_t kSize = 2 << 20;
constexpr NvidiaVersions kKnown = {{595, 45}, {6, 18}};

class NvidiaClientTest : public testing::Test {
 protected:
  void TearDown() override {
    stop();
    EXPECT_TRUE(kernel_.has_nothing());
  }

  Status start(const NvidiaVersions& versions = kKnown) {
    client_.emplace(kernel_, versions, observer_);
    std::array<std::uint8_t, 16> uuid;
    for (unsigned i = 0; i < 16; ++i) uuid[i] = static_cast<std::uint8_t>(0xa0 + i);
    return client_->start(uuid);
  }
  // Undoes the steps of a mapping that is refused.
  Status map() {
    NvidiaClient::Mapping made;
    const Status status = client_->map(::memfd_create("nvidia_client_test", MFD_CLOEXEC), kSize, made);
    if (!status.ok()) return client_->unmap(made), status;
    mapping_ = made;
    is_mapped_ = true;
    return status;
  }
  void unmap() {
    if (is_mapped_) client_->unmap(mapping_);
    is_mapped_ = false;
  }
  void stop() {
    unmap();
    client_.reset();
  }
  // The Status of the first step that refuses on the way to a mapping.
  Status reach() {
    const Status started = start();
    return started.ok() ? map() : started;
  }
  std::string heard_refusal() const {
    const auto refused = [](const auto& each) { return !each.second.status.ok(); };
    const auto found = std::find_if(heard_.begin(), heard_.end(), refused);
    return found == heard_.end() ? "" : found->first;
  }
  bool has_heard(const std::string& name, const NvidiaStep& expected) const {
    return std::any_of(heard_.begin(), heard_.end(), [&](const auto& each) {
      const NvidiaStep& step = each.second;
      return each.first == name && step.status.step == name && step.status.code == expected.status.code &&
             step.status.domain == expected.status.domain && step.rm_status == expected.rm_status;
    });
  }

  ScriptedKernel kernel_;
  std::vector<std::pair<std::string, NvidiaStep>> heard_;
  const NvidiaObserver observer_ = [this](const char* name, const NvidiaStep& step) {
    heard_.emplace_back(name, step);
  };
  std::optional<NvidiaClient> client_;
  NvidiaClient::Mapping mapping_;  // The latest.
  bool is_mapped_ = false;
};

TEST_F(NvidiaClientTest, RequestsToTheResourceManagerHaveTheDriversBytes) {
  ASSERT_TRUE(reach().ok());
  unmap();
  const auto& client = kernel_.request("client");
  EXPECT_EQ(client.number, 0xc020462bu);
  EXPECT_EQ(client.bytes, b(12, 0) + b(4, 0x41) + b(16, 0));

  const auto& info = kernel_.request("info");
  EXPECT_EQ(info.number, 0xc020462au);
  const Bytes envelope = b(4, kernel_.kClient) + b(4, kernel_.kClient);
  EXPECT_EQ(Bytes(info.bytes.begin(), info.bytes.begin() + 16), envelope + b(4, 0x3d08) + b(4, 0));
  EXPECT_EQ(Bytes(info.bytes.begin() + 24, info.bytes.end()), b(4, 80) + b(4, 0));
  const std::uint64_t fd = word(info.pointed, 0, 4);
  EXPECT_EQ(info.pointed, b(4, fd) + b(76, 0));

  const auto& device = kernel_.request("device");
  EXPECT_EQ(Bytes(device.bytes.begin(), device.bytes.begin() + 16), envelope + b(4, 0) + b(4, 0x80));
  EXPECT_EQ(Bytes(device.bytes.begin() + 24, device.bytes.end()), b(4, 56) + b(4, 0));
  EXPECT_EQ(device.pointed, b(4, 3) + b(4, kernel_.kClient) + b(48, 0));

  const auto& import = kernel_.request("import");
  EXPECT_EQ(Bytes(import.bytes.begin(), import.bytes.begin() + 16), envelope + b(4, 0x3d0c) + b(4, 0));
  EXPECT_EQ(word(import.bytes, 24, 4), 652u);
  EXPECT_EQ(import.pointed, b(4, fd) + b(4, kernel_.kDevice) + b(4, 0x50000001) + b(4, 0x50000002) + b(4, 0x50000003) +
                                b(4, 0x50000004) + b(124 * 4, 0) + b(128, 0) + b(2, 4) + b(2, 0));

  const auto& free = kernel_.request("free object");
  EXPECT_EQ(free.number, 0xc0104629u);
  EXPECT_EQ(free.bytes, b(4, kernel_.kClient) + b(4, kernel_.kDevice) + b(4, 0x50000001) + b(4, 0));
}

TEST_F(NvidiaClientTest, RequestsToUnifiedMemoryHaveTheDriversBytesAndRoomForMore) {
  ASSERT_TRUE(reach().ok());
  unmap();
  Bytes uuid;
  for (unsigned i = 0; i < 16; ++i) uuid = uuid + b(1, 0xa0 + i);
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(mapping_.mapped);
  const auto with_room = [](const Bytes& bytes) { return bytes + b(512 - bytes.size(), 0); };
  const Bytes unanswered = b(4, 0xdeadbeef);

  EXPECT_EQ(kernel_.request("initialize").number, 0x30000001u);
  EXPECT_EQ(kernel_.request("initialize").bytes, with_room(b(8, 2) + unanswered));
  EXPECT_EQ(kernel_.request("register").number, 37u);
  EXPECT_EQ(kernel_.request("register").bytes,
            with_room(uuid + b(8, 0) + b(4, kernel_.kRm) + b(4, kernel_.kClient) + b(4, 0) + unanswered));
  EXPECT_EQ(kernel_.request("pages").number, 78u);
  EXPECT_EQ(kernel_.request("pages").bytes, with_room(b(8, base) + b(8, kSize) + b(8, 0) + uuid + b(4, kernel_.kRm) +
                                                      b(4, kernel_.kClient) + b(4, 0x50000001) + unanswered));
  EXPECT_EQ(kernel_.request("free pages").number, 34u);
  EXPECT_EQ(kernel_.request("free pages").bytes, with_room(b(8, base) + b(8, kSize) + unanswered));
}

TEST_F(NvidiaClientTest, AnRmStatusIsKeptBesideTheNearestErrno) {
  const std::pair<RmStatus, int> statuses[] = {{0x56, EOPNOTSUPP}, {0x1f, EINVAL}, {0x51, ENOMEM}, {0x7f, EIO}};
  for (const char* request : {"client", "initialize", "register", "info", "device", "import", "pages"}) {
    for (const auto& [status, number] : statuses) {
      kernel_ = {};
      kernel_.refusing = request;
      kernel_.with = status;
      heard_.clear();
      EXPECT_TRUE(reach().is_errno(number)) << request;
      const std::string step = heard_refusal();
      EXPECT_TRUE(has_heard(step, {os_failure(number, ""), status})) << request;
      stop();
      EXPECT_TRUE(kernel_.has_nothing()) << request;
    }
  }
  EXPECT_EQ(
      describe(NvidiaStep{os_failure(EOPNOTSUPP, "make peer pages"), 0x56}),
      "could not make peer pages: Operation not supported; check that the kernel, its drivers and the file system "
      "can do this (NV_ERR_NOT_SUPPORTED, 0x56)");
  EXPECT_EQ(describe(NvidiaStep{os_failure(ENODEV, "a"), 0x7f}), "could not a: No such device (NVIDIA status 0x7f)");
}

TEST_F(NvidiaClientTest, WithoutAddressesNoPagesAreMade) {
  kernel_.refusing = "reserve";
  EXPECT_TRUE(reach().is_errno(ENOMEM));
  EXPECT_TRUE(has_heard("reserve addresses for peer pages", {os_failure(ENOMEM, "")}));
  EXPECT_EQ(kernel_.request("pages").number, 0u);
  EXPECT_TRUE(kernel_.objects.empty());
}

TEST_F(NvidiaClientTest, ExportsThatAreNotOnePieceOfAWholeGpuAreRefused) {
  const auto expect_refusal = [&] {
    const Status status = reach();
    EXPECT_TRUE(status.is(Code::unsupported));
    EXPECT_STREQ(status.step, "find one piece of GPU memory in the export");
    EXPECT_TRUE(kernel_.objects.empty());
    stop();
    kernel_ = {};
  };
  kernel_.info.gpu_instance = 2;
  expect_refusal();
  kernel_.info.device_instance = kNoDevice;
  expect_refusal();
  kernel_.info.objects_max = 0;
  expect_refusal();
  kernel_.types = {kImportedNothing};
  expect_refusal();
  kernel_.types = {kImportedVideoMemory, kImportedVideoMemory};
  expect_refusal();
  kernel_.types = {2};
  expect_refusal();
}

TEST_F(NvidiaClientTest, APieceOfAnotherGpuIsRefused) {
  ASSERT_TRUE(reach().ok());
  kernel_.info.device_instance = 4;
  EXPECT_TRUE(map().is(Code::no_device));
}

TEST_F(NvidiaClientTest, AnExportWithRoomForManyIsImportedAsFarAsARequestReaches) {
  kernel_.info.objects_max = 512;
  ASSERT_TRUE(reach().ok());
  EXPECT_EQ(word(kernel_.request("import").pointed, 648, 2), 128u);
}

TEST_F(NvidiaClientTest, TheAnswerToGivingPagesBackIsUnderstoodInBothLayouts) {
  for (const bool is_590 : {false, true}) {
    for (const RmStatus status : {RmStatus{0}, NV_ERR_INVALID_ADDRESS}) {
      kernel_ = {};
      kernel_.is_590 = is_590;
      ASSERT_TRUE(reach().ok());
      kernel_.refusing = "free pages";
      kernel_.with = status;
      heard_.clear();
      unmap();
      EXPECT_EQ(heard_.front().first, "give back peer pages of GPU memory");
      EXPECT_EQ(heard_.front().second.rm_status, status) << is_590;
      stop();
    }
  }
}

TEST_F(NvidiaClientTest, ADriverWithLongerStructuresOverwritesNothingAndIsNotBelieved) {
  kernel_.has_grown = true;
  EXPECT_TRUE(reach().is_errno(EPROTO));
  EXPECT_EQ(heard_.back().second.rm_status, kUnanswered);
  EXPECT_STREQ(heard_.back().first.c_str(), "start NVIDIA's unified memory");
}

TEST_F(NvidiaClientTest, UnknownDriversAreNotAsked) {
  for (const NvidiaVersions& versions :
       {NvidiaVersions{{0, 0}, {6, 8}}, {{550, 163}, {6, 8}}, {{565, 56}, {6, 8}}, {{596, 1}, {6, 8}}}) {
    EXPECT_TRUE(start(versions).is(Code::unsupported)) << versions.driver.major;
    EXPECT_TRUE(kernel_.journal.empty());
  }
  for (const NvidiaVersions& versions :
       {NvidiaVersions{{565, 57}, {6, 8}}, {{580, 65}, {6, 14}}, {{595, 44}, {7, 3}}}) {
    ASSERT_TRUE(start(versions).ok()) << versions.driver.major;
    EXPECT_TRUE(map().ok()) << versions.driver.major;
    stop();
  }
}

TEST_F(NvidiaClientTest, ADriverThatWouldKeepTheMemoryOnThisKernelIsShownNone) {
  for (const RmStatus status : {NV_OK, NV_ERR_NOT_SUPPORTED}) {
    for (const NvidiaVersions& versions :
         {NvidiaVersions{{580, 159}, {6, 18}}, {{590, 48}, {7, 0}}, {{565, 57}, {6, 15}}}) {
      kernel_ = {};
      kernel_.refusing = "pages";
      kernel_.with = status;
      ASSERT_TRUE(start(versions).ok());
      const Status refused = map();
      EXPECT_EQ(word(kernel_.request("pages").bytes, 48, 4), 0u);
      EXPECT_EQ(refused.is(Code::unsupported), status == NV_OK) << describe(refused);
      EXPECT_EQ(refused.is_errno(EOPNOTSUPP), status != NV_OK) << describe(refused);
      stop();
    }
  }
}

TEST_F(NvidiaClientTest, WhatUvmHasRefusedIsRemembered) {
  kernel_.refusing = "pages";
  kernel_.with = 0x1f;
  ASSERT_TRUE(start().ok());
  EXPECT_TRUE(client_->refused().ok());

  EXPECT_TRUE(map().is_errno(EINVAL));

  EXPECT_TRUE(client_->refused().is_errno(EINVAL));
}

}  // namespace
}  // namespace penstock::core
