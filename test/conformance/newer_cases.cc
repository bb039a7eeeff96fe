// SPDX-License-Identifier: Apache-2.0

// What later versions of the interface added: P2P flags, topology, scatter and gather. A library of 1.15 lacks them.
#include <cstring>
#include <fstream>

#include "fixture.h"

namespace conformance {
namespace {

template <typename Enum>
Enum number(int value) {
  Enum result;
  std::memcpy(&result, &value, sizeof(value));
  return result;
}

void tell_flags(Fixture& w, const char* step, int which) {
  auto flags = number<CUfileP2PFlags_t>(77);
  if (w.tell(step, w.cuFileDriverGetP2PFlags(number<CUfileDriverStatusFlags_t>(which), &flags)).err == CU_FILE_SUCCESS)
    w.say("flags: 0x%x", static_cast<unsigned>(flags));
}

TABLE() {
  for (int flags : {0, 1, 2, 4, 8, 16, 3, -1}) {
    add("p2p.set_" + std::to_string(flags), [flags](Fixture& w) {
      const auto which = CU_FILE_NVME_SUPPORTED;
      tell_flags(w, "before", which);
      w.tell("set", w.cuFileDriverSetP2PFlags(which, number<CUfileP2PFlags_t>(flags)));
      tell_flags(w, "after", which);
      w.say("use count: %ld", w.cuFileUseCount());
      w.tell("parameter", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16));
      w.must("open", w.cuFileDriverOpen());
      tell_flags(w, "open", which);
      w.tell("set when open", w.cuFileDriverSetP2PFlags(which, number<CUfileP2PFlags_t>(flags)));
      w.must("close", w.cuFileDriverClose_v2());
      tell_flags(w, "closed", which);
    });
  }
  for (int which : {0, 1, 9, 10, 13, 14, -1}) {
    add("p2p.which_" + std::to_string(which), [which](Fixture& w) {
      tell_flags(w, "get", which);
      w.tell("set", w.cuFileDriverSetP2PFlags(number<CUfileDriverStatusFlags_t>(which), number<CUfileP2PFlags_t>(1)));
    });
  }
  return true;
}
CASE("p2p.null") { w.tell("get", w.cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, nullptr)); }

CASE("topology.export") {
  w.tell("export", w.cuFileExportPCIeTopology(w.path("topology.json").c_str()));
  std::ifstream in(w.path("topology.json"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  w.say("written: %s", text.empty() ? "nothing" : "something");
  w.say("use count: %ld", w.cuFileUseCount());
}
CASE("topology.export_over_a_file") {
  w.write_text("topology.json", std::string(100000, 'x'));
  w.tell("export", w.cuFileExportPCIeTopology(w.path("topology.json").c_str()));
  std::ifstream in(w.path("topology.json"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  w.say("old text: %s", text.find("xxxx") == std::string::npos ? "gone" : "left");
}
TABLE() {
  for (const char* path : {"", "/nowhere/at/all.json", "/", "."}) {
    add(std::string("topology.bad_path.") + (*path == '\0'              ? "empty"
                                             : path == std::string("/") ? "root"
                                             : path == std::string(".") ? "here"
                                                                        : "missing_folder"),
        [path](Fixture& w) { w.tell("export", w.cuFileExportPCIeTopology(path)); });
  }
  return true;
}
CASE("topology.null_path") { w.tell("export", w.cuFileExportPCIeTopology(nullptr)); }

// ---- Readv and writev ----------------------------------------------------------------------------------------------

TABLE() {
  for (Kind kind : {Kind::host, Kind::gpu}) {
    add(std::string("vector.read.") + name_of(kind), [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 65536));
      Memory memory(w, kind, 65536);
      const CUfileIOVec_t pieces[] = {
          {memory.at(0), 4096}, {memory.at(8192), 100}, {memory.at(16384), 0}, {memory.at(20480), 8192}};
      w.tell("read", w.cuFileReadv(handle, pieces, 4, 10, 0));
      w.say("pieces: %d %d %d", memory.get(0, 4096) == pattern(1, 10, 4096),
            memory.get(8192, 100) == pattern(1, 4106, 100), memory.get(20480, 8192) == pattern(1, 4206, 8192));
      w.tell("across the end", w.cuFileReadv(handle, pieces, 4, 65536 - 5000, 0));
      w.tell("past the end", w.cuFileReadv(handle, pieces, 4, 1 << 20, 0));
    });
    add(std::string("vector.write.") + name_of(kind), [kind](Fixture& w) {
      const int fd = w.file("a", 65536);
      const CUfileHandle_t handle = w.handle(fd);
      Memory memory(w, kind, 65536);
      memory.put(4096, pattern(2, 0, 5000));
      memory.put(32768, pattern(2, 5000, 3000));
      const CUfileIOVec_t pieces[] = {{memory.at(4096), 5000}, {memory.at(32768), 3000}};
      w.tell("write", w.cuFileWritev(handle, pieces, 2, 777, 0));
      w.say("file: %s", compare_file(fd, 65536, 777, 8000));
    });
    add(std::string("vector.registered.") + name_of(kind), [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 65536));
      Memory memory(w, kind, 65536);
      w.must("register buffer", w.cuFileBufRegister(memory.base(), 8192, 0));
      const CUfileIOVec_t inside[] = {{memory.at(0), 4096}, {memory.at(4096), 4096}};
      const CUfileIOVec_t outside[] = {{memory.at(0), 8193}};
      w.tell("inside", w.cuFileReadv(handle, inside, 2, 0, 0));
      w.tell("past the registration", w.cuFileReadv(handle, outside, 1, 0, 0));
    });
  }
  return true;
}
// Pieces of both memories in one call, and more pieces than the kernel takes at once.
CASE("vector.host_and_gpu") {
  const int fd = w.file("a", 65536);
  const CUfileHandle_t handle = w.handle(fd);
  Memory host(w, Kind::host, 65536), gpu(w, Kind::gpu, 65536);
  const CUfileIOVec_t pieces[] = {{host.at(0), 4096}, {gpu.at(4096), 8192}, {host.at(16384), 100}};
  w.tell("read", w.cuFileReadv(handle, pieces, 3, 0, 0));
  w.say("pieces: %d %d %d", host.get(0, 4096) == pattern(1, 0, 4096), gpu.get(4096, 8192) == pattern(1, 4096, 8192),
        host.get(16384, 100) == pattern(1, 12288, 100));
  host.put(0, pattern(2, 0, 4096));
  gpu.put(4096, pattern(2, 4096, 8192));
  host.put(16384, pattern(2, 12288, 100));
  w.tell("write", w.cuFileWritev(handle, pieces, 3, 4096, 0));
  w.say("file: %s", compare_file(fd, 65536, 4096, 12388));
}
TABLE() {
  for (std::size_t count : {std::size_t{1024}, std::size_t{1025}, std::size_t{5000}}) {
    for (Kind kind : {Kind::host, Kind::gpu}) {
      add("vector.pieces." + std::to_string(count) + "." + name_of(kind), [count, kind](Fixture& w) {
        const CUfileHandle_t handle = w.handle(w.file("a", count * 64));
        Memory memory(w, kind, count * 64);
        std::vector<CUfileIOVec_t> pieces;
        for (std::size_t i = 0; i < count; ++i) pieces.push_back({memory.at(i * 64), 64});
        w.tell("read", w.cuFileReadv(handle, pieces.data(), pieces.size(), 0, 0));
        w.say("memory: %s", compare_memory(memory, 0, count * 64, 1, 0));
      });
    }
  }
  for (Kind kind : {Kind::host, Kind::gpu}) {
    add(std::string("vector.direct_file.") + name_of(kind), [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 65536, O_RDWR | O_DIRECT));
      Memory memory(w, kind, 65536);
      const CUfileIOVec_t even[] = {{memory.at(0), 4096}, {memory.at(8192), 8192}};
      const CUfileIOVec_t uneven[] = {{memory.at(0), 100}, {memory.at(8192), 5000}};
      w.tell("read", w.cuFileReadv(handle, even, 2, 4096, 0));
      w.say("pieces: %d %d", memory.get(0, 4096) == pattern(1, 4096, 4096),
            memory.get(8192, 8192) == pattern(1, 8192, 8192));
      w.tell("uneven read", w.cuFileReadv(handle, uneven, 2, 10, 0));
      w.say("pieces: %d %d", memory.get(0, 100) == pattern(1, 10, 100),
            memory.get(8192, 5000) == pattern(1, 110, 5000));
      w.tell("uneven write", w.cuFileWritev(handle, uneven, 2, 10, 0));
    });
    add(std::string("vector.large.") + name_of(kind), [kind](Fixture& w) {
      const CUfileHandle_t handle = w.handle(w.file("a", 48 * kMib));
      Memory memory(w, kind, 48 * kMib);
      const CUfileIOVec_t pieces[] = {
          {memory.at(0), 20 * kMib}, {memory.at(20 * kMib), 4096}, {memory.at(20 * kMib + 4096), 28 * kMib - 4096}};
      w.tell("read", w.cuFileReadv(handle, pieces, 3, 0, 0));
      w.say("memory: %s", compare_memory(memory, 0, 48 * kMib, 1, 0));
    });
    add(std::string("vector.behind_the_end.") + name_of(kind), [kind](Fixture& w) {
      const int fd = w.file("a", 4096);
      const CUfileHandle_t handle = w.handle(fd);
      Memory memory(w, kind, 8192);
      const CUfileIOVec_t pieces[] = {{memory.at(0), 4096}, {memory.at(4096), 1000}};
      w.tell("write", w.cuFileWritev(handle, pieces, 2, 8192, 0));
      w.say("size: %zu", size_of(fd));
    });
  }
  return true;
}
CASE("vector.opens_the_driver") {
  Memory memory(w, Kind::host, 4096);
  const CUfileIOVec_t piece[] = {{memory.base(), 4096}};
  w.tell("read", w.cuFileReadv(nullptr, piece, 1, 0, 0));
  w.say("use count: %ld", w.cuFileUseCount());
}
// cuObject's way in. What they take is not published, so that they are not called.
CASE("object.entries") {
  for (const char* name :
       {"cuFileObjectInitialize", "cuFileObjectDriverOpen", "cuFileObjectDriverOpenForDiagnostics"}) {
    w.say("%s: %s", name, dlsym(w.opened, name) != nullptr ? "there" : "absent");
  }
}
CASE("vector.arguments") {
  const CUfileHandle_t handle = w.handle(w.file("a", 65536));
  Memory memory(w, Kind::host, 65536);
  const CUfileIOVec_t good[] = {{memory.base(), 4096}};
  const CUfileIOVec_t null_base[] = {{nullptr, 4096}};
  const CUfileIOVec_t null_empty[] = {{nullptr, 0}};
  const CUfileIOVec_t wrapping[] = {{memory.base(), ~std::size_t{0}}, {memory.base(), 2}};
  w.tell("no handle", w.cuFileReadv(nullptr, good, 1, 0, 0));
  w.tell("no pieces", w.cuFileReadv(handle, nullptr, 1, 0, 0));
  w.tell("count 0", w.cuFileReadv(handle, good, 0, 0, 0));
  w.tell("offset -1", w.cuFileReadv(handle, good, 1, -1, 0));
  w.tell("flags 1", w.cuFileReadv(handle, good, 1, 0, 1));
  w.tell("null base", w.cuFileReadv(handle, null_base, 1, 0, 0));
  w.tell("null base, empty", w.cuFileReadv(handle, null_empty, 1, 0, 0));
  w.tell("sizes wrap", w.cuFileReadv(handle, wrapping, 2, 0, 0));
  w.tell("write no handle", w.cuFileWritev(nullptr, good, 1, 0, 0));
  w.tell("write flags 1", w.cuFileWritev(handle, good, 1, 0, 1));
}
CASE("vector.thousand_pieces") {
  const CUfileHandle_t handle = w.handle(w.file("a", 1000 * 64));
  Memory memory(w, Kind::host, 1000 * 64);
  std::vector<CUfileIOVec_t> pieces;
  for (std::size_t i = 0; i < 1000; ++i) pieces.push_back({memory.at(i * 64), 64});
  w.tell("read", w.cuFileReadv(handle, pieces.data(), pieces.size(), 0, 0));
  w.say("memory: %s", compare_memory(memory, 0, 1000 * 64, 1, 0));
}
CASE("vector.wrong_direction") {
  const CUfileHandle_t reader = w.handle(w.file("a", 4096, O_RDONLY)), writer = w.handle(w.file("b", 4096, O_WRONLY));
  Memory memory(w, Kind::host, 4096);
  const CUfileIOVec_t piece[] = {{memory.base(), 4096}};
  w.tell("write", w.cuFileWritev(reader, piece, 1, 0, 0));
  w.tell("read", w.cuFileReadv(writer, piece, 1, 0, 0));
}

}  // namespace
}  // namespace conformance
