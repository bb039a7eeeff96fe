// SPDX-License-Identifier: Apache-2.0

// Knows the GPUs whose memory NVIDIA's driver pins for other modules, such as nvidia-fs. A CUDA device asks it for its
// facts, which the paths nvfs and vendor go by, and so does facts/: the library and the tools judge a GPU by one rule.
#pragma once

#include <string_view>

namespace penstock::core {

// NVIDIA supports GPUDirect on data centre and professional GPUs: nvidia_p2p_get_pages() answers EINVAL for a GeForce
// (NVIDIA/gds-nvidia-fs#14). `model` is the name that the driver gives the GPU: "NVIDIA H100".
inline bool is_pinned_for_modules(std::string_view model) { return model.find("GeForce") == std::string_view::npos; }

}  // namespace penstock::core
