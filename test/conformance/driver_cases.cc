// SPDX-License-Identifier: Apache-2.0

// The life of the driver: open, close, counting, properties and their setters, the version.
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>

#include "fixture.h"

namespace conformance {
namespace {

void tell_count(Fixture& w) { w.say("use count: %ld", w.cuFileUseCount()); }

void tell_properties(Fixture& w) {
  CUfileDrvProps_t p;
  std::memset(&p, 0xEE, sizeof(p));
  if (w.tell("properties", w.cuFileDriverGetProperties(&p)).err != CU_FILE_SUCCESS) return;
  w.say("nvfs version: %u.%u", p.nvfs.major_version, p.nvfs.minor_version);
  w.say("poll_thresh_size: %zu", p.nvfs.poll_thresh_size);
  w.say("max_direct_io_size: %zu", p.nvfs.max_direct_io_size);
  w.say("dstatusflags: 0x%x dcontrolflags: 0x%x fflags: 0x%x", p.nvfs.dstatusflags, p.nvfs.dcontrolflags, p.fflags);
  w.say("cache: %u per buffer: %u pinned: %u", p.max_device_cache_size, p.per_buffer_cache_size,
        p.max_device_pinned_mem_size);
  w.say("batch: %u timeout: %u", p.max_batch_io_size, p.max_batch_io_timeout_msecs);
}

CASE("driver.version") {
  int version = -1;
  w.tell("version", w.cuFileGetVersion(&version));
  w.say("plausible: %d", version >= 1080 && version < 2000 && version % 10 == 0);
  tell_count(w);
}
CASE("driver.version.number") {
  int version = -1;
  w.tell("version", w.cuFileGetVersion(&version));
  w.say("number: %d", version);
}
CASE("driver.version.null") { w.tell("version", w.cuFileGetVersion(nullptr)); }

CASE("driver.count_before_open") { tell_count(w); }

CASE("driver.open_and_close") {
  w.tell("open", w.cuFileDriverOpen());
  tell_count(w);
  w.tell("close", w.cuFileDriverClose_v2());
  tell_count(w);
}

CASE("driver.open_without_a_context", Setup{.cuda = Cuda::none}) {
  w.tell("open", w.cuFileDriverOpen());
  tell_count(w);
  w.tell("close", w.cuFileDriverClose_v2());
}

CASE("driver.open_twice_counts_two") {
  w.tell("open", w.cuFileDriverOpen());
  w.tell("open", w.cuFileDriverOpen());
  tell_count(w);
  w.tell("close", w.cuFileDriverClose_v2());
  tell_count(w);
  w.tell("close", w.cuFileDriverClose_v2());
  tell_count(w);
  w.tell("close", w.cuFileDriverClose_v2());
  tell_count(w);
}

CASE("driver.close_at_zero") {
  w.tell("close", w.cuFileDriverClose_v2());
  tell_count(w);
}
CASE("driver.close_version_1_at_zero") { w.tell("close", w.close_version_1()); }

CASE("driver.close_version_1_after_one_open") {
  w.tell("open", w.cuFileDriverOpen());
  w.tell("close", w.close_version_1());
  tell_count(w);
}

CASE("driver.close_version_1_after_two_opens") {
  w.tell("open", w.cuFileDriverOpen());
  w.tell("open", w.cuFileDriverOpen());
  w.tell("close", w.close_version_1());
  tell_count(w);
  w.tell("close", w.close_version_1());
  tell_count(w);
}

CASE("driver.close_versions_mixed") {
  w.tell("open", w.cuFileDriverOpen());
  w.tell("open", w.cuFileDriverOpen());
  w.tell("close version 2", w.cuFileDriverClose_v2());
  w.tell("close version 1", w.close_version_1());
  tell_count(w);
  w.tell("open", w.cuFileDriverOpen());
  tell_count(w);
}

CASE("driver.reopen_ten_times") {
  for (int i = 0; i < 10; ++i) {
    w.must("open", w.cuFileDriverOpen());
    w.must("close", w.cuFileDriverClose_v2());
  }
  tell_count(w);
}

CASE("driver.open_keeps_descriptor_0") {
  struct stat before = {}, open_now = {}, after = {};
  fstat(0, &before);
  w.tell("open", w.cuFileDriverOpen());
  w.say("after open: %d", fstat(0, &open_now));
  w.tell("close", w.cuFileDriverClose_v2());
  w.say("after close: %d", fstat(0, &after));
}

CASE("driver.nothing_is_printed") {
  w.tell("open", w.cuFileDriverOpen());
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.register_fd(-1, &handle));
  w.tell("close", w.cuFileDriverClose_v2());
  fflush(nullptr);
  w.say("printed: %s", size_of(STDOUT_FILENO) == 0 ? "nothing" : "something");
}

CASE("driver.open_from_eight_threads") {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&w] { w.cuFileDriverOpen(); });
  for (std::thread& each : threads) each.join();
  tell_count(w);
  for (int i = 0; i < 8; ++i) w.must("close", w.cuFileDriverClose_v2());
  tell_count(w);
}

CASE("driver.close_from_another_thread") {
  w.tell("open", w.cuFileDriverOpen());
  std::thread([&w] { w.tell("close", w.cuFileDriverClose_v2()); }).join();
  tell_count(w);
}

// ---- What opens it implicitly --------------------------------------------------------------------------------------

CASE("driver.opened_by.handle_register") {
  w.handle(w.file("a", 4096));
  tell_count(w);
  w.tell("open", w.cuFileDriverOpen());
  tell_count(w);
}
CASE("driver.opened_by.refused_handle_register") {
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.register_fd(-1, &handle));
  tell_count(w);
}
CASE("driver.opened_by.buffer_register") {
  Memory memory(w, Kind::gpu, 4096);
  w.tell("buffer", w.cuFileBufRegister(memory.base(), 4096, 0));
  tell_count(w);
}
CASE("driver.opened_by.host_buffer_register") {
  Memory memory(w, Kind::host, 4096);
  w.tell("buffer", w.cuFileBufRegister(memory.base(), 4096, 0));
  tell_count(w);
}
CASE("driver.opened_by.buffer_deregister") {
  Memory memory(w, Kind::host, 4096);
  w.tell("deregister", w.cuFileBufDeregister(memory.base()));
  tell_count(w);
}
CASE("driver.opened_by.null_read") {
  char byte[1];
  w.tell("read", w.cuFileRead(nullptr, byte, 1, 0, 0));
  tell_count(w);
}
CASE("driver.opened_by.read_of_no_handle") {
  Memory memory(w, Kind::host, 4096);
  int nothing[64] = {};
  w.tell("read", w.cuFileRead(nothing, memory.base(), 4096, 0, 0));
  tell_count(w);
}
CASE("driver.opened_by.write_of_no_handle") {
  Memory memory(w, Kind::host, 4096);
  int nothing[64] = {};
  w.tell("write", w.cuFileWrite(nothing, memory.base(), 4096, 0, 0));
  tell_count(w);
}
CASE("driver.opened_by.handle_deregister") {
  w.cuFileHandleDeregister(nullptr);
  tell_count(w);
}
CASE("driver.opened_by.get_properties") {
  CUfileDrvProps_t properties;
  w.tell("properties", w.cuFileDriverGetProperties(&properties));
  tell_count(w);
}
CASE("driver.opened_by.batch_set_up") {
  CUfileBatchHandle_t batch = nullptr;
  w.tell("set up", w.cuFileBatchIOSetUp(&batch, 8));
  tell_count(w);
}
CASE("driver.opened_by.batch_submit") {
  CUfileIOParams_t one = entry(CUFILE_READ, nullptr, nullptr, 0);
  w.tell("submit", w.cuFileBatchIOSubmit(nullptr, 1, &one, 0));
  tell_count(w);
}
CASE("driver.opened_by.batch_cancel") {
  w.tell("cancel", w.cuFileBatchIOCancel(nullptr));
  tell_count(w);
}
CASE("driver.opened_by.read_async") {
  Memory memory(w, Kind::gpu, 4096);
  std::size_t size = 4096;
  off_t file_offset = 0, buffer_offset = 0;
  ssize_t bytes = 77;
  w.tell("read", w.cuFileReadAsync(nullptr, memory.base(), &size, &file_offset, &buffer_offset, &bytes, nullptr));
  tell_count(w);
}
CASE("driver.opened_by.stream_register") {
  w.need_gpu();
  Stream stream = nullptr;
  w.must_cuda("cuStreamCreate", w.cuda.cuStreamCreate(&stream, 0));
  w.tell("register", w.cuFileStreamRegister(static_cast<CUstream>(stream), 0));
  tell_count(w);
}
CASE("driver.opened_by.get_parameter") {
  std::size_t value = 0;
  w.tell("get", w.cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value));
  tell_count(w);
}
CASE("driver.opened_by.stats_level") {
  w.tell("level", w.cuFileSetStatsLevel(1));
  tell_count(w);
}
CASE("driver.opened_by.bar_size") {
  w.need_gpu();
  std::size_t size = 1;
  w.tell("bar", w.cuFileGetBARSizeInKB(0, &size));
  w.say("size: %zu", size);
  tell_count(w);
}

// ---- Properties ----------------------------------------------------------------------------------------------------

CASE("driver.properties.closed") { tell_properties(w); }
CASE("driver.properties.open") {
  w.must("open", w.cuFileDriverOpen());
  tell_properties(w);
}
CASE("driver.properties.null") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("properties", w.cuFileDriverGetProperties(nullptr));
}
CASE("driver.properties.null_closed") {
  w.tell("properties", w.cuFileDriverGetProperties(nullptr));
  tell_count(w);
}
CASE("driver.properties.after_setters") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("poll", w.cuFileDriverSetPollMode(true, 16));
  w.tell("direct", w.cuFileDriverSetMaxDirectIOSize(256));
  w.tell("cache", w.cuFileDriverSetMaxCacheSize(65536));
  w.tell("pinned", w.cuFileDriverSetMaxPinnedMemSize(1048576));
  tell_properties(w);
}
CASE("driver.properties.after_setters_while_closed") {
  const auto set = [&w](std::size_t by) {
    w.tell("poll", w.cuFileDriverSetPollMode(true, 16 * by));
    w.tell("direct", w.cuFileDriverSetMaxDirectIOSize(256 * by));
    w.tell("cache", w.cuFileDriverSetMaxCacheSize(65536 * by));
    w.tell("pinned", w.cuFileDriverSetMaxPinnedMemSize(1048576 * by));
  };
  set(1);
  w.say("staged");
  tell_properties(w);
  tell_count(w);
  w.must("open", w.cuFileDriverOpen());
  tell_properties(w);
  set(2);
  w.say("set while open");
  tell_properties(w);
  w.must("close", w.cuFileDriverClose_v2());
  w.say("closed again");
  tell_properties(w);
  w.must("open", w.cuFileDriverOpen());
  w.say("open again");
  tell_properties(w);
}
CASE("driver.properties.after_staged_parameters_while_closed") {
  w.tell("batch", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 64));
  w.tell("direct", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 128));
  w.tell("poll", w.cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, true));
  tell_properties(w);
}
CASE("driver.properties.closed_of_json", Setup{.json = R"({"properties": {"max_direct_io_size_kb": 2048,
    "max_device_cache_size_kb": 65536, "use_poll_mode": true, "poll_max_size_kb": 8, "io_batchsize": 32}})"}) {
  tell_properties(w);
}
CASE("driver.properties.after_reopen") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("poll", w.cuFileDriverSetPollMode(true, 16));
  w.tell("direct", w.cuFileDriverSetMaxDirectIOSize(256));
  w.must("close", w.cuFileDriverClose_v2());
  w.must("open", w.cuFileDriverOpen());
  tell_properties(w);
}
CASE("driver.properties.after_staged_parameters") {
  w.tell("batch", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 64));
  w.tell("direct", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 128));
  w.tell("poll", w.cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, true));
  w.must("open", w.cuFileDriverOpen());
  tell_properties(w);
}
CASE("driver.properties.from_json", Setup{.json = R"({"properties": {"max_direct_io_size_kb": 2048,
    "max_device_cache_size_kb": 65536, "per_buffer_cache_size_kb": 512, "max_device_pinned_mem_size_kb": 1048576,
    "use_poll_mode": true, "poll_mode": true, "poll_max_size_kb": 8, "io_batchsize": 32, "allow_compat_mode": true,
    "max_batch_io_size": 64, "max_batch_io_timeout_msecs": 9}})"}) {
  w.must("open", w.cuFileDriverOpen());
  tell_properties(w);
}

using SizeSetter = CUfileError_t (*)(Fixture&, std::size_t);

TABLE() {
  struct Row {
    const char* name;
    SizeSetter set;
  };
  const Row setters[] = {
      {"max_direct_io_size", [](Fixture& w, std::size_t kib) { return w.cuFileDriverSetMaxDirectIOSize(kib); }},
      {"max_cache_size", [](Fixture& w, std::size_t kib) { return w.cuFileDriverSetMaxCacheSize(kib); }},
      {"max_pinned_mem_size", [](Fixture& w, std::size_t kib) { return w.cuFileDriverSetMaxPinnedMemSize(kib); }},
      {"poll_mode_threshold", [](Fixture& w, std::size_t kib) { return w.cuFileDriverSetPollMode(true, kib); }},
  };
  for (const Row& row : setters) {
    const SizeSetter set = row.set;
    add(std::string("driver.set.") + row.name + ".closed", [set](Fixture& w) {
      w.tell("set", set(w, 1024));
      tell_count(w);
    });
    add(std::string("driver.set.") + row.name + ".values_closed", [set](Fixture& w) {
      for (std::size_t kib : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{65}, std::size_t{1024},
                              std::size_t{16385}, std::size_t{1} << 40, ~std::size_t{0}}) {
        w.tell(std::to_string(kib).c_str(), set(w, kib));
      }
      w.tell("open", w.cuFileDriverOpen());
      tell_properties(w);
    });
    add(std::string("driver.set.") + row.name + ".values", [set](Fixture& w) {
      w.must("open", w.cuFileDriverOpen());
      for (std::size_t kib : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{63}, std::size_t{64},
                              std::size_t{65}, std::size_t{1023}, std::size_t{1024}, std::size_t{16384},
                              std::size_t{16385}, std::size_t{1} << 30, std::size_t{1} << 40, ~std::size_t{0}}) {
        w.tell(std::to_string(kib).c_str(), set(w, kib));
      }
    });
  }
  return true;
}

CASE("driver.set.poll_mode.off_and_on") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("on", w.cuFileDriverSetPollMode(true, 4));
  tell_properties(w);
  w.tell("off", w.cuFileDriverSetPollMode(false, 8));
  tell_properties(w);
}

CASE("driver.bar_size.indexes") {
  w.must("open", w.cuFileDriverOpen());
  for (int index : {0, -1, 1000}) {
    std::size_t size = 1;
    w.tell(("bar " + std::to_string(index)).c_str(), w.cuFileGetBARSizeInKB(index, &size));
    if (index == 0) w.say("size: %zu", size);
  }
  w.tell("null", w.cuFileGetBARSizeInKB(0, nullptr));
}

}  // namespace
}  // namespace conformance
