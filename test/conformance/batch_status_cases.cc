// SPDX-License-Identifier: Apache-2.0

// Batches: what GetStatus waits for and reports, cancelling and destroying with work in flight, reuse, many threads.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

constexpr std::size_t kEach = 16 * kKib;

// A batch of `count` reads, submitted.
struct Work {
  Work(Fixture& w, unsigned capacity, unsigned count, Kind kind = Kind::host, std::size_t each = kEach)
      : handle(w.handle(w.file("a", count * each))), memory(w, kind, count * each) {
    w.must("set up", w.cuFileBatchIOSetUp(&batch, capacity));
    for (unsigned i = 0; i < count; ++i) {
      const auto at = static_cast<off_t>(i * each);
      all.push_back(entry(CUFILE_READ, handle, memory.base(), each, at, at, i + 1));
    }
    if (count > 0) w.must("submit", w.cuFileBatchIOSubmit(batch, count, all.data(), 0));
  }
  CUfileHandle_t handle;
  Memory memory;
  CUfileBatchHandle_t batch = nullptr;
  std::vector<CUfileIOParams_t> all;
};

// Only what takes the events tells that entries are done: so this is far longer than they need on a busy machine.
void let_all_be_done() { ::usleep(5'000'000); }

// One call, and what came of it: events only counted, as their order is free.
unsigned ask(Fixture& w, const char* step, CUfileBatchHandle_t batch, unsigned least, unsigned room,
             timespec* patience) {
  std::vector<CUfileIOEvents_t> events(std::max(room, 1U));
  unsigned number = room;
  w.tell(step, w.cuFileBatchIOGetStatus(batch, least, &number, events.data(), patience));
  return number;
}

CASE("status.idle.least_0_at_once") {
  Work work(w, 8, 0);
  timespec now = {0, 0};
  w.say("number: %u", ask(w, "status", work.batch, 0, 8, &now));
}
CASE("status.idle.least_0_forever") {
  Work work(w, 8, 0);
  w.say("number: %u", ask(w, "status", work.batch, 0, 8, nullptr));
}
CASE("status.idle.least_1_for_50_ms") {
  Work work(w, 8, 0);
  timespec some = {0, 50'000'000};
  w.say("number: %u", ask(w, "status", work.batch, 1, 8, &some));
}
CASE("status.idle.least_1_forever") {
  Work work(w, 8, 0);
  w.say("number: %u", ask(w, "status", work.batch, 1, 8, nullptr));
}
CASE("status.least_all_forever") {
  Work work(w, 8, 8);
  w.say("number: %u", ask(w, "status", work.batch, 8, 8, nullptr));
  w.say("memory: %s", compare_memory(work.memory, 0, 8 * kEach, 1, 0));
}
CASE("status.least_all_for_5_s") {
  Work work(w, 8, 8);
  timespec some = {5, 0};
  w.say("number: %u", ask(w, "status", work.batch, 8, 8, &some));
}
CASE("status.least_more_than_outstanding_forever") {
  Work work(w, 8, 4);
  w.say("number: %u", ask(w, "status", work.batch, 8, 8, nullptr));
}
CASE("status.least_more_than_outstanding_for_100_ms") {
  Work work(w, 8, 4);
  timespec some = {0, 100'000'000};
  w.say("number: %u", ask(w, "status", work.batch, 8, 8, &some));
}
CASE("status.reaped_then_least_all_forever") {
  Work work(w, 8, 4);
  w.say("reaped: %zu", reap(w, work.batch, 4).size());
  w.say("number: %u", ask(w, "status", work.batch, 4, 8, nullptr));
}
CASE("status.room_smaller_than_done") {
  Work work(w, 8, 8);
  let_all_be_done();
  timespec some = {1, 0};
  w.say("number: %u", ask(w, "first", work.batch, 1, 3, &some));
  w.say("number: %u", ask(w, "second", work.batch, 1, 3, &some));
  w.say("number: %u", ask(w, "third", work.batch, 1, 3, &some));
  w.say("number: %u", ask(w, "fourth", work.batch, 0, 3, &some));
}
CASE("status.least_0_when_all_are_done") {
  Work work(w, 8, 8);
  let_all_be_done();
  timespec now = {0, 0};
  w.say("number: %u", ask(w, "status", work.batch, 0, 8, &now));
}
CASE("status.least_1_when_all_are_done") {
  Work work(w, 8, 8);
  let_all_be_done();
  w.say("number: %u", ask(w, "status", work.batch, 1, 8, nullptr));
}
CASE("status.arguments") {
  Work work(w, 8, 2);
  timespec some = {1, 0};
  CUfileIOEvents_t events[8];
  unsigned number = 2;
  static char nothing[512];
  w.tell("no batch", w.cuFileBatchIOGetStatus(nullptr, 0, &number, events, &some));
  number = 2;
  w.tell("unknown batch", w.cuFileBatchIOGetStatus(nothing, 0, &number, events, &some));
  number = 2;
  w.tell("least more than room", w.cuFileBatchIOGetStatus(work.batch, 3, &number, events, &some));
  w.say("number: %u", number);
  number = 0;
  w.tell("no room", w.cuFileBatchIOGetStatus(work.batch, 0, &number, events, &some));
  w.say("number: %u", number);
  w.say("number: %u", ask(w, "at last", work.batch, 2, 8, &some));
}
CASE("status.null_number") {
  Work work(w, 8, 2);
  CUfileIOEvents_t events[8];
  timespec some = {1, 0};
  w.tell("status", w.cuFileBatchIOGetStatus(work.batch, 0, nullptr, events, &some));
}
CASE("status.null_events") {
  Work work(w, 8, 2);
  unsigned number = 2;
  timespec some = {1, 0};
  w.tell("status", w.cuFileBatchIOGetStatus(work.batch, 2, &number, nullptr, &some));
}
TABLE() {
  struct Row {
    const char* name;
    timespec patience;
  };
  static constexpr Row kRows[] = {{"negative", {-1, 0}}, {"negative_ns", {0, -1}}, {"too_many_ns", {0, 2'000'000'000}}};
  for (const Row& row : kRows) {
    add(std::string("status.patience.") + row.name, [&row](Fixture& w) {
      Work work(w, 8, 2);
      timespec patience = row.patience;
      let_all_be_done();
      w.say("number: %u", ask(w, "status", work.batch, 2, 8, &patience));
    });
  }
  return true;
}

// Every state that an impatient caller is ever told of, over many polls of slow work.
CASE("status.states_seen_while_polling") {
  Work work(w, 64, 32, Kind::gpu, kMib);
  unsigned states = 0, reported = 0, doubled = 0;
  bool seen[33] = {};
  for (int turn = 0; turn < 200000 && reported < 32; ++turn) {
    CUfileIOEvents_t events[64];
    std::memset(events, 0, sizeof(events));
    unsigned number = 64;
    timespec now = {0, 0};
    if (w.cuFileBatchIOGetStatus(work.batch, 0, &number, events, &now).err != CU_FILE_SUCCESS) break;
    for (unsigned i = 0; i < number; ++i) {
      states |= static_cast<unsigned>(events[i].status);
      const auto cookie = reinterpret_cast<std::size_t>(events[i].cookie);
      if (cookie >= 1 && cookie <= 32 && events[i].status == CUFILE_COMPLETE) {
        doubled += seen[cookie];
        reported += !seen[cookie];
        seen[cookie] = true;
      }
    }
  }
  w.say("states: 0x%x reported: %u doubled: %u", states, reported, doubled);
}

// ---- Reuse and capacity --------------------------------------------------------------------------------------------

CASE("reuse.twenty_rounds") {
  Work work(w, 8, 8);
  for (int round = 0; round < 20; ++round) {
    const std::size_t reaped = reap(w, work.batch, 8).size();
    if (reaped != 8) w.say("round %d: %zu", round, reaped);
    if (round < 19) w.must("submit", w.cuFileBatchIOSubmit(work.batch, 8, work.all.data(), 0));
  }
  w.say("done");
}
CASE("reuse.slot_is_free_once_reaped") {
  Work work(w, 4, 4);
  timespec some = {5, 0};
  let_all_be_done();
  w.tell("before reaping", w.cuFileBatchIOSubmit(work.batch, 1, work.all.data(), 0));
  w.say("number: %u", ask(w, "reap one", work.batch, 1, 1, &some));
  w.tell("after reaping one", w.cuFileBatchIOSubmit(work.batch, 1, work.all.data(), 0));
  w.tell("one too many", w.cuFileBatchIOSubmit(work.batch, 1, work.all.data(), 0));
  w.say("left: %zu", reap(w, work.batch, 4).size());
}
CASE("reuse.two_submits_before_reaping") {
  Work work(w, 16, 8);
  w.tell("submit", w.cuFileBatchIOSubmit(work.batch, 8, work.all.data(), 0));
  w.say("reaped: %zu", reap(w, work.batch, 16).size());
}
CASE("reuse.after_cancel") {
  Work work(w, 8, 8);
  w.tell("cancel", w.cuFileBatchIOCancel(work.batch));
  w.say("reaped: %zu", reap(w, work.batch, 8).size());
  w.tell("submit", w.cuFileBatchIOSubmit(work.batch, 8, work.all.data(), 0));
  w.say("reaped: %zu", reap(w, work.batch, 8).size());
}

// ---- Cancel and destroy in flight ----------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : {Kind::host, Kind::gpu}) {
    add(std::string("cancel.in_flight.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 64, 32, kind, kMib);
      w.tell("cancel", w.cuFileBatchIOCancel(work.batch));
      std::size_t strange = 0;
      const auto events = reap(w, work.batch, 32);
      for (const auto& event : events) strange += event.status != CUFILE_COMPLETE && event.status != CUFILE_CANCELED;
      w.say("events: %zu other than complete or canceled: %zu", events.size(), strange);
    });
    add(std::string("cancel.then_wait_forever.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 64, 32, kind, kMib);
      w.tell("cancel", w.cuFileBatchIOCancel(work.batch));
      w.say("number: %u", ask(w, "status", work.batch, 32, 32, nullptr));
    });
    add(std::string("destroy.in_flight.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 64, 32, kind, kMib);
      w.cuFileBatchIODestroy(work.batch);
      w.say("came back");
      Memory other(w, kind, 4096);
      w.tell("read after it", w.cuFileRead(work.handle, other.base(), 4096, 0, 0));
    });
    add(std::string("destroy.unreaped.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 8, 8, kind);
      let_all_be_done();
      w.cuFileBatchIODestroy(work.batch);
      w.say("came back");
    });
    add(std::string("close.batch_in_flight.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 64, 32, kind, kMib);
      w.tell("close", w.cuFileDriverClose_v2());
      w.say("use count: %ld", w.cuFileUseCount());
    });
    add(std::string("close.batch_alive_then_used.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 8, 4, kind);
      w.say("reaped: %zu", reap(w, work.batch, 4).size());
      w.tell("close", w.cuFileDriverClose_v2());
      w.tell("submit", w.cuFileBatchIOSubmit(work.batch, 4, work.all.data(), 0));
      timespec now = {0, 0};
      ask(w, "status", work.batch, 0, 8, &now);
      w.cuFileBatchIODestroy(work.batch);
      w.say("destroyed");
    });
    add(std::string("deregister.handle_of_batch_in_flight.") + name_of(kind), [kind](Fixture& w) {
      Work work(w, 64, 32, kind, kMib);
      w.cuFileHandleDeregister(work.handle);
      w.say("came back, reaped: %zu", reap(w, work.batch, 32).size());
    });
  }
  return true;
}

CASE("cancel.cookies_and_results") {
  Work work(w, 64, 32, Kind::gpu, kMib);
  w.cuFileBatchIOCancel(work.batch);
  bool sound = true;
  std::size_t expected = 1;
  for (const auto& event : reap(w, work.batch, 32)) {
    sound &= reinterpret_cast<std::size_t>(event.cookie) == expected++;
    if (event.status == CUFILE_COMPLETE) sound &= event.ret == kMib;
  }
  w.say("each cookie once, complete ones whole: %d", sound && expected == 33);
}

// ---- Many ----------------------------------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : {Kind::host, Kind::gpu}) {
    add(std::string("many.32_batches_of_128_from_16_threads.") + name_of(kind), [kind](Fixture& w) {
      constexpr std::size_t kSmall = 4096;
      const CUfileHandle_t handle = w.handle(w.file("a", 128 * kSmall));
      Memory memory(w, kind, 32 * 128 * kSmall);
      std::atomic<std::size_t> good = 0, bad = 0;
      std::vector<std::thread> threads;
      for (std::size_t thread = 0; thread < 16; ++thread) {
        threads.emplace_back([&, thread] {
          for (std::size_t turn = 0; turn < 2; ++turn) {
            CUfileBatchHandle_t batch = nullptr;
            if (w.cuFileBatchIOSetUp(&batch, 128).err != CU_FILE_SUCCESS) return void(bad += 128);
            std::vector<CUfileIOParams_t> all;
            for (std::size_t i = 0; i < 128; ++i) {
              const std::size_t into = ((thread * 2 + turn) * 128 + i) * kSmall;
              all.push_back(entry(CUFILE_READ, handle, memory.base(), kSmall, static_cast<off_t>(i * kSmall),
                                  static_cast<off_t>(into), i + 1));
            }
            if (w.cuFileBatchIOSubmit(batch, 128, all.data(), 0).err != CU_FILE_SUCCESS) return void(bad += 128);
            for (const auto& event : reap(w, batch, 128)) {
              (event.status == CUFILE_COMPLETE && event.ret == kSmall ? good : bad) += 1;
            }
            w.cuFileBatchIODestroy(batch);
          }
        });
      }
      for (std::thread& each : threads) each.join();
      w.say("good: %zu bad: %zu", good.load(), bad.load());
      const std::string block = pattern(1, 0, 128 * kSmall);
      bool equal = true;
      for (std::size_t i = 0; i < 32; ++i) equal &= memory.get(i * block.size(), block.size()) == block;
      w.say("memory: %s", equal ? "equal" : "differs");
    });
  }
  return true;
}

CASE("many.two_threads_reap_one_batch") {
  Work work(w, 128, 128);
  std::atomic<unsigned> reaped = 0;
  const auto worker = [&] {
    for (int turn = 0; turn < 500 && reaped < 128; ++turn) {
      CUfileIOEvents_t events[8];
      unsigned number = 8;
      timespec some = {0, 10'000'000};
      if (w.cuFileBatchIOGetStatus(work.batch, 0, &number, events, &some).err != CU_FILE_SUCCESS) return;
      reaped += number;
      if (number == 0) usleep(1000);
    }
  };
  std::thread first(worker), second(worker);
  first.join();
  second.join();
  w.say("reaped: %u", reaped.load());
}

}  // namespace
}  // namespace conformance
