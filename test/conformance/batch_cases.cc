// SPDX-License-Identifier: Apache-2.0

// Batches: set-up, submission whole or not at all, states, waiting, cancelling, reuse, many at once.
#include <climits>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

constexpr std::size_t kEach = 16 * kKib;

CUfileBatchHandle_t set_up(Fixture& w, unsigned capacity) {
  CUfileBatchHandle_t batch = nullptr;
  w.must("set up", w.cuFileBatchIOSetUp(&batch, capacity));
  return batch;
}

// `count` entries over one file and memory, cookies from 1.
std::vector<CUfileIOParams_t> entries(CUfileOpcode_t opcode, CUfileHandle_t handle, const Memory& memory,
                                      unsigned count) {
  std::vector<CUfileIOParams_t> all;
  for (unsigned i = 0; i < count; ++i) {
    const auto at = static_cast<off_t>(i * kEach);
    all.push_back(entry(opcode, handle, memory.base(), kEach, at, at, i + 1));
  }
  return all;
}

CUfileError_t submit(Fixture& w, CUfileBatchHandle_t batch, std::vector<CUfileIOParams_t>& all) {
  return w.cuFileBatchIOSubmit(batch, static_cast<unsigned>(all.size()), all.data(), 0);
}

// ---- Set-up --------------------------------------------------------------------------------------------------------

TABLE() {
  for (unsigned capacity : {0U, 1U, 2U, 127U, 128U, 129U, 200U, 255U, 256U, 257U, 1024U, 0x80000000U, 0xFFFFFFFFU}) {
    add("batch.set_up." + std::to_string(capacity), [capacity](Fixture& w) {
      w.must("open", w.cuFileDriverOpen());
      CUfileBatchHandle_t batch = nullptr;
      w.tell("set up", w.cuFileBatchIOSetUp(&batch, capacity));
      w.say("batch: %s", batch == nullptr ? "null" : "given");
      if (batch != nullptr) w.cuFileBatchIODestroy(batch);
    });
  }
  for (unsigned capacity : {8U, 9U, 128U, 200U, 256U}) {
    add(
        "batch.set_up.io_batchsize_8." + std::to_string(capacity),
        [capacity](Fixture& w) {
          w.must("open", w.cuFileDriverOpen());
          CUfileBatchHandle_t batch = nullptr;
          w.tell("set up", w.cuFileBatchIOSetUp(&batch, capacity));
        },
        Setup{.json = R"({"properties": {"io_batchsize": 8, "allow_compat_mode": true}})"});
    add(
        "batch.set_up.io_batchsize_256." + std::to_string(capacity),
        [capacity](Fixture& w) {
          w.must("open", w.cuFileDriverOpen());
          CUfileBatchHandle_t batch = nullptr;
          w.tell("set up", w.cuFileBatchIOSetUp(&batch, capacity));
        },
        Setup{.json = R"({"properties": {"io_batchsize": 256, "allow_compat_mode": true}})"});
  }
  return true;
}
CASE("batch.set_up.null") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("set up", w.cuFileBatchIOSetUp(nullptr, 8));
}
CASE("batch.set_up.hundred_batches") {
  w.must("open", w.cuFileDriverOpen());
  for (int i = 0; i < 100; ++i) {
    CUfileBatchHandle_t batch = nullptr;
    const CUfileError_t outcome = w.cuFileBatchIOSetUp(&batch, 128);
    if (outcome.err != CU_FILE_SUCCESS) {
      w.say("at %d", i);
      w.must("set up", outcome);
    }
  }
  w.say("all set up");
}
CASE("batch.destroy.null_and_unknown") {
  w.must("open", w.cuFileDriverOpen());
  w.cuFileBatchIODestroy(nullptr);
  w.say("null: came back");
  static char nothing[512];
  w.cuFileBatchIODestroy(nothing);
  w.say("unknown: came back");
}
CASE("batch.destroy.twice") {
  const CUfileBatchHandle_t batch = set_up(w, 8);
  w.cuFileBatchIODestroy(batch);
  w.cuFileBatchIODestroy(batch);
  w.say("came back");
}
CASE("batch.cancel.null_and_unknown") {
  w.must("open", w.cuFileDriverOpen());
  static char nothing[512];
  w.tell("null", w.cuFileBatchIOCancel(nullptr));
  w.tell("unknown", w.cuFileBatchIOCancel(nothing));
}
CASE("batch.cancel.idle") { w.tell("cancel", w.cuFileBatchIOCancel(set_up(w, 8))); }

// ---- Transfers -----------------------------------------------------------------------------------------------------

TABLE() {
  struct Row {
    const char* name;
    int flags;
    Kind kind;
    bool registered;
  };
  static constexpr Row kRows[] = {
      {"buffered.host", O_RDWR, Kind::host, false},
      {"buffered.gpu", O_RDWR, Kind::gpu, false},
      {"buffered.gpu.registered", O_RDWR, Kind::gpu, true},
      {"direct.host", O_RDWR | O_DIRECT, Kind::host, false},
      {"direct.gpu", O_RDWR | O_DIRECT, Kind::gpu, false},
      {"direct.gpu.registered", O_RDWR | O_DIRECT, Kind::gpu, true},
      {"buffered.pinned", O_RDWR, Kind::pinned, false},
      {"buffered.managed", O_RDWR, Kind::managed, false},
      {"buffered.vmm", O_RDWR, Kind::vmm, false},
      {"buffered.host.registered", O_RDWR, Kind::host, true},
  };
  for (const Row& row : kRows) {
    for (const unsigned count : {1U, 8U, 128U}) {
      const std::string suffix = std::string(row.name) + "." + std::to_string(count);
      add("batch.read." + suffix, [&row, count](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", count * kEach, row.flags));
        Memory memory(w, row.kind, count * kEach);
        if (row.registered) w.must("register buffer", w.cuFileBufRegister(memory.base(), memory.size(), 0));
        const CUfileBatchHandle_t batch = set_up(w, count);
        std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, count);
        w.must("submit", submit(w, batch, all));
        const auto events = reap(w, batch, count);
        if (count <= 8) tell_all(w, events);
        std::size_t good = 0;
        for (const auto& event : events) good += event.status == CUFILE_COMPLETE && event.ret == kEach;
        w.say("complete: %zu", good);
        w.say("memory: %s", compare_memory(memory, 0, count * kEach, 1, 0));
        w.cuFileBatchIODestroy(batch);
      });
      add("batch.write." + suffix, [&row, count](Fixture& w) {
        const int fd = w.file("a", count * kEach, row.flags);
        const CUfileHandle_t handle = w.handle(fd);
        Memory memory(w, row.kind, count * kEach);
        if (row.registered) w.must("register buffer", w.cuFileBufRegister(memory.base(), memory.size(), 0));
        memory.put(0, pattern(2, 0, count * kEach));
        const CUfileBatchHandle_t batch = set_up(w, count);
        std::vector<CUfileIOParams_t> all = entries(CUFILE_WRITE, handle, memory, count);
        w.must("submit", submit(w, batch, all));
        std::size_t good = 0;
        for (const auto& event : reap(w, batch, count)) good += event.status == CUFILE_COMPLETE && event.ret == kEach;
        w.say("complete: %zu", good);
        w.say("file: %s", compare_file(fd, count * kEach, 0, count * kEach));
        w.cuFileBatchIODestroy(batch);
      });
    }
  }
  return true;
}

CASE("batch.mixed.directions_files_memories") {
  const int first = w.file("a", 8 * kEach), second = w.file("b", 8 * kEach, O_RDWR | O_DIRECT);
  const CUfileHandle_t one = w.handle(first), two = w.handle(second);
  Memory host(w, Kind::host, 4 * kEach), device(w, Kind::gpu, 4 * kEach);
  host.put(2 * kEach, pattern(2, 0, kEach));
  device.put(2 * kEach, pattern(2, 0, kEach));
  std::vector<CUfileIOParams_t> all = {entry(CUFILE_READ, one, host.base(), kEach, 0, 0, 1),
                                       entry(CUFILE_READ, two, device.base(), kEach, 0, 0, 2),
                                       entry(CUFILE_WRITE, one, device.base(), kEach, 4 * kEach, 2 * kEach, 3),
                                       entry(CUFILE_WRITE, two, host.base(), kEach, 4 * kEach, 2 * kEach, 4)};
  const CUfileBatchHandle_t batch = set_up(w, 8);
  w.tell("submit", submit(w, batch, all));
  tell_all(w, reap(w, batch, 4));
  w.say("files: %s %s", compare_file(first, 8 * kEach, 4 * kEach, kEach),
        compare_file(second, 8 * kEach, 4 * kEach, kEach));
  w.say("memory: %s %s", host.get(0, kEach) == pattern(1, 0, kEach) ? "equal" : "differs",
        device.get(0, kEach) == pattern(1, 0, kEach) ? "equal" : "differs");
}

TABLE() {
  for (Kind kind : {Kind::host, Kind::gpu}) {
    for (const bool direct : {false, true}) {
      add(std::string("batch.odd.") + name_of(kind) + (direct ? ".direct" : ".buffered"), [=](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", 10000, O_RDWR | (direct ? O_DIRECT : 0)));
        Memory memory(w, kind, kMib);
        std::vector<CUfileIOParams_t> all = {entry(CUFILE_READ, handle, memory.base(), 0, 0, 0, 1),
                                             entry(CUFILE_READ, handle, memory.base(), 8192, 8192, 0, 2),
                                             entry(CUFILE_READ, handle, memory.base(), 4096, 10000, 16384, 3),
                                             entry(CUFILE_READ, handle, memory.base(), 4096, 1 << 20, 32768, 4),
                                             entry(CUFILE_READ, handle, memory.base(), 513, 1, 65536 + 7, 5),
                                             entry(CUFILE_READ, handle, memory.base(), 1, 9999, 131072, 6)};
        const CUfileBatchHandle_t batch = set_up(w, 16);
        w.tell("submit", submit(w, batch, all));
        tell_all(w, reap(w, batch, 6));
        w.say("short: %s", memory.get(0, 1808) == pattern(1, 8192, 1808) ? "equal" : "differs");
        w.say("uneven: %s", memory.get(65536 + 7, 513) == pattern(1, 1, 513) ? "equal" : "differs");
      });
      add(std::string("batch.one_mib_entries.") + name_of(kind) + (direct ? ".direct" : ".buffered"), [=](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", 8 * kMib, O_RDWR | (direct ? O_DIRECT : 0)));
        Memory memory(w, kind, 8 * kMib);
        std::vector<CUfileIOParams_t> all;
        for (off_t i = 0; i < 2; ++i) {
          all.push_back(entry(CUFILE_READ, handle, memory.base(), 4 * kMib, i * 4 * static_cast<off_t>(kMib),
                              i * 4 * static_cast<off_t>(kMib), static_cast<std::size_t>(i) + 1));
        }
        const CUfileBatchHandle_t batch = set_up(w, 16);
        w.tell("submit", submit(w, batch, all));
        tell_all(w, reap(w, batch, 2));
        w.say("memory: %s", compare_memory(memory, 0, 8 * kMib, 1, 0));
      });
    }
  }
  return true;
}

// ---- What is refused, and what fails -------------------------------------------------------------------------------

// One entry that is wrong between two that are right: is the whole refused, or does it fail alone?
TABLE() {
  struct Row {
    const char* name;
    void (*spoil)(CUfileIOParams_t&);
  };
  static char nothing[512];
  static constexpr Row kRows[] = {
      {"mode_0", [](CUfileIOParams_t& e) { std::memset(&e.mode, 0, sizeof(e.mode)); }},
      {"mode_2",
       [](CUfileIOParams_t& e) {
         const int two = 2;
         std::memcpy(&e.mode, &two, sizeof(two));
       }},
      {"opcode_2",
       [](CUfileIOParams_t& e) {
         const int two = 2;
         std::memcpy(&e.opcode, &two, sizeof(two));
       }},
      {"opcode_minus_1",
       [](CUfileIOParams_t& e) {
         const int no = -1;
         std::memcpy(&e.opcode, &no, sizeof(no));
       }},
      {"null_handle", [](CUfileIOParams_t& e) { e.fh = nullptr; }},
      {"unknown_handle", [](CUfileIOParams_t& e) { e.fh = nothing; }},
      {"null_memory", [](CUfileIOParams_t& e) { e.u.batch.devPtr_base = nullptr; }},
      {"file_offset_minus_1", [](CUfileIOParams_t& e) { e.u.batch.file_offset = -1; }},
      {"buffer_offset_minus_1", [](CUfileIOParams_t& e) { e.u.batch.devPtr_offset = -1; }},
      {"huge_size", [](CUfileIOParams_t& e) { e.u.batch.size = ~std::size_t{0}; }},
      {"zero_size", [](CUfileIOParams_t& e) { e.u.batch.size = 0; }},
      {"bad_address", [](CUfileIOParams_t& e) { e.u.batch.devPtr_base = reinterpret_cast<void*>(4096); }},
      {"past_registration", [](CUfileIOParams_t& e) { e.u.batch.size = 1 << 20; }},
      {"null_cookie", [](CUfileIOParams_t& e) { e.cookie = nullptr; }},
      {"cookie_of_another", [](CUfileIOParams_t& e) { e.cookie = reinterpret_cast<void*>(1); }},
  };
  for (const Row& row : kRows) {
    for (Kind kind : {Kind::host, Kind::gpu}) {
      add(std::string("batch.spoiled.") + row.name + "." + name_of(kind), [&row, kind](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", 8 * kEach));
        Memory memory(w, kind, 3 * kEach);
        w.must("register buffer", w.cuFileBufRegister(memory.base(), memory.size(), 0));
        const CUfileBatchHandle_t batch = set_up(w, 8);
        std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, 3);
        row.spoil(all[1]);
        if (w.tell("submit", submit(w, batch, all)).err == CU_FILE_SUCCESS) tell_all(w, reap(w, batch, 3));
        std::vector<CUfileIOParams_t> good = entries(CUFILE_READ, handle, memory, 1);
        if (w.tell("submit a good one", submit(w, batch, good)).err == CU_FILE_SUCCESS) tell_all(w, reap(w, batch, 1));
      });
    }
  }
  return true;
}

CASE("batch.submit.arguments") {
  const CUfileHandle_t handle = w.handle(w.file("a", 8 * kEach));
  Memory memory(w, Kind::host, 8 * kEach);
  const CUfileBatchHandle_t batch = set_up(w, 4);
  std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, 8);
  static char nothing[512];
  w.tell("no batch", w.cuFileBatchIOSubmit(nullptr, 1, all.data(), 0));
  w.tell("unknown batch", w.cuFileBatchIOSubmit(nothing, 1, all.data(), 0));
  w.tell("no entries", w.cuFileBatchIOSubmit(batch, 0, all.data(), 0));
  w.tell("more than the capacity", w.cuFileBatchIOSubmit(batch, 5, all.data(), 0));
  w.tell("far more", w.cuFileBatchIOSubmit(batch, 0xFFFFFFFF, all.data(), 0));
  w.tell("as many as the capacity", w.cuFileBatchIOSubmit(batch, 4, all.data(), 0));
  w.tell("one more", w.cuFileBatchIOSubmit(batch, 1, all.data(), 0));
  tell_all(w, reap(w, batch, 4));
  w.tell("after reaping", w.cuFileBatchIOSubmit(batch, 4, all.data(), 0));
  tell_all(w, reap(w, batch, 4));
}
CASE("batch.submit.null_entries") { w.tell("submit", w.cuFileBatchIOSubmit(set_up(w, 4), 1, nullptr, 0)); }
CASE("batch.submit.no_entries_and_null") { w.tell("submit", w.cuFileBatchIOSubmit(set_up(w, 4), 0, nullptr, 0)); }
TABLE() {
  for (unsigned flags : {1U, 2U, 0x80000000U, 0xFFFFFFFFU}) {
    add("batch.submit.flags." + std::to_string(flags), [flags](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", kEach));
      Memory memory(w, Kind::host, kEach);
      const CUfileBatchHandle_t batch = set_up(w, 4);
      std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, 1);
      if (w.tell("submit", w.cuFileBatchIOSubmit(batch, 1, all.data(), flags)).err == CU_FILE_SUCCESS)
        tell_all(w, reap(w, batch, 1));
    });
  }
  return true;
}
CASE("batch.submit.destroyed") {
  const CUfileHandle_t handle = w.handle(w.file("a", kEach));
  Memory memory(w, Kind::host, kEach);
  const CUfileBatchHandle_t batch = set_up(w, 4);
  w.cuFileBatchIODestroy(batch);
  std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, 1);
  w.tell("submit", submit(w, batch, all));
  unsigned number = 1;
  CUfileIOEvents_t event;
  timespec now = {0, 0};
  w.tell("status", w.cuFileBatchIOGetStatus(batch, 0, &number, &event, &now));
  w.tell("cancel", w.cuFileBatchIOCancel(batch));
}
CASE("batch.submit.wrong_direction") {
  const CUfileHandle_t reader = w.handle(w.file("a", kEach, O_RDONLY)), writer = w.handle(w.file("b", kEach, O_WRONLY));
  Memory memory(w, Kind::host, 2 * kEach);
  const CUfileBatchHandle_t batch = set_up(w, 4);
  std::vector<CUfileIOParams_t> all = {entry(CUFILE_WRITE, reader, memory.base(), kEach, 0, 0, 1),
                                       entry(CUFILE_READ, writer, memory.base(), kEach, 0, kEach, 2)};
  w.tell("submit", submit(w, batch, all));
  tell_all(w, reap(w, batch, 2));
}
CASE("batch.submit.parameters_are_copied") {
  const CUfileHandle_t handle = w.handle(w.file("a", 64 * kEach));
  Memory memory(w, Kind::gpu, 64 * kEach);
  const CUfileBatchHandle_t batch = set_up(w, 64);
  std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, 64);
  w.must("submit", submit(w, batch, all));
  std::memset(all.data(), 0xFF, all.size() * sizeof(all[0]));
  std::size_t good = 0;
  for (const auto& event : reap(w, batch, 64)) good += event.status == CUFILE_COMPLETE && event.ret == kEach;
  w.say("complete: %zu", good);
  w.say("memory: %s", compare_memory(memory, 0, 64 * kEach, 1, 0));
}
CASE("batch.submit.handle_deregistered_before") {
  const CUfileHandle_t handle = w.handle(w.file("a", kEach));
  Memory memory(w, Kind::host, kEach);
  const CUfileBatchHandle_t batch = set_up(w, 4);
  w.cuFileHandleDeregister(handle);
  std::vector<CUfileIOParams_t> all = entries(CUFILE_READ, handle, memory, 1);
  if (w.tell("submit", submit(w, batch, all)).err == CU_FILE_SUCCESS) tell_all(w, reap(w, batch, 1));
}

}  // namespace
}  // namespace conformance
