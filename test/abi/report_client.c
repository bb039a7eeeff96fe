// SPDX-License-Identifier: Apache-2.0

/* report_client: a stranger's program that does what its words say, one after another, and then exits with 0. It is
 * linked to no libcufile: it uses the one that is preloaded, or that `load` opens.
 *
 *   load:LIBRARY  open  close           cuFile's library, and its driver
 *   read:FILE  write:FILE  beyond:FILE  through cuFile: all of a file; a mebibyte of it; a write that is not allowed
 *   batch:FILE                          all of it in one entry of a batch
 *   plain:FILE  direct:FILE  map:FILE   without cuFile: read(), read() with O_DIRECT, and a mapping, of which the last
 *                                       two stay open
 *   fork  daemon                        the rest in a child, for which this process waits; or which stays alone
 *   touch:FILE  await:FILE              tell others, and wait for them
 *   deaf  quiet                         closes the reading end of a pipe that is stderr; puts another file in its place
 *   full                                nothing can be written to files any more: RLIMIT_FSIZE is zero
 *   exit:N  _exit:N  kill:SIGNAL        ends
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cufile.h"

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "report_client: could not %s\n", what);
  exit(99);
}

static void* call_named(const char* name) {
  void* const call = dlsym(RTLD_DEFAULT, name);
  check(call != NULL, name);
  return call;
}

static size_t size_of(int fd) {
  struct stat facts;
  check(fstat(fd, &facts) == 0, "look at the file");
  return (size_t)facts.st_size;
}

static char* memory_of(size_t size) {
  char* const memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  check(memory != NULL, "get memory");
  return memory;
}

static CUfileHandle_t registered(int fd) {
  CUfileError_t (*const reg)(CUfileHandle_t*, CUfileDescr_t*) = call_named("cuFileHandleRegister");
  CUfileDescr_t descr = {.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle = {.fd = fd}};
  CUfileHandle_t handle = NULL;
  check(fd >= 0 && reg(&handle, &descr).err == CU_FILE_SUCCESS, "register the file");
  return handle;
}

static void finished(CUfileHandle_t handle, int fd, char* memory) {
  void (*const dereg)(CUfileHandle_t) = call_named("cuFileHandleDeregister");
  dereg(handle);
  close(fd);
  free(memory);
}

static void read_file(const char* name) {
  ssize_t (*const move)(CUfileHandle_t, void*, size_t, off_t, off_t) = call_named("cuFileRead");
  const int fd = open(name, O_RDONLY);
  const CUfileHandle_t handle = registered(fd);
  const size_t size = size_of(fd);
  char* const memory = memory_of(size);
  check(move(handle, memory, size, 0, 0) == (ssize_t)size, "read the file");
  finished(handle, fd, memory);
}

static void write_file(const char* name, int flags, ssize_t expected) {
  ssize_t (*const move)(CUfileHandle_t, const void*, size_t, off_t, off_t) = call_named("cuFileWrite");
  const int fd = open(name, flags, 0600);
  const CUfileHandle_t handle = registered(fd);
  char* const memory = memory_of(1 << 20);
  memset(memory, 'x', 1 << 20);
  check((move(handle, memory, 1 << 20, 0, 0) > 0) == (expected > 0), "write the file as expected");
  finished(handle, fd, memory);
}

static void read_in_batch(const char* name) {
  CUfileError_t (*const set_up)(CUfileBatchHandle_t*, unsigned) = call_named("cuFileBatchIOSetUp");
  CUfileError_t (*const submit)(CUfileBatchHandle_t, unsigned, CUfileIOParams_t*, unsigned) =
      call_named("cuFileBatchIOSubmit");
  CUfileError_t (*const status)(CUfileBatchHandle_t, unsigned, unsigned*, CUfileIOEvents_t*, struct timespec*) =
      call_named("cuFileBatchIOGetStatus");
  const int fd = open(name, O_RDONLY);
  const CUfileHandle_t handle = registered(fd);
  const size_t size = size_of(fd);
  char* const memory = memory_of(size);
  CUfileBatchHandle_t batch = NULL;
  CUfileIOParams_t entry = {.mode = CUFILE_BATCH, .fh = handle, .opcode = CUFILE_READ};
  entry.u.batch.devPtr_base = memory;
  entry.u.batch.size = size;
  CUfileIOEvents_t event;
  unsigned count = 1;
  check(set_up(&batch, 1).err == CU_FILE_SUCCESS, "set the batch up");
  check(submit(batch, 1, &entry, 0).err == CU_FILE_SUCCESS, "submit the batch");
  check(status(batch, 1, &count, &event, NULL).err == CU_FILE_SUCCESS && event.ret == size, "read the file in a batch");
  finished(handle, fd, memory);
}

static void read_plainly(const char* name, int flags) {
  const int fd = open(name, O_RDONLY | flags);
  check(fd >= 0, "open the file");
  char* const memory = memory_of(1 << 20);
  while (read(fd, memory, 1 << 20) > 0) {
  }
  free(memory);
  if (flags == 0) close(fd);
}

static void map_file(const char* name) {
  const int fd = open(name, O_RDONLY);
  const size_t size = size_of(fd);
  const volatile char* const bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  check(bytes != MAP_FAILED, "map the file");
  for (size_t i = 0; i < size; i += 4096) (void)bytes[i];
  close(fd);
}

static void go_on_in_child(int waits) {
  const pid_t child = fork();
  if (child == 0) {
    if (!waits) setsid();
    return;
  }
  int status = 0;
  if (waits) waitpid(child, &status, 0);
  exit(waits && WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

static void replace_stderr(int deaf) {
  int pipe_ends[2];
  check(pipe(pipe_ends) == 0, "make a pipe");
  if (deaf) {
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    return;
  }
  dup2(open("quiet", O_RDWR | O_CREAT, 0600), STDERR_FILENO);
}

static void do_word(const char* word, const char* value) {
  CUfileError_t (*driver)(void) = NULL;
  if (strcmp(word, "load") == 0) {
    check(dlopen(value, RTLD_NOW | RTLD_GLOBAL) != NULL, "load the library");
  } else if (strcmp(word, "open") == 0 || strcmp(word, "close") == 0) {
    driver = call_named(*word == 'o' ? "cuFileDriverOpen" : "cuFileDriverClose");
    check(driver().err == CU_FILE_SUCCESS, "open or close the driver");
  } else if (strcmp(word, "read") == 0) {
    read_file(value);
  } else if (strcmp(word, "write") == 0) {
    write_file(value, O_RDWR | O_CREAT, 1);
  } else if (strcmp(word, "beyond") == 0) {
    write_file(value, O_RDONLY, -1);
  } else if (strcmp(word, "batch") == 0) {
    read_in_batch(value);
  } else if (strcmp(word, "plain") == 0 || strcmp(word, "direct") == 0) {
    read_plainly(value, *word == 'p' ? 0 : O_DIRECT);
  } else if (strcmp(word, "map") == 0) {
    map_file(value);
  } else if (strcmp(word, "fork") == 0 || strcmp(word, "daemon") == 0) {
    go_on_in_child(*word == 'f');
  } else if (strcmp(word, "touch") == 0) {
    close(open(value, O_WRONLY | O_CREAT, 0600));
  } else if (strcmp(word, "await") == 0) {
    while (access(value, F_OK) != 0) poll(NULL, 0, 1);
  } else if (strcmp(word, "deaf") == 0 || strcmp(word, "quiet") == 0) {
    replace_stderr(*word == 'd');
  } else if (strcmp(word, "full") == 0) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
  } else if (strcmp(word, "exit") == 0) {
    exit(atoi(value));
  } else if (strcmp(word, "_exit") == 0) {
    _exit(atoi(value));
  } else if (strcmp(word, "kill") == 0) {
    raise(atoi(value));
  } else {
    check(0, word);
  }
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    char* const colon = strchr(argv[i], ':');
    if (colon != NULL) *colon = '\0';
    do_word(argv[i], colon != NULL ? colon + 1 : "");
  }
  return 0;
}
