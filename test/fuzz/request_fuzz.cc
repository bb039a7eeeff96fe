// SPDX-License-Identifier: Apache-2.0

// cuFile's requests from outside: handles, addresses, sizes, offsets and pieces of all kinds, sane and not, on files
// and memory whose bytes a model knows. Nothing crashes or hangs; what succeeds has moved what it says and touched
// nothing else; what fails says why.
#include <cerrno>
#include <climits>
#include <limits>
#include <map>
#include <optional>

#include "fuzz/request_fixture.h"

namespace penstock::fuzz {
namespace {

constexpr unsigned kStepsMax = 24;
constexpr unsigned kDriversMax = 3;  // Openings in one input.
constexpr off_t kOffsetMax = std::numeric_limits<off_t>::max();

// What a call of the file system in user space does; the input chooses.
ssize_t user_answer = 0;
int user_errno = 0;
int user_calls_left = 0;
constexpr ssize_t kUserBytesMax = 1000;

// As much as is asked for, but a thousand bytes at most, and nothing after a few calls.
ssize_t answer(std::size_t size) {
  errno = user_errno;
  if (user_answer < 0 || user_answer > kUserBytesMax) return user_answer;
  return --user_calls_left < 0 ? 0 : static_cast<ssize_t>(std::min<std::size_t>(size, kUserBytesMax));
}
ssize_t user_read(const void*, char* memory, std::size_t size, off_t, const cufileRDMAInfo_t*) {
  static const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  if (::read(zeros, memory, std::min<std::size_t>(size, kUserBytesMax)) < 0)
    return -EFAULT;  // The memory may be nobody's.
  return answer(size);
}
ssize_t user_write(const void*, const char*, std::size_t size, off_t, const cufileRDMAInfo_t*) { return answer(size); }
const CUfileFSOps_t kUserCalls = {nullptr, nullptr, nullptr, user_read, user_write};
const CUfileFSOps_t kNoUserCalls = {};

struct File {
  bool readable = false;
  bool writable = false;
  bool user = false;
};

struct Request {
  bool write = false;
  CUfileHandle_t handle = nullptr;
  char* base = nullptr;
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;

  std::uint64_t address() const {
    return reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uint64_t>(buffer_offset);
  }
  char* memory() const { return reinterpret_cast<char*>(address()); }
};

enum class Wanted { failure, exact, any };

class Fixture {
 public:
  Fixture() {
    char* const host = reserve_host_memory();
    host_ = {host, std::vector<char>(kMemoryBytes)};
    host_.fill(1);
    ::setenv("PENSTOCK_DEVICE", "host", 1);
    ::setenv("PENSTOCK_WORKERS", "2", 1);
    ::setenv("CUFILE_ENV_PATH_JSON", "", 1);
  }

  void run(const Decisions& decisions) {
    decisions_ = decisions;
    begin();
    for (unsigned i = 0; i < kStepsMax && !decisions_.over(); ++i) step();
    end();
  }

 private:
  // The driver stays open from one input to the next where that asks for the same of it: opening takes longer than most
  // requests.
  void begin() {
    openings_ = 0;
    file_is_sick_ = false;
    file_.begin();
    const std::uint32_t way = decisions_.below(12);
    if (way != way_) {
      close();
      ::setenv("PENSTOCK_DIRECT_IO", way % 3 == 0 ? "auto" : way % 3 == 1 ? "always" : "never", 1);
      ::setenv("PENSTOCK_IO_URING", way / 3 % 2 == 0 ? "auto" : "off", 1);
      ::setenv("PENSTOCK_CHUNK_KIB", way / 6 == 0 ? "64" : "4096", 1);
      open();
      way_ = way;
    }
    for (unsigned i = 0; i < 3; ++i) register_file_of(i);
  }

  void end() {
    host_.check_near(host_.begin, kMemoryBytes);
    device_.check_near(device_.begin, kMemoryBytes);
    file_.check();
    for (const auto& [handle, file] : files_) cuFileHandleDeregister(handle);
    for (const auto& [base, size] : buffers_) FUZZ_CHECK(cuFileBufDeregister(base).err == CU_FILE_SUCCESS);
    files_.clear();
    buffers_.clear();
    (void)cuFileDriverSetMaxDirectIOSize(16384);
  }

  void step() {
    switch (decisions_.below(16)) {
      default: return transfer(make_request());
      case 8:
      case 9:
      case 10: return transfer_pieces();
      case 11: return register_buffer();
      case 12: return deregister_buffer();
      case 13: return register_file();
      case 14: return deregister_file();
      case 15: return decisions_.below(8) == 0 ? reopen() : limit_operations();
    }
  }

  // ---- The driver.

  void open() {
    FUZZ_CHECK(cuFileDriverOpen().err == CU_FILE_SUCCESS);
    void* memory = nullptr;
    FUZZ_CHECK(penstock_device_alloc(penstock::cufile_session(), 1, kMemoryBytes, &memory).code == 0);
    device_ = {static_cast<char*>(memory), std::vector<char>(kMemoryBytes)};
    device_.fill(7);
  }
  void close() {
    while (cuFileUseCount() > 0) FUZZ_CHECK(cuFileDriverClose().err == CU_FILE_SUCCESS);
    files_.clear();
    buffers_.clear();
  }
  void reopen() {
    if (++openings_ == kDriversMax) return;
    close();
    open();
    for (unsigned i = 0; i < 3; ++i) register_file_of(i);
  }
  void limit_operations() { (void)cuFileDriverSetMaxDirectIOSize(decisions_.one_of<std::size_t>({0, 64, 100, 4096})); }

  // ---- Files and buffers.

  void register_file_of(unsigned index) {
    CUfileDescr_t description{};
    File file;
    if (index < ModelFile::kCount) {
      description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
      description.handle.fd = file_.fd(index);
      const int mode = ModelFile::kFlags[index] & O_ACCMODE;
      file = {mode != O_WRONLY, mode != O_RDONLY, false};
    } else {
      description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
      description.fs_ops = index % 2 == 0 ? &kUserCalls : &kNoUserCalls;
      file = {true, true, true};
    }
    CUfileHandle_t handle = nullptr;
    const CUfileError_t error = cuFileHandleRegister(&handle, &description);
    if (error.err != CU_FILE_SUCCESS) {
      FUZZ_CHECK(error.err == CU_FILE_HANDLE_ALREADY_REGISTERED && index < ModelFile::kCount);
      return;
    }
    FUZZ_CHECK(handle != nullptr && files_.find(handle) == files_.end());
    files_[handle] = file;
  }
  void register_file() {
    const unsigned index = decisions_.below(ModelFile::kCount + 4);
    if (index < ModelFile::kCount + 2) return register_file_of(index);
    CUfileDescr_t description{};
    description.type = decisions_.one_of(
        {CU_FILE_HANDLE_TYPE_OPAQUE_FD, CU_FILE_HANDLE_TYPE_OPAQUE_WIN32, CU_FILE_HANDLE_TYPE_USERSPACE_FS});
    description.handle.fd = decisions_.one_of({-1, INT_MIN, INT_MAX, 1 << 20});
    CUfileHandle_t handle = nullptr;
    FUZZ_CHECK(cuFileHandleRegister(&handle, &description).err != CU_FILE_SUCCESS && handle == nullptr);
  }
  void deregister_file() {
    const CUfileHandle_t handle = choose_handle();
    cuFileHandleDeregister(handle);
    files_.erase(handle);
  }

  void register_buffer() {
    char* const base = choose_base();
    const std::size_t size = choose_size();
    const bool fits = !in(device_, base) || device_.holds(base, size);
    const CUfileError_t error = cuFileBufRegister(base, size, static_cast<int>(decisions_.below(4)));
    const bool sane =
        base != nullptr && size > 0 && fits && size <= UINT64_MAX - reinterpret_cast<std::uintptr_t>(base);
    if (error.err == CU_FILE_SUCCESS) FUZZ_CHECK(sane && buffers_.find(base) == buffers_.end());
    else FUZZ_CHECK(!sane || buffers_.find(base) != buffers_.end() || base == reinterpret_cast<char*>(1));
    if (error.err == CU_FILE_SUCCESS) buffers_[base] = size;
  }
  void deregister_buffer() {
    char* base = choose_base();
    if (!buffers_.empty() && decisions_.yes()) base = buffers_.begin()->first;
    const bool known = buffers_.erase(base) > 0;
    FUZZ_CHECK((cuFileBufDeregister(base).err == CU_FILE_SUCCESS) == known);
  }

  // ---- Choices.

  static bool in(const Memory& memory, const char* at) { return at >= memory.begin && at < memory.end(); }

  CUfileHandle_t choose_handle() {
    const unsigned kind = decisions_.below(16);
    if (kind == 15) return nullptr;
    if (kind == 14) return reinterpret_cast<CUfileHandle_t>(decisions_.number<std::uintptr_t>());
    if (files_.empty()) return reinterpret_cast<CUfileHandle_t>(std::uintptr_t{1});
    return std::next(files_.begin(), kind % static_cast<std::ptrdiff_t>(files_.size()))->first;
  }
  char* choose_base() {
    const std::size_t at = decisions_.number<std::uint32_t>() % kMemoryBytes;
    const std::size_t even = at / 4096 * 4096;
    switch (decisions_.below(12)) {
      default: return host_.begin + even;
      case 4: return host_.begin + at;
      case 5:
      case 6: return device_.begin + even;
      case 7: return device_.begin + at;
      case 8: return buffers_.empty() ? host_.begin : buffers_.begin()->first;
      case 9: return buffers_.empty() ? host_.begin : std::prev(buffers_.end())->first;
      case 10: return host_.begin + decisions_.one_of<std::int64_t>({-4096, -1, kMemoryBytes, kMemoryBytes - 1});
      case 11: return reinterpret_cast<char*>(decisions_.one_of<std::uintptr_t>({0, 1, 4096, kNowhere, UINT64_MAX}));
    }
  }
  std::size_t choose_size() {
    switch (decisions_.below(8)) {
      case 0: return decisions_.one_of<std::size_t>({0, 1, 511, 512, 4096, 4097, 65536, 1u << 20});
      case 1: return decisions_.number<std::uint32_t>() % kMemoryBytes;
      case 2:
        return decisions_.one_of<std::size_t>({UINT64_MAX, INT64_MAX, std::size_t{1} << 62, std::size_t{1} << 40});
      default: return decisions_.number<std::uint16_t>();
    }
  }
  off_t choose_file_offset() {
    switch (decisions_.below(8)) {
      case 0: return decisions_.one_of<off_t>({-1, INT64_MIN, kOffsetMax, kOffsetMax - 4095, off_t{1} << 50, 0});
      case 1: return static_cast<off_t>(file_.model.size()) - decisions_.one_of({-1, 0, 1, 512, 4096});
      case 2: return decisions_.number<std::uint32_t>() % kFileBytes / 4096 * 4096;
      default: return decisions_.number<std::uint32_t>() % kFileBytes;
    }
  }
  off_t choose_buffer_offset() {
    switch (decisions_.below(8)) {
      case 0: return decisions_.one_of<off_t>({-1, INT64_MIN, kOffsetMax, off_t{1} << 47, kMemoryBytes});
      case 1: return decisions_.number<std::uint16_t>();
      case 2: return decisions_.number<std::uint16_t>() / 4096 * 4096;
      default: return 0;
    }
  }

  // Nothing but the host's reservation, the device's memory and addresses that nobody has is asked for: anything else
  // of this process could be read or written without an error.
  bool is_harmless(const Request& request) const {
    if (request.buffer_offset < 0 || in(device_, request.base)) return true;
    const std::uint64_t address = request.address();
    const auto low = reinterpret_cast<std::uintptr_t>(host_.begin) - kReachMax;
    if (address < reinterpret_cast<std::uintptr_t>(request.base) || address >= kNowhere) return true;  // It wraps.
    if (address >= low && address < low + 2 * kReachMax) return true;
    return address < 65536 && request.size < 65536 - address;  // Where the kernel maps nothing.
  }

  Request make_request() {
    Request request{decisions_.yes(), choose_handle(),      choose_base(),
                    choose_size(),    choose_file_offset(), choose_buffer_offset()};
    if (!is_harmless(request)) request.buffer_offset = 0;
    if (!is_harmless(request)) request.base = host_.begin;
    user_answer = decisions_.one_of<ssize_t>({0, 0, -1, -5, -5000, INT64_MIN, INT64_MAX, 5000});
    user_calls_left = 8;
    user_errno = decisions_.one_of({0, EIO, EINTR, 12345});
    return request;
  }

  // ---- What must come of a request.

  // Of an empty request NVIDIA's library checks less, and in an order of its own.
  Wanted wanted(const Request& request) const {
    if (request.handle == nullptr || request.base == nullptr || request.file_offset < 0) return Wanted::failure;
    if (is_refused(request)) return request.size == 0 ? Wanted::any : Wanted::failure;
    if (is_user(request.handle) || request.file_offset > off_t{1} << 49) return Wanted::any;
    const bool inside = host_.holds(request.memory(), request.size) || device_.holds(request.memory(), request.size);
    return inside ? Wanted::exact : Wanted::any;
  }

  bool is_refused(const Request& request) const {
    const auto file = files_.find(request.handle);
    if (file == files_.end() || request.buffer_offset < 0) return true;
    if (request.write ? !file->second.writable : !file->second.readable) return true;
    if (request.size > static_cast<std::uint64_t>(kOffsetMax - request.file_offset)) return true;
    const auto offset = static_cast<std::uint64_t>(request.buffer_offset);
    std::uint64_t room = UINT64_MAX;
    if (const auto buffer = buffers_.find(request.base); buffer != buffers_.end()) room = buffer->second;
    else if (in(device_, request.base)) room = static_cast<std::uint64_t>(device_.end() - request.base);
    return offset > room || request.size > room - offset;
  }

  std::uint64_t exact_bytes(const Request& request) const {
    if (request.write) return request.size;
    const auto offset = static_cast<std::uint64_t>(request.file_offset);
    return offset >= file_.model.size() ? 0 : std::min<std::uint64_t>(request.size, file_.model.size() - offset);
  }

  static bool is_sane_error(int number) { return (number > 0 && number < 134) || (number > 5000 && number < 5100); }

  bool is_user(CUfileHandle_t handle) const {
    const auto found = files_.find(handle);
    return found != files_.end() && found->second.user;
  }

  void transfer(const Request& request) {
    const Wanted expected = wanted(request);
    const std::uint64_t bytes = exact_bytes(request);
    const auto call = request.write ? [](CUfileHandle_t handle, void* base, size_t size, off_t at,
                                         off_t offset) { return cuFileWrite(handle, base, size, at, offset); }
                                    : cuFileRead;
    errno = 0;
    const ssize_t moved = call(request.handle, request.base, request.size, request.file_offset, request.buffer_offset);
    const int error = errno;
    FUZZ_CHECK(moved >= -1 && (moved < 0 || static_cast<std::size_t>(moved) <= request.size));
    if (moved < 0 && !is_user(request.handle)) FUZZ_CHECK(is_sane_error(error));
    if (moved < 0) FUZZ_CHECK(error != 0);
    if (expected == Wanted::failure) FUZZ_CHECK(moved == -1);
    const bool sick = moved < 0 && error == EIO && file_is_sick_;
    if (expected == Wanted::exact && !sick) FUZZ_CHECK(moved >= 0 && static_cast<std::uint64_t>(moved) == bytes);
    if (expected == Wanted::any && request.write) file_is_sick_ = true;
    if (expected == Wanted::failure) return check_near(request);
    take_in(request, moved);
    check_near(request);
  }

  // The models follow.
  void take_in(const Request& request, ssize_t moved) {
    const auto offset = static_cast<std::uint64_t>(request.file_offset);
    const std::uint64_t known = moved < 0 ? 0 : static_cast<std::uint64_t>(moved);
    if (is_user(request.handle)) {
      if (!request.write) trust_memory(request, request.size);
    } else if (request.write) {
      if (known > 0) file_.check_written(request.memory(), known, offset);
      if (request.size > 0 && (known > 0 || moved < 0)) file_.trust(offset, moved < 0 ? request.size : known);
    } else if (moved < 0) {
      trust_memory(request, request.size);
    } else if (known > 0) {
      FUZZ_CHECK(offset + known <= file_.model.size());
      FUZZ_CHECK(std::memcmp(request.memory(), file_.model.data() + offset, known) == 0);
      trust_memory(request, known);
    }
  }
  void trust_memory(const Request& request, std::uint64_t size) {
    host_.trust(request.memory(), size);
    device_.trust(request.memory(), size);
  }

  // ---- Pieces.

  void transfer_pieces() {
    std::vector<Request> requests;
    std::vector<CUfileIOVec_t> pieces;
    const Request first = make_request();
    const unsigned count = decisions_.below(6);
    while (requests.size() < count) {
      Request one = make_request();
      one.write = first.write;
      one.handle = first.handle;
      one.buffer_offset = 0;
      if (!is_harmless(one)) one.base = host_.begin;
      requests.push_back(one);
      pieces.push_back({one.base, one.size});
    }
    const unsigned flags = decisions_.below(8) == 7 ? decisions_.number<std::uint32_t>() : 0;
    const auto call = first.write ? cuFileWritev : cuFileReadv;
    errno = 0;
    const ssize_t moved = call(first.handle, pieces.data(), count, first.file_offset, flags);
    const int error = errno;
    FUZZ_CHECK(moved >= -1);
    if (moved < 0) FUZZ_CHECK(error != 0);
    const bool refused = flags != 0 || first.handle == nullptr || first.file_offset < 0;
    if (refused) FUZZ_CHECK(moved == -1);
    else take_in_pieces(requests, static_cast<std::uint64_t>(first.file_offset), moved);
    for (const Request& one : requests) check_near(one);
  }

  // Up to the piece where it stopped, in which anything may have happened.
  void take_in_pieces(const std::vector<Request>& requests, std::uint64_t offset, ssize_t moved) {
    std::uint64_t left = moved < 0 ? 0 : static_cast<std::uint64_t>(moved);
    const std::uint64_t begin = offset;
    std::uint64_t tried = 0;
    for (const Request& one : requests) {
      const std::uint64_t part = std::min<std::uint64_t>(left, one.size);
      const bool whole = part == one.size;
      if (whole && !is_user(one.handle) && is_apart(one, requests)) check_piece(one, offset);
      if (!one.write) trust_memory(one, one.size);
      tried = one.size > UINT64_MAX - tried ? UINT64_MAX : tried + one.size;
      left -= part;
      offset += part;
      if (!whole) break;
    }
    FUZZ_CHECK(left == 0);  // No more than was asked for.
    if (!requests.empty() && requests[0].write && !is_user(requests[0].handle)) {
      file_.trust(begin, tried);
      file_is_sick_ = true;
    }
  }

  static bool is_apart(const Request& one, const std::vector<Request>& requests) {
    return std::none_of(requests.begin(), requests.end(), [&](const Request& other) {
      const std::uint64_t distance =
          std::max(one.address(), other.address()) - std::min(one.address(), other.address());
      return &other != &one && distance < std::max(one.size, other.size);
    });
  }
  void check_piece(const Request& one, std::uint64_t offset) const {
    if (one.size == 0) return;
    if (one.write) return file_.check_written(one.memory(), one.size, offset);
    FUZZ_CHECK(offset + one.size <= file_.model.size());
    FUZZ_CHECK(std::memcmp(one.memory(), file_.model.data() + offset, one.size) == 0);
  }

  void check_near(const Request& request) const {
    host_.check_near(request.memory(), request.size);
    device_.check_near(request.memory(), request.size);
  }

  Decisions decisions_{nullptr, 0};
  ModelFile file_;
  Memory host_;
  Memory device_;
  std::map<CUfileHandle_t, File> files_;
  std::map<char*, std::size_t> buffers_;
  bool file_is_sick_ = false;       // On some ext4, direct I/O fails behind a buffered write that met EFAULT half-way.
  unsigned openings_ = 0;           // Anew, in this input.
  std::uint32_t way_ = UINT32_MAX;  // How the driver was opened.
};

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static penstock::fuzz::Fixture* const fixture = new penstock::fuzz::Fixture;
  fixture->run({data, size});
  return 0;
}
