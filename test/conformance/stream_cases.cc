// SPDX-License-Identifier: Apache-2.0

// cuFileReadAsync and cuFileWriteAsync: any stream, when parameters are read, errors, streams switched off.
#include <climits>
#include <memory>

#include "stream_kit.h"

namespace conformance {
namespace {

// ---- Which stream, which memory ------------------------------------------------------------------------------------

struct Where {
  const char* name;
  Stream (*make)(Fixture&);
};
constexpr Where kStreams[] = {
    {"null", [](Fixture&) -> Stream { return nullptr; }},
    {"legacy", [](Fixture&) -> Stream { return kLegacyStream; }},
    {"per_thread", [](Fixture&) -> Stream { return kPerThreadStream; }},
    {"blocking", [](Fixture& w) -> Stream { return make_stream(w, 0); }},
    {"non_blocking", [](Fixture& w) -> Stream { return make_stream(w, kStreamNonBlocking); }},
};

TABLE() {
  for (const Where& where : kStreams) {
    for (Kind kind : {Kind::gpu, Kind::host, Kind::pinned, Kind::managed, Kind::vmm}) {
      const std::string suffix = std::string(where.name) + "." + name_of(kind);
      add("stream.read." + suffix, [&where, kind](Fixture& w) {
        w.need_gpu();
        const CUfileHandle_t handle = w.handle(w.file("a", 2 * kSize));
        Memory memory(w, kind, kSize);
        const Stream stream = where.make(w);
        Wish wish;
        w.tell("read", read_async(w, handle, memory.base(), wish, stream));
        synchronize(w, stream);
        w.say("bytes: %zd memory: %s", wish.bytes, compare_memory(memory, 0, kSize, 1, 0));
      });
      add("stream.write." + suffix, [&where, kind](Fixture& w) {
        w.need_gpu();
        const int fd = w.file("a", 2 * kSize);
        const CUfileHandle_t handle = w.handle(fd);
        Memory memory(w, kind, kSize);
        memory.put(0, pattern(2, 0, kSize));
        const Stream stream = where.make(w);
        Wish wish;
        wish.file_offset = 4096;
        w.tell("write", write_async(w, handle, memory.base(), wish, stream));
        synchronize(w, stream);
        w.say("bytes: %zd file: %s", wish.bytes, compare_file(fd, 2 * kSize, 4096, kSize));
      });
    }
    add(std::string("stream.register.") + where.name, [&where](Fixture& w) {
      w.need_gpu();
      w.must("open", w.cuFileDriverOpen());
      const CUstream stream = as_stream(where.make(w));
      w.tell("register", w.cuFileStreamRegister(stream, 0));
      w.tell("again", w.cuFileStreamRegister(stream, 0));
      w.tell("deregister", w.cuFileStreamDeregister(stream));
      w.tell("deregister again", w.cuFileStreamDeregister(stream));
    });
    for (const unsigned flags : {1U, 2U, 4U, 8U, 15U, 16U, 31U, 0x80000000U}) {
      add(std::string("stream.register.") + where.name + ".flags_" + std::to_string(flags),
          [&where, flags](Fixture& w) {
            w.need_gpu();
            w.must("open", w.cuFileDriverOpen());
            w.tell("register", w.cuFileStreamRegister(as_stream(where.make(w)), flags));
          });
    }
  }
  for (const unsigned flags : {0U, 1U, 2U, 4U, 7U, 8U, 15U}) {
    add("stream.registered_read.flags_" + std::to_string(flags), [flags](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 2 * kSize, O_RDWR | O_DIRECT));
      Memory memory(w, Kind::gpu, kSize);
      w.must("register buffer", w.cuFileBufRegister(memory.base(), kSize, 0));
      const Stream stream = make_stream(w);
      w.must("register stream", w.cuFileStreamRegister(as_stream(stream), flags));
      Wish wish;
      w.tell("read", read_async(w, handle, memory.base(), wish, stream));
      synchronize(w, stream);
      w.say("bytes: %zd memory: %s", wish.bytes, compare_memory(memory, 0, kSize, 1, 0));
      w.tell("deregister stream", w.cuFileStreamDeregister(as_stream(stream)));
    });
    // Which of the parameters that change while the stream is held count.
    add("stream.changed_while_held.flags_" + std::to_string(flags), [flags](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 4 * kSize));
      Memory memory(w, Kind::gpu, 2 * kSize);
      const Stream stream = make_stream(w);
      w.must("register stream", w.cuFileStreamRegister(as_stream(stream), flags));
      Wish wish;
      Hold hold(w, stream);
      w.tell("read", read_async(w, handle, memory.base(), wish, stream));
      w.say("returned before the stream was let go: %d", hold.was_let_go());
      wish.size = 4096;
      wish.file_offset = 2 * kSize;
      wish.buffer_offset = 8192;
      hold.let_go();
      synchronize(w, stream);
      const std::string bytes = memory.get();
      const std::size_t first = bytes.find_first_not_of(Memory::kGuard);
      w.say("bytes: %zd first changed: %zd", wish.bytes, static_cast<ssize_t>(first));
      if (first == std::string::npos) return;
      for (std::size_t from : {std::size_t{0}, 2 * kSize}) {
        w.say("data of %zu: %d", from, bytes.compare(first, 4096, pattern(1, from, 4096)) == 0);
      }
    });
  }
  return true;
}

CASE("stream.register.unmade_stream") {
  w.must("open", w.cuFileDriverOpen());
  const Stream stream = make_stream(w);
  w.must_cuda("cuStreamDestroy", w.cuda.cuStreamDestroy_v2(stream));
  w.tell("deregister", w.cuFileStreamDeregister(as_stream(stream)));
}
CASE("stream.deregister.unknown") {
  w.must("open", w.cuFileDriverOpen());
  w.tell("deregister", w.cuFileStreamDeregister(as_stream(make_stream(w))));
}
CASE("stream.deregister.closed_driver") {
  const Stream stream = make_stream(w);
  w.tell("deregister", w.cuFileStreamDeregister(as_stream(stream)));
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("stream.register.forgotten_by_close") {
  const Stream stream = make_stream(w);
  w.must("open", w.cuFileDriverOpen());
  w.tell("register", w.cuFileStreamRegister(as_stream(stream), 0));
  w.tell("close", w.cuFileDriverClose_v2());
  w.tell("deregister", w.cuFileStreamDeregister(as_stream(stream)));
  w.must("open", w.cuFileDriverOpen());
  w.tell("register", w.cuFileStreamRegister(as_stream(stream), 0));
}

// ---- Arguments and results -----------------------------------------------------------------------------------------

TABLE() {
  for (const bool write : {false, true}) {
    const std::string direction = write ? "write" : "read";
    const auto call = write ? write_async : read_async;
    add("stream." + direction + ".null_pointers", [write](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", kSize));
      Memory memory(w, Kind::gpu, kSize);
      const Stream stream = make_stream(w);
      const CUstream s = as_stream(stream);
      Wish k;
      const auto go = [&](const char* step, CUfileHandle_t h, void* b, std::size_t* size, off_t* at, off_t* into,
                          ssize_t* bytes) {
        w.tell(step, write ? w.cuFileWriteAsync(h, b, size, at, into, bytes, s)
                           : w.cuFileReadAsync(h, b, size, at, into, bytes, s));
      };
      go("handle", nullptr, memory.base(), &k.size, &k.file_offset, &k.buffer_offset, &k.bytes);
      go("buffer", handle, nullptr, &k.size, &k.file_offset, &k.buffer_offset, &k.bytes);
      go("size", handle, memory.base(), nullptr, &k.file_offset, &k.buffer_offset, &k.bytes);
      go("file offset", handle, memory.base(), &k.size, nullptr, &k.buffer_offset, &k.bytes);
      go("buffer offset", handle, memory.base(), &k.size, &k.file_offset, nullptr, &k.bytes);
      go("bytes", handle, memory.base(), &k.size, &k.file_offset, &k.buffer_offset, nullptr);
      synchronize(w, stream);
      w.say("bytes: %zd", k.bytes);
    });
    struct Row {
      const char* name;
      Wish wish;
    };
    static constexpr Row kRows[] = {
        {"nothing", {0, 0, 0, -12345}},
        {"short", {kSize, kSize, 0, -12345}},
        {"past_the_end", {4096, 1 << 20, 0, -12345}},
        {"file_offset_minus_1", {4096, -1, 0, -12345}},
        {"buffer_offset_minus_1", {4096, 0, -1, -12345}},
        {"uneven", {4097, 3, 5, -12345}},
        {"past_registration", {kSize + 1, 0, 0, -12345}},
        {"offset_past_registration", {4096, 0, kSize, -12345}},
        {"huge", {~std::size_t{0}, 0, 0, -12345}},
    };
    for (const Row& row : kRows) {
      add("stream." + direction + ".values." + row.name, [&row, call](Fixture& w) {
        const int fd = w.file("a", kSize + 1000);
        const CUfileHandle_t handle = w.handle(fd);
        Memory memory(w, Kind::gpu, 2 * kSize);
        w.must("register buffer", w.cuFileBufRegister(memory.base(), kSize, 0));
        const Stream stream = make_stream(w);
        Wish wish = row.wish;
        w.tell("call", call(w, handle, memory.base(), wish, stream));
        w.tell_cuda("cuStreamSynchronize", w.cuda.cuStreamSynchronize(stream));
        w.say("bytes: %zd, file %zu", wish.bytes, size_of(fd));
      });
    }
    add("stream." + direction + ".unknown_handle", [call](Fixture& w) {
      w.must("open", w.cuFileDriverOpen());
      Memory memory(w, Kind::gpu, kSize);
      const Stream stream = make_stream(w);
      static char nothing[512];
      Wish wish;
      w.tell("call", call(w, nothing, memory.base(), wish, stream));
      synchronize(w, stream);
      w.say("bytes: %zd", wish.bytes);
    });
    add("stream." + direction + ".wrong_direction", [write, call](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", kSize, write ? O_RDONLY : O_WRONLY));
      Memory memory(w, Kind::gpu, kSize);
      const Stream stream = make_stream(w);
      Wish wish;
      w.tell("call", call(w, handle, memory.base(), wish, stream));
      synchronize(w, stream);
      w.say("bytes: %zd", wish.bytes);
    });
    add("stream." + direction + ".capturing", [call](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", kSize));
      Memory memory(w, Kind::gpu, kSize);
      const Stream stream = make_stream(w);
      Wish wish;
      w.must_cuda("cuStreamBeginCapture", w.cuda.cuStreamBeginCapture_v2(stream, 0));
      w.say("refused: %d", call(w, handle, memory.base(), wish, stream).err != CU_FILE_SUCCESS);
      Graph graph = nullptr;
      w.tell_cuda("cuStreamEndCapture", w.cuda.cuStreamEndCapture(stream, &graph));
      w.say("bytes: %zd", wish.bytes);
      Wish again;
      w.tell("after it", call(w, handle, memory.base(), again, stream));
      synchronize(w, stream);
      w.say("bytes: %zd", again.bytes);
    });
  }
  return true;
}
// ---- Switched off --------------------------------------------------------------------------------------------------

TABLE() {
  struct Row {
    const char* name;
    const char* json;
  };
  static constexpr Row kRows[] = {
      {"parallel_io_false", R"({"execution": {"parallel_io": false}, "properties": {"allow_compat_mode": true}})"},
      {"no_io_threads", R"({"execution": {"max_io_threads": 0}, "properties": {"allow_compat_mode": true}})"},
      {"memops_bypass",
       R"({"miscellaneous": {"stream_memops_bypass": true}, "properties": {"allow_compat_mode": true}})"},
  };
  for (const Row& row : kRows) {
    add(
        std::string("stream.configured.") + row.name,
        [](Fixture& w) {
          const CUfileHandle_t handle = w.handle(w.file("a", kSize));
          Memory memory(w, Kind::gpu, kSize);
          const Stream stream = make_stream(w);
          Wish wish;
          w.tell("read", read_async(w, handle, memory.base(), wish, stream));
          synchronize(w, stream);
          w.say("bytes: %zd", wish.bytes);
          w.tell("register", w.cuFileStreamRegister(as_stream(stream), 0));
          CUfileDrvProps_t properties = {};
          w.must("properties", w.cuFileDriverGetProperties(&properties));
          w.say("fflags: 0x%x", properties.fflags);
        },
        Setup{.json = row.json});
  }
  return true;
}

}  // namespace
}  // namespace conformance
