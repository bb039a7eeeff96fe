// SPDX-License-Identifier: Apache-2.0

// Reasons why the page-cache path refuses a request, or bounced it.
#pragma once

#include "core/reason.h"

namespace penstock::core {

namespace pagecache_reason {
inline constexpr Reason extent_not_registered{kFirstPagecacheReason + 0};
inline constexpr Reason pages_replaced{kFirstPagecacheReason + 1};
inline constexpr Reason no_page_registration{kFirstPagecacheReason + 2};
inline constexpr Reason file_system_pages{kFirstPagecacheReason + 3};
inline constexpr Reason opened_direct{kFirstPagecacheReason + 4};
inline constexpr Reason registration_cache_off{kFirstPagecacheReason + 5};
inline constexpr Reason reads_only{kFirstPagecacheReason + 6};
inline constexpr Reason read_once{kFirstPagecacheReason + 7};
}  // namespace pagecache_reason

// Why kernels of the program's do not read registered pages by themselves.
namespace resident_reason {
inline constexpr Reason no_lease{kFirstResidentReason + 0};
inline constexpr Reason written{kFirstResidentReason + 1};
inline constexpr Reason lease_ended{kFirstResidentReason + 2};
inline constexpr Reason not_wanted{kFirstResidentReason + 3};
}  // namespace resident_reason

ReasonRange pagecache_reasons();
ReasonRange resident_reasons();

}  // namespace penstock::core
