// SPDX-License-Identifier: Apache-2.0

// cuFileRead and cuFileWrite: checks in their order, ends of files, every alignment, large requests, threads.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 511, 512, 4095, 4096, 4097, kMib + 1};
constexpr Kind kTwoKinds[] = {Kind::host, Kind::gpu};

// What programs can have: the page cache makes room. 0 where the kernel does not tell.
long available_kib() {
  long kib = 0;
  std::FILE* const info = std::fopen("/proc/meminfo", "re");
  char line[200];
  while (info != nullptr && std::fgets(line, sizeof line, info) != nullptr)
    std::sscanf(line, "MemAvailable: %ld", &kib);
  if (info != nullptr) std::fclose(info);
  return kib;
}

// One case for each kind of descriptor, memory, direction and file offset; in it a line for each size, at a buffer
// offset that is aligned for every second one.
void transfer_every_size(Fixture& w, int flags, Kind kind, bool write, std::size_t file_offset, bool registered) {
  constexpr std::size_t kFile = 2 * kMib + 100;
  Memory memory(w, kind, 2 * kMib);
  if (registered) w.must("register buffer", w.cuFileBufRegister(memory.base(), memory.size(), 0));
  int fd = w.file("a", kFile, flags);
  CUfileHandle_t handle = w.handle(fd);
  for (std::size_t size : kSizes) {
    for (const std::size_t buffer_offset : {std::size_t{0}, std::size_t{4096}, std::size_t{513}}) {
      const std::string step = "size " + std::to_string(size) + " at " + std::to_string(buffer_offset);
      const auto at = static_cast<off_t>(file_offset);
      const auto into = static_cast<off_t>(buffer_offset);
      if (!write) {
        memory.put(0, std::string(memory.size(), Memory::kGuard));
        w.tell(step.c_str(), w.cuFileRead(handle, memory.base(), size, at, into));
        w.say("memory: %s", compare_memory(memory, buffer_offset, size, 1, file_offset));
        continue;
      }
      memory.put(buffer_offset, pattern(2, 0, size));
      w.tell(step.c_str(), w.cuFileWrite(handle, memory.base(), size, at, into));
      w.say("file: %s", compare_file(fd, kFile, file_offset, size));
      w.cuFileHandleDeregister(handle);
      close(fd);
      fd = w.file("a", kFile, flags);
      handle = w.handle(fd);
    }
  }
}

TABLE() {
  struct Row {
    const char* name;
    int flags;
  };
  for (const Row& row : {Row{"buffered", O_RDWR}, Row{"direct", O_RDWR | O_DIRECT}}) {
    for (Kind kind : kTwoKinds) {
      for (const bool write : {false, true}) {
        for (std::size_t offset : kSizes) {
          const int flags = row.flags;
          const std::string name = std::string("align.") + row.name + "." + name_of(kind) +
                                   (write ? ".write" : ".read") + ".from_" + std::to_string(offset);
          add(name, [=](Fixture& w) { transfer_every_size(w, flags, kind, write, offset, false); });
          if (offset == 4096 || offset == 511) {
            add(name + ".registered", [=](Fixture& w) { transfer_every_size(w, flags, kind, write, offset, true); });
          }
        }
      }
    }
  }
  return true;
}

// ---- Checks and their order ----------------------------------------------------------------------------------------

TABLE() {
  for (const bool write : {false, true}) {
    const std::string direction = write ? "write" : "read";
    const auto transfer = [write](Fixture& w, CUfileHandle_t handle, void* base, std::size_t size, off_t at,
                                  off_t into) {
      return write ? w.cuFileWrite(handle, base, size, at, into) : w.cuFileRead(handle, base, size, at, into);
    };
    add("check." + direction + ".arguments", [=](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 8192));
      Memory memory(w, Kind::host, 8192);
      w.tell("no handle", transfer(w, nullptr, memory.base(), 4096, 0, 0));
      w.tell("no buffer", transfer(w, handle, nullptr, 4096, 0, 0));
      w.tell("nothing", transfer(w, handle, memory.base(), 0, 0, 0));
      w.tell("file offset -1", transfer(w, handle, memory.base(), 4096, -1, 0));
      w.tell("buffer offset -1", transfer(w, handle, memory.base(), 4096, 0, -1));
      w.tell("both -1", transfer(w, handle, memory.base(), 4096, -1, -1));
      w.tell("file offset least", transfer(w, handle, memory.base(), 4096, LONG_MIN, 0));
      w.tell("buffer offset least", transfer(w, handle, memory.base(), 4096, 0, LONG_MIN));
    });
    add("check." + direction + ".order", [=](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 8192));
      Memory memory(w, Kind::host, 8192);
      static char nothing[256];
      w.tell("no handle, no buffer", transfer(w, nullptr, nullptr, 4096, 0, 0));
      w.tell("no handle, nothing", transfer(w, nullptr, memory.base(), 0, 0, 0));
      w.tell("no buffer, nothing", transfer(w, handle, nullptr, 0, 0, 0));
      w.tell("nothing, file offset -1", transfer(w, handle, memory.base(), 0, -1, 0));
      w.tell("nothing, buffer offset -1", transfer(w, handle, memory.base(), 0, 0, -1));
      w.tell("unknown handle, nothing", transfer(w, nothing, memory.base(), 0, 0, 0));
      w.tell("unknown handle, file offset -1", transfer(w, nothing, memory.base(), 4096, -1, 0));
      w.tell("unknown handle, buffer offset -1", transfer(w, nothing, memory.base(), 4096, 0, -1));
    });
    add("check." + direction + ".wrong_direction", [=](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 8192, write ? O_RDONLY : O_WRONLY));
      Memory memory(w, Kind::host, 8192);
      w.tell("host", transfer(w, handle, memory.base(), 4096, 0, 0));
      w.tell("nothing", transfer(w, handle, memory.base(), 0, 0, 0));
      Memory device(w, Kind::gpu, 8192);
      w.tell("gpu", transfer(w, handle, device.base(), 4096, 0, 0));
    });
    add("check." + direction + ".wrong_direction.direct", [=](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 8192, (write ? O_RDONLY : O_WRONLY) | O_DIRECT));
      Memory memory(w, Kind::host, 8192);
      w.tell("host", transfer(w, handle, memory.base(), 4096, 0, 0));
      Memory device(w, Kind::gpu, 8192);
      w.tell("gpu", transfer(w, handle, device.base(), 4096, 0, 0));
    });
    for (Kind kind : kTwoKinds) {
      add("check." + direction + ".huge_size." + name_of(kind), [=](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", 8192));
        Memory memory(w, kind, 8192);
        w.must("register buffer", w.cuFileBufRegister(memory.base(), 8192, 0));
        w.tell("16 TiB", transfer(w, handle, memory.base(), std::size_t{1} << 44, 0, 0));
        w.tell("half of all", transfer(w, handle, memory.base(), SSIZE_MAX, 0, 0));
        w.tell("more than half", transfer(w, handle, memory.base(), std::size_t{1} << 63, 0, 0));
        w.tell("all", transfer(w, handle, memory.base(), ~std::size_t{0}, 0, 0));
        w.tell("sum wraps", transfer(w, handle, memory.base(), ~std::size_t{0} - 4095, 0, 8192));
      });
    }
    add("check." + direction + ".far_offset", [=](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 8192));
      Memory memory(w, Kind::host, 8192);
      w.tell("32 TiB", transfer(w, handle, memory.base(), 4096, off_t{1} << 45, 0));
      w.tell("last", transfer(w, handle, memory.base(), 4096, LONG_MAX - 4095, 0));
      w.tell("wraps", transfer(w, handle, memory.base(), 4096, LONG_MAX, 0));
    });
  }
  return true;
}

CASE("check.read.failure_keeps_driver_count") {
  w.must("open", w.cuFileDriverOpen());
  Memory memory(w, Kind::host, 4096);
  static char nothing[256];
  for (int i = 0; i < 3; ++i) w.cuFileRead(nothing, memory.base(), 4096, 0, 0);
  w.say("use count: %ld", w.cuFileUseCount());
}

// ---- Ends of files -------------------------------------------------------------------------------------------------

TABLE() {
  for (const bool direct : {false, true}) {
    for (Kind kind : kTwoKinds) {
      const std::string suffix = std::string(direct ? "direct." : "buffered.") + name_of(kind);
      const int flags = O_RDWR | (direct ? O_DIRECT : 0);
      add("end.read." + suffix, [=](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", 10000, flags));
        Memory memory(w, kind, 32768);
        w.tell("across", w.cuFileRead(handle, memory.base(), 16384, 0, 0));
        w.say("memory: %s", compare_memory(memory, 0, 10000, 1, 0));
        w.tell("last block", w.cuFileRead(handle, memory.base(), 4096, 8192, 0));
        w.tell("last byte", w.cuFileRead(handle, memory.base(), 1, 9999, 0));
        w.tell("at the end", w.cuFileRead(handle, memory.base(), 4096, 10000, 0));
        w.tell("past, in the last block", w.cuFileRead(handle, memory.base(), 4096, 12288, 0));
        w.tell("far past", w.cuFileRead(handle, memory.base(), 4096, 1 << 20, 0));
        w.say("after the end: %s", memory.get(16384, 16384) == std::string(16384, Memory::kGuard) ? "kept" : "changed");
      });
      add("end.write." + suffix, [=](Fixture& w) {
        const int fd = w.file("a", 5000, flags);
        const CUfileHandle_t handle = w.handle(fd);
        Memory memory(w, kind, 8192);
        memory.put(0, pattern(2, 0, 8192));
        w.tell("across", w.cuFileWrite(handle, memory.base(), 8192, 4096, 0));
        w.say("file: %s, size %zu", compare_file(fd, 5000, 4096, 8192), size_of(fd));
        w.tell("with a hole", w.cuFileWrite(handle, memory.base(), 4096, 1 << 20, 0));
        w.say("size %zu", size_of(fd));
        w.tell("uneven end", w.cuFileWrite(handle, memory.base(), 100, (1 << 20) + 4096, 0));
        w.say("size %zu", size_of(fd));
      });
      add("end.hole." + suffix, [=](Fixture& w) {
        const int fd = w.file("a", 4096, flags);
        if (ftruncate(fd, 1 << 20) != 0) w.skip("cannot grow the file");
        const CUfileHandle_t handle = w.handle(fd);
        Memory memory(w, kind, 1 << 20);
        w.tell("read", w.cuFileRead(handle, memory.base(), 1 << 20, 0, 0));
        const std::string bytes = memory.get();
        const bool zeros = bytes.find_first_not_of('\0', 4096) == std::string::npos;
        w.say("data: %s hole: %s", bytes.substr(0, 4096) == pattern(1, 0, 4096) ? "equal" : "differs",
              zeros ? "zeros" : "other");
      });
      add("end.truncated_after_register." + suffix, [=](Fixture& w) {
        const int fd = w.file("a", 65536, flags);
        const CUfileHandle_t handle = w.handle(fd);
        if (ftruncate(fd, 8192) != 0) w.skip("cannot truncate");
        Memory memory(w, kind, 65536);
        w.tell("read", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
        if (ftruncate(fd, 16384) != 0) w.skip("cannot grow");
        w.tell("read grown", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
      });
    }
  }
  return true;
}

// ---- Large ---------------------------------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : kTwoKinds) {
    add(std::string("large.read_17_mib_plus_3.") + name_of(kind), [kind](Fixture& w) {
      constexpr std::size_t kSize = 17 * kMib + 3;
      const CUfileHandle_t handle = w.handle(w.file("a", kSize));
      Memory memory(w, kind, kSize);
      w.tell("read", w.cuFileRead(handle, memory.base(), kSize, 0, 0));
      w.say("memory: %s", compare_memory(memory, 0, kSize, 1, 0));
    });
    add(std::string("large.write_17_mib_plus_3.") + name_of(kind), [kind](Fixture& w) {
      constexpr std::size_t kSize = 17 * kMib + 3;
      const int fd = w.file("a", 10, O_RDWR);
      const CUfileHandle_t handle = w.handle(fd);
      Memory memory(w, kind, kSize);
      memory.put(0, pattern(2, 0, kSize));
      w.tell("write", w.cuFileWrite(handle, memory.base(), kSize, 0, 0));
      w.say("file: %s", compare_file(fd, 10, 0, kSize));
    });
    add(std::string("large.read_3_gib_of_a_hole.") + name_of(kind), [kind](Fixture& w) {
      const int fd = w.file("a", 4096);
      if (ftruncate(fd, static_cast<off_t>(3 * kGib)) != 0) w.skip("cannot grow the file");
      const CUfileHandle_t handle = w.handle(fd);
      void* base = nullptr;
      if (kind == Kind::host) {
        base = mmap(nullptr, 3 * kGib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      } else {
        w.need_gpu();
        Address address = 0;
        w.must_cuda("cuMemAlloc", w.cuda.cuMemAlloc_v2(&address, 3 * kGib));
        base = reinterpret_cast<void*>(address);
      }
      if (available_kib() < static_cast<long>(8 * kMib)) w.skip("needs 8 GiB of available memory");
      w.tell("read", w.cuFileRead(handle, base, 3 * kGib, 0, 0));
    });
  }
  return true;
}

// ---- The system says no --------------------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : kTwoKinds) {
    add(std::string("system.file_size_limit.") + name_of(kind), [kind](Fixture& w) {
      signal(SIGXFSZ, SIG_IGN);
      const int fd = w.file("a", 4096);
      const CUfileHandle_t handle = w.handle(fd);
      Memory memory(w, kind, 65536);
      const rlimit limit = {32768, 32768};
      setrlimit(RLIMIT_FSIZE, &limit);
      w.tell("across the limit", w.cuFileWrite(handle, memory.base(), 65536, 0, 0));
      w.tell("past the limit", w.cuFileWrite(handle, memory.base(), 4096, 65536, 0));
    });
    add(std::string("system.full_device.") + name_of(kind), [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(open("/dev/full", O_RDWR));
      Memory memory(w, kind, 4096);
      w.tell("write", w.cuFileWrite(handle, memory.base(), 4096, 0, 0));
    });
  }
  return true;
}

// ---- Threads -------------------------------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : kTwoKinds) {
    add(std::string("threads.one_handle.") + name_of(kind), [kind](Fixture& w) {
      constexpr std::size_t kEach = 256 * kKib;
      const CUfileHandle_t handle = w.handle(w.file("a", 16 * kEach));
      Memory memory(w, kind, 16 * kEach);
      std::vector<std::thread> threads;
      bool whole[16] = {};
      for (std::size_t i = 0; i < 16; ++i) {
        threads.emplace_back([&, i] {
          whole[i] = true;
          for (int turn = 0; turn < 20; ++turn) {
            const auto at = static_cast<off_t>(i * kEach);
            whole[i] &= w.cuFileRead(handle, memory.base(), kEach, at, at) == static_cast<ssize_t>(kEach);
          }
        });
      }
      for (std::thread& each : threads) each.join();
      bool all = true;
      for (bool each : whole) all &= each;
      w.say("every read whole: %d", all);
      w.say("memory: %s", compare_memory(memory, 0, 16 * kEach, 1, 0));
    });
  }
  return true;
}

CASE("coherence.read_after_plain_write") {
  const int fd = w.file("a", 65536);
  const CUfileHandle_t handle = w.handle(fd);
  Memory memory(w, Kind::gpu, 65536);
  w.tell("read", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
  const std::string bytes = pattern(3, 0, 65536);
  if (pwrite(fd, bytes.data(), bytes.size(), 0) != 65536) w.skip("cannot write");
  w.tell("read again", w.cuFileRead(handle, memory.base(), 65536, 0, 0));
  w.say("memory: %s", compare_memory(memory, 0, 65536, 3, 0));
}
CASE("coherence.plain_read_after_direct_write") {
  const int fd = w.file("a", 65536, O_RDWR | O_DIRECT);
  const CUfileHandle_t handle = w.handle(fd);
  Memory memory(w, Kind::gpu, 65536);
  memory.put(0, pattern(2, 0, 65536));
  w.tell("write", w.cuFileWrite(handle, memory.base(), 65536, 0, 0));
  w.say("file: %s", compare_file(fd, 65536, 0, 65536));
}
CASE("coherence.file_position_is_kept") {
  const int fd = w.file("a", 65536);
  lseek(fd, 1234, SEEK_SET);
  const CUfileHandle_t handle = w.handle(fd);
  Memory memory(w, Kind::host, 65536);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.tell("write", w.cuFileWrite(handle, memory.base(), 4096, 0, 0));
  w.say("position: %ld", lseek(fd, 0, SEEK_CUR));
}
CASE("coherence.errno_of_success") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  Memory memory(w, Kind::host, 4096);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.say("errno: %s", errno == 0 ? "0" : "set");
}
CASE("coherence.signal_during_read") {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  const CUfileHandle_t handle = w.handle(w.file("a", 16 * kMib));
  Memory memory(w, Kind::gpu, 16 * kMib);
  ualarm(1000, 1000);
  bool whole = true;
  for (int i = 0; i < 20; ++i) {
    whole &= w.cuFileRead(handle, memory.base(), 16 * kMib, 0, 0) == static_cast<ssize_t>(16 * kMib);
  }
  ualarm(0, 0);
  w.say("every read whole: %d", whole);
}

}  // namespace
}  // namespace conformance
