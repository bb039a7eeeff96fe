// SPDX-License-Identifier: Apache-2.0

#include "cufile/errors.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace penstock::core {
namespace {

constexpr std::int32_t kCodesEnd = static_cast<std::int32_t>(Code::bad_stripe) + 1;

TEST(CufileErrorsTest, NoFailureLooksLikeASuccessAndOnlyWhatNoCallMeetsIsInternal) {
  const std::set<Code> met_by_no_call = {Code::canceled, Code::timed_out, Code::bad_stripe};
  EXPECT_EQ(cufile_error(success()).err, CU_FILE_SUCCESS);
  for (std::int32_t i = 1; i < kCodesEnd; ++i) {
    const auto code = static_cast<Code>(i);
    const CUfileError_t error = cufile_error(failure(code, "read"));
    EXPECT_GE(error.err, CU_FILE_DRIVER_NOT_INITIALIZED) << i;
    EXPECT_EQ(error.err == CU_FILE_INTERNAL_ERROR, met_by_no_call.count(code) == 1) << i;
    EXPECT_EQ(error.cu_err, CUDA_SUCCESS) << i;
    EXPECT_GT(cufile_errno(failure(code, "read")), 0) << i;
  }
}

// Programs compare with these numbers, which are those that NVIDIA's library answers.
TEST(CufileErrorsTest, SystemErrorsAreNumbersOfCufileForACallAndThemselvesForATransfer) {
  const std::pair<int, CUfileOpError> cases[] = {
      {EBADF, CU_FILE_INVALID_VALUE},     {EINVAL, CU_FILE_INVALID_VALUE},   {EACCES, CU_FILE_PERMISSION_DENIED},
      {EPERM, CU_FILE_PERMISSION_DENIED}, {EMFILE, CU_FILE_GETNEWFD_FAILED}, {ENFILE, CU_FILE_GETNEWFD_FAILED},
      {ENOMEM, CU_FILE_NOMEM_ERROR},      {ENOSPC, CU_FILE_INTERNAL_ERROR},
  };
  for (const auto& [number, expected] : cases) {
    EXPECT_EQ(cufile_error(os_failure(number, "open the file")).err, expected) << number;
    EXPECT_EQ(cufile_errno(os_failure(number, "read from the file")), number);
  }
}

TEST(CufileErrorsTest, ATransferTellsWhatTheKernelWouldByItsErrno) {
  EXPECT_EQ(cufile_errno(failure(Code::invalid_argument, "read")), EINVAL);
  EXPECT_EQ(cufile_errno(failure(Code::unaligned_write, "write")), EINVAL);
  EXPECT_EQ(cufile_errno(failure(Code::bad_pointer, "read")), EIO);
  EXPECT_EQ(cufile_errno(failure(Code::past_allocation, "read")), EIO);
  EXPECT_EQ(cufile_errno(failure(Code::descriptor_lost, "read")), EBADF);
  EXPECT_EQ(cufile_errno(failure(Code::not_registered, "read")), CU_FILE_HANDLE_NOT_REGISTERED);
}

}  // namespace
}  // namespace penstock::core
