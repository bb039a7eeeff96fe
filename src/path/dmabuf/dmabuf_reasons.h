// SPDX-License-Identifier: Apache-2.0

// The reasons why a drive does not reach device memory through dma-bufs of io_uring.
#pragma once

#include "core/reason.h"

namespace penstock::core {

namespace dmabuf_reason {
inline constexpr Reason kernel{kFirstDmabufReason + 0};
inline constexpr Reason not_built{kFirstDmabufReason + 1};
inline constexpr Reason off{kFirstDmabufReason + 2};
inline constexpr Reason not_exported{kFirstDmabufReason + 3};
inline constexpr Reason drive{kFirstDmabufReason + 4};
inline constexpr Reason file{kFirstDmabufReason + 5};
inline constexpr Reason untrusted{kFirstDmabufReason + 6};
inline constexpr Reason stuck{kFirstDmabufReason + 7};
inline constexpr Reason refused{kFirstDmabufReason + 8};
inline constexpr Reason reads_only{kFirstDmabufReason + 9};
inline constexpr Reason file_system{kFirstDmabufReason + 10};
inline constexpr Reason drive_node{kFirstDmabufReason + 11};
inline constexpr Reason no_lease{kFirstDmabufReason + 12};
inline constexpr Reason written{kFirstDmabufReason + 13};
inline constexpr Reason extents{kFirstDmabufReason + 14};
inline constexpr Reason write_only{kFirstDmabufReason + 15};
}  // namespace dmabuf_reason

ReasonRange dmabuf_reasons();

}  // namespace penstock::core
