// SPDX-License-Identifier: Apache-2.0

// The process around the library: fork, exec, exit, unloading, contexts that go, descriptors that leak.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

int descriptors() {
  int count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Runs `act` in a forked child and tells its end.
template <typename Act>
void in_child(Fixture& w, Act act) {
  const pid_t child = fork();
  if (child == 0) {
    act();
    _exit(0);
  }
  int status = 0;
  for (int turn = 0; turn < 500; ++turn) {
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFSIGNALED(status)) w.say("child: killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
      else w.say("child: status %d", WEXITSTATUS(status));
      return;
    }
    usleep(10'000);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  w.say("child: did not end");
}

// Opened, used, with a handle and a buffer alive.
struct Used {
  explicit Used(Fixture& w) : handle(w.handle(w.file("a", 65536))), memory(w, Kind::host, 65536) {
    w.must("buffer", w.cuFileBufRegister(memory.base(), 65536, 0));
    w.tell("read", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
  }
  CUfileHandle_t handle;
  Memory memory;
};

CASE("process.fork.child_does_nothing") {
  Used used(w);
  in_child(w, [] {});
  w.tell("read", w.cuFileRead(used.handle, used.memory.base(), 65536, 0, 0));
}
CASE("process.fork.child_exits") {
  Used used(w);
  in_child(w, [] { exit(7); });
  w.tell("read", w.cuFileRead(used.handle, used.memory.base(), 65536, 0, 0));
}
CASE("process.fork.child_reads") {
  Used used(w);
  in_child(w, [&] { w.tell("read in the child", w.cuFileRead(used.handle, used.memory.base(), 65536, 0, 0)); });
  w.tell("read", w.cuFileRead(used.handle, used.memory.base(), 65536, 0, 0));
}
CASE("process.fork.child_closes") {
  Used used(w);
  in_child(w, [&] { w.tell("close in the child", w.cuFileDriverClose_v2()); });
  w.tell("read", w.cuFileRead(used.handle, used.memory.base(), 65536, 0, 0));
}
CASE("process.fork.before_open") {
  in_child(w, [&] {
    w.tell("open in the child", w.cuFileDriverOpen());
    w.tell("close in the child", w.cuFileDriverClose_v2());
  });
}
// What lives on past exec, as the shell counts it.
int descriptors_past_exec() {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "n=0; for f in /proc/$$/fd/*; do n=$((n+1)); done; exit $n",
          static_cast<char*>(nullptr));
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}
CASE("process.exec_keeps_no_descriptor") {
  const int before = descriptors_past_exec();
  Used used(w);
  w.say("more: %d", descriptors_past_exec() - before);
}
CASE("process.exit_with_everything_open") {
  Used used(w);
  Memory device(w, Kind::gpu, 65536);
  w.tell("buffer", w.cuFileBufRegister(device.base(), 65536, 0));
  w.say("exit");
  exit(0);
}
CASE("process.exit_after_close") {
  Used used(w);
  w.tell("close", w.cuFileDriverClose_v2());
  w.say("exit");
  exit(0);
}
CASE("process.exit_with_transfers_in_flight") {
  const CUfileHandle_t handle = w.handle(w.file("a", 16 * kMib));
  static Memory memory(w, Kind::host, 16 * kMib);
  std::thread([&w, handle] {
    for (;;) w.cuFileRead(handle, memory.base(), 16 * kMib, 0, 0);
  }).detach();
  usleep(100'000);
  w.say("exit");
  exit(0);
}
CASE("process.exit_with_a_batch_in_flight") {
  const CUfileHandle_t handle = w.handle(w.file("a", 32 * kMib));
  Memory memory(w, Kind::gpu, 32 * kMib);
  CUfileBatchHandle_t batch = nullptr;
  w.must("set up", w.cuFileBatchIOSetUp(&batch, 32));
  std::vector<CUfileIOParams_t> all;
  for (off_t i = 0; i < 32; ++i) {
    const auto at = static_cast<off_t>(i * static_cast<off_t>(kMib));
    all.push_back(entry(CUFILE_READ, handle, memory.base(), kMib, at, at));
  }
  w.must("submit", w.cuFileBatchIOSubmit(batch, 32, all.data(), 0));
  w.say("exit");
  exit(0);
}
CASE("process.exit_with_stats_on") {
  w.tell("level", w.cuFileSetStatsLevel(3));
  Used used(w);
  w.tell("start", w.cuFileStatsStart());
  w.say("exit");
  exit(0);
}
CASE("process.dlclose_when_closed") {
  w.must("open", w.cuFileDriverOpen());
  w.must("close", w.cuFileDriverClose_v2());
  dlclose(w.opened);
  w.say("unloaded, exit");
  exit(0);
}
CASE("process.dlclose_when_open") {
  Used used(w);
  dlclose(w.opened);
  w.say("unloaded, exit");
  exit(0);
}
CASE("process.dlopen_twenty_times") {
  Dl_info info = {};
  void* const symbol = dlsym(w.opened, "cuFileDriverOpen");
  if (dladdr(symbol, &info) == 0) w.skip("no path of the library");
  const std::string path = info.dli_fname;
  for (int i = 0; i < 20; ++i) {
    dlclose(w.opened);
    if (!w.load(path.c_str())) w.skip("cannot load again");
    w.must("open", w.cuFileDriverOpen());
    w.must("close", w.cuFileDriverClose_v2());
  }
  w.say("done, exit");
  exit(0);
}
CASE("process.descriptors_after_close") {
  w.must("open", w.cuFileDriverOpen());
  w.must("close", w.cuFileDriverClose_v2());
  const int before = descriptors();
  for (int i = 0; i < 5; ++i) {
    w.must("open", w.cuFileDriverOpen());
    const int fd = w.file("a", 4096);
    w.handle(fd);
    close(fd);
    w.must("close", w.cuFileDriverClose_v2());
  }
  w.say("more: %d", descriptors() - before);
}
CASE("process.descriptors_after_deregister") {
  const int fd = w.file("a", 4096, O_RDWR | O_DIRECT);
  Memory memory(w, Kind::host, 4096);
  w.cuFileHandleDeregister(w.handle(fd));
  const int before = descriptors();
  for (int i = 0; i < 20; ++i) {
    const CUfileHandle_t handle = w.handle(fd);
    w.cuFileRead(handle, memory.base(), 100, 1, 0);
    w.cuFileHandleDeregister(handle);
  }
  w.say("more: %d", descriptors() - before);
}
CASE("process.close_while_another_thread_reads") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4 * kMib));
  Memory memory(w, Kind::host, 4 * kMib);
  bool strange = false;
  std::thread reader([&] {
    for (int i = 0; i < 2000; ++i) {
      const ssize_t got = w.cuFileRead(handle, memory.base(), 4 * kMib, 0, 0);
      if (got == static_cast<ssize_t>(4 * kMib)) continue;
      strange = got != -1;
      break;
    }
  });
  usleep(50'000);
  w.tell("close", w.cuFileDriverClose_v2());
  reader.join();
  w.say("anything but whole or refused: %d", strange);
}
CASE("process.primary_context_reset") {
  w.need_gpu();
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::gpu, 65536);
  w.tell("read", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
  w.must_cuda("cuDevicePrimaryCtxReset", w.cuda.cuDevicePrimaryCtxReset_v2(0));
  w.tell("read after reset", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
  Context context = nullptr;
  w.must_cuda("cuDevicePrimaryCtxRetain", w.cuda.cuDevicePrimaryCtxRetain(&context, 0));
  w.must_cuda("cuCtxPushCurrent", w.cuda.cuCtxPushCurrent_v2(context));
  Memory fresh(w, Kind::gpu, 65536);
  w.tell("read in the new one", w.cuFileRead(handle, fresh.base(), 65536, 0, 0));
  w.tell("close", w.cuFileDriverClose_v2());
}
CASE("process.close_without_current_context") {
  w.need_gpu();
  Used used(w);
  Memory device(w, Kind::gpu, 65536);
  w.tell("buffer", w.cuFileBufRegister(device.base(), 65536, 0));
  Context popped = nullptr;
  w.must_cuda("cuCtxPopCurrent", w.cuda.cuCtxPopCurrent_v2(&popped));
  w.tell("close", w.cuFileDriverClose_v2());
  w.say("use count: %ld", w.cuFileUseCount());
}

// ---- Every symbol --------------------------------------------------------------------------------------------------

TABLE() {
#define X(name)                                                                                  \
  add(                                                                                           \
      "symbol." #name, [](Fixture& w) { w.say("%s", w.name.present() ? "present" : "absent"); }, \
      Setup{.cuda = Cuda::none});
  CONFORMANCE_FUNCTIONS(X)
#undef X
  add(
      "symbol.cuFileDriverClose", [](Fixture& w) { w.say("%s", w.close_version_1.present() ? "present" : "absent"); },
      Setup{.cuda = Cuda::none});
  return true;
}

}  // namespace
}  // namespace conformance
