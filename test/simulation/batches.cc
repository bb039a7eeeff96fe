// SPDX-License-Identifier: Apache-2.0

#include "simulation/batches.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cufile.h"
#include "penstock/cufile_session.h"
#include "simulation/asked.h"
#include "simulation/driver_settings.h"
#include "simulation/ends.h"

namespace penstock::simulation {
namespace {

constexpr unsigned kDepth = 6;

struct Opened {
  std::shared_ptr<Handle> handle;  // For the file alone.
  CUfileHandle_t cufile = nullptr;
};

// What an errno, or a number of cuFile's, would have been by penstock.h.
penstock_status status_of(int error) {
  const bool may_be_short = disk().weather[static_cast<std::size_t>(Fault::cut_short)] != 0;
  if (error == EIO && may_be_short) return {PENSTOCK_DOMAIN_PENSTOCK, 0, PENSTOCK_NO_PROGRESS, "move"};
  if (error < CUFILEOP_BASE_ERR) return {PENSTOCK_DOMAIN_OS, 0, error, "move"};
  return {PENSTOCK_DOMAIN_PENSTOCK, 0, scheduler().refuses_threads() ? PENSTOCK_OUT_OF_MEMORY : PENSTOCK_LIMIT, "move"};
}

class Batches {
 public:
  Tally run();

 private:
  // Of one thread.
  struct Self {
    Random random;
    std::vector<Place> places;
    CUfileBatchHandle_t batch = nullptr;
    std::vector<Asked> asked;
    std::vector<Opened> files;  // Of each that was asked.
  };

  void set_up(Random& random);
  void act(std::uint64_t seed);
  void call(Self& self);
  void use_batch(Self& self);
  bool submit(Self& self);
  void reap(Self& self);
  void drop(Self& self);
  bool ask(Self& self, unsigned place);
  void end(Asked& asked, ssize_t moved, int error);

  penstock_session* session_ = nullptr;
  std::vector<Opened> files_;
  std::uint64_t size_max_ = 0;
  unsigned rounds_ = 0;
  std::size_t threads_before_ = 0;
  Sums sums_;
  Tally tally_;
};

void Batches::set_up(Random& random) {
  draw_weather(random);
  draw_settings(random, [](const char* name, const char* value) {
    std::string variable = "PENSTOCK_";
    for (const char* at = name; *at != '\0'; ++at) variable += static_cast<char>(std::toupper(*at));
    ::setenv(variable.c_str(), value, 1);
  });
  size_max_ = random.one_in(4) ? 1 << 20 : 64 << 10;
  rounds_ = static_cast<unsigned>(random.between(5, 80));
  std::size_t threads = 0;
  const bool is_set = cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, &threads_before_).err == 0 &&
                      cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, random.between(1, 3)).err == 0 &&
                      cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, &threads).err == 0;
  if (!is_set || threads == threads_before_) scheduler().fail("a parameter is not taken");
  const bool is_open = cuFileDriverOpen().err == CU_FILE_SUCCESS && penstock_cufile_session(&session_).code == 0;
  if (!is_open) scheduler().fail("cuFile's driver does not open");
  for (std::uint64_t i = random.between(1, 4); i > 0; --i) {
    Opened& one = files_.emplace_back();
    one.handle = std::make_shared<Handle>();
    one.handle->file = disk().create(random.between(1, 1 << 20));
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = disk().open(one.handle->file, random.one_in(2));
    if (cuFileHandleRegister(&one.cufile, &description).err != CU_FILE_SUCCESS) scheduler().fail("a file is not taken");
    ::close(description.handle.fd);
  }
}

bool Batches::ask(Self& self, unsigned place) {
  const Opened& file = files_[self.random.below(files_.size())];
  Asked asked;
  if (!asked.begin(self.random, self.places[place], file.handle, size_max_, self.random.one_in(3))) return false;
  self.asked.push_back(std::move(asked));
  self.files.push_back(file);
  return true;
}

void Batches::end(Asked& asked, ssize_t moved, int error) {
  Report report;
  report.bytes = report.cached_bytes = moved < 0 ? 0 : static_cast<std::uint64_t>(moved);
  ++tally_.requests;
  tally_.failed += moved < 0;
  asked.end(moved < 0 ? status_of(error) : penstock_status{}, report, sums_);
}

void Batches::call(Self& self) {
  self.asked.clear();
  self.files.clear();
  if (!ask(self, 0)) return;
  Asked& asked = self.asked[0];
  const Request& request = asked.request;
  void* const base = const_cast<void*>(request.base);
  const ssize_t moved =
      request.op == PENSTOCK_READ
          ? cuFileRead(self.files[0].cufile, base, request.size, request.file_offset, request.buffer_offset)
          : cuFileWrite(self.files[0].cufile, base, request.size, request.file_offset, request.buffer_offset);
  end(asked, moved, moved == -1 ? errno : static_cast<int>(-moved));
}

// ---- Batches --------------------------------------------------------------------------------------------------------

bool Batches::submit(Self& self) {
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < self.asked.size(); ++i) {
    const Request& request = self.asked[i].request;
    CUfileIOParams_t& entry = entries.emplace_back();
    entry = {};
    entry.mode = CUFILE_BATCH;
    entry.u.batch.devPtr_base = const_cast<void*>(request.base);
    entry.u.batch.devPtr_offset = request.buffer_offset;
    entry.u.batch.file_offset = request.file_offset;
    entry.u.batch.size = request.size;
    entry.fh = self.files[i].cufile;
    entry.opcode = request.op == PENSTOCK_READ ? CUFILE_READ : CUFILE_WRITE;
    entry.cookie = reinterpret_cast<void*>(i);
  }
  const CUfileError_t error = cuFileBatchIOSubmit(self.batch, static_cast<unsigned>(entries.size()), entries.data(), 0);
  if (error.err != CU_FILE_SUCCESS && !scheduler().refuses_threads())
    scheduler().fail("a batch with room refuses its entries");
  return error.err == CU_FILE_SUCCESS;
}

void Batches::reap(Self& self) {
  std::vector<bool> seen(self.asked.size());
  for (auto left = static_cast<unsigned>(self.asked.size()); left > 0;) {
    CUfileIOEvents_t events[kDepth];
    unsigned count = static_cast<unsigned>(self.random.between(1, kDepth));
    const auto least = static_cast<unsigned>(self.random.below(std::min(count, left) + 1));
    timespec limit{0, static_cast<long>(self.random.below(1'000'000))};
    const bool is_limited = least == 0 || self.random.one_in(2);
    const CUfileError_t error =
        cuFileBatchIOGetStatus(self.batch, least, &count, events, is_limited ? &limit : nullptr);
    if (error.err != CU_FILE_SUCCESS) scheduler().fail("the state of a batch cannot be had");
    if (count > left || (!is_limited && count < least)) scheduler().fail("a batch tells of another number of entries");
    for (unsigned i = 0; i < count; ++i) {
      const auto number = reinterpret_cast<std::uintptr_t>(events[i].cookie);
      if (number >= seen.size() || seen[number]) scheduler().fail("an entry is told of twice, or was never submitted");
      seen[number] = true;
      const bool is_complete = events[i].status == CUFILE_COMPLETE;
      const auto result = static_cast<ssize_t>(events[i].ret);
      if (!is_complete && result >= 0) scheduler().fail("an entry fails without a reason");
      end(self.asked[number], is_complete ? result : -1, static_cast<int>(-result));
    }
    left -= count;
  }
}

// Canceled, or destroyed: nobody tells of its entries any more, and none of them touches memory or file.
void Batches::drop(Self& self) {
  if (self.random.one_in(2)) {
    cuFileBatchIODestroy(std::exchange(self.batch, nullptr));
  } else {
    CUfileIOEvents_t events[kDepth];
    unsigned count = kDepth;
    timespec none{};
    const bool is_canceled = cuFileBatchIOCancel(self.batch).err == CU_FILE_SUCCESS &&
                             cuFileBatchIOGetStatus(self.batch, 0, &count, events, &none).err == CU_FILE_SUCCESS;
    if (!is_canceled || count != 0) scheduler().fail("a canceled batch tells of its entries");
  }
  tally_.canceled += self.asked.size();
  for (Asked& one : self.asked) one.take_back();
}

void Batches::use_batch(Self& self) {
  self.asked.clear();
  self.files.clear();
  if (self.batch == nullptr && cuFileBatchIOSetUp(&self.batch, kDepth).err != CU_FILE_SUCCESS)
    return scheduler().refuses_threads() ? void() : scheduler().fail("no batch can be had");
  for (unsigned i = 0, count = static_cast<unsigned>(self.random.between(1, kDepth)); i < count; ++i)
    (void)ask(self, 1 + i);
  if (self.asked.empty()) return;
  if (!submit(self)) {
    for (Asked& one : self.asked) one.take_back();
  } else if (self.random.one_in(6)) {
    drop(self);
  } else {
    reap(self);
  }
}

void Batches::act(std::uint64_t seed) {
  Self self{Random(seed), {}, nullptr, {}, {}};
  std::vector<void*> registered;
  for (unsigned i = 0; i < 1 + kDepth; ++i) {
    const Place& place = self.places.emplace_back(session_, size_max_, self.random.one_in(2));
    const bool is_registered = place.base() != nullptr && self.random.one_in(2) &&
                               cuFileBufRegister(place.base(), place.room(), 0).err == CU_FILE_SUCCESS;
    if (is_registered) registered.push_back(place.base());
  }
  for (unsigned i = 0; i < rounds_; ++i) {
    ends().exit_if_due();
    if (self.random.one_in(8)) change_driver_settings(self.random);
    self.random.one_in(3) ? call(self) : use_batch(self);
  }
  if (self.batch != nullptr) cuFileBatchIODestroy(self.batch);
  for (void* const base : registered) {
    if (cuFileBufDeregister(base).err != CU_FILE_SUCCESS) scheduler().fail("a registered buffer is not known");
  }
}

Tally Batches::run() {
  Random& random = scheduler().random();
  set_up(random);
  std::vector<std::thread> threads;
  for (std::uint64_t i = random.between(1, 3); i > 0; --i)
    threads.emplace_back([this, seed = random.next()] { act(seed); });
  if (random.one_in(8)) scheduler().refuse_threads(static_cast<unsigned>(random.between(1, 4)));
  if (random.one_in(6)) ends().draw(random, tally_);
  for (std::thread& thread : threads) thread.join();
  for (const Opened& one : files_) cuFileHandleDeregister(one.cufile);
  files_.clear();
  penstock_session_close(session_);
  if (cuFileDriverClose().err != CU_FILE_SUCCESS) scheduler().fail("cuFile's driver does not close");
  std::size_t threads_after = 0;
  (void)cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, &threads_after);
  if (threads_after != threads_before_) scheduler().fail("a parameter of execution outlives the driver");
  if (scheduler().tasks_alive() > 1) scheduler().fail("a thread outlives cuFile's driver");
  return tally_;
}

}  // namespace

Tally run_batches() { return std::make_unique<Batches>()->run(); }

}  // namespace penstock::simulation
