// Penstock for C++17: RAII and result types over penstock.h, whose comments apply here, too.
//
//   auto session = penstock::Session::open();
//   if (!session) return report(session.error().message());
//   auto file = session->file(fd);
//   if (!file) return report(file.error().message());
//   const penstock::Outcome outcome = file->read(device_pointer, size, 0);
//   if (!outcome.ok()) return report(outcome.status.message());   // The step, the cause, the remedy.
//   use(outcome.report.bytes, outcome.report.path_name(), outcome.report.reason_name());
//
// Every call returns a Result, an Outcome or a Status; nothing throws but std::bad_alloc. Objects may be destroyed in
// any order. The destructor of a DeviceMemory or Buffer waits for the requests of queues that use it. Calls on an
// object that outlives its session fail with PENSTOCK_CLOSED. Any other memory must live until the requests that use it
// were reaped, or their queue was destroyed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 201703L
#error "penstock.hpp needs C++17 (-std=c++17); penstock.h does for C and older C++"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/checksums.h"
#include "penstock/device_memory.h"
#include "penstock/penstock.h"
#include "penstock/stripes.h"

namespace penstock {

namespace detail {

// Returns the text of `write`, which writes as much as fits into (text, capacity) and returns the whole length.
template <typename Write>
std::string whole_text(std::size_t guess, Write write) {
  std::string text(guess, '\0');
  for (;;) {
    const std::size_t length = write(text.data(), text.size());
    const bool fits = length < text.size();
    text.resize(fits ? length : length + 1);
    if (fits) return text;
  }
}

}  // namespace detail

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(penstock_status raw) : raw_(raw) {}

  // There is no conversion to bool: `if (status)` does not show whether it asks for success or for an error.
  bool ok() const { return raw_.code == 0; }
  const penstock_status& raw() const { return raw_; }
  bool is(penstock_code code) const { return raw_.domain == PENSTOCK_DOMAIN_PENSTOCK && raw_.code == code; }
  bool is_errno(int error_number) const { return raw_.domain == PENSTOCK_DOMAIN_OS && raw_.code == error_number; }
  // "cuda" where raw().code is an error number of CUDA's driver; "" where it is from no driver.
  const char* driver() const { return penstock_status_driver(raw_); }
  // One sentence: the step, the cause, the remedy.
  std::string message() const {
    return detail::whole_text(
        512, [&](char* text, std::size_t capacity) { return penstock_status_message(raw_, text, capacity); });
  }

 private:
  penstock_status raw_{};
};

// A value, or the Status that says why there is none. Test it first: taking the value of a failed Result ends the
// process with std::abort().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, status) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return *checked(); }
  const T& operator*() const { return *const_cast<Result*>(this)->checked(); }
  T* operator->() { return checked(); }
  const T* operator->() const { return const_cast<Result*>(this)->checked(); }
  Status error() const { return *this ? Status{} : *std::get_if<1>(&state_); }

 private:
  T* checked() {
    T* value = std::get_if<0>(&state_);
    if (value == nullptr) std::abort();
    return value;
  }

  std::variant<T, Status> state_;
};

// A structure of penstock.h with struct_size set and all other members zero.
template <typename T>
struct Sized : T {
  Sized() : T{} { this->struct_size = sizeof(T); }
};

using QueueOptions = Sized<penstock_queue_options>;
using Choice = Sized<penstock_choice>;
using Counter = Sized<penstock_counter>;
using DeviceInfo = Sized<penstock_device_info>;
using FileInfo = Sized<penstock_file_info>;
using SessionInfo = Sized<penstock_session_info>;
using Setting = Sized<penstock_setting>;
using StripeInfo = Sized<penstock_stripe_info>;

struct Report : Sized<penstock_report> {
  Report() = default;
  Report(const penstock_report& raw) {
    static_cast<penstock_report&>(*this) = raw;
    struct_size = sizeof raw;
  }
  const char* path_name() const { return penstock_path_name(path); }
  const char* reason_name() const { return penstock_reason_name(reason); }
  std::uint64_t bytes_by(int path_number) const { return penstock_report_bytes(this, path_number); }
};

// How a transfer ended. report.bytes is how many bytes were moved, also when the status is an error.
struct Outcome {
  Status status;
  Report report;
  bool ok() const { return status.ok(); }
};

// One request, made by File::request(). Its other members may be set as in C.
struct Request : Sized<penstock_request> {
  // Only this path may serve the request: else it fails with PENSTOCK_PATH_REFUSED.
  Request& require(penstock_path path) {
    flags |= PENSTOCK_REQUEST_REQUIRES_PATH;
    required_path = path;
    return *this;
  }
  // A request that has not begun by then ends with PENSTOCK_TIMED_OUT.
  Request& begin_before(std::chrono::steady_clock::time_point deadline) {
    const auto since_boot = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
    deadline_ns = since_boot.count() > 0 ? static_cast<std::uint64_t>(since_boot.count()) : 1;
    return *this;
  }
};
static_assert(sizeof(Request) == sizeof(penstock_request), "an array of one is an array of the other");

struct Completion : Sized<penstock_completion> {
  Outcome outcome() const { return {status, report}; }
};
static_assert(sizeof(Completion) == sizeof(penstock_completion), "an array of one is an array of the other");

// Moves the request's bytes, and returns when they are moved.
inline Outcome transfer(const Request& request) {
  Outcome outcome;
  outcome.status = penstock_transfer(&request, &outcome.report);
  return outcome;
}

struct Verdict : Sized<penstock_verdict> {
  const char* path_name() const { return penstock_path_name(path); }
  const char* reason_name() const { return penstock_reason_name(reason); }
  const char* sentence() const { return penstock_reason_sentence(reason); }
  const char* remedy() const { return penstock_reason_remedy(reason); }
};

// Owns a handle of penstock.h, and closes it when destroyed.
template <typename Handle, void (*close)(Handle*)>
class Owned {
 public:
  explicit Owned(Handle* handle = nullptr) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    Owned taken(std::move(other));  // Closes the old handle here, not when `other` is destroyed.
    std::swap(handle_, taken.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) close(handle_);
  }
  Handle* raw() const { return handle_; }

 private:
  Handle* handle_;
};

// A request in the order of a CUDA stream, made by File::submit(). Destroying it before its request has ended leaks a
// few bytes, since the stream may still write to them.
class OnStream {
 public:
  OnStream(OnStream&&) noexcept = default;
  OnStream& operator=(OnStream&& other) noexcept {
    OnStream taken(std::move(other));
    std::swap(result_, taken.result_);
    return *this;
  }
  ~OnStream() {
    if (result_ != nullptr && !is_done()) (void)result_.release();
  }
  // True once its outcome is known. What was read is in memory when the stream is past the request, as for work that is
  // queued behind it: synchronize with the stream before looking at the memory or freeing it.
  bool is_done() const { return __atomic_load_n(&result_->done, __ATOMIC_ACQUIRE) != 0; }
  // Only for a request that is done.
  Outcome outcome() const { return {result_->status, result_->report}; }

 private:
  friend class File;
  OnStream() = default;
  std::unique_ptr<Sized<penstock_stream_result>> result_ = std::make_unique<Sized<penstock_stream_result>>();
};

// The request of a dry run: a read or write of a file, with the memory at `base`, or if that is null with aligned
// memory of the device with this ordinal.
struct DryRun {
  penstock_op op = PENSTOCK_READ;
  unsigned device = 0;
  const void* base = nullptr;
};

// A file registered by Session::file(), or created by Session::create() and named by publish(). The program still
// closes the descriptor that it registered.
class File : public Owned<penstock_file, penstock_file_close> {
 public:
  explicit File(penstock_file* file) : Owned(file) {}

  Result<FileInfo> info() const {
    FileInfo info;
    const Status status = penstock_file_get(raw(), &info);
    if (!status.ok()) return status;
    return info;
  }

  // Moves bytes between file_offset and base + buffer_offset: fewer than `size` at the end of the file.
  Outcome read(void* base, std::uint64_t size, std::int64_t file_offset, std::int64_t buffer_offset = 0) const {
    Outcome outcome;
    outcome.status = penstock_read(raw(), base, size, file_offset, buffer_offset, &outcome.report);
    return outcome;
  }
  Outcome write(const void* base, std::uint64_t size, std::int64_t file_offset, std::int64_t buffer_offset = 0) const {
    Outcome outcome;
    outcome.status = penstock_write(raw(), base, size, file_offset, buffer_offset, &outcome.report);
    return outcome;
  }
  Status sync() const { return penstock_file_sync(raw()); }
  Status advise(std::uint32_t advice) const { return penstock_file_advise(raw(), advice); }
  Status publish() const { return penstock_file_publish(raw()); }

  // For striped objects; on any other file these fail with PENSTOCK_UNSUPPORTED_FILE.
  Result<StripeInfo> stripe_info() const {
    StripeInfo info;
    const Status status = penstock_stripe_get(raw(), &info);
    if (!status.ok()) return status;
    return info;
  }
  // Returns the member's handle, which this object owns; *name: the member's file.
  Result<penstock_file*> member(unsigned number, const char** name = nullptr) const {
    penstock_file* member = nullptr;
    const Status status = penstock_stripe_member(raw(), number, name, &member);
    if (!status.ok()) return status;
    return member;
  }

  // A request for a queue, or for functions of penstock.h.
  Request request(penstock_op op, const void* base, std::uint64_t size, std::int64_t file_offset,
                  std::int64_t buffer_offset = 0) const {
    Request request;
    static_cast<penstock_request&>(request) = penstock_request_of(op, raw(), base, size, file_offset, buffer_offset);
    return request;
  }
  // For one range of the file and several pieces of memory. The array is read when the request is submitted.
  Request vectored_request(penstock_op op, const iovec* pieces, std::uint32_t count, std::int64_t file_offset) const {
    Request request;
    request.op = op;
    request.file = raw();
    request.pieces = pieces;
    request.piece_count = count;
    request.file_offset = file_offset;
    return request;
  }

  // Queues the request on a CUDA stream (a CUstream or cudaStream_t; null: the default one): it begins after all work
  // that is on the stream now, and ends before any work that is queued later begins. Returns at once.
  static Result<OnStream> submit(Request request, void* stream) {
    OnStream on_stream;
    request.stream = stream;
    const Status status = penstock_stream_submit(&request, on_stream.result_.get());
    if (status.ok()) return on_stream;
    on_stream.result_.reset();
    return status;
  }

  // The verdict of every path, best first.
  Result<std::vector<Verdict>> explain(const DryRun& run = {}) const {
    const Request asked = dry(run, 0, 0);
    std::vector<Verdict> verdicts(penstock_path_count());
    std::uint32_t count = 0;
    const Status status =
        penstock_explain(&asked, verdicts.data(), static_cast<std::uint32_t>(verdicts.size()), &count);
    if (!status.ok()) return status;
    verdicts.resize(count);
    return verdicts;
  }
  // How a request would be split into chunks, one line each: which go direct, and which through the page cache.
  Result<std::string> plan(const DryRun& run, std::uint64_t size, std::int64_t file_offset) const {
    const Request asked = dry(run, size, file_offset);
    Status status;
    std::string plan = detail::whole_text(4096, [&](char* text, std::size_t capacity) {
      std::size_t length = 0;
      status = penstock_plan(&asked, text, capacity, &length);
      return length;
    });
    if (!status.ok()) return status;
    return plan;
  }
  // How many threads would move the request, and how their number was chosen.
  Result<Choice> choose(const DryRun& run, std::uint64_t size, std::int64_t file_offset) const {
    const Request asked = dry(run, size, file_offset);
    Choice choice;
    const Status status = penstock_choose(&asked, &choice);
    if (!status.ok()) return status;
    return choice;
  }

 private:
  Request dry(const DryRun& run, std::uint64_t size, std::int64_t file_offset) const {
    Request asked = request(run.op, run.base, size, file_offset);
    asked.device = run.base == nullptr ? run.device : 0;
    return asked;
  }
};

class Session;

// One more handle of a session, for objects that may outlive it. Destroying it does not close the session.
using SessionReference = Owned<penstock_session, penstock_session_close>;

// [experimental] Checksums in the order of a stream, made by Session::crc32c_begin().
class PendingChecksums {
 public:
  explicit PendingChecksums(penstock_checksums* checksums) : checksums_(checksums) {}
  // Waits until the stream has passed, and writes all checksums. Call it once.
  Status end(std::uint32_t* sums) { return penstock_crc32c_end(checksums_.release(), sums); }
  // The same with hashes, if Session::fingerprints_begin() made them.
  Status end(std::uint32_t* sums, std::uint64_t* hashes) {
    return penstock_fingerprints_end(checksums_.release(), sums, hashes);
  }

 private:
  struct Drop {
    void operator()(penstock_checksums* checksums) const { (void)penstock_crc32c_end(checksums, nullptr); }
  };
  std::unique_ptr<penstock_checksums, Drop> checksums_;
};

// The registration of memory. The program owns the memory itself, and may free it once this is destroyed.
using Buffer = Owned<penstock_buffer, penstock_buffer_close>;

// Memory of a device. Destroy it before its session is closed: otherwise it stays allocated until the process ends.
class DeviceMemory {
 public:
  DeviceMemory(DeviceMemory&& other) noexcept
      : session_(std::move(other.session_)), ordinal_(other.ordinal_), data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory taken(std::move(other));
    std::swap(session_, taken.session_);
    std::swap(ordinal_, taken.ordinal_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) (void)penstock_device_free(session_.raw(), ordinal_, data_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::uint64_t size() const { return size_; }
  Status upload(std::uint64_t offset, const void* host, std::uint64_t size) {
    return penstock_device_upload(session_.raw(), data() + offset, host, size);
  }
  Status download(std::uint64_t offset, void* host, std::uint64_t size) const {
    return penstock_device_download(session_.raw(), host, data() + offset, size);
  }

 private:
  friend class Session;
  DeviceMemory(SessionReference session, unsigned ordinal, void* data, std::uint64_t size)
      : session_(std::move(session)), ordinal_(ordinal), data_(data), size_(size) {}
  SessionReference session_;
  unsigned ordinal_;
  void* data_;
  std::uint64_t size_;
};

// Many requests in flight.
class Queue : public Owned<penstock_queue, penstock_queue_close> {
 public:
  static constexpr std::int64_t kForever = -1;

  explicit Queue(penstock_queue* queue) : Owned(queue) {}

  Status submit(const penstock_request& request) { return penstock_queue_submit(raw(), &request, 1, nullptr); }
  // Submits several requests at once, which costs less for each, up to the first that is refused; the status says why.
  // *submitted (may be null): how many were accepted.
  Status submit(const Request* requests, std::uint32_t count, std::uint32_t* submitted = nullptr) {
    return penstock_queue_submit(raw(), requests, count, submitted);
  }
  // Waits for `least` completions, or for all outstanding requests if they are fewer, until `timeout_ns` have passed.
  // Returns how many it wrote, `capacity` at most.
  Result<unsigned> reap(Completion* completions, unsigned capacity, unsigned least,
                        std::int64_t timeout_ns = kForever) {
    std::uint32_t count = 0;
    const Status status = penstock_queue_reap(raw(), completions, capacity, least, timeout_ns, &count);
    if (!status.ok()) return status;
    return count;
  }
  // Cancels requests with this cookie that have not begun. Returns how many.
  Result<unsigned> cancel(std::uint64_t cookie) {
    std::uint32_t canceled = 0;
    const Status status = penstock_queue_cancel(raw(), cookie, &canceled);
    if (!status.ok()) return status;
    return canceled;
  }
  // Returns a descriptor that is readable while there are completions to reap. It belongs to the queue: neither read
  // nor close it.
  Result<int> eventfd() {
    int fd = -1;
    const Status status = penstock_queue_eventfd(raw(), &fd);
    if (!status.ok()) return status;
    return fd;
  }
};

// Settings by name; others come from the environment, or have their defaults.
class Config : public Owned<penstock_config, penstock_config_close> {
 public:
  Config() : Owned(create()) {}
  // A refused setting does not fail here: Session::open() fails with the status of the first one.
  Config& set(const char* name, const std::string& value) & {
    if (status_.ok()) status_ = Status(penstock_config_set(raw(), name, value.c_str()));
    return *this;
  }
  Config&& set(const char* name, const std::string& value) && { return std::move(set(name, value)); }
  // The first refusal; ok where every setting was accepted.
  const Status& status() const { return status_; }

 private:
  static penstock_config* create() {
    penstock_config* config = nullptr;
    return penstock_config_create(&config).code == 0 ? config : nullptr;
  }
  Status status_;
};

class Session : public Owned<penstock_session, penstock_session_close> {
 public:
  explicit Session(penstock_session* session) : Owned(session) {}

  static Result<Session> open() { return open_raw(nullptr); }
  static Result<Session> open(const Config& config) {
    return config.status().ok() ? open_raw(config.raw()) : Result<Session>(config.status());
  }

  Result<SessionInfo> info() const {
    SessionInfo info;
    const Status status = penstock_session_get(raw(), &info);
    if (!status.ok()) return status;
    return info;
  }
  // A setting's value in this session; *source: where the value comes from.
  Result<std::string> setting(const char* name, const char** source = nullptr) const {
    Status status;
    std::string value = detail::whole_text(256, [&](char* text, std::size_t capacity) {
      std::size_t length = 0;
      status = penstock_session_setting(raw(), name, text, capacity, &length, source);
      return length;
    });
    if (!status.ok()) return status;
    return value;
  }
  Result<SessionReference> reference() const {
    penstock_session* reference = nullptr;
    const Status status = penstock_session_reference(raw(), &reference);
    if (!status.ok()) return status;
    return SessionReference(reference);
  }
  Result<DeviceInfo> device(unsigned ordinal) const {
    DeviceInfo info;
    const Status status = penstock_device_get(raw(), ordinal, &info);
    if (!status.ok()) return status;
    return info;
  }
  Result<DeviceMemory> allocate(unsigned ordinal, std::uint64_t size) {
    Result<SessionReference> session = reference();
    if (!session) return session.error();
    void* memory = nullptr;
    const Status status = penstock_device_alloc(raw(), ordinal, size, &memory);
    if (!status.ok()) return status;
    return DeviceMemory(std::move(*session), ordinal, memory, size);
  }
  // Computes the CRC32C of each `piece_bytes` of host or device memory; `sums` has room for all.
  Status crc32c(const void* memory, std::uint64_t size, std::uint64_t piece_bytes, std::uint32_t* sums) {
    return penstock_crc32c(raw(), memory, size, piece_bytes, sums);
  }
  Status crc32c(const struct iovec* pieces, std::uint32_t count, std::uint32_t* sums) {
    return penstock_crc32c_vector(raw(), pieces, count, sums);
  }
  // [experimental] In the order of a CUDA stream, without waiting for it.
  Result<PendingChecksums> crc32c_begin(const struct iovec* pieces, std::uint32_t count, void* stream) {
    penstock_checksums* checksums = nullptr;
    const Status status = penstock_crc32c_begin(raw(), pieces, count, stream, &checksums);
    if (!status.ok()) return status;
    return PendingChecksums(checksums);
  }
  // [experimental] The same with a second checksum of 64 bits.
  Result<PendingChecksums> fingerprints_begin(const struct iovec* pieces, std::uint32_t count, void* stream) {
    penstock_checksums* checksums = nullptr;
    const Status status = penstock_fingerprints_begin(raw(), pieces, count, stream, &checksums);
    if (!status.ok()) return status;
    return PendingChecksums(checksums);
  }

  Result<File> file(int fd) const {
    penstock_file* file = nullptr;
    const Status status = penstock_file_register(raw(), fd, &file);
    if (!status.ok()) return status;
    return File(file);
  }
  // The file appears under its name when it is published. flags: penstock_create_flag.
  Result<File> create(const char* name, unsigned mode = 0666, unsigned flags = 0) const {
    penstock_file* file = nullptr;
    const Status status = penstock_file_create(raw(), name, mode, flags, &file);
    if (!status.ok()) return status;
    return File(file);
  }
  // Opens a striped object (one object in files on several drives) for reading, by its manifest.
  Result<File> stripe(const char* manifest) const {
    penstock_file* file = nullptr;
    const Status status = penstock_stripe_open(raw(), manifest, 0, &file);
    if (!status.ok()) return status;
    return File(file);
  }
  // Creates a striped object with a member in each folder; it appears under the manifest's name when it is published.
  Result<File> create_stripe(const char* manifest, const std::vector<std::string>& folders, std::uint64_t size,
                             std::uint64_t stripe_bytes, unsigned mode = 0666, unsigned flags = 0) const {
    std::vector<const char*> names;
    for (const std::string& folder : folders) names.push_back(folder.c_str());
    Sized<penstock_stripe_options> options;
    options.folder_count = static_cast<std::uint32_t>(names.size());
    options.folders = names.data();
    options.size = size;
    options.stripe_bytes = stripe_bytes;
    options.mode = mode;
    options.flags = flags;
    penstock_file* file = nullptr;
    const Status status = penstock_stripe_create(raw(), manifest, &options, &file);
    if (!status.ok()) return status;
    return File(file);
  }
  Result<Buffer> buffer(const void* base, std::uint64_t size) {
    penstock_buffer* buffer = nullptr;
    const Status status = penstock_buffer_register(raw(), base, size, &buffer);
    if (!status.ok()) return status;
    return Buffer(buffer);
  }

  // A queue whose requests the library's threads execute.
  Result<Queue> queue(unsigned depth) const { return queue(PENSTOCK_QUEUE_THREADED, depth, 0); }
  // A queue whose requests the calling thread executes, within submit() and reap().
  Result<Queue> polled_queue(unsigned depth, std::uint64_t request_bytes_max) const {
    return queue(PENSTOCK_QUEUE_POLLED, depth, request_bytes_max);
  }

  // Whether the path can serve any file at all, from machine and settings alone.
  Result<Verdict> outlook(int path) const {
    Verdict verdict;
    const Status status = penstock_path_outlook(raw(), path, &verdict);
    if (!status.ok()) return status;
    return verdict;
  }
  Result<std::vector<Counter>> counters() const {
    std::vector<Counter> rows(penstock_path_count());
    for (;;) {
      std::uint32_t count = 0;
      const Status status = penstock_counters(raw(), rows.data(), static_cast<std::uint32_t>(rows.size()), &count);
      if (!status.ok()) return status;
      const bool fits = count <= rows.size();
      rows.resize(count);
      if (fits) return rows;
    }
  }

 private:
  static Result<Session> open_raw(const penstock_config* config) {
    penstock_session* session = nullptr;
    const Status status = penstock_session_open(config, &session);
    if (!status.ok()) return status;
    return Session(session);
  }
  Result<Queue> queue(penstock_queue_mode mode, unsigned depth, std::uint64_t request_bytes_max) const {
    QueueOptions options;
    options.mode = mode;
    options.depth = depth;
    options.request_bytes_max = request_bytes_max;
    penstock_queue* queue = nullptr;
    const Status status = penstock_queue_open(raw(), &options, &queue);
    if (!status.ok()) return status;
    return Queue(queue);
  }
};

// ---- What the library knows, without a session

inline const char* version() { return penstock_version(); }  // The version of the loaded library.

inline Result<int> path_by_name(const std::string& name) {
  std::int32_t path = 0;
  const Status status = penstock_path_by_name(name.c_str(), &path);
  if (!status.ok()) return status;
  return path;
}

inline Result<std::vector<Setting>> settings() {
  std::vector<Setting> all(penstock_setting_count());
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const Status status = penstock_setting_get(i, &all[i]);
    if (!status.ok()) return status;
  }
  return all;
}

// Returns the checksum of two adjacent pieces: `second` is the checksum of the second_bytes that follow the first
// piece.
inline std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  return penstock_crc32c_combine(first, second, second_bytes);
}

}  // namespace penstock
