/* Reads a file into GPU memory and prints the path that its bytes took.
 *
 *   read_to_gpu FILE
 *
 * On a machine without a GPU, host memory stands in for one, and the output says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <penstock/device_memory.h>
#include <penstock/penstock.h>
#include <stdio.h>
#include <unistd.h>

static int is_error(penstock_status status) {
  if (status.code == 0) return 0;
  char sentence[512]; /* The step that failed, the cause, the remedy. */
  penstock_status_message(status, sentence, sizeof sentence);
  fprintf(stderr, "read_to_gpu: %s\n", sentence);
  return 1;
}

/* The file's bytes are in `memory` afterwards; a kernel can use them as soon as this returns. */
static int read_file(penstock_file* file, void* memory, uint64_t size) {
  penstock_report report = {.struct_size = sizeof report};
  if (is_error(penstock_read(file, memory, size, 0, 0, &report))) return 1;
  printf("%llu bytes by path %s (%s)\n", (unsigned long long)report.bytes, penstock_path_name(report.path),
         penstock_reason_sentence(report.reason));
  return 0;
}

static int read_into_device(penstock_session* session, int fd) {
  penstock_file* file;
  if (is_error(penstock_file_register(session, fd, &file))) return 1;
  penstock_file_info info = {.struct_size = sizeof info};
  void* memory = NULL;
  int result = 1;
  if (!is_error(penstock_file_get(file, &info)) &&
      !is_error(penstock_device_alloc(session, 0, info.size > 0 ? info.size : 1, &memory))) {
    result = read_file(file, memory, info.size);
    penstock_device_free(session, 0, memory);
  }
  penstock_file_close(file);
  return result;
}

static int read_with(penstock_session* session, int fd) {
  penstock_session_info info = {.struct_size = sizeof info};
  if (is_error(penstock_session_get(session, &info))) return 1;
  printf("device memory is of kind: %s\n", info.device_kinds);
  return read_into_device(session, fd);
}

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    fprintf(stderr, "usage: read_to_gpu FILE\n");
    return 2;
  }
  const int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    perror(arguments[1]);
    return 1;
  }
  penstock_session* session = NULL;
  int result = 1;
  if (!is_error(penstock_session_open(NULL, &session))) {
    result = read_with(session, fd);
    penstock_session_close(session);
  }
  close(fd);
  return result;
}
