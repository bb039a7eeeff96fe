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
  penstock_file file;
  if (is_error(penstock_file_register(session, fd, &file))) return 1;
  /* No memory is named, so the answer is about memory of device 0. */
  penstock_verdict verdicts[PENSTOCK_PATH_ROOM];
  penstock_status status;
  const int is_write = 0;
  const unsigned count = penstock_explain(session, file, NULL, 0, is_write, verdicts, PENSTOCK_PATH_ROOM, &status);
  if (is_error(status)) return 1;
  for (unsigned i = 0; i < count && i < PENSTOCK_PATH_ROOM; ++i) print(&verdicts[i]);
  return is_error(penstock_file_deregister(session, file));
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
