/* Reads a file through cuFile, as a program does that was written for NVIDIA's library.
 *
 *   cufile_read FILE
 *
 * Nothing in it is Penstock's: linked to either libcufile.so.0, it runs on the other. It reads into host memory, so
 * that it runs on every machine; a pointer that cudaMalloc returned takes the place of `memory` where there is a GPU.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <cufile.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBytes = 1 << 20 };

static int is_error(CUfileError_t error, const char* step) {
  if (error.err == CU_FILE_SUCCESS) return 0;
  fprintf(stderr, "cufile_read: %s: %s\n", step, cufileop_status_error(error.err));
  return 1;
}

/* An error is -1 with errno set, or a negative cuFile error; errno may hold a cuFile error, too (5001 and above).
 */
static const char* cause_of(ssize_t result) {
  const int code = result == -1 ? errno : (int)-result;
  return code > CUFILEOP_BASE_ERR ? cufileop_status_error((CUfileOpError)code) : strerror(code);
}

static int read_once(CUfileHandle_t file, void* memory) {
  const ssize_t bytes = cuFileRead(file, memory, kBytes, 0, 0);
  if (bytes < 0) {
    fprintf(stderr, "cufile_read: cuFileRead: %s\n", cause_of(bytes));
    return 1;
  }
  printf("%zd bytes by cuFileRead\n", bytes);
  return 0;
}

static int read_file(int fd) {
  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  CUfileHandle_t file;
  if (is_error(cuFileHandleRegister(&file, &description), "cuFileHandleRegister")) return 1;
  void* memory = malloc(kBytes);
  const int result = memory != NULL ? read_once(file, memory) : 1;
  free(memory);
  cuFileHandleDeregister(file);
  return result;
}

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    fprintf(stderr, "usage: cufile_read FILE\n");
    return 2;
  }
  const int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    perror(arguments[1]);
    return 1;
  }
  int result = 1;
  if (!is_error(cuFileDriverOpen(), "cuFileDriverOpen")) {
    result = read_file(fd);
    cuFileDriverClose();
  }
  close(fd);
  return result;
}
