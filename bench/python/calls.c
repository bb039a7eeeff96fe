// SPDX-License-Identifier: Apache-2.0

// The loop of calls.py in C: reads of 4 KiB on the null path. usage: calls FILE. Prints microseconds a call, the best
// of nine rounds, into host memory and into device memory.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "penstock/device_memory.h"
#include "penstock/penstock.h"

enum { kSize = 4096, kCalls = 20000, kRounds = 9 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double best(penstock_file* file, void* memory) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = now();
    for (int i = 0; i < kCalls; ++i) {
      penstock_report report = {.struct_size = sizeof report};
      if (penstock_read(file, memory, kSize, 0, 0, &report).code != 0) exit(1);
    }
    const double each = (now() - begin) / kCalls;
    if (each < least) least = each;
  }
  return least;
}

int main(int argc, char** argv) {
  penstock_config* config = NULL;
  penstock_session* session = NULL;
  penstock_file* file = NULL;
  void* device = NULL;
  const int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 2;
  penstock_config_create(&config);
  penstock_config_set(config, "paths", "null");
  penstock_config_set(config, "require", "null");
  if (penstock_session_open(config, &session).code != 0) return 1;
  if (penstock_file_register(session, fd, &file).code != 0) return 1;
  if (penstock_device_alloc(session, 0, kSize, &device).code != 0) return 1;
  printf("%.3f %.3f\n", best(file, malloc(kSize)), best(file, device));
  return 0;
}
