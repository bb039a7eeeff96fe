// SPDX-License-Identifier: Apache-2.0

#include "python/native/ranges.h"

#include <fcntl.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/regular_file.h"
#include "python/native/cuda.h"
#include "python/native/failure.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

Ranges::Identity identity_of(const struct stat& facts) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {facts.st_dev, facts.st_ino, static_cast<std::uint64_t>(facts.st_size),
          facts.st_mtim.tv_sec * kSecond + facts.st_mtim.tv_nsec};
}

// The kernel reads ahead: into the page cache, what is to be read around it, and reads would wait for that. Call this
// for a descriptor of our own.
void stop_reading_ahead(const Engine& engine, penstock_file* file, int fd) {
  penstock_file_info info{};
  info.struct_size = sizeof info;
  const bool is_known = engine.file_get(file, &info).code == 0;
  if (is_known && info.direct_memory_align > 0) (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
}

bool is_as_it_was(int fd, const Ranges::Identity& identity) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 && identity_of(facts) == identity;
}

}  // namespace

struct Ranges::Opened {
  std::string path;
  int fd = -1;
  Identity identity;
  std::unique_ptr<FileHandle> file;

  ~Opened() {
    file.reset();
    if (fd >= 0) ::close(fd);
  }
};

struct Ranges::Range {
  std::shared_ptr<Opened> opened;
  Memory memory;  // Destroy it with the GIL held.
  std::int64_t offset = 0;
  bool has_ended = false;
  bool is_other_file = false;
  penstock_status status{};
  Report report = empty_report();
};

struct Ranges::State {
  std::shared_ptr<SessionHandle> session;
  std::shared_ptr<Opened> last;  // The file of the latest range, reused if the next one is in the same file.
  std::mutex mutex;
  std::condition_variable changed;
  bool closing = false;
  std::uint64_t last_number = 0;
  std::map<std::uint64_t, std::unique_ptr<Range>> ranges;
  std::deque<Range*> waiting;
  std::vector<std::thread> threads;
};

Ranges::Ranges(std::shared_ptr<SessionHandle> session, unsigned threads) : state_(std::make_unique<State>()) {
  state_->session = std::move(session);
  try {
    for (unsigned i = 0; i < threads; ++i) state_->threads.emplace_back([state = state_.get()] { run(*state); });
  } catch (const std::system_error& error) {
    close();
    raise(exception_of({PENSTOCK_DOMAIN_OS, 0, error.code().value(), "start a thread that reads ahead"}));
  }
}

Ranges::~Ranges() {
  if (is_ending() || ::getpid() != process_) {
    (void)state_.release();
    return;
  }
  close();
}

void Ranges::check_is_own() const {
  if (::getpid() != process_) raise(exception_of(own_status(PENSTOCK_CLOSED, "read on by what the parent has begun")));
}

// Does not wait at process exit; a forked child does not have the threads.
void Ranges::close() {
  if (is_ending() || ::getpid() != process_) return;
  std::vector<std::thread> threads;
  {
    const NoGil no_gil;
    {
      const std::scoped_lock lock(state_->mutex);
      state_->closing = true;
      threads.swap(state_->threads);
    }
    state_->changed.notify_all();
    for (std::thread& thread : threads) thread.join();
    state_->last.reset();
  }
  std::map<std::uint64_t, std::unique_ptr<Range>> ranges;
  {
    const std::scoped_lock lock(state_->mutex);
    ranges.swap(state_->ranges);
    state_->waiting.clear();
  }
}

void Ranges::run(State& state) {
  for (;;) {
    Range* range = nullptr;
    {
      std::unique_lock lock(state.mutex);
      state.changed.wait(lock, [&] { return state.closing || !state.waiting.empty(); });
      if (state.closing) return;
      range = state.waiting.front();
      state.waiting.pop_front();
    }
    read(*range);
    {
      const std::scoped_lock lock(state.mutex);
      range->has_ended = true;
    }
    state.changed.notify_all();
  }
}

void Ranges::read(Range& range) {
  const Opened& opened = *range.opened;
  if (range.memory.order().is_given) {
    const int result = wait_for_stream(range.memory.order().stream, range.memory.data());
    range.status = {PENSTOCK_DOMAIN_DRIVER, 0, result, "wait for the stream before a request"};
    if (result != 0) return;
  }
  range.is_other_file = !is_as_it_was(opened.fd, opened.identity);
  if (range.is_other_file) return;
  const penstock_request request =
      penstock_request_of(PENSTOCK_READ, opened.file->raw(), range.memory.data(), range.memory.size(), range.offset, 0);
  range.status = opened.file->engine().transfer(&request, &range.report.raw);
  range.is_other_file = !is_as_it_was(opened.fd, opened.identity);
}

// Opens the file of the next ranges. Call it with the GIL held.
std::shared_ptr<Ranges::Opened> Ranges::open(const char* path, const Identity& identity, int held) {
  std::shared_ptr<Opened>& last = state_->last;
  if (last != nullptr && last->path == path && last->identity == identity) return last;
  auto opened = std::make_shared<Opened>();
  opened->path = path;
  opened->identity = identity;
  SessionHandle& session = *state_->session;
  penstock_status status = own_status(PENSTOCK_CLOSED, "open a file to read ahead");
  int error = 0;
  if (!session.is_closed()) {
    const NoGil no_gil;
    penstock_file* raw = nullptr;
    // Without waiting, since it may be a pipe by now.
    opened->fd = held >= 0 ? ::fcntl(held, F_DUPFD_CLOEXEC, 0) : core::open_without_waiting(AT_FDCWD, path, O_RDONLY);
    if (opened->fd < 0) error = errno;
    if (opened->fd >= 0) status = session.engine().file_register(session.raw(), opened->fd, &raw);
    if (raw != nullptr) {
      opened->file = std::make_unique<FileHandle>(state_->session, raw);
      stop_reading_ahead(session.engine(), raw, opened->fd);
    }
  }
  if (error != 0) {
    errno = error;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    throw nb::python_error();
  }
  check(status, opened->path);
  last = std::move(opened);
  return last;
}

std::uint64_t Ranges::begin(const nb::bytes& path, const Identity& identity, nb::handle memory, std::int64_t offset,
                            nb::handle stream, int held) {
  check_is_own();
  auto range = std::make_unique<Range>(
      Range{open(path.c_str(), identity, held), Memory(memory, Memory::Access::writable, stream), offset});
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(state_->mutex);
    number = ++state_->last_number;
    if (!state_->closing) {
      state_->waiting.push_back(range.get());
      state_->ranges.emplace(number, std::move(range));
    }
  }
  if (range != nullptr) raise(exception_of(own_status(PENSTOCK_CLOSED, "begin to read a range")));
  state_->changed.notify_all();
  return number;
}

std::optional<Report> Ranges::wait(std::uint64_t number) {
  check_is_own();
  std::unique_ptr<Range> range;
  {
    const NoGil no_gil;
    std::unique_lock lock(state_->mutex);
    const auto found = state_->ranges.find(number);
    if (found != state_->ranges.end()) {
      state_->changed.wait(lock, [&] { return state_->closing || found->second->has_ended; });
    }
    if (found != state_->ranges.end() && !state_->closing) {
      range = std::move(found->second);
      state_->ranges.erase(found);
    }
  }
  if (range == nullptr) raise(exception_of(own_status(PENSTOCK_CLOSED, "wait for a range")));
  if (range->is_other_file) return std::nullopt;
  if (range->status.code != 0) raise(exception_of(range->status, nb::cast(range->report), range->opened->path));
  return range->report;
}

void bind_ranges(nb::module_& module) {
  nb::class_<Ranges>(module, "Ranges")
      .def(nb::init<std::shared_ptr<SessionHandle>, unsigned>(), nb::arg("session"), nb::arg("threads"))
      .def("begin", &Ranges::begin, nb::arg("path"), nb::arg("identity"), nb::arg("memory"), nb::arg("offset"),
           nb::arg("stream").none(), nb::arg("held") = -1)
      .def("wait", &Ranges::wait, nb::arg("number"))
      .def("close", &Ranges::close);
}

}  // namespace penstock::python
