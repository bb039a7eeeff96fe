// SPDX-License-Identifier: Apache-2.0

// Finds by which call memory was allocated, and offers memory that others allocated to storage.
#include "device/cuda/cuda_allocation.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "fakes/scripted_nvidia.h"

namespace penstock::core {
namespace {

using namespace cuda;

constexpr std::size_t kMiB = 1 << 20;

// Memory from a program's own allocator.
class CudaAllocationTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    ASSERT_TRUE(api_.load(PENSTOCK_FAKE_CUDA, &why_not)) << why_not;
    ASSERT_EQ(api_.cuInit(0), CUDA_SUCCESS);
    library_ = ::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_EQ(api_.cuDevicePrimaryCtxRetain(&context_.handle, 1), CUDA_SUCCESS);
    ASSERT_EQ(api_.identify(context_.handle, &context_.id), CUDA_SUCCESS);
    ASSERT_EQ(api_.cuCtxPushCurrent(context_.handle), CUDA_SUCCESS);
  }
  void TearDown() override {
    export_.reset();
    EXPECT_TRUE(kernel_.has_nothing());
    for (const CUdeviceptr memory : mapped_) {
      api_.cuMemUnmap(memory, 4 * kMiB);
      api_.cuMemAddressFree(memory, 4 * kMiB);
    }
    for (const CUmemGenericAllocationHandle handle : handles_) api_.cuMemRelease(handle);
    EXPECT_EQ(reinterpret_cast<int (*)()>(::dlsym(library_, "fake_cuda_virtual_things"))(), 0);
    CUcontext popped = nullptr;
    api_.cuCtxPopCurrent(&popped);
  }

  void* map(int handle_types, unsigned char rdma_capable) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = handle_types;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    properties.allocFlags.gpuDirectRDMACapable = rdma_capable;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr memory = 0;
    EXPECT_EQ(api_.cuMemCreate(&handle, 4 * kMiB, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(api_.cuMemAddressReserve(&memory, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(api_.cuMemMap(memory, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
    handles_.push_back(handle);
    mapped_.push_back(memory);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
  }
  void open_export() {
    NvidiaExport::Setup setup{
        .api = api_, .context = context_, .ordinal = 1, .versions = {{595, 45}, {6, 18}}, .kernel = kernel_};
    export_ = std::move(NvidiaExport::open(setup).value());
  }
  template <typename Call>
  Call call(const char* name) {
    return reinterpret_cast<Call>(::dlsym(library_, name));
  }

  CudaApi api_ = {};
  CudaContext context_;
  void* library_ = nullptr;
  ScriptedKernel kernel_;
  std::unique_ptr<NvidiaExport> export_;
  std::vector<CUdeviceptr> mapped_;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

TEST_F(CudaAllocationTest, TheCallIsToldByWhatTheDriverSaysOfTheMemory) {
  CUdeviceptr plain = 0, managed = 0;
  ASSERT_EQ(api_.cuMemAlloc(&plain, kMiB), CUDA_SUCCESS);
  const auto allocate_managed = call<CUresult (*)(CUdeviceptr*, std::size_t, unsigned)>("cuMemAllocManaged");
  ASSERT_EQ(allocate_managed(&managed, kMiB, 1), CUDA_SUCCESS);
  const auto pointer = [](CUdeviceptr memory) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory)); };
  EXPECT_EQ(find_allocation_call(api_, pointer(plain)), Allocation::plain);
  EXPECT_EQ(find_allocation_call(api_, pointer(managed)), Allocation::managed);
  EXPECT_EQ(find_allocation_call(api_, map(0, 0)), Allocation::closed);
  EXPECT_EQ(find_allocation_call(api_, map(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)), Allocation::not_rdma_capable);
  EXPECT_EQ(find_allocation_call(api_, map(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)), Allocation::exportable);
  EXPECT_EQ(find_allocation_call(api_, this), Allocation::unknown);
  api_.cuMemFree(plain);
  api_.cuMemFree(managed);
}

TEST_F(CudaAllocationTest, MemoryOfAPoolIsToldByItsPool) {
  CUstream stream = nullptr;
  ASSERT_EQ(api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  const auto allocate = call<CUresult (*)(CUdeviceptr*, std::size_t, CUstream)>("cuMemAllocAsync");
  ASSERT_EQ(allocate(&memory, kMiB, stream), CUDA_SUCCESS);
  EXPECT_EQ(find_allocation_call(api_, reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory))), Allocation::pool);
  api_.cuMemFree(memory);
  api_.cuStreamDestroy(stream);
}

TEST_F(CudaAllocationTest, ADriverThatDoesNotTellTheCurrentGpuIsNotAsked) {
  EXPECT_EQ(*current_ordinal(api_, "test"), 1);
  CudaApi lacking = api_;
  lacking.cuCtxGetDevice = nullptr;
  EXPECT_TRUE(current_ordinal(lacking, "test").status().is(Code::no_device));
}

TEST_F(CudaAllocationTest, ADriverThatKnowsNoHandlesTellsNothingOfThem) {
  void* const memory = map(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1);
  CudaApi old = api_;
  old.cuMemRetainAllocationHandle = nullptr;
  EXPECT_EQ(find_allocation_call(old, memory), Allocation::unknown);
}

TEST_F(CudaAllocationTest, ExportableMemoryOfOthersIsOfferedAndLeftAsItWas) {
  auto* const memory = static_cast<std::byte*>(map(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
  open_export();
  const auto piece = export_->adopt(memory + kMiB, kMiB);
  ASSERT_TRUE(piece.ok()) << describe(piece.status());
  EXPECT_EQ(piece->device_address, memory) << "the whole mapping";
  EXPECT_EQ(piece->size, 4 * kMiB);
  EXPECT_NE(piece->mapped, nullptr);
  EXPECT_EQ(export_->find(memory + 3 * kMiB).mapped, piece->mapped);
  const auto again = export_->adopt(memory, 4 * kMiB);
  EXPECT_EQ(again->mapped, piece->mapped) << "shared";
  export_->release(*piece);
  export_->drop(memory);
  EXPECT_NE(export_->find(memory).mapped, nullptr) << "it was adopted twice, and is nobody's to release";
  export_->drop(memory + kMiB);
  EXPECT_EQ(export_->find(memory).mapped, nullptr);
  EXPECT_TRUE(kernel_.objects.empty());
  EXPECT_EQ(find_allocation_call(api_, memory), Allocation::exportable) << "still its owner's";
}

TEST_F(CudaAllocationTest, OnlyAWholeExportableAllocationIsOffered) {
  auto* const closed = static_cast<std::byte*>(map(0, 1));
  auto* const open = static_cast<std::byte*>(map(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
  CUdeviceptr plain = 0;
  ASSERT_EQ(api_.cuMemAlloc(&plain, kMiB), CUDA_SUCCESS);
  open_export();
  EXPECT_TRUE(export_->adopt(closed, kMiB).status().is(Code::unsupported));
  EXPECT_TRUE(export_->adopt(open + kMiB, 4 * kMiB).status().is(Code::unsupported)) << "beyond its end";
  EXPECT_FALSE(export_->adopt(reinterpret_cast<void*>(static_cast<std::uintptr_t>(plain)), kMiB).ok());
  kernel_.refusing = "import";
  kernel_.with = 0x51;
  EXPECT_FALSE(export_->adopt(open, kMiB).ok());
  EXPECT_EQ(export_->find(open).mapped, nullptr);
  api_.cuMemFree(plain);
}

}  // namespace
}  // namespace penstock::core
