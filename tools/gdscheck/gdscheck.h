// SPDX-License-Identifier: Apache-2.0

// gdscheck: what NVIDIA's tool of that name tells, in the layout that other programs read, of Penstock's library.
#pragma once

namespace penstock::tools {

// The exit code. argv[0] is the command's name; failures are thrown.
int gdscheck_main(int argc, char** argv);

}  // namespace penstock::tools
