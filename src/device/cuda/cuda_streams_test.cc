// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_streams.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <utility>

namespace penstock::core {
namespace {

using namespace cuda;

CudaApi api;  // Homes keep it.
CUresult (*look)(CUcontext, unsigned long long* id) = nullptr;
CUcontext watched = nullptr;
unsigned questions = 0;  // The number of looks at that context.
CUcontext troubled = nullptr;
CUresult trouble = CUDA_SUCCESS;  // Told of that context when it is looked at.

CUresult identify(CUcontext context, unsigned long long* id) {
  if (context == watched) ++questions;
  return context == troubled ? trouble : look(context, id);
}

// Two contexts, of which the first has a home for its streams.
class CudaStreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    ASSERT_TRUE(api.load(PENSTOCK_FAKE_CUDA, &why_not)) << why_not;
    look = std::exchange(api.cuCtxGetId, identify);
    ASSERT_EQ(api.cuInit(0), CUDA_SUCCESS);
    void* const library = ::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    const auto create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, int)>(::dlsym(library, "cuCtxCreate_v2"));
    destroy_ = reinterpret_cast<CUresult (*)(CUcontext)>(::dlsym(library, "cuCtxDestroy_v2"));
    refuse_modules_ = reinterpret_cast<CUresult (*)(int)>(::dlsym(library, "fake_cuda_refuse_modules"));
    for (CUcontext& context : contexts_) {
      ASSERT_EQ(create(&context, 0, 0), CUDA_SUCCESS);
      ASSERT_EQ(api.cuCtxPopCurrent(&context), CUDA_SUCCESS);
    }
    ASSERT_TRUE(has_home(contexts_[0]));
  }
  void TearDown() override {
    refuse_modules_(0);
    troubled = nullptr;
    for (const CUcontext context : contexts_) EXPECT_EQ(destroy_(context), CUDA_SUCCESS);
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
    EXPECT_TRUE(has_home(contexts_[1]));
    troubled = nullptr;
    refuse_modules_(1);
    return has_home(contexts_[0]);
  }

  CUresult (*refuse_modules_)(int) = nullptr;
  CUresult (*destroy_)(CUcontext) = nullptr;
  CUcontext contexts_[2] = {};
};

// Another thread may be about to use it: the context is there, though every call of it fails.
TEST_F(CudaStreamsTest, TheHomeOfAContextThatIsLostWithItsGpuStays) { EXPECT_TRUE(is_kept(719)); }

TEST_F(CudaStreamsTest, TheHomeOfADestroyedContextGoes) { EXPECT_FALSE(is_kept(CUDA_ERROR_CONTEXT_IS_DESTROYED)); }

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
