// SPDX-License-Identifier: Apache-2.0

// CUDA's driver by its own account, and one GPU's memory. Loaded as the library loads it, so that a tool builds and
// starts without CUDA.
#pragma once

#include <string>

namespace penstock::facts {

// 12080 for CUDA 12.8; 0 where there is no driver.
int cuda_version();

// Exports memory from cudaMalloc as a dma-buf, on the GPU with these 16 bytes as its UUID: "" if that works, else the
// driver's answer. Leaves the calling thread's context as it was.
std::string dma_buf_refusal(const unsigned char* uuid);

}  // namespace penstock::facts
