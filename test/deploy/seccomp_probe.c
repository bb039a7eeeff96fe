// SPDX-License-Identifier: Apache-2.0

// Prints the error of system calls that a seccomp profile may allow or not: a line each, "NAME ERRNO", 0 for none.
// Linked statically, so that it is all that a container needs.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char* name, long result) { printf("%s %d\n", name, result < 0 ? errno : 0); }

int main(void) {
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  const long ring = syscall(SYS_io_uring_setup, 4, &params);
  tell("io_uring_setup", ring);
  tell("io_uring_enter", syscall(SYS_io_uring_enter, (int)ring, 0, 0, 0, NULL, 0));
  tell("io_uring_register", syscall(SYS_io_uring_register, (int)ring, IORING_REGISTER_FILES_UPDATE, NULL, 0));
  tell("mount", syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL));
  tell("unshare", unshare(CLONE_NEWUSER));
  tell("clone3", syscall(SYS_clone3, NULL, 0));
  tell("clone", syscall(SYS_clone, CLONE_NEWUSER | 17, NULL, NULL, NULL, NULL));
  tell("bpf", syscall(SYS_bpf, 0, NULL, 0));
  tell("keyctl", syscall(SYS_keyctl, 0, -3, 0));
  tell("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  tell("unknown", syscall(4000));
  return 0;
}
