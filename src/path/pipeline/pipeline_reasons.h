// SPDX-License-Identifier: Apache-2.0

// The reasons why a direct path does not serve, for all paths that use self_test.h and fallback_channel.h.
#pragma once

#include "core/reason.h"

namespace penstock::core {

namespace pipeline_reason {
inline constexpr Reason self_test_refused{kFirstPipelineReason + 0};
inline constexpr Reason self_test_wrong{kFirstPipelineReason + 1};
inline constexpr Reason self_test_copied{kFirstPipelineReason + 2};
inline constexpr Reason self_test_no_room{kFirstPipelineReason + 3};
inline constexpr Reason no_scratch{kFirstPipelineReason + 4};
inline constexpr Reason refused_late{kFirstPipelineReason + 5};
inline constexpr Reason small_blocks{kFirstPipelineReason + 6};
inline constexpr Reason nvidia_fs_task_switch{kFirstPipelineReason + 7};
}  // namespace pipeline_reason

ReasonRange pipeline_reasons();

}  // namespace penstock::core
