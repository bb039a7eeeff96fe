// SPDX-License-Identifier: Apache-2.0

// Registration of files: what is accepted, what is refused and with which error.
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <climits>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

void register_and_tell(Fixture& w, int fd) {
  CUfileHandle_t handle = nullptr;
  const CUfileError_t outcome = w.tell("register", w.register_fd(fd, &handle));
  w.say("handle: %s", handle == nullptr ? "null" : "given");
  if (outcome.err == CU_FILE_SUCCESS) w.cuFileHandleDeregister(handle);
}

struct Flags {
  const char* name;
  int flags;
};
constexpr Flags kFlags[] = {
    {"rdonly", O_RDONLY},
    {"wronly", O_WRONLY},
    {"rdwr", O_RDWR},
    {"rdwr_direct", O_RDWR | O_DIRECT},
    {"rdonly_direct", O_RDONLY | O_DIRECT},
    {"wronly_direct", O_WRONLY | O_DIRECT},
    {"append", O_RDWR | O_APPEND},
    {"append_direct", O_RDWR | O_APPEND | O_DIRECT},
    {"nonblock", O_RDWR | O_NONBLOCK},
    {"noctty", O_RDWR | O_NOCTTY},
    {"nofollow", O_RDWR | O_NOFOLLOW},
    {"noatime", O_RDWR | O_NOATIME},
    {"sync", O_RDWR | O_SYNC},
    {"dsync", O_RDWR | O_DSYNC},
    {"direct_sync", O_RDWR | O_DIRECT | O_SYNC},
    {"path", O_PATH},
    {"async", O_RDWR | O_ASYNC},
    {"cloexec", O_RDWR | O_CLOEXEC},
    {"noatime_direct", O_RDWR | O_NOATIME | O_DIRECT},
    {"nonblock_direct", O_RDWR | O_NONBLOCK | O_DIRECT},
};

TABLE() {
  for (const Flags& row : kFlags) {
    const int flags = row.flags;
    add(std::string("handle.flags.") + row.name, [flags](Fixture& w) {
      const int fd = w.file("a", 8192, flags);
      CUfileHandle_t handle = nullptr;
      if (w.tell("register", w.register_fd(fd, &handle)).err != CU_FILE_SUCCESS) return;
      Memory memory(w, Kind::host, 4096);
      w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
      memory.put(0, pattern(2, 0, 4096));
      w.tell("write", w.cuFileWrite(handle, memory.base(), 4096, 4096, 0));
    });
  }
  return true;
}

CASE("handle.flags.tmpfile") {
  const int fd = open(w.folder().c_str(), O_RDWR | O_TMPFILE, 0600);
  if (fd < 0) w.skip("no O_TMPFILE here");
  register_and_tell(w, fd);
}
CASE("handle.flags.directory") { register_and_tell(w, open(w.folder().c_str(), O_RDONLY | O_DIRECTORY)); }
CASE("handle.directory") { register_and_tell(w, open(w.folder().c_str(), O_RDONLY)); }

TABLE() {
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"}) {
    add(std::string("handle.device.") + (device + 5),
        [device](Fixture& w) { register_and_tell(w, open(device, O_RDWR)); });
  }
  return true;
}

CASE("handle.pipe") {
  int ends[2];
  if (pipe(ends) != 0) w.skip("no pipe");
  register_and_tell(w, ends[0]);
  register_and_tell(w, ends[1]);
}
CASE("handle.fifo") {
  mkfifo(w.path("fifo").c_str(), 0600);
  register_and_tell(w, open(w.path("fifo").c_str(), O_RDWR));
}
CASE("handle.socket") { register_and_tell(w, socket(AF_UNIX, SOCK_STREAM, 0)); }
CASE("handle.memfd") {
  const int fd = memfd_create("case", 0);
  if (ftruncate(fd, 8192) != 0) w.skip("no memfd");
  register_and_tell(w, fd);
}
CASE("handle.proc_file") { register_and_tell(w, open("/proc/self/status", O_RDONLY)); }
CASE("handle.sys_file") { register_and_tell(w, open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY)); }
CASE("handle.tmpfs_file") {
  const std::string name = "/dev/shm/penstock-conformance-" + std::to_string(getpid());
  const int fd = open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0) w.skip("no /dev/shm");
  unlink(name.c_str());
  if (ftruncate(fd, 8192) != 0) w.skip("no room in /dev/shm");
  CUfileHandle_t handle = nullptr;
  if (w.tell("register", w.register_fd(fd, &handle)).err != CU_FILE_SUCCESS) return;
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.tell("write", w.cuFileWrite(handle, memory.base(), 4096, 4096, 0));
}
CASE("handle.symlink_target") {
  w.file("a", 4096);
  if (symlink(w.path("a").c_str(), w.path("link").c_str()) != 0) w.skip("no symlinks");
  register_and_tell(w, open(w.path("link").c_str(), O_RDWR));
}
CASE("handle.hard_link") {
  w.file("a", 4096);
  if (link(w.path("a").c_str(), w.path("link").c_str()) != 0) w.skip("no links");
  register_and_tell(w, open(w.path("link").c_str(), O_RDWR));
}
CASE("handle.deleted_file") {
  const int fd = w.file("a", 4096);
  unlink(w.path("a").c_str());
  CUfileHandle_t handle = nullptr;
  if (w.tell("register", w.register_fd(fd, &handle)).err != CU_FILE_SUCCESS) return;
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
}
CASE("handle.empty_file") {
  const int fd = w.file("a", 0);
  CUfileHandle_t handle = nullptr;
  if (w.tell("register", w.register_fd(fd, &handle)).err != CU_FILE_SUCCESS) return;
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
}
CASE("handle.append_only_inode") {
  const int fd = w.file("a", 4096);
  long flags = 0x20;  // FS_APPEND_FL
  if (ioctl(fd, 0x40086602, &flags) != 0) w.skip("needs the right to set inode flags");
  register_and_tell(w, open(w.path("a").c_str(), O_RDONLY));
  flags = 0;
  ioctl(fd, 0x40086602, &flags);
}
CASE("handle.immutable_inode") {
  const int fd = w.file("a", 4096);
  long flags = 0x10;  // FS_IMMUTABLE_FL
  if (ioctl(fd, 0x40086602, &flags) != 0) w.skip("needs the right to set inode flags");
  register_and_tell(w, open(w.path("a").c_str(), O_RDONLY));
  flags = 0;
  ioctl(fd, 0x40086602, &flags);
}

// ---- Arguments -----------------------------------------------------------------------------------------------------

TABLE() {
  for (int fd : {-1, -2, 800, INT_MAX, INT_MIN}) {
    add("handle.descriptor." + std::to_string(fd), [fd](Fixture& w) { register_and_tell(w, fd); });
  }
  return true;
}
CASE("handle.descriptor.closed") {
  const int fd = w.file("a", 4096);
  close(fd);
  register_and_tell(w, fd);
}
CASE("handle.null_out") {
  CUfileDescr_t description = Fixture::describe(w.file("a", 4096));
  w.tell("register", w.cuFileHandleRegister(nullptr, &description));
}
CASE("handle.null_description") {
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.cuFileHandleRegister(&handle, nullptr));
}
CASE("handle.null_both") { w.tell("register", w.cuFileHandleRegister(nullptr, nullptr)); }

TABLE() {
  for (int type : {0, 2, 4, 77, -1}) {
    add("handle.type." + std::to_string(type), [type](Fixture& w) {
      CUfileDescr_t description = Fixture::describe(w.file("a", 4096));
      std::memcpy(&description.type, &type, sizeof(type));
      CUfileHandle_t handle = nullptr;
      w.tell("register", w.cuFileHandleRegister(&handle, &description));
    });
  }
  return true;
}
CASE("handle.fd_with_operations_table") {
  const CUfileFSOps_t operations = {};
  CUfileDescr_t description = Fixture::describe(w.file("a", 4096));
  description.fs_ops = &operations;
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.cuFileHandleRegister(&handle, &description));
  if (handle == nullptr) return;
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
}
CASE("handle.refusal_leaves_out_value") {
  CUfileHandle_t handle = &w;
  w.tell("register", w.register_fd(-1, &handle));
  w.say("out: %s", handle == &w ? "as before" : handle == nullptr ? "null" : "other");
}

// ---- Twice, reuse, threads -----------------------------------------------------------------------------------------

CASE("handle.same_descriptor_twice") {
  const int fd = w.file("a", 4096);
  w.handle(fd);
  CUfileHandle_t second = nullptr;
  w.tell("again", w.register_fd(fd, &second));
  w.say("second: %s", second == nullptr ? "null" : "given");
}
CASE("handle.two_descriptors_of_one_file") {
  const int fd = w.file("a", 4096);
  const CUfileHandle_t first = w.handle(fd);
  const CUfileHandle_t second = w.handle(open(w.path("a").c_str(), O_RDWR));
  w.say("handles: %s", first == second ? "same" : "two");
}
CASE("handle.duplicated_descriptor") {
  const int fd = w.file("a", 4096);
  w.handle(fd);
  CUfileHandle_t second = nullptr;
  w.tell("duplicate", w.register_fd(dup(fd), &second));
}
CASE("handle.register_again_after_deregister") {
  const int fd = w.file("a", 4096);
  w.cuFileHandleDeregister(w.handle(fd));
  CUfileHandle_t second = nullptr;
  w.tell("again", w.register_fd(fd, &second));
}
CASE("handle.descriptor_closed_and_reused") {
  const int fd = w.file("a", 4096);
  w.handle(fd);
  close(fd);
  const int other = w.file("b", 4096);
  w.say("same number: %d", fd == other);
  CUfileHandle_t second = nullptr;
  w.tell("register the new file", w.register_fd(other, &second));
}
CASE("handle.descriptor_closed_then_read") {
  const int fd = w.file("a", 4096);
  const CUfileHandle_t handle = w.handle(fd);
  close(fd);
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
}
CASE("handle.deregister_null") {
  w.must("open", w.cuFileDriverOpen());
  w.cuFileHandleDeregister(nullptr);
  w.say("came back");
}
CASE("handle.deregister_unknown") {
  w.must("open", w.cuFileDriverOpen());
  static char nothing[256];
  w.cuFileHandleDeregister(nothing);
  w.say("came back, count %ld", w.cuFileUseCount());
}
CASE("handle.deregister_twice") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  w.cuFileHandleDeregister(handle);
  w.cuFileHandleDeregister(handle);
  w.say("came back, count %ld", w.cuFileUseCount());
}
CASE("handle.deregister_does_not_close_descriptor") {
  const int fd = w.file("a", 4096);
  w.cuFileHandleDeregister(w.handle(fd));
  w.say("descriptor: %s", fcntl(fd, F_GETFD) >= 0 ? "open" : "closed");
}
CASE("handle.deregister_does_not_close_driver") {
  w.cuFileHandleDeregister(w.handle(w.file("a", 4096)));
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("handle.used_after_deregister") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  w.cuFileHandleDeregister(handle);
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.tell("write", w.cuFileWrite(handle, memory.base(), 4096, 0, 0));
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("handle.used_after_close") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  w.must("close", w.cuFileDriverClose_v2());
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("handle.deregistered_after_close") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  w.must("close", w.cuFileDriverClose_v2());
  w.cuFileHandleDeregister(handle);
  w.say("came back, count %ld", w.cuFileUseCount());
}
CASE("handle.used_after_close_and_reopen") {
  const int fd = w.file("a", 4096);
  const CUfileHandle_t handle = w.handle(fd);
  w.must("close", w.cuFileDriverClose_v2());
  w.must("open", w.cuFileDriverOpen());
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  CUfileHandle_t second = nullptr;
  w.tell("register again", w.register_fd(fd, &second));
}
CASE("handle.thousand") {
  for (int i = 0; i < 700; ++i) {
    CUfileHandle_t handle = nullptr;
    const CUfileError_t outcome = w.register_fd(w.file("f" + std::to_string(i), 16), &handle);
    if (outcome.err == CU_FILE_SUCCESS) continue;
    w.say("at %d", i);
    w.must("register", outcome);
  }
  w.say("all registered");
}
CASE("handle.eight_threads_register") {
  std::vector<std::thread> threads;
  int fds[8];
  for (int i = 0; i < 8; ++i) fds[i] = w.file("f" + std::to_string(i), 4096);
  CUfileError_t outcomes[8] = {};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 50; ++turn) {
        CUfileHandle_t handle = nullptr;
        outcomes[i] = w.register_fd(fds[i], &handle);
        if (outcomes[i].err != CU_FILE_SUCCESS) return;
        w.cuFileHandleDeregister(handle);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  for (const CUfileError_t& outcome : outcomes) w.tell("thread", outcome);
}

// ---- File systems in user space ------------------------------------------------------------------------------------

int calls = 0;
const char* fs_type(const void*) {
  ++calls;
  return "case";
}
ssize_t served_read(const void*, char* to, std::size_t size, off_t offset, const cufileRDMAInfo_t*) {
  ++calls;
  const std::string bytes = pattern(1, static_cast<std::size_t>(offset), size);
  std::memcpy(to, bytes.data(), size);
  return static_cast<ssize_t>(size);
}
ssize_t served_write(const void*, const char*, std::size_t size, off_t, const cufileRDMAInfo_t*) {
  ++calls;
  return static_cast<ssize_t>(size);
}
CUfileDescr_t user_space(Fixture& w, const CUfileFSOps_t* operations) {
  CUfileDescr_t description = Fixture::describe(0);
  description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
  description.handle.handle = &w;
  description.fs_ops = operations;
  return description;
}

CASE("handle.user_space.null_table") {
  CUfileDescr_t description = user_space(w, nullptr);
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.cuFileHandleRegister(&handle, &description));
}
CASE("handle.user_space.null_handle") {
  const CUfileFSOps_t operations = {fs_type, nullptr, nullptr, served_read, served_write};
  CUfileDescr_t description = user_space(w, &operations);
  description.handle.handle = nullptr;
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.cuFileHandleRegister(&handle, &description));
}

void use_user_space(Fixture& w, Kind kind, const CUfileFSOps_t& operations) {
  CUfileDescr_t description = user_space(w, &operations);
  CUfileHandle_t handle = nullptr;
  w.must("register", w.cuFileHandleRegister(&handle, &description));
  Memory memory(w, kind, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.tell("write", w.cuFileWrite(handle, memory.base(), 4096, 0, 0));
  w.tell("nothing", w.cuFileRead(handle, memory.base(), 0, 0, 0));
  w.say("called: %s", calls > 0 ? "yes" : "no");
  w.cuFileHandleDeregister(handle);
}
constexpr CUfileFSOps_t kNoOperations = {};
constexpr CUfileFSOps_t kOperations = {fs_type, nullptr, nullptr, served_read, served_write};
CASE("handle.user_space.zeroed_table.host") { use_user_space(w, Kind::host, kNoOperations); }
CASE("handle.user_space.zeroed_table.gpu") { use_user_space(w, Kind::gpu, kNoOperations); }
CASE("handle.user_space.table.host") { use_user_space(w, Kind::host, kOperations); }
CASE("handle.user_space.table.gpu") { use_user_space(w, Kind::gpu, kOperations); }
CASE("handle.user_space.same_twice") {
  CUfileDescr_t description = user_space(w, &kOperations);
  CUfileHandle_t first = nullptr, second = nullptr;
  w.tell("register", w.cuFileHandleRegister(&first, &description));
  w.tell("again", w.cuFileHandleRegister(&second, &description));
}

}  // namespace
}  // namespace conformance
