// SPDX-License-Identifier: Apache-2.0

// The reasons why NVIDIA's library does not serve.
#pragma once

#include "core/reason.h"

namespace penstock::core {

namespace vendor_reason {
inline constexpr Reason library_missing{kFirstVendorReason + 0};
inline constexpr Reason is_ourselves{kFirstVendorReason + 1};
inline constexpr Reason incomplete{kFirstVendorReason + 2};
inline constexpr Reason nvidia_fs_missing{kFirstVendorReason + 3};
inline constexpr Reason refused{kFirstVendorReason + 4};
inline constexpr Reason not_direct{kFirstVendorReason + 5};
inline constexpr Reason off{kFirstVendorReason + 6};
inline constexpr Reason gpu{kFirstVendorReason + 7};
}  // namespace vendor_reason

ReasonRange vendor_reasons();

}  // namespace penstock::core
