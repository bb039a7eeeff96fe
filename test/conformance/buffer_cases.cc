// SPDX-License-Identifier: Apache-2.0

// Registration of buffers, and which memory a transfer accepts.
#include <sys/mman.h>

#include <climits>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

constexpr Kind kKinds[] = {Kind::gpu,     Kind::host, Kind::pinned, Kind::registered,
                           Kind::managed, Kind::vmm,  Kind::mapped};
constexpr std::size_t kBufferSize = 64 * kKib;

// Rows for every kind of memory.
TABLE() {
  for (Kind kind : kKinds) {
    const std::string name = name_of(kind);
    add("buffer.register." + name, [kind](Fixture& w) {
      Memory memory(w, kind, kBufferSize);
      w.tell("register", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
      w.tell("again", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
      w.tell("deregister", w.cuFileBufDeregister(memory.base()));
      w.tell("deregister again", w.cuFileBufDeregister(memory.base()));
      w.tell("register once more", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
    });
    for (const bool registered : {false, true}) {
      add("buffer.transfer." + std::string(registered ? "registered." : "plain.") + name, [=](Fixture& w) {
        const int fd = w.file("a", 2 * kBufferSize);
        const CUfileHandle_t handle = w.handle(fd);
        Memory memory(w, kind, kBufferSize);
        if (registered) w.must("register buffer", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
        w.tell("read", w.cuFileRead(handle, memory.base(), kBufferSize - 8192, 4096, 4096));
        w.say("memory: %s", compare_memory(memory, 4096, kBufferSize - 8192, 1, 4096));
        memory.put(0, pattern(2, 0, kBufferSize));
        w.tell("write", w.cuFileWrite(handle, memory.base(), kBufferSize, 8192, 0));
        w.say("file: %s", compare_file(fd, 2 * kBufferSize, 8192, kBufferSize));
      });
    }
    add("buffer.beyond.registered." + name, [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 4 * kBufferSize));
      Memory memory(w, kind, 2 * kBufferSize);
      w.must("register buffer", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
      w.tell("size one too many", w.cuFileRead(handle, memory.base(), kBufferSize + 1, 0, 0));
      w.tell("offset one too far", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 1));
      w.tell("offset at the end", w.cuFileRead(handle, memory.base(), 1, 0, kBufferSize));
      w.tell("nothing at the end", w.cuFileRead(handle, memory.base(), 0, 0, kBufferSize));
      w.tell("write", w.cuFileWrite(handle, memory.base(), kBufferSize + 1, 0, 0));
    });
    add("buffer.inside_registration." + name, [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 4 * kBufferSize));
      Memory memory(w, kind, 2 * kBufferSize);
      w.must("register buffer", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
      w.tell("pointer inside", w.cuFileRead(handle, memory.at(4096), 4096, 4096, 0));
      w.say("memory: %s", compare_memory(memory, 4096, 4096, 1, 4096));
      w.tell("past the registration", w.cuFileRead(handle, memory.at(4096), kBufferSize, 0, 0));
    });
    add("buffer.past_the_allocation." + name, [kind](Fixture& w) {
      if (kind == Kind::host || kind == Kind::mapped) w.skip("host ranges are not known to anybody");
      Memory memory(w, kind, 2 * kMib);
      w.tell("register one too many", w.cuFileBufRegister(memory.base(), 2 * kMib + 1, 0));
      w.tell("register far too many", w.cuFileBufRegister(memory.base(), 64 * kMib, 0));
      w.tell("register the tail and more", w.cuFileBufRegister(memory.at(2 * kMib - 4096), 8192, 0));
    });
    add("buffer.freed_while_registered." + name, [kind](Fixture& w) {
      if (kind == Kind::vmm) w.skip("not freed here");
      Memory memory(w, kind, kBufferSize);
      w.must("register buffer", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
      memory.free();
      w.tell("deregister", w.cuFileBufDeregister(memory.base()));
      w.tell("deregister again", w.cuFileBufDeregister(memory.base()));
    });
  }
  return true;
}

CASE("buffer.past_the_allocation.read.gpu") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4 * kMib));
  Memory memory(w, Kind::gpu, 2 * kMib);
  w.tell("read", w.cuFileRead(handle, memory.base(), 2 * kMib + 1, 0, 0));
  w.tell("read by offset", w.cuFileRead(handle, memory.base(), 4096, 0, 2 * kMib));
  w.tell("write", w.cuFileWrite(handle, memory.base(), 2 * kMib + 1, 0, 0));
}

// ---- Arguments -----------------------------------------------------------------------------------------------------

CASE("buffer.null") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("register", w.cuFileBufRegister(nullptr, 4096, 0));
  w.tell("deregister", w.cuFileBufDeregister(nullptr));
}
CASE("buffer.null_closed") {
  w.tell("register", w.cuFileBufRegister(nullptr, 4096, 0));
  w.say("use count: %ld", w.cuFileUseCount());
  w.tell("deregister", w.cuFileBufDeregister(nullptr));
}
CASE("buffer.no_length.gpu") {
  Memory memory(w, Kind::gpu, 4096);
  w.tell("register", w.cuFileBufRegister(memory.base(), 0, 0));
}
CASE("buffer.no_length.host") {
  Memory memory(w, Kind::host, 4096);
  w.tell("register", w.cuFileBufRegister(memory.base(), 0, 0));
}
CASE("buffer.huge_length.host") {
  Memory memory(w, Kind::host, 4096);
  w.tell("16 TiB", w.cuFileBufRegister(memory.base(), std::size_t{1} << 44, 0));
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  w.tell("all", w.cuFileBufRegister(memory.base(), ~std::size_t{0}, 0));
}
CASE("buffer.huge_length.gpu") {
  Memory memory(w, Kind::gpu, 4096);
  w.tell("16 TiB", w.cuFileBufRegister(memory.base(), std::size_t{1} << 44, 0));
  w.tell("all", w.cuFileBufRegister(memory.base(), ~std::size_t{0}, 0));
}

TABLE() {
  for (int flags : {1, 2, 3, 4, 0x100, -1, INT_MAX}) {
    for (Kind kind : {Kind::gpu, Kind::host}) {
      add("buffer.flags." + std::to_string(flags) + "." + name_of(kind), [=](Fixture& w) {
        Memory memory(w, kind, 4096);
        w.tell("register", w.cuFileBufRegister(memory.base(), 4096, flags));
      });
    }
  }
  return true;
}

CASE("buffer.unknown_address") {
  w.must("open", w.cuFileDriverOpen());
  Memory memory(w, Kind::host, 8192);
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  w.must("register", w.cuFileBufRegister(memory.base(), 8192, 0));
  w.tell("deregister inside", w.cuFileBufDeregister(memory.at(4096)));
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
}
CASE("buffer.unmapped_address") {
  w.must("open", w.cuFileDriverOpen());
  void* const hole = mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 1 << 20);
  w.tell("register", w.cuFileBufRegister(hole, 4096, 0));
}
CASE("buffer.nested.gpu") {
  Memory memory(w, Kind::gpu, kBufferSize);
  w.tell("whole", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
  w.tell("inside", w.cuFileBufRegister(memory.at(4096), 4096, 0));
  w.tell("overlapping", w.cuFileBufRegister(memory.at(8192), kBufferSize - 8192, 0));
  w.tell("whole again, shorter", w.cuFileBufRegister(memory.base(), 4096, 0));
  w.tell("deregister whole", w.cuFileBufDeregister(memory.base()));
  w.tell("deregister inside", w.cuFileBufDeregister(memory.at(4096)));
  w.tell("deregister overlapping", w.cuFileBufDeregister(memory.at(8192)));
}
CASE("buffer.nested.host") {
  Memory memory(w, Kind::host, kBufferSize);
  w.tell("whole", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
  w.tell("inside", w.cuFileBufRegister(memory.at(4096), 4096, 0));
  w.tell("overlapping", w.cuFileBufRegister(memory.at(8192), kBufferSize - 8192, 0));
  w.tell("deregister whole", w.cuFileBufDeregister(memory.base()));
  w.tell("deregister inside", w.cuFileBufDeregister(memory.at(4096)));
}
CASE("buffer.unaligned.gpu") {
  Memory memory(w, Kind::gpu, kBufferSize);
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  w.tell("register", w.cuFileBufRegister(memory.at(1), 4097, 0));
  w.tell("read", w.cuFileRead(handle, memory.at(1), 4097, 3, 0));
  w.say("memory: %s", compare_memory(memory, 1, 4097, 1, 3));
}
CASE("buffer.unaligned.host") {
  Memory memory(w, Kind::host, kBufferSize);
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  w.tell("register", w.cuFileBufRegister(memory.at(1), 4097, 0));
  w.tell("read", w.cuFileRead(handle, memory.at(1), 4097, 3, 0));
  w.say("memory: %s", compare_memory(memory, 1, 4097, 1, 3));
}

// ---- Life ----------------------------------------------------------------------------------------------------------

CASE("buffer.deregister_after_close") {
  Memory memory(w, Kind::host, 4096);
  w.must("register", w.cuFileBufRegister(memory.base(), 4096, 0));
  w.must("close", w.cuFileDriverClose_v2());
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("buffer.deregister_after_close_and_reopen") {
  Memory memory(w, Kind::gpu, 4096);
  w.must("register", w.cuFileBufRegister(memory.base(), 4096, 0));
  w.must("close", w.cuFileDriverClose_v2());
  w.must("open", w.cuFileDriverOpen());
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  w.tell("register", w.cuFileBufRegister(memory.base(), 4096, 0));
}
CASE("buffer.deregister_does_not_close_driver") {
  Memory memory(w, Kind::host, 4096);
  w.must("register", w.cuFileBufRegister(memory.base(), 4096, 0));
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("buffer.freed_and_allocated_anew.gpu") {
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  Memory first(w, Kind::gpu, kBufferSize);
  w.must("register", w.cuFileBufRegister(first.base(), kBufferSize, 0));
  first.free();
  Memory second(w, Kind::gpu, kBufferSize);
  w.say("same address: %d", first.base() == second.base());
  w.tell("register", w.cuFileBufRegister(second.base(), kBufferSize, 0));
  w.tell("read", w.cuFileRead(handle, second.base(), kBufferSize, 0, 0));
  w.say("memory: %s", compare_memory(second, 0, kBufferSize, 1, 0));
}
CASE("buffer.thousand") {
  Memory memory(w, Kind::gpu, 1000 * 4096);
  for (std::size_t i = 0; i < 1000; ++i) w.must("register", w.cuFileBufRegister(memory.at(i * 4096), 4096, 0));
  for (std::size_t i = 0; i < 1000; ++i) w.must("deregister", w.cuFileBufDeregister(memory.at(i * 4096)));
  w.say("all");
}
CASE("buffer.deregister_while_used") {
  const CUfileHandle_t handle = w.handle(w.file("a", kMib));
  Memory memory(w, Kind::gpu, kMib);
  bool whole = true;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      w.cuFileBufRegister(memory.base(), kMib, 0);
      w.cuFileBufDeregister(memory.base());
    }
  });
  for (int i = 0; i < 100; ++i) whole &= w.cuFileRead(handle, memory.base(), kMib, 0, 0) == static_cast<ssize_t>(kMib);
  other.join();
  w.say("every read whole: %d", whole);
  w.say("memory: %s", compare_memory(memory, 0, kMib, 1, 0));
}

// ---- Other contexts, other memory ----------------------------------------------------------------------------------

CASE("buffer.memory_of_second_context") {
  w.need_gpu();
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  Context second = nullptr, popped = nullptr;
  w.must_cuda("cuCtxCreate", w.cuda.cuCtxCreate_v2(&second, 0, 0));
  Memory memory(w, Kind::gpu, kBufferSize);
  w.tell("register", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
  w.tell("read", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 0));
  w.say("memory: %s", compare_memory(memory, 0, kBufferSize, 1, 0));
  w.must_cuda("cuCtxPopCurrent", w.cuda.cuCtxPopCurrent_v2(&popped));
  w.tell("read in the primary context", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 0));
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
}
CASE("buffer.thread_without_context") {
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  Memory memory(w, Kind::gpu, kBufferSize);
  std::thread([&] {
    w.tell("read", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 0));
    w.tell("register", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
    w.tell("read registered", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 0));
  }).join();
  w.say("memory: %s", compare_memory(memory, 0, kBufferSize, 1, 0));
}
CASE("buffer.context_destroyed") {
  w.need_gpu();
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  Context second = nullptr;
  w.must_cuda("cuCtxCreate", w.cuda.cuCtxCreate_v2(&second, 0, 0));
  Memory memory(w, Kind::gpu, kBufferSize);
  w.tell("register", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
  w.must_cuda("cuCtxDestroy", w.cuda.cuCtxDestroy_v2(second));
  w.tell("read", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 0));
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  Memory fresh(w, Kind::gpu, kBufferSize);
  w.tell("read anew", w.cuFileRead(handle, fresh.base(), kBufferSize, 0, 0));
}
CASE("buffer.stack") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  alignas(4096) char memory[4096] = {};
  w.tell("register", w.cuFileBufRegister(memory, sizeof(memory), 0));
  w.tell("read", w.cuFileRead(handle, memory, sizeof(memory), 0, 0));
  w.say("memory: %s", std::string(memory, 4096) == pattern(1, 0, 4096) ? "equal" : "differs");
}
CASE("buffer.read_only_memory") {
  const CUfileHandle_t handle = w.handle(w.file("a", 8192));
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  w.tell("register", w.cuFileBufRegister(memory, 4096, 0));
  w.tell("write", w.cuFileWrite(handle, memory, 4096, 0, 0));
  w.tell("read", w.cuFileRead(handle, memory, 4096, 4096, 0));
}
CASE("buffer.inaccessible_memory") {
  const CUfileHandle_t handle = w.handle(w.file("a", 8192));
  void* const memory = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  w.tell("read", w.cuFileRead(handle, memory, 4096, 0, 0));
  w.tell("write", w.cuFileWrite(handle, memory, 4096, 0, 0));
}
CASE("buffer.address_1") {
  const CUfileHandle_t handle = w.handle(w.file("a", 8192));
  w.tell("read", w.cuFileRead(handle, reinterpret_cast<void*>(1), 4096, 0, 0));
  w.tell("write", w.cuFileWrite(handle, reinterpret_cast<void*>(1), 4096, 0, 0));
}
CASE("buffer.freed_gpu_memory") {
  const CUfileHandle_t handle = w.handle(w.file("a", kBufferSize));
  Memory memory(w, Kind::gpu, 4 * kMib);
  memory.free();
  w.tell("register", w.cuFileBufRegister(memory.base(), kBufferSize, 0));
  w.tell("read", w.cuFileRead(handle, memory.base(), kBufferSize, 0, 0));
}

}  // namespace
}  // namespace conformance
