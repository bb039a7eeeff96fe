// SPDX-License-Identifier: Apache-2.0

// KvikIO's C++ interface on our library: batches, which its Python lacks, and stream-ordered calls.
//
//     smoke LIBRARY FILE LIBRARY: our libcufile.so.0, which must be the one loaded; FILE: created, then removed
//
// Prints one line per check, then OK, FAILED or SKIPPED, and exits 0, 1 or 77. batch.sh in this folder builds and runs
// it.
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <kvikio/batch.hpp>
#include <kvikio/cufile/driver.hpp>
#include <kvikio/defaults.hpp>
#include <kvikio/file_handle.hpp>
#include <kvikio/version_config.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<char>;

constexpr std::size_t kFileSize = (3U << 20) + 77;
constexpr std::size_t kMemorySize = 4U << 20;
constexpr char kSurroundings = '\x5A';

int checks = 0, failures = 0;

void check(bool truth, const std::string& what) {
  ++checks;
  failures += truth ? 0 : 1;
  std::printf("%s %s\n", truth ? "ok    " : "WRONG ", what.c_str());
  std::fflush(stdout);
}

// Opens the CUDA driver at run time, as KvikIO does, so that this program starts without one.
struct Gpu {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  CUdeviceptr memory = 0;
  CUcontext context = nullptr;

  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<CUresult (*)(Arguments...)>(driver ? dlsym(driver, name) : nullptr);
    return function != nullptr && function(arguments...) == CUDA_SUCCESS;
  }
  bool open() {
    CUdevice device = 0;
    return call("cuInit", 0U) && call("cuDeviceGet", &device, 0) &&
           call("cuDevicePrimaryCtxRetain", &context, device) && call("cuCtxSetCurrent", context) &&
           call("cuMemAlloc_v2", &memory, kMemorySize);
  }
  void put(const Bytes& bytes) {
    // A copy from pageable memory returns before its last bytes have arrived.
    check(call("cuMemcpyHtoD_v2", memory, static_cast<const void*>(bytes.data()), bytes.size()) &&
              call("cuCtxSynchronize"),
          "memory is set");
  }
  Bytes get() {
    Bytes bytes(kMemorySize);
    check(call("cuMemcpyDtoH_v2", static_cast<void*>(bytes.data()), memory, bytes.size()), "memory is read");
    return bytes;
  }
  void* base() const { return reinterpret_cast<void*>(memory); }
};

Bytes pattern(std::size_t size, unsigned seed) {
  std::minstd_rand engine(seed);
  Bytes bytes(size);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(engine() >> 7); });
  return bytes;
}

void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A piece of a batch. Most are not aligned; the last one meets the end of the file.
struct Piece {
  std::size_t size;
  off_t in_file;
  off_t in_memory;
};
const std::vector<Piece> kPieces = {
    {4096, 0, 0},
    {65536, 4096, 8192},
    {1, 70001, 80001},
    {4095, 80001, 90001},
    {524289, 100001, 100003},
    {1048576, 1048576, 1048576},
    {513, 2200003, 2200007},
    {65536, kFileSize - 1000, 3 << 20},
};

std::size_t there(const Piece& piece) {
  return std::min(piece.size, kFileSize - static_cast<std::size_t>(piece.in_file));
}

std::vector<kvikio::BatchOp> operations(kvikio::FileHandle& file, const Gpu& gpu, CUfileOpcode_t opcode) {
  std::vector<kvikio::BatchOp> made;
  for (const Piece& each : kPieces) {
    made.push_back(
        {file, gpu.base(), each.in_file, each.in_memory, opcode == CUFILE_READ ? each.size : there(each), opcode});
  }
  return made;
}

// Waits for the whole batch, 10 seconds at most; true where every piece is complete with the bytes it should have.
bool wait_for(kvikio::BatchHandle& batch, std::size_t count, std::size_t bytes) {
  std::size_t completed = 0, moved = 0;
  for (int turn = 0; turn < 10 && completed < count; ++turn) {
    timespec timeout{1, 0};
    const unsigned left = static_cast<unsigned>(count - completed);
    for (const CUfileIOEvents_t& event : batch.status(left, left, &timeout)) {
      if (event.status != CUFILE_COMPLETE) return false;
      ++completed;
      moved += event.ret;
    }
  }
  return completed == count && moved == bytes;
}

// Twice with one handle: what the first batch left must not show as the second's.
void check_batch(Gpu& gpu, const std::string& path, CUfileOpcode_t opcode) {
  const bool is_read = opcode == CUFILE_READ;
  const std::string word = is_read ? "batch read: " : "batch write: ";
  const Bytes on_disk = pattern(kFileSize, 1),
              in_memory = is_read ? Bytes(kMemorySize, kSurroundings) : pattern(kMemorySize, 2);
  Bytes expected = is_read ? in_memory : on_disk;
  std::size_t bytes = 0;
  for (const Piece& each : kPieces) {
    bytes += there(each);
    const auto from = is_read ? on_disk.begin() + each.in_file : in_memory.begin() + each.in_memory;
    std::copy_n(from, there(each), expected.begin() + (is_read ? each.in_memory : each.in_file));
  }
  kvikio::BatchHandle batch(static_cast<int>(kPieces.size()));
  for (const char* turn : {"the handle serves", "the handle serves again"}) {
    write_file(path, on_disk);
    gpu.put(in_memory);
    {
      kvikio::FileHandle file(path, is_read ? "r" : "r+");
      batch.submit(operations(file, gpu, opcode));
      check(wait_for(batch, kPieces.size(), bytes), word + turn);
    }
    check((is_read ? gpu.get() : read_file(path)) == expected, word + "these bytes and no others");
  }
}

void check_cancel(Gpu& gpu, const std::string& path) {
  kvikio::FileHandle file(path, "r");
  kvikio::BatchHandle batch(static_cast<int>(kPieces.size()));
  batch.submit(operations(file, gpu, CUFILE_READ));
  batch.cancel();
  check(true, "a batch in flight is cancelled");
}

void check_stream(Gpu& gpu, const std::string& path) {
  const Bytes on_disk = pattern(kFileSize, 1);
  write_file(path, on_disk);
  CUstream stream = nullptr;
  check(gpu.call("cuStreamCreate", &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING)), "a stream");
  kvikio::stream_register(stream, 0);
  constexpr std::size_t kSize = 1000001, kFrom = 4097, kTo = 2000000;
  {
    kvikio::FileHandle from(path, "r"), to(path, "r+");
    kvikio::StreamFuture in = from.read_async(gpu.base(), kSize, kFrom, 77, stream);
    kvikio::StreamFuture out = to.write_async(gpu.base(), kSize, kTo, 77, stream);
    const std::size_t read = in.check_bytes_done(), written = out.check_bytes_done();
    check(read == kSize && written == kSize, "stream: a read and a write behind it tell their bytes");
  }
  kvikio::stream_deregister(stream);
  const Bytes now = read_file(path);
  check(now.size() == kFileSize && std::equal(now.begin() + kTo, now.begin() + kTo + kSize, on_disk.begin() + kFrom),
        "stream: the write wrote what the read had read");
}

// Checks that the process has one libcufile, and that it is `library`.
void check_library(const char* library) {
  std::set<std::string> loaded;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t slash = line.find('/');
    if (slash != line.npos && line.find("libcufile.so", slash) != line.npos) loaded.insert(line.substr(slash));
  }
  char* const wanted = realpath(library, nullptr);
  check(wanted != nullptr && loaded == std::set<std::string>{wanted}, "one libcufile is loaded, ours");
  free(wanted);
  void* const ours = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  const auto version = reinterpret_cast<const char* (*)()>(ours ? dlsym(ours, "penstock_version") : nullptr);
  check(version != nullptr, std::string("Penstock ") + (version ? version() : "does not answer"));
}

void check_all(Gpu& gpu, const std::string& path) {
  check(kvikio::defaults::compat_mode() == kvikio::CompatMode::OFF, "KvikIO's compatibility mode is off");
  check_batch(gpu, path, CUFILE_READ);
  check_batch(gpu, path, CUFILE_WRITE);
  check_cancel(gpu, path);
  check_stream(gpu, path);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: smoke LIBRARY FILE\n"), 2;
  Gpu gpu;
  if (!gpu.open()) return std::printf("SKIPPED kvikio (C++): no GPU here\n"), 77;
  try {
    check_all(gpu, arguments[2]);
  } catch (const std::exception& error) {
    check(false, error.what());
  }
  std::remove(arguments[2]);
  check_library(arguments[1]);
  if (failures != 0) return std::printf("FAILED kvikio (C++): %d of %d checks\n", failures, checks), 1;
  return std::printf("OK kvikio (C++) %d.%d.%d: %d checks\n", KvikIO_VERSION_MAJOR, KvikIO_VERSION_MINOR,
                     KvikIO_VERSION_PATCH, checks),
         0;
}
