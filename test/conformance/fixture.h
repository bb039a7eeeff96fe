// SPDX-License-Identifier: Apache-2.0

// What a case sees: the library under examination, CUDA, a folder of its own, and a way to tell outcomes, one line
// each. Outcomes hold no addresses, times or numbers of descriptors, so that two libraries can be compared line by
// line. Used by the cases; the runner makes one Fixture in each child process.
#ifndef PENSTOCK_CONFORMANCE_FIXTURE_H_
#define PENSTOCK_CONFORMANCE_FIXTURE_H_

#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda_calls.h"
#include "library.h"

namespace conformance {

constexpr std::size_t kKib = 1024;
constexpr std::size_t kMib = 1024 * kKib;
constexpr std::size_t kGib = 1024 * kMib;

enum class Cuda { context, none };

// What a case needs before the library is loaded.
struct Setup {
  Cuda cuda = Cuda::context;   // The first GPU's primary context is current, or CUDA is left alone.
  const char* json = nullptr;  // The configuration file; where null, one that allows compatible mode.
  bool no_json = false;        // No variable that names a configuration file.
  std::vector<std::pair<std::string, std::string>> environment;  // $DIR stands for the case's folder.
};

struct Stop {};  // Thrown to end a case that cannot go on; why has been told.

enum class Kind { gpu, host, pinned, registered, managed, vmm, mapped };
const char* name_of(Kind kind);

class Fixture : public Library {
 public:
  Fixture(std::string folder, int report) : folder_(std::move(folder)), report_(report) {}

  CudaCalls cuda;
  bool has_gpu = false;

  // ---- Outcomes ----
  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...);
  CUfileError_t tell(const char* step, CUfileError_t outcome);
  ssize_t tell(const char* step, ssize_t outcome);  // Reads errno: to be called with the call inside.
  void tell(const char* step, const CUfileIOEvents_t& event);
  void must(const char* step, CUfileError_t outcome);  // Tells and stops where it failed.
  void must_cuda(const char* step, Result result);
  void tell_cuda(const char* step, Result result);
  [[noreturn]] void skip(const std::string& reason);
  void need_gpu();

  // ---- Files ----
  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // A file with the pattern of `seed`; -1 where it cannot be opened, which is told.
  int file(const std::string& name, std::size_t size, int flags = O_RDWR, int seed = 1);
  void write_text(const std::string& name, const std::string& text);
  CUfileHandle_t handle(int fd);  // Registered, or the case stops.
  CUfileError_t register_fd(int fd, CUfileHandle_t* handle);
  static CUfileDescr_t describe(int fd);

 private:
  std::string folder_;
  int report_;
};

// The bytes of pattern `seed` at a position.
std::string pattern(int seed, std::size_t from, std::size_t size);

// Memory of some kind, filled with 0xA5; lives until the process ends or free() is called.
class Memory {
 public:
  static constexpr char kGuard = '\xA5';
  Memory(Fixture& fixture, Kind kind, std::size_t size);
  void* base() const { return base_; }
  char* at(std::size_t offset) const { return static_cast<char*>(base_) + offset; }
  std::size_t size() const { return size_; }
  bool on_gpu() const { return kind_ == Kind::gpu || kind_ == Kind::vmm; }
  void put(std::size_t offset, const std::string& bytes);
  std::string get(std::size_t offset, std::size_t size) const;
  std::string get() const { return get(0, size_); }
  void free();

 private:
  Fixture& fixture_;
  Kind kind_;
  std::size_t size_;
  void* base_ = nullptr;
};

// "equal" where memory holds `size` bytes of pattern `seed` from `position` at `offset`, and guard bytes elsewhere.
const char* compare_memory(const Memory& memory, std::size_t offset, std::size_t size, int seed, std::size_t position);
// "equal" where the file is `was` bytes of seed 1 with `size` bytes of seed 2, from 0, written over it at `position`.
const char* compare_file(int fd, std::size_t was, std::size_t position, std::size_t size);
std::size_t size_of(int fd);

// ---- Batches ----
CUfileIOParams_t entry(CUfileOpcode_t opcode, CUfileHandle_t handle, void* base, std::size_t size,
                       off_t file_offset = 0, off_t buffer_offset = 0, std::size_t cookie = 1);
// Reaps until `count` events came or ten seconds passed; ordered by cookie.
std::vector<CUfileIOEvents_t> reap(Fixture& fixture, CUfileBatchHandle_t batch, unsigned count);
void tell_all(Fixture& fixture, const std::vector<CUfileIOEvents_t>& events);

// ---- Registration of cases ----
struct Case {
  std::string name;
  Setup setup;
  std::function<void(Fixture&)> act;
};
std::vector<Case>& cases();
inline bool add(std::string name, std::function<void(Fixture&)> act, Setup setup = {}) {
  cases().push_back({std::move(name), std::move(setup), std::move(act)});
  return true;
}

#define CONFORMANCE_JOIN(a, b) a##b
// By numbers, since several files may be compiled as one.
#define CONFORMANCE_CASE(number, name, ...)                                  \
  static void CONFORMANCE_JOIN(case_, number)(Fixture&);                     \
  [[maybe_unused]] static const bool CONFORMANCE_JOIN(added_, number) =      \
      add(name, CONFORMANCE_JOIN(case_, number) __VA_OPT__(, ) __VA_ARGS__); \
  static void CONFORMANCE_JOIN(case_, number)([[maybe_unused]] Fixture & w)
#define CONFORMANCE_NUMBERED(macro, ...) macro(__VA_ARGS__)
#define CASE(...) CONFORMANCE_NUMBERED(CONFORMANCE_CASE, __COUNTER__, __VA_ARGS__)
#define CONFORMANCE_TABLE(number)                                                                           \
  static bool CONFORMANCE_JOIN(table_, number)();                                                           \
  [[maybe_unused]] static const bool CONFORMANCE_JOIN(added_, number) = CONFORMANCE_JOIN(table_, number)(); \
  static bool CONFORMANCE_JOIN(table_, number)()
// Cases from a table: the block runs once at start and calls add().
#define TABLE() CONFORMANCE_NUMBERED(CONFORMANCE_TABLE, __COUNTER__)

}  // namespace conformance

#endif  // PENSTOCK_CONFORMANCE_FIXTURE_H_
