// SPDX-License-Identifier: Apache-2.0

// Reasons why the module nvidia-fs does not serve when we call it ourselves.
#pragma once

#include "core/reason.h"

namespace penstock::core {

namespace nvfs_reason {
inline constexpr Reason missing{kFirstNvfsReason + 0};
inline constexpr Reason version{kFirstNvfsReason + 1};  // The detail is number_of() the version.
inline constexpr Reason stand_in{kFirstNvfsReason + 2};
inline constexpr Reason node{kFirstNvfsReason + 3};
inline constexpr Reason no_driver{kFirstNvfsReason + 4};
inline constexpr Reason memory{kFirstNvfsReason + 5};
inline constexpr Reason map_refused{kFirstNvfsReason + 6};
inline constexpr Reason refused{kFirstNvfsReason + 7};
inline constexpr Reason not_direct{kFirstNvfsReason + 8};
inline constexpr Reason not_counted{kFirstNvfsReason + 9};
inline constexpr Reason identity{kFirstNvfsReason + 10};
inline constexpr Reason simulated{kFirstNvfsReason + 11};
inline constexpr Reason off{kFirstNvfsReason + 12};
// The test of the interface (nvfs_interface.h) failed. The detail is the errno of an answer, or 0.
inline constexpr Reason argument_size{kFirstNvfsReason + 13};
inline constexpr Reason argument_layout{kFirstNvfsReason + 14};
inline constexpr Reason takes_offset{kFirstNvfsReason + 15};
inline constexpr Reason takes_size{kFirstNvfsReason + 16};
inline constexpr Reason takes_alignment{kFirstNvfsReason + 17};
inline constexpr Reason takes_inode{kFirstNvfsReason + 18};
inline constexpr Reason takes_buffered{kFirstNvfsReason + 19};
inline constexpr Reason moves_refused{kFirstNvfsReason + 20};
}  // namespace nvfs_reason

ReasonRange nvfs_reasons();

}  // namespace penstock::core
