// SPDX-License-Identifier: Apache-2.0

// What suites of other projects found to differ, as cases of their own.
#include <string>

#include "stream_kit.h"

namespace conformance {
namespace {

void tell_count(Fixture& w) { w.say("use count: %ld", w.cuFileUseCount()); }

// ---- Streams -------------------------------------------------------------------------------------------------------

TABLE() {
  struct Row {
    const char* name;
    Wish wish;
  };
  static constexpr Row kRows[] = {
      {"larger_than_buffer", {kSize + 4096, 0, 0, 1}},
      {"offset_past_buffer", {4096, 0, kSize + 4096, 1}},
      {"negative_buffer_offset", {4096, 0, -4096, 1}},
  };
  for (const bool write : {false, true}) {
    const auto call = write ? write_async : read_async;
    const std::string direction = write ? "write" : "read";
    // The whole allocation is registered.
    for (const Row& row : kRows) {
      add("suite.stream." + direction + "." + row.name, [&row, call](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", 2 * kSize));
        Memory memory(w, Kind::gpu, kSize);
        w.must("register buffer", w.cuFileBufRegister(memory.base(), kSize, 0));
        const Stream stream = make_stream(w);
        Wish wish = row.wish;
        w.tell("call", call(w, handle, memory.base(), wish, stream));
        synchronize(w, stream);
        w.say("bytes: %zd", wish.bytes);
      });
    }
    for (const unsigned flags : {0U, 15U}) {
      add("suite.stream." + direction + ".nothing.flags_" + std::to_string(flags), [flags, call](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", kSize));
        Memory memory(w, Kind::gpu, kSize);
        const Stream stream = make_stream(w);
        w.must("register stream", w.cuFileStreamRegister(as_stream(stream), flags));
        Wish wish{0, 0, 0, 1};
        w.tell("call", call(w, handle, memory.base(), wish, stream));
        w.say("bytes at once: %zd", wish.bytes);
        synchronize(w, stream);
        w.say("bytes: %zd", wish.bytes);
      });
    }
  }
  return true;
}

CASE("suite.stream.register.null_before_anything", Setup{.cuda = Cuda::none}) {
  w.tell("register", w.cuFileStreamRegister(nullptr, 0));
  tell_count(w);
  w.tell("deregister", w.cuFileStreamDeregister(nullptr));
  tell_count(w);
}
CASE("suite.stream.register.leaves_driver_closed") {
  const CUstream stream = as_stream(make_stream(w));
  w.tell("register", w.cuFileStreamRegister(stream, 0));
  tell_count(w);
  w.tell("deregister", w.cuFileStreamDeregister(stream));
  tell_count(w);
}

// ---- The driver ----------------------------------------------------------------------------------------------------

CASE("suite.handle.null_description_opens_driver") {
  CUfileHandle_t handle = nullptr;
  w.tell("register", w.cuFileHandleRegister(&handle, nullptr));
  tell_count(w);
}
CASE("suite.handle.null_handle_opens_driver") {
  CUfileDescr_t description = Fixture::describe(w.file("a", 4096));
  w.tell("register", w.cuFileHandleRegister(nullptr, &description));
  tell_count(w);
}
TABLE() {
  for (const bool write : {false, true}) {
    add(std::string("suite.transfer.no_handle_and_closed_driver.") + (write ? "write" : "read"), [write](Fixture& w) {
      Memory memory(w, Kind::host, 4096);
      int nothing[64] = {};
      if (write) w.tell("write", w.cuFileWrite(nothing, memory.base(), 4096, 0, 0));
      else w.tell("read", w.cuFileRead(nothing, memory.base(), 4096, 0, 0));
    });
  }
  return true;
}
CASE("suite.driver.bar_size_of_first_gpu") {
  w.need_gpu();
  std::size_t size = 1;
  w.tell("bar", w.cuFileGetBARSizeInKB(0, &size));
  w.say("size: %zu", size);
}

// ---- Parameters ----------------------------------------------------------------------------------------------------

CASE("suite.parameter.size_before_open") {
  std::size_t threads = 1;
  w.tell("get", w.cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, &threads));
  w.say("threads: %zu", threads);
  w.must("open", w.cuFileDriverOpen());
  w.tell("get", w.cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, &threads));
  w.say("threads: %zu", threads);
}

// Read, set, read back, set to something else, as a suite does that puts back what there was.
TABLE() {
  struct Row {
    const char* name;
    CUFileStringConfigParameter_t parameter;
    const char* values[2];
  };
  static const Row kRows[] = {
      {"level", CUFILE_PARAM_LOGGING_LEVEL, {"INFO", "DEBUG"}},
      {"path", CUFILE_PARAM_ENV_LOGFILE_PATH, {"$DIR/none/cufile.log", "$DIR/none/other.log"}},
      {"dir", CUFILE_PARAM_LOG_DIR, {"$DIR/none", "$DIR/other"}},
  };
  for (const Row& row : kRows) {
    add(
        std::string("suite.parameter.string.") + row.name,
        [&row](Fixture& w) {
          char text[512];
          w.tell("get", w.cuFileGetParameterString(row.parameter, text, sizeof text));
          for (const std::string value : row.values) {
            const bool inside = value.starts_with("$DIR");
            const std::string wanted = inside ? w.path(value.substr(5)) : value;
            w.tell("set", w.cuFileSetParameterString(row.parameter, wanted.c_str()));
            w.tell("get", w.cuFileGetParameterString(row.parameter, text, sizeof text));
            w.say("as it was set: %d", wanted == text);
          }
        },
        Setup{.environment = {{"CUFILE_LOGFILE_PATH", ""}}});
  }
  return true;
}

// ---- Batches -------------------------------------------------------------------------------------------------------

CASE("suite.batch.canceled_at_once") {
  constexpr unsigned kEntries = 4;
  const CUfileHandle_t handle = w.handle(w.file("a", kEntries * kSize));
  Memory memory(w, Kind::gpu, kEntries * kSize);
  CUfileBatchHandle_t batch = nullptr;
  w.must("set up", w.cuFileBatchIOSetUp(&batch, kEntries));
  CUfileIOParams_t all[kEntries];
  for (unsigned i = 0; i < kEntries; ++i) {
    const auto at = static_cast<off_t>(i * kSize);
    all[i] = entry(CUFILE_READ, handle, memory.base(), kSize, at, at, i + 1);
  }
  w.must("submit", w.cuFileBatchIOSubmit(batch, kEntries, all, 0));
  w.tell("cancel", w.cuFileBatchIOCancel(batch));
  CUfileIOEvents_t events[kEntries] = {};
  unsigned number = kEntries;
  w.tell("status", w.cuFileBatchIOGetStatus(batch, kEntries, &number, events, nullptr));
  w.say("events: %u", number);
}

}  // namespace
}  // namespace conformance
