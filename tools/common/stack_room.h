// SPDX-License-Identifier: Apache-2.0

// Room on the stack, whatever `ulimit -s` says.
#pragma once

namespace penstock::tools {

// For the calling thread, the first, and for those to come. Throws Failure where the limit may not be raised.
void make_stack_room();

}  // namespace penstock::tools
