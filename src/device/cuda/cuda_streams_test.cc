// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_streams.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "device/cuda/cuda_signals.h"

namespace penstock::core {
namespace {

using namespace cuda;

CudaApi api;  // Homes keep it.
CUresult (*look)(CUcontext, unsigned long long* id) = nullptr;
CUcontext watched = nullptr;
unsigned questions = 0;  // The number of looks at that context.
CUcontext troubled = nullptr;
CUresult trouble = CUDA_SUCCESS;  // Told of that context when it is looked at.

CUresult (*ask)(unsigned, int*, void**, CUdeviceptr) = nullptr;
CUresult told_of_pointers = CUDA_SUCCESS;
CUresult (*lock)(void*, std::size_t, unsigned) = nullptr;
unsigned taken_for_locked = 0;  // So many pieces of memory that are to be registered next.

CUresult ask_of_pointer(unsigned count, int* attributes, void** values, CUdeviceptr pointer) {
  return told_of_pointers == CUDA_SUCCESS ? ask(count, attributes, values, pointer) : told_of_pointers;
}

CUresult (*unlock)(void*) = nullptr;
CUresult (*tell_address)(CUdeviceptr*, void*, unsigned) = nullptr;
CUresult told_of_address = CUDA_SUCCESS;
void* locked_last = nullptr;  // Null once it is unlocked.

CUresult lock_memory(void* memory, std::size_t size, unsigned flags) {
  locked_last = memory;
  if (taken_for_locked == 0) return lock(memory, size, flags);
  --taken_for_locked;
  return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult unlock_memory(void* memory) {
  if (memory == locked_last) locked_last = nullptr;
  return unlock(memory);
}

CUresult address_of_memory(CUdeviceptr* address, void* memory, unsigned flags) {
  return told_of_address == CUDA_SUCCESS ? tell_address(address, memory, flags) : told_of_address;
}

CUresult identify(CUcontext context, unsigned long long* id) {
  if (context == watched) ++questions;
  return context == troubled ? trouble : look(context, id);
}

// Two contexts, of which the first has a home for its streams.
class CudaStreamsTest : public testing::Test {
 protected:
  explicit CudaStreamsTest(const char* driver = PENSTOCK_FAKE_CUDA) : driver_(driver) {}
  void SetUp() override {
    std::string why_not;
    ASSERT_TRUE(api.load(driver_, &why_not)) << why_not;
    if (api.cuCtxGetId != nullptr) look = std::exchange(api.cuCtxGetId, identify);
    ask = std::exchange(api.cuPointerGetAttributes, ask_of_pointer);
    lock = std::exchange(api.cuMemHostRegister, lock_memory);
    unlock = std::exchange(api.cuMemHostUnregister, unlock_memory);
    tell_address = std::exchange(api.cuMemHostGetDevicePointer, address_of_memory);
    ASSERT_EQ(api.cuInit(0), CUDA_SUCCESS);
    void* const library = ::dlopen(driver_, RTLD_NOW | RTLD_LOCAL);
    const auto create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, int)>(::dlsym(library, "cuCtxCreate_v2"));
    destroy_ = reinterpret_cast<CUresult (*)(CUcontext)>(::dlsym(library, "cuCtxDestroy_v2"));
    refuse_modules_ = reinterpret_cast<CUresult (*)(int)>(::dlsym(library, "fake_cuda_refuse_modules"));
    for (CUcontext& context : contexts_) {
      ASSERT_EQ(create(&context, 0, 0), CUDA_SUCCESS);
      ASSERT_EQ(api.cuCtxPopCurrent(&context), CUDA_SUCCESS);
    }
    ASSERT_TRUE(has_home(contexts_[0]));
    finish(contexts_[0]);
  }
  void TearDown() override {
    refuse_modules_(0);
    troubled = nullptr;
    told_of_pointers = CUDA_SUCCESS;
    taken_for_locked = 0;
    told_of_address = CUDA_SUCCESS;
    for (const CUcontext context : contexts_) EXPECT_EQ(destroy_(context), CUDA_SUCCESS);
  }

  // The driver goes on with the work of a context that it only calls destroyed, in memory that goes with its home.
  static void finish(CUcontext context) {
    ASSERT_EQ(api.cuCtxPushCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(api.cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(api.cuCtxPopCurrent(&context), CUDA_SUCCESS);
  }
  static bool has_home(CUcontext context) {
    EXPECT_EQ(api.cuCtxPushCurrent(context), CUDA_SUCCESS);
    const bool found = find_cuda_stream_home(api, nullptr).ok();
    EXPECT_EQ(api.cuCtxPopCurrent(&context), CUDA_SUCCESS);
    return found;
  }
  // True if the first context keeps its home where the second one gets one while the first is in trouble.
  bool is_kept(CUresult told) {
    troubled = contexts_[0];
    trouble = told;
    return is_kept_beside_another();
  }
  bool is_kept_beside_another() {
    EXPECT_TRUE(has_home(contexts_[1]));
    troubled = nullptr;
    told_of_pointers = CUDA_SUCCESS;
    refuse_modules_(1);
    return has_home(contexts_[0]);
  }

  const char* const driver_;
  CUresult (*refuse_modules_)(int) = nullptr;
  CUresult (*destroy_)(CUcontext) = nullptr;
  CUcontext contexts_[2] = {};
};

// Another thread may be about to use it: the context is there, though every call of it fails.
TEST_F(CudaStreamsTest, TheHomeOfAContextThatIsLostWithItsGpuStays) { EXPECT_TRUE(is_kept(719)); }

TEST_F(CudaStreamsTest, TheHomeOfADestroyedContextGoes) { EXPECT_FALSE(is_kept(CUDA_ERROR_CONTEXT_IS_DESTROYED)); }

// Its contexts have no numbers, and are known by what the driver tells of their memory.
class OldCudaStreamsTest : public CudaStreamsTest {
 protected:
  OldCudaStreamsTest() : CudaStreamsTest(PENSTOCK_FAKE_CUDA_11) {}
};

TEST_F(OldCudaStreamsTest, TheHomeOfAContextWhoseLostGpuTellsNothingOfItsMemoryStays) {
  told_of_pointers = 719;
  EXPECT_TRUE(is_kept_beside_another());
}

TEST_F(OldCudaStreamsTest, TheHomeOfAContextThatIsDestroyedMeanwhileGoes) {
  told_of_pointers = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  EXPECT_FALSE(is_kept_beside_another());
}

TEST_F(CudaStreamsTest, MemoryWhoseAddressTheDriverDoesNotTellIsUnmappedUnregistered) {
  told_of_address = 2;
  locked_last = this;

  EXPECT_FALSE(has_home(contexts_[1]));

  EXPECT_EQ(locked_last, nullptr);
}

// Others had unmapped registered memory where it was mapped first.
TEST_F(CudaStreamsTest, MemoryThatTheDriverTakesForRegisteredIsMappedElsewhere) {
  taken_for_locked = 3;
  EXPECT_TRUE(has_home(contexts_[1]));
  EXPECT_EQ(taken_for_locked, 0u);

  taken_for_locked = 3;
  CudaSignals signals(api);
  ASSERT_EQ(api.cuCtxPushCurrent(contexts_[1]), CUDA_SUCCESS);
  EXPECT_TRUE(signals.open(nullptr));
  EXPECT_EQ(api.cuCtxPopCurrent(&contexts_[1]), CUDA_SUCCESS);
  EXPECT_EQ(taken_for_locked, 0u);
}

// Every free of pinned memory asks, and had asked twice.
TEST_F(CudaStreamsTest, WhetherAnyStreamIsBusyIsOneQuestionAboutEachContext) {
  watched = contexts_[0];
  questions = 0;
  EXPECT_FALSE(is_any_cuda_stream_busy(api));
  EXPECT_EQ(questions, 1u);
}

// A block of the home is taken, as by a request. A lost context gives nothing back, and so nobody waits for it.
TEST_F(CudaStreamsTest, StreamsOfAContextThatIsLostOrGoneAreNotBusy) {
  EXPECT_EQ(api.cuCtxPushCurrent(contexts_[0]), CUDA_SUCCESS);
  StreamHome& home = *find_cuda_stream_home(api, nullptr).value();
  CUcontext popped = nullptr;
  EXPECT_EQ(api.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  StreamBlock& block = *home.memory().take(0, UINT64_MAX).value();
  EXPECT_TRUE(is_any_cuda_stream_busy(api));
  troubled = contexts_[0];
  for (const CUresult told : {719, CUDA_ERROR_CONTEXT_IS_DESTROYED}) {
    trouble = told;
    EXPECT_FALSE(is_any_cuda_stream_busy(api)) << told;
  }
  troubled = nullptr;
  home.memory().give_back(block);
  EXPECT_FALSE(is_any_cuda_stream_busy(api));
}

}  // namespace
}  // namespace penstock::core
