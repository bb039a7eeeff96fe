// SPDX-License-Identifier: Apache-2.0

/* nfs_helper: what the kernel's NFS server wants of user space and a shell cannot give.
 *
 *   nfs_helper listen PORT     a socket that listens, as a port of TCP
 *   nfs_helper clients PIPE    answers what it asks of nfsdcld: that no client was here before. Else it refuses to open
 *                              files for 90 seconds, in which clients of an earlier life might come back. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/nfsd/cld.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fail(const char* what) {
  perror(what);
  return 1;
}

static int listen_on(int port) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  address.sin_port = htons((unsigned short)port);
  if (listening < 0 || bind(listening, (struct sockaddr*)&address, sizeof address) != 0) return fail("bind");
  if (listen(listening, 16) != 0) return fail("listen");
  const int list = open("/proc/fs/nfsd/portlist", O_WRONLY | O_CLOEXEC);
  char number[16];
  const int size = snprintf(number, sizeof number, "%d\n", listening);
  if (list < 0 || write(list, number, (size_t)size) != size) return fail("/proc/fs/nfsd/portlist");
  return 0;
}

static int answer(const char* name) {
  int pipe = -1;
  /* The server makes it when it starts, and gives up where nobody has opened it a second later. */
  for (int tries = 0; pipe < 0 && tries < 1000; ++tries) {
    pipe = open(name, O_RDWR | O_CLOEXEC);
    if (pipe < 0) usleep(10000);
  }
  if (pipe < 0) return fail(name);
  struct cld_msg_v2 message;
  for (;;) {
    struct pollfd question = {.fd = pipe, .events = POLLIN};
    if (poll(&question, 1, -1) < 0) return fail("poll");
    const ssize_t size = read(pipe, &message, sizeof message);
    if (size == 0) continue; /* Where there is no question, it does not wait for one. */
    if (size < (ssize_t)sizeof(struct cld_msg_hdr)) return fail(name);
    message.cm_status = 0;
    if (message.cm_cmd == Cld_GetVersion) message.cm_u.cm_version = 1;
    if (write(pipe, &message, (size_t)size) != size) return fail(name);
  }
}

int main(int count, char** words) {
  if (count == 3 && strcmp(words[1], "listen") == 0) return listen_on(atoi(words[2]));
  if (count == 3 && strcmp(words[1], "clients") == 0) return answer(words[2]);
  fprintf(stderr, "usage: nfs_helper listen PORT | nfs_helper clients PIPE\n");
  return 2;
}
