/* A program of the C API, as somebody may have compiled it with an older header than the library's, or with a newer one
 * (headers_test.py): every structure crosses the boundary once, in both directions where it has two.
 *
 *   client FILE
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <penstock/device_memory.h>
#include <penstock/penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBytes = 100000 };

static void check(penstock_status status, const char* what) {
  if (status.code == 0) return;
  char text[512];
  penstock_status_message(status, text, sizeof text);
  fprintf(stderr, "client: %s: %s\n", what, text);
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "client: expected: %s\n", what);
  exit(1);
}

static penstock_session* open_session(void) {
  penstock_config* config = NULL;
  check(penstock_config_create(&config), "create the configuration");
  check(penstock_config_set(config, "device", "host"), "set the device");
  penstock_session* session = NULL;
  check(penstock_session_open(config, &session), "open the session");
  penstock_config_close(config);
  return session;
}

static void look_around(penstock_session* session) {
  penstock_session_info info = {.struct_size = sizeof info};
  check(penstock_session_get(session, &info), "look at the session");
  expect(strcmp(info.device_kinds, "host") == 0, "devices of kind host");
  penstock_device_info device = {.struct_size = sizeof device};
  check(penstock_device_get(session, 0, &device), "look at the device");
  expect(device.stand_in == 1, "a stand-in");
  penstock_setting setting = {.struct_size = sizeof setting};
  check(penstock_setting_get(0, &setting), "look at a setting");
  expect(setting.name[0] != '\0', "a setting with a name");
  penstock_verdict verdict = {.struct_size = sizeof verdict};
  check(penstock_path_outlook(session, PENSTOCK_PATH_BOUNCE, &verdict), "look at the path");
  expect(verdict.usable == 1, "the bounce path usable");
}

static void dry_run(penstock_file* file) {
  penstock_request request = {.struct_size = sizeof request, .op = PENSTOCK_READ, .file = file, .size = kBytes};
  uint32_t count = penstock_path_count();
  penstock_verdict* const verdicts = calloc(count, sizeof *verdicts);
  expect(verdicts != NULL, "memory for the verdicts");
  verdicts[0].struct_size = sizeof verdicts[0];
  check(penstock_explain(&request, verdicts, count, &count), "explain");
  uint32_t bounce = 0;  // Later libraries may have more paths, before and after it.
  while (bounce < count && verdicts[bounce].path != PENSTOCK_PATH_BOUNCE) ++bounce;
  expect(count >= 5 && bounce < count && verdicts[bounce].usable == 1, "verdicts, of bounce that it is usable");
  free(verdicts);
  penstock_choice choice = {.struct_size = sizeof choice};
  check(penstock_choose(&request, &choice), "choose");
  expect(choice.path == PENSTOCK_PATH_BOUNCE && choice.threads >= 1, "the bounce path chosen");
}

static void move(penstock_file* file, char* memory) {
  penstock_file_info info = {.struct_size = sizeof info};
  check(penstock_file_get(file, &info), "look at the file");
  penstock_report report = {.struct_size = sizeof report};
  check(penstock_write(file, memory, kBytes, 0, 0, &report), "write");
  expect(report.bytes == kBytes && penstock_report_bytes(&report, report.path) == kBytes,
         "all bytes written by one path");
  check(penstock_read(file, memory, kBytes, 10, 0, &report), "read");
  expect(report.bytes == kBytes - 10, "a read up to the file's end");
}

static void move_by_queue(penstock_session* session, penstock_file* file, char* memory) {
  penstock_queue_options options = {
      .struct_size = sizeof options, .mode = PENSTOCK_QUEUE_POLLED, .depth = 4, .request_bytes_max = 4096};
  penstock_queue* queue = NULL;
  check(penstock_queue_open(session, &options, &queue), "open the queue");
  penstock_request requests[4];
  memset(requests, 0, sizeof requests);
  requests[0].struct_size = sizeof requests[0];
  for (uint32_t i = 0; i < 4; ++i) {
    requests[i].file = file;
    requests[i].base = memory + 4096 * i;
    requests[i].size = 1000 + i;
    requests[i].cookie = i;
  }
  uint32_t submitted = 0, count = 0;
  check(penstock_queue_submit(queue, requests, 4, &submitted), "submit");
  penstock_completion done[4];
  memset(done, 0, sizeof done);
  done[0].struct_size = sizeof done[0];
  check(penstock_queue_reap(queue, done, 4, 4, -1, &count), "reap");
  expect(submitted == 4 && count == 4, "four completions");
  for (uint32_t i = 0; i < 4; ++i) {
    check(done[i].status, "a queued read");
    expect(done[i].report.bytes == 1000 + done[i].cookie, "each as many bytes as it asked for");
  }
  penstock_queue_close(queue);
}

int main(int argument_count, char** arguments) {
  expect(argument_count == 2, "one argument");
  const int fd = open(arguments[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  expect(fd >= 0, "a file that can be opened");
  penstock_session* session = open_session();
  look_around(session);
  penstock_file* file = NULL;
  check(penstock_file_register(session, fd, &file), "register the file");
  dry_run(file);
  void* memory = NULL;
  check(penstock_device_alloc(session, 0, kBytes, &memory), "allocate");
  move(file, memory);
  move_by_queue(session, file, memory);
  penstock_counter counters[16];
  memset(counters, 0, sizeof counters);
  counters[0].struct_size = sizeof counters[0];
  uint32_t count = 0;
  check(penstock_counters(session, counters, 16, &count), "count");
  expect(count == 1 && counters[0].write_bytes == kBytes, "what was moved, counted");
  check(penstock_device_free(session, 0, memory), "free");
  penstock_file_close(file);
  penstock_session_close(session);
  close(fd);
  return 0;
}
