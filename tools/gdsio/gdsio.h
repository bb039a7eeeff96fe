// SPDX-License-Identifier: Apache-2.0

// gdsio: NVIDIA's measuring tool by its own name, flags and result line, on Penstock's library.
#pragma once

namespace penstock::tools {

// The exit code. argv[0] is the command's name; failures are thrown.
int gdsio_main(int argc, char** argv);

}  // namespace penstock::tools
