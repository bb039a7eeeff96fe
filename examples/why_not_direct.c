/* Prints every path's verdict on reading a file into GPU memory: whether it can serve, why not, and what to do.
 *
 *   why_not_direct FILE
 *
 * Nothing is moved. The paths are printed best first; the first usable one would serve the file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <penstock/penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int is_error(penstock_status status) {
  if (status.code == 0) return 0;
  char sentence[512]; /* The step that failed, the cause, the remedy. */
  penstock_status_message(status, sentence, sizeof sentence);
  fprintf(stderr, "why_not_direct: %s\n", sentence);
  return 1;
}

static void print(const penstock_verdict* verdict) {
  printf("%-10s %-8s %s\n", penstock_path_name(verdict->path), verdict->usable ? "usable" : "refused",
         penstock_reason_sentence(verdict->reason));
  const char* remedy = penstock_reason_remedy(verdict->reason);
  if (remedy[0] != '\0') printf("%20sremedy: %s\n", "", remedy);
}

static int explain(penstock_session* session, int fd) {
  penstock_request request = {.struct_size = sizeof request, .op = PENSTOCK_READ};
  if (is_error(penstock_file_register(session, fd, &request.file))) return 1;
  /* No memory is named, so the answer is about memory of device 0. In an array the first struct_size counts for all. */
  uint32_t count = penstock_path_count();
  penstock_verdict* verdicts = calloc(count, sizeof *verdicts);
  if (verdicts != NULL) verdicts[0].struct_size = sizeof verdicts[0];
  const int result = is_error(penstock_explain(&request, verdicts, count, &count));
  for (uint32_t i = 0; i < count; ++i) print(&verdicts[i]);
  free(verdicts);
  penstock_file_close(request.file);
  return result;
}

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    fprintf(stderr, "usage: why_not_direct FILE\n");
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
    result = explain(session, fd);
    penstock_session_close(session);
  }
  close(fd);
  return result;
}
