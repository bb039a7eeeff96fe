// SPDX-License-Identifier: Apache-2.0

// What CUDA's driver tells of itself and of one GPU's memory. Loaded as the library loads it, so that a tool builds and
// starts without CUDA.
#pragma once

#include <string>

namespace penstock::facts {

// 12080 for CUDA 12.8; 0 where there is no driver.
int cuda_version();

// Whether memory of the GPU with these 16 bytes as its UUID, as of cudaMalloc, can be exported as a dma-buf: "", or
// what the driver says. Leaves the calling thread's context as it was.
std::string dma_buf_refusal(const unsigned char* uuid);

}  // namespace penstock::facts
