// SPDX-License-Identifier: Apache-2.0

// A program that does nothing: headers are precompiled for it, and all tests use them (CMakeLists.txt).
int main() { return 0; }
