// Penstock for C++20: RAII and result types over penstock.h, header only, nothing of its own.
//
//   auto session = penstock::Session::open();
//   if (!session) return report(session.error().message());
//   auto file = session->file(fd);
//   if (!file) return report(file.error().message());
//   const penstock::Outcome outcome = session->read(*file, device_pointer, size, 0);
//   if (!outcome) return report(outcome.status.message());   // The step, the cause, the remedy.
//   use(outcome.report.bytes, outcome.report.path_name(), outcome.report.reason_name());
//
// Every call returns a Result or a Status; nothing throws but std::bad_alloc. A Session must outlive the Files,
// Buffers, DeviceMemory and Queues made from it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L
#error "penstock.hpp needs C++20 (-std=c++20); penstock.h does for C and older C++"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/penstock.h"

namespace penstock {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(penstock_status raw) : raw_(raw) {}

  explicit operator bool() const { return raw_.code == 0; }
  const penstock_status& raw() const { return raw_; }
  bool is(penstock_code code) const { return raw_.domain == PENSTOCK_DOMAIN_PENSTOCK && raw_.code == code; }
  bool is_errno(int error_number) const { return raw_.domain == PENSTOCK_DOMAIN_OS && raw_.code == error_number; }
  // "cuda", where raw().code is that driver's own number; else "".
  const char* driver() const { return penstock_status_driver(raw_); }
  // One sentence: the step, the cause, the remedy.
  std::string message() const {
    char text[512];
    penstock_status_message(raw_, text, sizeof text);
    return text;
  }

 private:
  penstock_status raw_{};
};

// A value, or the Status that stands in its way. Look before you take: asking a failed Result for its value aborts.
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

struct Report : penstock_report {
  const char* path_name() const { return penstock_path_name(path); }
  const char* reason_name() const { return penstock_reason_name(reason); }
};

// What a transfer came to: bytes moved are in the report also when the status is an error.
struct Outcome {
  Status status;
  Report report;
  explicit operator bool() const { return static_cast<bool>(status); }
};

struct Verdict : penstock_verdict {
  const char* path_name() const { return penstock_path_name(path); }
  const char* reason_name() const { return penstock_reason_name(reason); }
  const char* sentence() const { return penstock_reason_sentence(reason); }
  const char* remedy() const { return penstock_reason_remedy(reason); }
};

class Session;

// A registered descriptor. The descriptor itself stays the user's.
class File {
 public:
  File(File&& other) noexcept : session_(other.session_), id_(std::exchange(other.id_, 0)) {}
  File& operator=(File&& other) noexcept {
    std::swap(session_, other.session_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~File() {
    if (id_ != 0) (void)penstock_file_deregister(session_, id_);
  }
  penstock_file id() const { return id_; }
  Result<penstock_file_info> info() const {
    penstock_file_info info{};
    const Status status = penstock_file_get(session_, id_, &info);
    if (!status) return status;
    return info;
  }

 private:
  friend class Session;
  File(penstock_session* session, penstock_file id) : session_(session), id_(id) {}
  penstock_session* session_;
  penstock_file id_;
};

// Memory registered by its base address. The memory itself stays the user's.
class Buffer {
 public:
  Buffer(Buffer&& other) noexcept : session_(other.session_), base_(std::exchange(other.base_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(session_, other.session_);
    std::swap(base_, other.base_);
    return *this;
  }
  ~Buffer() {
    if (base_ != nullptr) (void)penstock_buffer_deregister(session_, base_);
  }

 private:
  friend class Session;
  Buffer(penstock_session* session, const void* base) : session_(session), base_(base) {}
  penstock_session* session_;
  const void* base_;
};

// Memory of a device, owned.
class DeviceMemory {
 public:
  DeviceMemory(DeviceMemory&& other) noexcept
      : session_(other.session_), ordinal_(other.ordinal_), data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(session_, other.session_);
    std::swap(ordinal_, other.ordinal_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) penstock_device_free(session_, ordinal_, data_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return size_; }
  Status upload(std::size_t offset, std::span<const std::byte> host) {
    return penstock_device_upload(session_, data() + offset, host.data(), host.size());
  }
  Status download(std::size_t offset, std::span<std::byte> host) const {
    return penstock_device_download(session_, host.data(), data() + offset, host.size());
  }

 private:
  friend class Session;
  DeviceMemory(penstock_session* session, unsigned ordinal, void* data, std::size_t size)
      : session_(session), ordinal_(ordinal), data_(data), size_(size) {}
  penstock_session* session_;
  unsigned ordinal_;
  void* data_;
  std::size_t size_;
};

// Many requests in flight from one thread.
class Queue {
 public:
  Queue(Queue&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
  Queue& operator=(Queue&& other) noexcept {
    std::swap(queue_, other.queue_);
    return *this;
  }
  ~Queue() {
    if (queue_ != nullptr) penstock_queue_close(queue_);
  }
  Status submit(const penstock_request& request) { return penstock_queue_submit(queue_, &request); }
  // Waits for `least` completions, or for as many as are outstanding.
  unsigned reap(std::span<penstock_completion> completions, unsigned least) {
    return penstock_queue_reap(queue_, completions.data(), static_cast<unsigned>(completions.size()), least);
  }

 private:
  friend class Session;
  explicit Queue(penstock_queue* queue) : queue_(queue) {}
  penstock_queue* queue_;
};

// What penstock_options says, with C++ defaults.
struct Options : penstock_options {
  Options() : penstock_options{} { size = sizeof(penstock_options); }
};

class Session {
 public:
  static Result<Session> open(const Options& options = {}) {
    penstock_session* session = nullptr;
    const Status status = penstock_session_open(&options, &session);
    if (!status) return status;
    return Session(session);
  }
  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~Session() {
    if (session_ != nullptr) penstock_session_close(session_);
  }
  penstock_session* raw() const { return session_; }

  // "cuda", "host", "p2pmem" or several with commas, and what stood in the way of GPUs.
  std::string device_kind() const { return penstock_session_device_kind(session_); }
  std::string device_reason() const { return penstock_session_device_reason(session_); }
  unsigned device_count() const { return penstock_device_count(session_); }
  Result<penstock_device_info> device(unsigned ordinal) const {
    penstock_device_info info{};
    const Status status = penstock_device_get(session_, ordinal, &info);
    if (!status) return status;
    return info;
  }
  Result<DeviceMemory> allocate(unsigned ordinal, std::size_t size) {
    void* memory = nullptr;
    const Status status = penstock_device_alloc(session_, ordinal, size, &memory);
    if (!status) return status;
    return DeviceMemory(session_, ordinal, memory, size);
  }

  Result<File> file(int fd) {
    penstock_file id = 0;
    const Status status = penstock_file_register(session_, fd, &id);
    if (!status) return status;
    return File(session_, id);
  }
  Result<Buffer> buffer(const void* base, std::size_t size) {
    const Status status = penstock_buffer_register(session_, base, size);
    if (!status) return status;
    return Buffer(session_, base);
  }

  // Bytes between file_offset and base + buffer_offset; short at the end of the file.
  Outcome read(const File& file, void* base, std::size_t size, std::int64_t file_offset,
               std::int64_t buffer_offset = 0) {
    Outcome outcome{};
    outcome.status = penstock_read(session_, file.id(), base, size, file_offset, buffer_offset, &outcome.report);
    return outcome;
  }
  Outcome write(const File& file, const void* base, std::size_t size, std::int64_t file_offset,
                std::int64_t buffer_offset = 0) {
    Outcome outcome{};
    outcome.status = penstock_write(session_, file.id(), base, size, file_offset, buffer_offset, &outcome.report);
    return outcome;
  }
  Outcome read(const File& file, std::span<std::byte> memory, std::int64_t file_offset) {
    return read(file, memory.data(), memory.size(), file_offset);
  }
  Outcome write(const File& file, std::span<const std::byte> memory, std::int64_t file_offset) {
    return write(file, memory.data(), memory.size(), file_offset);
  }

  Result<Queue> queue(unsigned depth, std::size_t request_bytes_max) {
    penstock_queue* queue = nullptr;
    const Status status = penstock_queue_open(session_, depth, request_bytes_max, &queue);
    if (!status) return status;
    return Queue(queue);
  }

  // The verdict of every path for this file and memory of device `ordinal`, or the memory at `base`.
  Result<std::vector<Verdict>> explain(const File& file, unsigned ordinal, bool is_write = false,
                                       const void* base = nullptr) {
    penstock_verdict raw[PENSTOCK_PATH_COUNT];
    penstock_status status{};
    const unsigned count =
        penstock_explain(session_, file.id(), base, ordinal, is_write ? 1 : 0, raw, PENSTOCK_PATH_COUNT, &status);
    if (status.code != 0) return Status(status);
    std::vector<Verdict> verdicts;
    for (unsigned i = 0; i < count; ++i) verdicts.push_back(Verdict{raw[i]});
    return verdicts;
  }

  // How a request would be cut into chunks, a line each: what goes direct and what through the page cache.
  Result<std::string> plan(const File& file, unsigned ordinal, bool is_write, std::size_t size,
                           std::int64_t file_offset, const void* base = nullptr) {
    char text[4096];
    penstock_status status{};
    penstock_plan(session_, file.id(), base, ordinal, is_write ? 1 : 0, size, file_offset, text, sizeof text, &status);
    if (status.code != 0) return Status(status);
    return std::string(text);
  }

  // By whom it would be moved, and how that was chosen.
  Result<penstock_choice> choose(const File& file, unsigned ordinal, bool is_write, std::size_t size,
                                 std::int64_t file_offset, const void* base = nullptr) {
    penstock_choice choice{};
    const penstock_status status =
        penstock_choose(session_, file.id(), base, ordinal, is_write ? 1 : 0, size, file_offset, &choice);
    if (status.code != 0) return Status(status);
    return choice;
  }

  std::vector<penstock_counter> counters() const {
    std::vector<penstock_counter> rows(penstock_counters(session_, nullptr, 0));
    const unsigned count = penstock_counters(session_, rows.data(), static_cast<unsigned>(rows.size()));
    rows.resize(count);
    return rows;
  }
  std::uint64_t ring_bytes() const { return penstock_ring_bytes(session_); }

 private:
  explicit Session(penstock_session* session) : session_(session) {}
  penstock_session* session_;
};

}  // namespace penstock
