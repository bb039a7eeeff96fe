// SPDX-License-Identifier: Apache-2.0

// glibc's own names of its functions, for programs that take over the names which others call them by.
#pragma once

#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);
}
