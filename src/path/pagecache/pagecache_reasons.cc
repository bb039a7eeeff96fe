// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

constexpr ReasonText kTexts[] = {
    {"extent_not_registered",
     "these bytes are not registered with the GPU: they are not in the page cache, were not read often enough to "
     "register them, or are so few that the CPU is quicker",
     "set PENSTOCK_POLICY=cpu to register sooner; PENSTOCK_REGISTRATION_CACHE_MIB limits how much is registered"},
    {"pages_replaced", "pages of the file left the page cache, or were replaced there, during the transfer", ""},
    {"no_page_registration",
     "the GPU's driver cannot register a file's pages, or the kernel does not show the process its own pages",
     "use a driver that registers read-only memory, and allow the process to read /proc/self/pagemap"},
    {"file_system_pages",
     "pages of this file system may change unnoticed while they are mapped, or the file is no regular file",
     "keep the file on ext4, XFS, Btrfs, F2FS or tmpfs; in a container, on a volume"},
    {"opened_direct", "the descriptor has O_DIRECT, so the page cache is not used", "open the file without O_DIRECT"},
    {"registration_cache_off", "the configuration switches the registration cache off, or wants direct I/O always",
     "set PENSTOCK_REGISTRATION_CACHE_MIB above 0, and unset PENSTOCK_DIRECT_IO=always"},
    {"reads_only",
     "the page-cache path writes only to files in memory (tmpfs, hugetlbfs), within their size, and by descriptors "
     "that may read, too",
     "give the file its size first (ftruncate), and open it for reading and writing"},
    {"read_once", "the program said that it reads the file once, so registering its pages does not pay",
     "leave that out (once=True, PENSTOCK_ADVICE_READ_ONCE) for a file that is read again"},
};

constexpr ReasonText kResidentTexts[] = {
    {"resident_no_lease",
     "the kernel gives this process no lease on the file, without which its pages may change unnoticed",
     "run as the file's owner, or with CAP_LEASE"},
    {"resident_written", "somebody has the file open for writing: its pages may change",
     "close it, also in this program, and open it for reading alone"},
    {"resident_lease_ended", "somebody has opened the file for writing since, so that kernels left its pages",
     "open it for the GPU again once nobody writes to it"},
    {"resident_not_wanted", "the program wants nothing of the file registered with the GPU", ""},
};

}  // namespace

ReasonRange pagecache_reasons() { return {kFirstPagecacheReason, kTexts}; }
ReasonRange resident_reasons() { return {kFirstResidentReason, kResidentTexts}; }

}  // namespace penstock::core
