// SPDX-License-Identifier: Apache-2.0

// Asks CUDA's driver about itself, and about the memory of one GPU. The driver is loaded as the library loads it, so
// that a tool builds and starts without CUDA.
#pragma once

#include <string>

namespace penstock::facts {

// The driver's CUDA version, 12080 for CUDA 12.8; 0 if there is no driver.
int cuda_version();

// Exports memory from cudaMalloc as a dma-buf, on the GPU with these 16 bytes as its UUID. Returns "" if that works,
// else the driver's answer. The calling thread's context stays as it was.
std::string dma_buf_refusal(const unsigned char* uuid);

}  // namespace penstock::facts
