// SPDX-License-Identifier: Apache-2.0

// The program whose precompiled header all test programs use; nobody runs it.
#include <cstdio>

int main() {
  char line[64];  // An array, so that there is a stack protector, which check_elf.py requires of every program.
  return std::snprintf(line, sizeof line, "%s", __FILE__) > 0 ? 0 : 1;
}
