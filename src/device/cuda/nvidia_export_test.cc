// SPDX-License-Identifier: Apache-2.0

// fakes/scripted_nvidia.h stands in for NVIDIA's kernel driver, fakes/fake_cuda for the CUDA driver. Expected requests
// are written as bytes, apart from the structures that make them.
#include "device/cuda/nvidia_export.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <vector>

#include "fakes/scripted_nvidia.h"

namespace penstock::core {
namespace {

using namespace cuda;
using namespace nvidia;

constexpr std::size_t kMiB = 1 << 20;
constexpr NvidiaVersions kKnown = {{595, 45}, {6, 18}};

class NvidiaExportTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    ASSERT_TRUE(api_.load(PENSTOCK_FAKE_CUDA, &why_not)) << why_not;
    ASSERT_EQ(api_.cuInit(0), CUDA_SUCCESS);
    library_ = ::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_EQ(api_.cuDevicePrimaryCtxRetain(&context_.handle, 1), CUDA_SUCCESS);
    ASSERT_TRUE(api_.identify(context_.handle, &context_.id));
    descriptors_ = count_descriptors();
  }
  void TearDown() override {
    export_.reset();
    EXPECT_TRUE(kernel_.has_nothing());
    EXPECT_EQ(cuda_things(), 0);
    EXPECT_EQ(count_descriptors(), descriptors_);
  }

  NvidiaExport::Setup setup(const NvidiaVersions& versions = kKnown) {
    NvidiaExport::Setup made{.api = api_, .context = context_, .ordinal = 1, .versions = versions, .kernel = kernel_};
    for (unsigned i = 0; i < 16; ++i) made.uuid[i] = static_cast<std::uint8_t>(0xa0 + i);
    made.observer = [this](const char* name, const NvidiaStep& step) { heard_.emplace_back(name, step); };
    return made;
  }
  Status open(const NvidiaVersions& versions = kKnown) {
    auto opened = NvidiaExport::open(setup(versions));
    if (opened.ok()) export_ = std::move(opened.value());
    return opened.status();
  }
  // The Status of the first step that refuses on the way to a mapping.
  Status reach() {
    const Status opened = open();
    if (!opened.ok()) return opened;
    const auto made = export_->allocate(kMiB);
    if (made.ok()) piece_ = made.value();
    return made.status();
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
  int cuda_things() const { return reinterpret_cast<int (*)()>(::dlsym(library_, "fake_cuda_virtual_things"))(); }
  static std::ptrdiff_t count_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }

  CudaApi api_ = {};
  CudaContext context_;
  void* library_ = nullptr;
  std::ptrdiff_t descriptors_ = 0;
  ScriptedKernel kernel_;
  std::vector<std::pair<std::string, NvidiaStep>> heard_;
  std::unique_ptr<NvidiaExport> export_;
  NvidiaExport::Piece piece_;
};

TEST_F(NvidiaExportTest, AMappingIsMadeStepByStepAndUndoneInReverse) {
  ASSERT_TRUE(reach().ok());
  EXPECT_EQ(piece_.size, 2 * kMiB) << "the GPU's pages";
  EXPECT_NE(piece_.device_address, nullptr);
  std::memset(piece_.mapped, 7, piece_.size);
  EXPECT_EQ(cuda_things(), 3);
  EXPECT_EQ(kernel_.history(),
            "open /dev/nvidiactl, client, open /dev/nvidia-uvm, initialize, register, info, device, import, "
            "close the export, reserve, pages, map");
  for (const auto& [name, step] : heard_) EXPECT_TRUE(step.status.ok()) << name;

  kernel_.journal.clear();
  export_->release(piece_);
  EXPECT_EQ(kernel_.history(), "unmap, free pages, free object");
  EXPECT_EQ(cuda_things(), 0);
  EXPECT_TRUE(kernel_.objects.empty());
  export_->release(piece_);  // Releases it a second time, when it is no longer an exported piece.
  EXPECT_EQ(kernel_.journal.size(), 3u);
}

TEST_F(NvidiaExportTest, RequestsToTheResourceManagerHaveTheDriversBytes) {
  ASSERT_TRUE(reach().ok());
  export_->release(piece_);
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

TEST_F(NvidiaExportTest, RequestsToUnifiedMemoryHaveTheDriversBytesAndRoomForMore) {
  ASSERT_TRUE(reach().ok());
  export_->release(piece_);
  Bytes uuid;
  for (unsigned i = 0; i < 16; ++i) uuid = uuid + b(1, 0xa0 + i);
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(piece_.mapped);
  const auto with_room = [](const Bytes& bytes) { return bytes + b(512 - bytes.size(), 0); };
  const Bytes unanswered = b(4, 0xdeadbeef);

  EXPECT_EQ(kernel_.request("initialize").number, 0x30000001u);
  EXPECT_EQ(kernel_.request("initialize").bytes, with_room(b(8, 2) + unanswered));
  EXPECT_EQ(kernel_.request("register").number, 37u);
  EXPECT_EQ(kernel_.request("register").bytes,
            with_room(uuid + b(8, 0) + b(4, kernel_.kRm) + b(4, kernel_.kClient) + b(4, 0) + unanswered));
  EXPECT_EQ(kernel_.request("pages").number, 78u);
  EXPECT_EQ(kernel_.request("pages").bytes, with_room(b(8, base) + b(8, 2 * kMiB) + b(8, 0) + uuid + b(4, kernel_.kRm) +
                                                      b(4, kernel_.kClient) + b(4, 0x50000001) + unanswered));
  EXPECT_EQ(kernel_.request("free pages").number, 34u);
  EXPECT_EQ(kernel_.request("free pages").bytes, with_room(b(8, base) + b(8, 2 * kMiB) + unanswered));
}

struct Refusal {
  const char* request;
  const char* step;
};

TEST_F(NvidiaExportTest, AnyRefusalNamesItsStepAndErrnoAndLeavesNothingBehind) {
  const Refusal refusals[] = {{"open /dev/nvidiactl", "open /dev/nvidiactl"},
                              {"client", "become a client of the NVIDIA driver"},
                              {"open /dev/nvidia-uvm", "open /dev/nvidia-uvm"},
                              {"initialize", "start NVIDIA's unified memory"},
                              {"register", "register the GPU with NVIDIA's unified memory"},
                              {"info", "look at exported GPU memory"},
                              {"device", "use the GPU as a client of the NVIDIA driver"},
                              {"import", "import GPU memory into the NVIDIA driver"},
                              {"pages", "make peer pages of GPU memory"},
                              {"map", "map peer pages of GPU memory"}};
  for (const Refusal& refusal : refusals) {
    kernel_ = {};
    kernel_.refusing = refusal.request;
    kernel_.with = -EACCES;
    const Status status = reach();
    EXPECT_STREQ(status.step, refusal.step);
    EXPECT_TRUE(status.is_errno(EACCES)) << describe(status);
    EXPECT_TRUE(has_heard(refusal.step, {os_failure(EACCES, refusal.step)})) << refusal.step;
    EXPECT_EQ(cuda_things(), 0) << refusal.step;
    EXPECT_TRUE(kernel_.addresses.empty() && kernel_.ranges.empty() && kernel_.objects.empty()) << refusal.step;
    export_.reset();
    EXPECT_TRUE(kernel_.has_nothing()) << refusal.step;
    EXPECT_EQ(count_descriptors(), descriptors_) << refusal.step;
  }
}

TEST_F(NvidiaExportTest, AnRmStatusIsKeptBesideTheNearestErrno) {
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
      export_.reset();
      EXPECT_TRUE(kernel_.has_nothing()) << request;
    }
  }
  EXPECT_EQ(
      describe(NvidiaStep{os_failure(EOPNOTSUPP, "make peer pages"), 0x56}),
      "could not make peer pages: Operation not supported; check that the kernel, its drivers and the file system "
      "can do this (NV_ERR_NOT_SUPPORTED, 0x56)");
  EXPECT_EQ(describe(NvidiaStep{os_failure(ENODEV, "a"), 0x7f}), "could not a: No such device (NVIDIA status 0x7f)");
}

TEST_F(NvidiaExportTest, WithoutAddressesNoPagesAreMade) {
  kernel_.refusing = "reserve";
  EXPECT_TRUE(reach().is_errno(ENOMEM));
  EXPECT_TRUE(has_heard("reserve addresses for peer pages", {os_failure(ENOMEM, "")}));
  EXPECT_EQ(kernel_.request("pages").number, 0u);
  EXPECT_TRUE(kernel_.objects.empty());
}

TEST_F(NvidiaExportTest, ARefusingCudaDriverIsNamedByItsStepAndLeavesNothingBehind) {
  const CudaApi whole = api_;
  const auto expect_refusal = [&](const char* step) {
    const Status status = reach();
    EXPECT_STREQ(status.step, step);
    EXPECT_EQ(status.domain, Domain::driver) << describe(status);
    EXPECT_EQ(status.code, 2);
    EXPECT_EQ(cuda_things(), 0) << step;
    EXPECT_TRUE(kernel_.objects.empty() && kernel_.addresses.empty());
    api_ = whole;
    export_.reset();
    EXPECT_EQ(count_descriptors(), descriptors_);
  };
  api_.cuDeviceGet = [](auto...) { return 2; };
  expect_refusal("find the GPU");
  api_.cuMemGetAllocationGranularity = [](auto...) { return 2; };
  expect_refusal("allocate exportable GPU memory");
  api_.cuMemCreate = [](auto...) { return 2; };
  expect_refusal("allocate exportable GPU memory");
  api_.cuMemAddressReserve = [](auto...) { return 2; };
  expect_refusal("reserve GPU addresses");
  api_.cuMemMap = [](auto...) { return 2; };
  expect_refusal("map GPU memory on the GPU");
  api_.cuMemSetAccess = [](auto...) { return 2; };
  expect_refusal("allow the GPU to use its memory");
  api_.cuMemExportToShareableHandle = [](auto...) { return 2; };
  expect_refusal("export GPU memory to a descriptor");
}

TEST_F(NvidiaExportTest, RdmaCapableMemoryIsAskedForWhereThereIsSuch) {
  static CUmemAllocationProp seen;
  api_.cuMemCreate = [](auto*, std::size_t, const CUmemAllocationProp* wanted, auto) { return seen = *wanted, 2; };
  for (const int is_capable : {1, 0}) {
    static int answer;
    answer = is_capable;
    api_.cuDeviceGetAttribute = [](int* value, int attribute, CUdevice) {
      *value = answer;
      return attribute == 110 ? 0 : 1;
    };
    EXPECT_FALSE(reach().ok());
    EXPECT_EQ(seen.allocFlags.gpuDirectRDMACapable, is_capable);
    EXPECT_EQ(seen.type, 1);
    EXPECT_EQ(seen.requestedHandleTypes, 1);
    EXPECT_EQ(seen.location.type, 1);
    EXPECT_EQ(seen.location.id, 1);
    export_.reset();
  }
}

TEST_F(NvidiaExportTest, OnceNoPagesCouldBeMadeTheDriverIsNotAskedAgain) {
  kernel_.refusing = "pages";
  kernel_.with = 0x1f;
  ASSERT_FALSE(reach().ok());
  kernel_.refusing.clear();
  kernel_.journal.clear();

  const Status again = export_->allocate(kMiB).status();

  EXPECT_TRUE(again.is_errno(EINVAL));
  EXPECT_STREQ(again.step, "make peer pages of GPU memory");
  EXPECT_TRUE(kernel_.journal.empty());
}

TEST_F(NvidiaExportTest, OtherFailuresMayBeOverNextTime) {
  kernel_.refusing = "import";
  kernel_.with = 0x51;
  ASSERT_FALSE(reach().ok());
  kernel_.refusing.clear();
  EXPECT_TRUE(export_->allocate(kMiB).ok());
}

TEST_F(NvidiaExportTest, APieceIsFoundByAnyOfItsAddressesAndByNoOther) {
  ASSERT_TRUE(reach().ok());
  const auto second = export_->allocate(5 * kMiB);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->size, 6 * kMiB);
  const auto* const start = static_cast<const std::byte*>(second->device_address);
  EXPECT_EQ(export_->find(start).mapped, second->mapped);
  EXPECT_EQ(export_->find(start + 6 * kMiB - 1).mapped, second->mapped);
  EXPECT_NE(export_->find(start + 6 * kMiB).mapped, second->mapped);
  EXPECT_EQ(export_->find(piece_.device_address).mapped, piece_.mapped);
  EXPECT_EQ(export_->find(nullptr).mapped, nullptr);
  EXPECT_EQ(export_->find(&kernel_).mapped, nullptr);
}

TEST_F(NvidiaExportTest, WhatIsLeftOfThePiecesGoesWithTheirOwner) {
  ASSERT_TRUE(reach().ok());
  ASSERT_TRUE(export_->allocate(5 * kMiB).ok());
  ASSERT_EQ(std::count(kernel_.journal.begin(), kernel_.journal.end(), "device"), 1);
  ASSERT_EQ(cuda_things(), 6);

  export_.reset();

  EXPECT_TRUE(kernel_.has_nothing());
  EXPECT_EQ(cuda_things(), 0);
}

TEST_F(NvidiaExportTest, WhatStreamsWereGivenToDoInAPieceIsDoneBeforeItGoes) {
  const auto out_of_memory = [](CUdeviceptr*, std::size_t) { return CUresult{2}; };
  for (const bool is_full : {false, true}) {
    if (is_full) api_.cuMemAlloc = out_of_memory;
    ASSERT_TRUE(reach().ok());
    CUstream stream = nullptr;
    ASSERT_EQ(api_.cuCtxPushCurrent(context_.handle), CUDA_SUCCESS);
    ASSERT_EQ(api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    const char byte = 7;
    const auto there = reinterpret_cast<CUdeviceptr>(piece_.device_address);
    ASSERT_EQ(api_.cuMemcpyHtoDAsync(there, &byte, 1, stream), CUDA_SUCCESS);

    if (!is_full) export_->release(piece_);
    export_.reset();

    EXPECT_EQ(api_.cuStreamQuery(stream), CUDA_SUCCESS);
    EXPECT_EQ(api_.cuStreamDestroy(stream), CUDA_SUCCESS);
    CUcontext popped = nullptr;
    ASSERT_EQ(api_.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  }
}

TEST_F(NvidiaExportTest, SizesThatCannotBeAreRefusedUnasked) {
  ASSERT_TRUE(open().ok());
  kernel_.journal.clear();
  EXPECT_TRUE(export_->allocate(0).status().is(Code::invalid_argument));
  EXPECT_TRUE(export_->allocate(SIZE_MAX - 1).status().is(Code::invalid_argument));
  EXPECT_TRUE(kernel_.journal.empty());
}

TEST_F(NvidiaExportTest, ExportsThatAreNotOnePieceOfAWholeGpuAreRefused) {
  const auto expect_refusal = [&] {
    const Status status = reach();
    EXPECT_TRUE(status.is(Code::unsupported));
    EXPECT_STREQ(status.step, "find one piece of GPU memory in the export");
    EXPECT_TRUE(kernel_.objects.empty());
    export_.reset();
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

TEST_F(NvidiaExportTest, APieceOfAnotherGpuIsRefused) {
  ASSERT_TRUE(reach().ok());
  kernel_.info.device_instance = 4;
  EXPECT_TRUE(export_->allocate(kMiB).status().is(Code::no_device));
}

TEST_F(NvidiaExportTest, AnExportWithRoomForManyIsImportedAsFarAsARequestReaches) {
  kernel_.info.objects_max = 512;
  ASSERT_TRUE(reach().ok());
  EXPECT_EQ(word(kernel_.request("import").pointed, 648, 2), 128u);
}

TEST_F(NvidiaExportTest, TheAnswerToGivingPagesBackIsUnderstoodInBothLayouts) {
  for (const bool is_590 : {false, true}) {
    for (const RmStatus status : {RmStatus{0}, NV_ERR_INVALID_ADDRESS}) {
      kernel_ = {};
      kernel_.is_590 = is_590;
      ASSERT_TRUE(reach().ok());
      kernel_.refusing = "free pages";
      kernel_.with = status;
      heard_.clear();
      export_->release(piece_);
      EXPECT_EQ(heard_.front().first, "give back peer pages of GPU memory");
      EXPECT_EQ(heard_.front().second.rm_status, status) << is_590;
      export_.reset();
    }
  }
}

TEST_F(NvidiaExportTest, ADriverWithLongerStructuresOverwritesNothingAndIsNotBelieved) {
  kernel_.has_grown = true;
  EXPECT_TRUE(reach().is_errno(EPROTO));
  EXPECT_EQ(heard_.back().second.rm_status, kUnanswered);
  EXPECT_STREQ(heard_.back().first.c_str(), "start NVIDIA's unified memory");
}

TEST_F(NvidiaExportTest, UnknownDriversAreNotAsked) {
  for (const NvidiaVersions& versions :
       {NvidiaVersions{{0, 0}, {6, 8}}, {{550, 163}, {6, 8}}, {{565, 56}, {6, 8}}, {{596, 1}, {6, 8}}}) {
    EXPECT_TRUE(open(versions).is(Code::unsupported)) << versions.driver.major;
    EXPECT_TRUE(kernel_.journal.empty());
  }
  for (const NvidiaVersions& versions :
       {NvidiaVersions{{565, 57}, {6, 8}}, {{580, 65}, {6, 14}}, {{595, 44}, {7, 3}}}) {
    ASSERT_TRUE(open(versions).ok()) << versions.driver.major;
    EXPECT_TRUE(export_->allocate(kMiB).ok()) << versions.driver.major;
    export_.reset();
  }
}

TEST_F(NvidiaExportTest, ADriverThatWouldKeepTheMemoryOnThisKernelIsShownNone) {
  for (const RmStatus status : {NV_OK, NV_ERR_NOT_SUPPORTED}) {
    for (const NvidiaVersions& versions :
         {NvidiaVersions{{580, 159}, {6, 18}}, {{590, 48}, {7, 0}}, {{565, 57}, {6, 15}}}) {
      kernel_ = {};
      kernel_.refusing = "pages";
      kernel_.with = status;
      ASSERT_TRUE(open(versions).ok());
      const Status refused = export_->allocate(kMiB).status();
      EXPECT_EQ(word(kernel_.request("pages").bytes, 48, 4), 0u);
      EXPECT_EQ(refused.is(Code::unsupported), status == NV_OK) << describe(refused);
      EXPECT_EQ(refused.is_errno(EOPNOTSUPP), status != NV_OK) << describe(refused);
      EXPECT_EQ(cuda_things(), 0);
      export_.reset();
    }
  }
}

TEST_F(NvidiaExportTest, ACudaDriverWithoutTheCallsIsRefusedFirst) {
  api_.cuMemExportToShareableHandle = nullptr;
  const Status status = open();
  EXPECT_TRUE(status.is(Code::unsupported));
  EXPECT_STREQ(status.step, "find the CUDA driver's calls for exportable memory");
  EXPECT_TRUE(kernel_.journal.empty());
}

TEST_F(NvidiaExportTest, AForkedChildUsesNothingAndUndoesNothing) {
  ASSERT_TRUE(reach().ok());
  kernel_.journal.clear();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = export_->allocate(kMiB).status().is(Code::closed);
    export_->release(piece_);
    const bool found = export_->find(piece_.device_address).mapped != nullptr;
    export_.reset();
    ::_exit(refused && !found && kernel_.history() == "close uvm, close rm" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(export_->find(piece_.device_address).mapped, piece_.mapped) << "the parent's";
}

}  // namespace
}  // namespace penstock::core
