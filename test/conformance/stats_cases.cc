// SPDX-License-Identifier: Apache-2.0

// Statistics: levels, start and stop, what is counted after known operations. Never times, nor rates.
#include <cstring>

#include "fixture.h"

namespace conformance {
namespace {

void start(Fixture& w, int level) {
  w.tell("level", w.cuFileSetStatsLevel(level));
  w.must("open", w.cuFileDriverOpen());
  w.tell("start", w.cuFileStatsStart());
}

void tell_counter(Fixture& w, const char* name, const CUfileOpCounter_t& counter) {
  if (counter.ok != 0 || counter.err != 0) {
    w.say("%s: ok=%lu err=%lu", name, static_cast<unsigned long>(counter.ok), static_cast<unsigned long>(counter.err));
  }
}
void tell_number(Fixture& w, const char* name, uint64_t value) {
  if (value != 0) w.say("%s: %lu", name, static_cast<unsigned long>(value));
}

void tell_first(Fixture& w, const CUfileStatsLevel1_t& s) {
  tell_counter(w, "reads", s.read_ops);
  tell_counter(w, "writes", s.write_ops);
  tell_counter(w, "handles registered", s.hdl_register_ops);
  tell_counter(w, "handles deregistered", s.hdl_deregister_ops);
  tell_counter(w, "buffers registered", s.buf_register_ops);
  tell_counter(w, "buffers deregistered", s.buf_deregister_ops);
  tell_number(w, "bytes read", s.read_bytes);
  tell_number(w, "bytes written", s.write_bytes);
  tell_counter(w, "batches set up", s.batch_setup_ops);
  tell_counter(w, "batches submitted", s.batch_submit_ops);
  tell_counter(w, "batches completed", s.batch_complete_ops);
  tell_counter(w, "batches canceled", s.batch_cancel_ops);
  tell_counter(w, "batches destroyed", s.batch_destroy_ops);
  tell_counter(w, "enqueued", s.batch_enqueued_ops);
  tell_counter(w, "posix enqueued", s.batch_posix_enqueued_ops);
  tell_counter(w, "processed", s.batch_processed_ops);
  tell_counter(w, "posix processed", s.batch_posix_processed_ops);
  tell_counter(w, "nvfs submits", s.batch_nvfs_submit_ops);
  tell_counter(w, "p2p submits", s.batch_p2p_submit_ops);
  tell_counter(w, "aio submits", s.batch_aio_submit_ops);
  tell_counter(w, "io_uring submits", s.batch_iouring_submit_ops);
  tell_counter(w, "mixed submits", s.batch_mixed_io_submit_ops);
  tell_counter(w, "total submits", s.batch_total_submit_ops);
  tell_number(w, "batch bytes read", s.batch_read_bytes);
  tell_number(w, "batch bytes written", s.batch_write_bytes);
}

void tell_rows(Fixture& w, const char* name, const uint64_t (&rows)[32]) {
  for (int i = 0; i < 32; ++i) {
    if (rows[i] != 0) w.say("%s row %d: %lu", name, i, static_cast<unsigned long>(rows[i]));
  }
}

// Level 1 of cuFile 1.19 and later is followed by what readv and writev did, in front of what levels 2 and 3 add.
struct Vectored {
  CUfileOpCounter_t readv_ops, writev_ops;
  uint64_t readv_bytes, writev_bytes, rates_and_times[8];
};
static_assert(sizeof(Vectored) == 112);

bool has_vectored(Fixture& w) {
  int version = 0;
  w.cuFileGetVersion(&version);
  return version >= 1190;
}

// The statistics in the form of cuFile 1.15, whatever the library's is; false where it refused, which is told.
template <typename Stats>
bool read_out(Fixture& w, const char* step, const Function<CUfileError_t(Stats*)>& call, Stats& stats,
              Vectored* vectored = nullptr) {
  alignas(8) static unsigned char memory[8192];
  constexpr std::size_t kFirst = sizeof(CUfileStatsLevel1_t);
  const std::size_t between = has_vectored(w) ? sizeof(Vectored) : 0;
  if (w.tell(step, call(reinterpret_cast<Stats*>(memory))).err != CU_FILE_SUCCESS) return false;
  std::memcpy(&stats, memory, kFirst);
  if constexpr (sizeof(Stats) > kFirst) {
    std::memcpy(reinterpret_cast<char*>(&stats) + kFirst, memory + kFirst + between, sizeof(Stats) - kFirst);
  }
  if (vectored != nullptr && between != 0) std::memcpy(vectored, memory + kFirst, sizeof(*vectored));
  return true;
}

void tell_first(Fixture& w) {
  CUfileStatsLevel1_t stats;
  Vectored vectored = {};
  if (!read_out(w, "level 1", w.cuFileGetStatsL1, stats, &vectored)) return;
  tell_first(w, stats);
  tell_counter(w, "readvs", vectored.readv_ops);
  tell_counter(w, "writevs", vectored.writev_ops);
  tell_number(w, "bytes read by readv", vectored.readv_bytes);
  tell_number(w, "bytes written by writev", vectored.writev_bytes);
}
void tell_second(Fixture& w) {
  CUfileStatsLevel2_t stats;
  if (!read_out(w, "level 2", w.cuFileGetStatsL2, stats)) return;
  tell_rows(w, "read", stats.read_size_kb_hist);
  tell_rows(w, "write", stats.write_size_kb_hist);
}
void tell_third(Fixture& w) {
  static CUfileStatsLevel3_t stats;
  if (!read_out(w, "level 3", w.cuFileGetStatsL3, stats)) return;
  w.say("gpus: %s", stats.num_gpus > 0 ? "some" : "none");
  for (uint32_t i = 0; i < stats.num_gpus && i < 16; ++i) {
    const CUfilePerGpuStats_t& gpu = stats.per_gpu_stats[i];
    if (gpu.n_total_reads + gpu.n_total_writes + gpu.n_mmap == 0) continue;
    w.say("gpu %u", i);
    tell_number(w, "bytes read", gpu.read_bytes);
    tell_number(w, "reads", gpu.n_total_reads);
    tell_number(w, "p2p reads", gpu.n_p2p_reads);
    tell_number(w, "nvfs reads", gpu.n_nvfs_reads);
    tell_number(w, "posix reads", gpu.n_posix_reads);
    tell_number(w, "unaligned reads", gpu.n_unaligned_reads);
    tell_number(w, "routed reads", gpu.n_dr_reads);
    tell_number(w, "read errors", gpu.n_reads_err);
    tell_number(w, "bytes written", gpu.writes_bytes);
    tell_number(w, "writes", gpu.n_total_writes);
    tell_number(w, "p2p writes", gpu.n_p2p_writes);
    tell_number(w, "nvfs writes", gpu.n_nvfs_writes);
    tell_number(w, "posix writes", gpu.n_posix_writes);
    tell_number(w, "unaligned writes", gpu.n_unaligned_writes);
    tell_number(w, "write errors", gpu.n_writes_err);
    tell_number(w, "mappings", gpu.n_mmap);
    tell_number(w, "mappings ok", gpu.n_mmap_ok);
    tell_number(w, "mappings freed", gpu.n_mmap_free);
    tell_number(w, "registered bytes", gpu.reg_bytes);
  }
}

// ---- Levels --------------------------------------------------------------------------------------------------------

CASE("stats.level.values") {
  for (int level : {-1, 0, 1, 2, 3, 4, 100}) {
    w.tell(("set " + std::to_string(level)).c_str(), w.cuFileSetStatsLevel(level));
    int now = -77;
    w.tell("get", w.cuFileGetStatsLevel(&now));
    w.say("now: %d", now);
  }
}
CASE("stats.level.values_open") {
  w.must("open", w.cuFileDriverOpen());
  for (int level : {-1, 0, 1, 2, 3, 4}) {
    w.tell(("set " + std::to_string(level)).c_str(), w.cuFileSetStatsLevel(level));
    int now = -77;
    w.tell("get", w.cuFileGetStatsLevel(&now));
    w.say("now: %d", now);
  }
}
CASE("stats.level.null") { w.tell("get", w.cuFileGetStatsLevel(nullptr)); }
CASE("stats.level.of_json", Setup{.json = R"({"profile": {"cufile_stats": 2}})"}) {
  int now = -77;
  w.tell("closed", w.cuFileGetStatsLevel(&now));
  w.say("now: %d", now);
  w.must("open", w.cuFileDriverOpen());
  w.tell("open", w.cuFileGetStatsLevel(&now));
  w.say("now: %d", now);
  tell_first(w);
  tell_second(w);
  tell_third(w);
}
CASE("stats.level.of_parameter") {
  w.tell("set", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROFILE_STATS, 3));
  w.must("open", w.cuFileDriverOpen());
  int now = -77;
  w.tell("get", w.cuFileGetStatsLevel(&now));
  w.say("now: %d", now);
}
CASE("stats.level.call_over_json", Setup{.json = R"({"profile": {"cufile_stats": 1}})"}) {
  w.tell("set", w.cuFileSetStatsLevel(3));
  w.must("open", w.cuFileDriverOpen());
  int now = -77;
  w.tell("get", w.cuFileGetStatsLevel(&now));
  w.say("now: %d", now);
}
CASE("stats.level.survives_close") {
  w.tell("set", w.cuFileSetStatsLevel(2));
  w.must("open", w.cuFileDriverOpen());
  w.must("close", w.cuFileDriverClose_v2());
  int now = -77;
  w.tell("get", w.cuFileGetStatsLevel(&now));
  w.say("now: %d", now);
}

TABLE() {
  for (int level = 0; level <= 3; ++level) {
    add("stats.read_out.level_" + std::to_string(level), [level](Fixture& w) {
      start(w, level);
      tell_first(w);
      tell_second(w);
      tell_third(w);
    });
  }
  return true;
}
CASE("stats.read_out.closed") {
  tell_first(w);
  tell_second(w);
  tell_third(w);
}
CASE("stats.read_out.after_close") {
  start(w, 3);
  w.must("close", w.cuFileDriverClose_v2());
  tell_first(w);
}
CASE("stats.read_out.null") {
  start(w, 3);
  w.tell("1", w.cuFileGetStatsL1(nullptr));
  w.tell("2", w.cuFileGetStatsL2(nullptr));
  w.tell("3", w.cuFileGetStatsL3(nullptr));
}
CASE("stats.calls.closed") {
  w.tell("start", w.cuFileStatsStart());
  w.tell("stop", w.cuFileStatsStop());
  w.tell("reset", w.cuFileStatsReset());
}
CASE("stats.calls.level_0") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("start", w.cuFileStatsStart());
  w.tell("stop", w.cuFileStatsStop());
  w.tell("reset", w.cuFileStatsReset());
}
CASE("stats.calls.twice") {
  start(w, 1);
  w.tell("start again", w.cuFileStatsStart());
  w.tell("stop", w.cuFileStatsStop());
  w.tell("stop again", w.cuFileStatsStop());
  w.tell("reset", w.cuFileStatsReset());
  w.tell("reset again", w.cuFileStatsReset());
}
CASE("stats.layout.nothing_past_the_end") {
  struct Guarded {
    CUfileStatsLevel3_t stats;
    unsigned char guard[256];
  };
  static Guarded memory;
  std::memset(memory.guard, 0x5A, sizeof(memory.guard));
  start(w, 3);
  w.tell("level 3", w.cuFileGetStatsL3(&memory.stats));
  bool kept = true;
  for (unsigned char each : memory.guard) kept &= each == 0x5A;
  w.say("kept: %d", kept);
}
// Where the library's structures end: the last byte that changes, of memory that was filled with one byte and another.
template <typename Stats>
std::size_t extent(const Function<CUfileError_t(Stats*)>& call) {
  alignas(8) static unsigned char memory[2][16384];
  for (int i : {0, 1}) {
    std::memset(memory[i], i == 0 ? 0x00 : 0xFF, sizeof(memory[i]));
    call(reinterpret_cast<Stats*>(memory[i]));
  }
  std::size_t end = 0;
  for (std::size_t i = 0; i < sizeof(memory[0]); ++i) {
    if (memory[0][i] != 0x00 || memory[1][i] != 0xFF) end = i + 1;
  }
  return end;
}
CASE("stats.layout.bytes_written") {
  start(w, 3);
  w.say("level 1: %zu", extent(w.cuFileGetStatsL1));
  w.say("level 2: %zu", extent(w.cuFileGetStatsL2));
  w.say("level 3: %zu", extent(w.cuFileGetStatsL3));
}
TABLE() {
  for (Kind kind : {Kind::host, Kind::gpu}) {
    add(std::string("stats.count.vectored.") + name_of(kind), [=](Fixture& w) {
      start(w, 3);
      const CUfileHandle_t handle = w.handle(w.file("a", 65536));
      Memory memory(w, kind, 65536);
      const CUfileIOVec_t pieces[] = {{memory.at(0), 4096}, {memory.at(8192), 8192}};
      w.tell("readv", w.cuFileReadv(handle, pieces, 2, 0, 0));
      w.tell("writev", w.cuFileWritev(handle, pieces, 2, 16384, 0));
      w.tell("refused", w.cuFileReadv(handle, pieces, 2, -1, 0));
      w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
      tell_first(w);
      tell_second(w);
      tell_third(w);
    });
  }
  return true;
}

// ---- What is counted -----------------------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : {Kind::host, Kind::gpu}) {
    for (const bool registered : {false, true}) {
      const std::string suffix = std::string(name_of(kind)) + (registered ? ".registered" : ".plain");
      add("stats.count.transfers." + suffix, [=](Fixture& w) {
        start(w, 3);
        const CUfileHandle_t handle = w.handle(w.file("a", 4 * kMib));
        Memory memory(w, kind, 4 * kMib);
        if (registered) w.must("register buffer", w.cuFileBufRegister(memory.base(), memory.size(), 0));
        for (std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{8192},
                                 std::size_t{65536}, kMib, 4 * kMib}) {
          w.tell("read", w.cuFileRead(handle, memory.base(), size, 0, 0));
        }
        for (std::size_t size : {std::size_t{4096}, std::size_t{5000}, kMib}) {
          w.tell("write", w.cuFileWrite(handle, memory.base(), size, 0, 0));
        }
        tell_first(w);
        tell_second(w);
        tell_third(w);
        if (registered) w.must("deregister buffer", w.cuFileBufDeregister(memory.base()));
        w.cuFileHandleDeregister(handle);
        tell_first(w);
      });
    }
    add(std::string("stats.count.odd_transfers.") + name_of(kind), [=](Fixture& w) {
      start(w, 3);
      const CUfileHandle_t handle = w.handle(w.file("a", 10000));
      Memory memory(w, kind, 65536);
      w.tell("nothing", w.cuFileRead(handle, memory.base(), 0, 0, 0));
      tell_first(w);
      w.tell("past the end", w.cuFileRead(handle, memory.base(), 4096, 1 << 20, 0));
      tell_first(w);
      w.tell("short", w.cuFileRead(handle, memory.base(), 4096, 8192, 0));
      tell_first(w);
      w.tell("refused", w.cuFileRead(handle, memory.base(), 4096, -1, 0));
      tell_first(w);
      w.tell("no handle", w.cuFileRead(nullptr, memory.base(), 4096, 0, 0));
      tell_first(w);
      w.tell("uneven", w.cuFileRead(handle, memory.base(), 4096, 5, 0));
      tell_first(w);
      tell_second(w);
      tell_third(w);
    });
    add(std::string("stats.count.batch.") + name_of(kind), [=](Fixture& w) {
      start(w, 3);
      const CUfileHandle_t handle = w.handle(w.file("a", 65536));
      Memory memory(w, kind, 65536);
      CUfileBatchHandle_t batch = nullptr;
      w.must("set up", w.cuFileBatchIOSetUp(&batch, 8));
      std::vector<CUfileIOParams_t> all = {entry(CUFILE_READ, handle, memory.base(), 16384, 0, 0, 1),
                                           entry(CUFILE_WRITE, handle, memory.base(), 4096, 16384, 32768, 2)};
      w.tell("submit", w.cuFileBatchIOSubmit(batch, 2, all.data(), 0));
      tell_all(w, reap(w, batch, 2));
      tell_first(w);
      w.tell("refused", w.cuFileBatchIOSubmit(batch, 0, all.data(), 0));
      w.tell("cancel", w.cuFileBatchIOCancel(batch));
      w.cuFileBatchIODestroy(batch);
      tell_first(w);
      tell_second(w);
      tell_third(w);
    });
  }
  return true;
}
CASE("stats.count.refused_registrations") {
  start(w, 1);
  CUfileHandle_t handle = nullptr;
  w.tell("handle", w.register_fd(-1, &handle));
  w.tell("buffer", w.cuFileBufRegister(nullptr, 4096, 0));
  w.tell("deregister", w.cuFileBufDeregister(nullptr));
  w.cuFileHandleDeregister(nullptr);
  tell_first(w);
}
CASE("stats.count.stream") {
  w.need_gpu();
  start(w, 3);
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::gpu, 65536);
  Stream stream = nullptr;
  w.must_cuda("cuStreamCreate", w.cuda.cuStreamCreate(&stream, kStreamNonBlocking));
  static std::size_t size = 65536;
  static off_t file_offset = 0, buffer_offset = 0;
  static ssize_t bytes = 0;
  w.tell("read", w.cuFileReadAsync(handle, memory.base(), &size, &file_offset, &buffer_offset, &bytes,
                                   static_cast<CUstream>(stream)));
  w.must_cuda("cuStreamSynchronize", w.cuda.cuStreamSynchronize(stream));
  tell_first(w);
  tell_second(w);
}
CASE("stats.stop_and_reset") {
  start(w, 1);
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::host, 65536);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.tell("stop", w.cuFileStatsStop());
  tell_first(w);
  w.tell("read while stopped", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  tell_first(w);
  w.tell("reset while stopped", w.cuFileStatsReset());
  tell_first(w);
  w.tell("start", w.cuFileStatsStart());
  w.tell("read", w.cuFileRead(handle, memory.base(), 8192, 0, 0));
  tell_first(w);
  w.tell("reset", w.cuFileStatsReset());
  tell_first(w);
}
CASE("stats.without_start") {
  w.tell("level", w.cuFileSetStatsLevel(1));
  w.must("open", w.cuFileDriverOpen());
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::host, 65536);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  tell_first(w);
}
CASE("stats.level_set_while_open") {
  w.must("open", w.cuFileDriverOpen());
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::host, 65536);
  w.tell("level", w.cuFileSetStatsLevel(1));
  w.tell("start", w.cuFileStatsStart());
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  tell_first(w);
}
CASE("stats.close_and_reopen") {
  start(w, 1);
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::host, 65536);
  w.tell("read", w.cuFileRead(handle, memory.base(), 4096, 0, 0));
  w.must("close", w.cuFileDriverClose_v2());
  w.must("open", w.cuFileDriverOpen());
  tell_first(w);
}

}  // namespace
}  // namespace conformance
