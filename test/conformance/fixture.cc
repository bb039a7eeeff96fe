// SPDX-License-Identifier: Apache-2.0

#include "fixture.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string_view>

namespace conformance {

namespace {

std::string name_of_error(int number) {
#define CUFILE_OP(name, value, text) \
  if (number == value) return &#name[sizeof("CU_FILE_") - 1];
  CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
  const char* const name = strerrorname_np(number);
  return name == nullptr ? "unknown" : name;
}

const char* name_of(CUfileStatus_t status) {
  switch (status) {
    case CUFILE_WAITING: return "WAITING";
    case CUFILE_PENDING: return "PENDING";
    case CUFILE_INVALID: return "INVALID";
    case CUFILE_CANCELED: return "CANCELED";
    case CUFILE_COMPLETE: return "COMPLETE";
    case CUFILE_TIMEOUT: return "TIMEOUT";
    case CUFILE_FAILED: return "FAILED";
  }
  return "other";
}

}  // namespace

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"gpu", "host", "pinned", "registered", "managed", "vmm", "mapped"};
  return kNames[static_cast<int>(kind)];
}

void Fixture::say(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
  va_end(arguments);
  length = std::min(length, static_cast<int>(sizeof(line)) - 2);
  line[length++] = '\n';
  if (write(report_, line, static_cast<std::size_t>(length)) != length) _exit(3);
}

CUfileError_t Fixture::tell(const char* step, CUfileError_t outcome) {
  const int number = static_cast<int>(outcome.err);
  if (number == 0 && outcome.cu_err == 0) {
    say("%s: ok", step);
  } else if (outcome.cu_err == 0) {
    say("%s: err=%d %s", step, number, name_of_error(number).c_str());
  } else {
    say("%s: err=%d %s cu_err=%d", step, number, name_of_error(number).c_str(), static_cast<int>(outcome.cu_err));
  }
  return outcome;
}

ssize_t Fixture::tell(const char* step, ssize_t outcome) {
  const int error = errno;
  if (outcome == -1) {
    say("%s: -1 errno=%d %s", step, error, name_of_error(error).c_str());
  } else if (outcome < 0) {
    say("%s: %zd %s", step, outcome, name_of_error(static_cast<int>(-outcome)).c_str());
  } else {
    say("%s: %zd", step, outcome);
  }
  return outcome;
}

void Fixture::tell(const char* step, const CUfileIOEvents_t& event) {
  say("%s: cookie=%zu status=%s ret=%zd", step, reinterpret_cast<std::size_t>(event.cookie), name_of(event.status),
      static_cast<ssize_t>(event.ret));
}

void Fixture::must(const char* step, CUfileError_t outcome) {
  if (outcome.err == CU_FILE_SUCCESS) return;
  tell(step, outcome);
  say("stopped");
  throw Stop{};
}

void Fixture::must_cuda(const char* step, Result result) {
  if (result == kCudaSuccess) return;
  say("%s: cuda=%d", step, result);
  say("stopped");
  throw Stop{};
}

void Fixture::tell_cuda(const char* step, Result result) { say("%s: cuda=%d", step, result); }

void Fixture::skip(const std::string& reason) {
  say("skip: %s", reason.c_str());
  throw Stop{};
}

void Fixture::need_gpu() {
  if (!has_gpu) skip("needs a GPU");
}

int Fixture::file(const std::string& name, std::size_t size, int flags, int seed) {
  const std::string where = path(name);
  const int fresh = open(where.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  const std::string bytes = pattern(seed, 0, size);
  if (fresh < 0 || write(fresh, bytes.data(), size) != static_cast<ssize_t>(size)) skip("cannot write the folder");
  close(fresh);
  const int fd = open(where.c_str(), flags | O_CLOEXEC);
  if (fd < 0) say("open(2): errno=%s", strerrorname_np(errno));
  return fd;
}

void Fixture::write_text(const std::string& name, const std::string& text) {
  FILE* const out = fopen(path(name).c_str(), "w");
  if (out == nullptr) skip("cannot write the folder");
  fwrite(text.data(), 1, text.size(), out);
  fclose(out);
}

CUfileDescr_t Fixture::describe(int fd) {
  CUfileDescr_t description;
  std::memset(&description, 0, sizeof(description));
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  return description;
}

CUfileError_t Fixture::register_fd(int fd, CUfileHandle_t* handle) {
  CUfileDescr_t description = describe(fd);
  return cuFileHandleRegister(handle, &description);
}

CUfileHandle_t Fixture::handle(int fd) {
  CUfileHandle_t handle = nullptr;
  must("register", register_fd(fd, &handle));
  return handle;
}

namespace {

char byte_at(int seed, std::size_t position) {
  return static_cast<char>(
      (position * 131 + position / 4096 * 7 + position / 255 + static_cast<std::size_t>(seed) * 37) & 0xFF);
}

// The bytes of a string from `at` on, as the pattern has them from `position` on. By a pointer, since a build without
// optimisation calls the string's operator for each byte.
void fill(std::string& bytes, std::size_t at, int seed, std::size_t position) {
  char* const end = bytes.data() + bytes.size();
  for (char* to = bytes.data() + at; to < end; ++to) *to = byte_at(seed, position++);
}

bool is_guard(std::string_view bytes) {
  if (bytes.empty()) return true;
  return bytes[0] == Memory::kGuard && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

// A case asks for the same few mebibytes hundreds of times: each thread keeps the longest beginning that it asked for.
std::string pattern(int seed, std::size_t from, std::size_t size) {
  constexpr std::size_t kKeptMax = 8U << 20;
  thread_local std::map<int, std::string> kept;
  if (from + size > kKeptMax) {
    std::string bytes(size, '\0');
    fill(bytes, 0, seed, from);
    return bytes;
  }
  std::string& beginning = kept[seed];
  const std::size_t known = beginning.size();
  beginning.resize(std::max(known, from + size));
  fill(beginning, known, seed, known);
  return beginning.substr(from, size);
}

Memory::Memory(Fixture& fixture, Kind kind, std::size_t size) : fixture_(fixture), kind_(kind), size_(size) {
  Address address = 0;
  constexpr std::size_t kPage = 4096;
  const std::size_t rounded = (size + kPage - 1) / kPage * kPage;
  if (kind != Kind::host && kind != Kind::mapped) fixture.need_gpu();
  switch (kind) {
    case Kind::gpu: fixture.must_cuda("cuMemAlloc", fixture.cuda.cuMemAlloc_v2(&address, size)); break;
    case Kind::managed:
      fixture.must_cuda("cuMemAllocManaged", fixture.cuda.cuMemAllocManaged(&address, size, 1));
      break;
    case Kind::pinned: fixture.must_cuda("cuMemHostAlloc", fixture.cuda.cuMemHostAlloc(&base_, size, 0)); break;
    case Kind::host: base_ = std::aligned_alloc(kPage, rounded); break;
    case Kind::registered:
      base_ = std::aligned_alloc(kPage, rounded);
      fixture.must_cuda("cuMemHostRegister", fixture.cuda.cuMemHostRegister_v2(base_, rounded, 0));
      break;
    case Kind::mapped:
      base_ = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      break;
    case Kind::vmm: {
      constexpr std::size_t kGranule = 2 * kMib;
      const std::size_t whole = (size + kGranule - 1) / kGranule * kGranule;
      const AllocationProperties properties;
      const AccessDescription access;
      unsigned long long allocation = 0;
      fixture.must_cuda("cuMemAddressReserve", fixture.cuda.cuMemAddressReserve(&address, whole, 0, 0, 0));
      fixture.must_cuda("cuMemCreate", fixture.cuda.cuMemCreate(&allocation, whole, &properties, 0));
      fixture.must_cuda("cuMemMap", fixture.cuda.cuMemMap(address, whole, 0, allocation, 0));
      fixture.must_cuda("cuMemSetAccess", fixture.cuda.cuMemSetAccess(address, whole, &access, 1));
      break;
    }
  }
  if (base_ == nullptr) base_ = reinterpret_cast<void*>(address);
  put(0, std::string(size, kGuard));
}

void Memory::put(std::size_t offset, const std::string& bytes) {
  if (!on_gpu()) {
    std::memcpy(at(offset), bytes.data(), bytes.size());
    return;
  }
  const auto to = reinterpret_cast<Address>(at(offset));
  fixture_.must_cuda("cuMemcpyHtoD", fixture_.cuda.cuMemcpyHtoD_v2(to, bytes.data(), bytes.size()));
  // It may come back before the bytes are there, and the library's own streams do not wait for the default one.
  fixture_.must_cuda("cuStreamSynchronize", fixture_.cuda.cuStreamSynchronize(nullptr));
}

std::string Memory::get(std::size_t offset, std::size_t size) const {
  if (!on_gpu()) return std::string(at(offset), size);
  std::string bytes(size, '\0');
  const auto from = reinterpret_cast<Address>(at(offset));
  fixture_.must_cuda("cuMemcpyDtoH", fixture_.cuda.cuMemcpyDtoH_v2(bytes.data(), from, size));
  return bytes;
}

void Memory::free() {
  switch (kind_) {
    case Kind::gpu:
    case Kind::managed:
      fixture_.must_cuda("cuMemFree", fixture_.cuda.cuMemFree_v2(reinterpret_cast<Address>(base_)));
      break;
    case Kind::pinned: fixture_.must_cuda("cuMemFreeHost", fixture_.cuda.cuMemFreeHost(base_)); break;
    case Kind::registered: fixture_.must_cuda("cuMemHostUnregister", fixture_.cuda.cuMemHostUnregister(base_)); break;
    case Kind::host: std::free(base_); break;
    case Kind::mapped: munmap(base_, size_); break;
    case Kind::vmm: break;
  }
}

const char* compare_memory(const Memory& memory, std::size_t offset, std::size_t size, int seed, std::size_t position) {
  const std::string bytes = memory.get();
  if (bytes.compare(offset, size, pattern(seed, position, size)) != 0) return "differs";
  const std::string_view all = bytes;
  const bool is_kept = is_guard(all.substr(0, offset)) && is_guard(all.substr(std::min(offset + size, all.size())));
  return is_kept ? "equal" : "guard broken";
}

std::size_t size_of(int fd) {
  struct stat about = {};
  fstat(fd, &about);
  return static_cast<std::size_t>(about.st_size);
}

const char* compare_file(int fd, std::size_t was, std::size_t position, std::size_t size) {
  std::string expected = pattern(1, 0, was);
  if (size > 0 && expected.size() < position + size) expected.resize(position + size, '\0');
  expected.replace(position, size, pattern(2, 0, size));
  const std::string name = "/proc/self/fd/" + std::to_string(fd);
  const int plain = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (size_of(plain) != expected.size()) return "other size";
  std::string bytes(expected.size(), '\0');
  const ssize_t got = pread(plain, bytes.data(), bytes.size(), 0);
  close(plain);
  return got == static_cast<ssize_t>(bytes.size()) && bytes == expected ? "equal" : "differs";
}

CUfileIOParams_t entry(CUfileOpcode_t opcode, CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                       off_t buffer_offset, std::size_t cookie) {
  CUfileIOParams_t one;
  std::memset(&one, 0, sizeof(one));
  one.mode = CUFILE_BATCH;
  one.u.batch.devPtr_base = base;
  one.u.batch.file_offset = file_offset;
  one.u.batch.devPtr_offset = buffer_offset;
  one.u.batch.size = size;
  one.fh = handle;
  one.opcode = opcode;
  one.cookie = reinterpret_cast<void*>(cookie);
  return one;
}

std::vector<CUfileIOEvents_t> reap(Fixture& fixture, CUfileBatchHandle_t batch, unsigned count) {
  std::vector<CUfileIOEvents_t> all;
  for (int turn = 0; turn < 1000 && all.size() < count; ++turn) {
    std::vector<CUfileIOEvents_t> some(count);
    unsigned number = count - static_cast<unsigned>(all.size());
    timespec patience = {0, 10'000'000};
    const CUfileError_t outcome = fixture.cuFileBatchIOGetStatus(batch, 0, &number, some.data(), &patience);
    if (outcome.err != CU_FILE_SUCCESS) {
      fixture.tell("status", outcome);
      break;
    }
    all.insert(all.end(), some.begin(), some.begin() + std::min(number, count));
    if (number == 0) usleep(10'000);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.cookie < b.cookie; });
  return all;
}

void tell_all(Fixture& fixture, const std::vector<CUfileIOEvents_t>& events) {
  fixture.say("events: %zu", events.size());
  for (const CUfileIOEvents_t& event : events) fixture.tell("event", event);
}

}  // namespace conformance
