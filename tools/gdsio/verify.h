// SPDX-License-Identifier: Apache-2.0

// gdsio_verify: reads a file with cuFile and with the kernel alone, and compares every byte.
#pragma once

namespace penstock::tools {

// The exit code. argv[0] is the command's name; failures are thrown.
int gdsio_verify_main(int argc, char** argv);

}  // namespace penstock::tools
