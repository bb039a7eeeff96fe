// SPDX-License-Identifier: Apache-2.0

/* The installed cufile.h compiles as C without CUDA's headers, and nothing is open before it is opened. */
#include <cufile.h>
#include <stdio.h>

int main(void) {
  const long count = cuFileUseCount();
  printf("cuFile use count %ld: %s\n", count, cufileop_status_error(CU_FILE_SUCCESS));
  return count == 0 ? 0 : 1;
}
