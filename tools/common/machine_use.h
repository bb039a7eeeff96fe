// SPDX-License-Identifier: Apache-2.0

// What a measurement took from the machine, and what others took meanwhile, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::tools {

// What this process really had fetched from drives since it began, however it asked: more than it got where requests
// are cut from whole blocks, less where the page cache had some. Nothing where the kernel does not count it.
std::optional<std::uint64_t> bytes_read_from_drives();

// Seconds of CPU that programs of this machine, and of its neighbours under one hypervisor, have used since it started.
// Interrupts are left out, since they are mostly those of our own requests.
double busy_seconds();
unsigned processor_count();

}  // namespace penstock::tools
