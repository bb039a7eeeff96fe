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
    ASSERT_EQ(api_.identify(context_.handle, &context_.id), CUDA_SUCCESS);
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
