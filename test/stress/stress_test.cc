// SPDX-License-Identifier: Apache-2.0

// Eight threads read files that two others change in every way there is, through every path and policy, and compare
// every byte with what could legally have been there (history.h). The first setting reads with the kernel's own calls:
// what holds for them holds for no path to break.
//
//   penstock_stress_test [--seconds=N] [--seed=N]    N seconds for each setting; default 0.5
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "contract/fixture.h"
#include "stress/changing_file.h"
#include "stress/watchdog.h"

namespace penstock::stress {
namespace {

double seconds = 0.5;
std::uint64_t seed = 0;

constexpr unsigned kReaders = 8;
constexpr unsigned kChangers = 2;
constexpr unsigned kSlots = 4;
constexpr unsigned kWatchLimitS = 60;
constexpr std::uint64_t kSmallMax = 64 << 10;
constexpr std::uint64_t kShiftMax = 4096;  // Of a read within its memory.
constexpr unsigned kQueueDepth = 8;

// Half of the threads read from descriptors with O_DIRECT, and half of each make large requests.
struct Setting {
  const char* name;
  const char* paths;  // Null: the kernel's calls.
  const char* policy;
  bool on_device;
  int path;  // Which must be usable, and have moved bytes in the end; -1: any.
  // Any other path refuses. So pagecache need not wait until it pays, but reads are refused while it cannot serve.
  bool required = false;
};

constexpr Setting kSettings[] = {
    {"kernel", nullptr, "balanced", false, -1},
    {"bounce_throughput", "bounce", "throughput", true, PENSTOCK_PATH_BOUNCE},
    {"bounce_balanced", "bounce", "balanced", true, PENSTOCK_PATH_BOUNCE},
    {"bounce_cpu", "bounce", "cpu", true, PENSTOCK_PATH_BOUNCE},
    {"host_throughput", "host", "throughput", false, PENSTOCK_PATH_HOST},
    {"host_balanced", "host", "balanced", false, PENSTOCK_PATH_HOST},
    {"host_cpu", "host", "cpu", false, PENSTOCK_PATH_HOST},
    {"pagecache_throughput", "pagecache,bounce", "throughput", true, PENSTOCK_PATH_PAGECACHE},
    {"pagecache_balanced", "pagecache,bounce", "balanced", true, PENSTOCK_PATH_PAGECACHE},
    {"pagecache_cpu", "pagecache,bounce", "cpu", true, PENSTOCK_PATH_PAGECACHE},
    {"pagecache_required", "pagecache", "balanced", true, PENSTOCK_PATH_PAGECACHE, true},
};

struct Case {
  Setting setting;
  core::Fixture place;
};

// On every file system that there is.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  std::set<std::string> known;
  for (const core::Fixture& place : core::kernel_fixtures()) {
    if (!known.insert(place.file_system).second) continue;
    for (const Setting& setting : kSettings) cases.push_back({setting, place});
  }
  return cases;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.setting.name; }

class StressTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override;
  void TearDown() override;

  void run();
  void change_files(unsigned number);
  void read_files(unsigned number);
  void read_once(unsigned number, Random& random, Memory& memory);
  void read_by_queue(unsigned number, Random& random, Memory& memory, penstock_queue* queue);
  void look_at_everything();

  std::shared_ptr<ChangingFile> new_file(const std::string& name, Random& random);
  void replace(unsigned slot, Random& random);
  void rename_there_and_back(unsigned slot);
  std::shared_ptr<ChangingFile> pick(Random& random, std::string& name);
  void report(const std::string& fault);
  std::uint64_t bytes_of(int path) const;

  struct Slot {
    std::mutex mutex;
    std::string name;
    std::shared_ptr<ChangingFile> current;
    std::shared_ptr<ChangingFile> previous;  // Has lost its name.
  };
  struct Read {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t shift;
  };
  struct Answer {
    std::uint64_t bytes = 0;
    penstock_status status{};
  };

  Read draw_read(Random& random, ChangingFile& file, bool large) const;
  Answer perform(const Read& read, const UniqueFd& own, penstock_file* handle, int fd, Memory& memory);
  void judge(ChangingFile& file, std::uint32_t ended, const Read& read, const Answer& answer, Memory& memory);

  const Setting& setting() const { return GetParam().setting; }
  bool is_direct(unsigned reader) const { return reader % 2 == 1 && !setting().required; }

  penstock_session* session_ = nullptr;
  std::string directory_;
  std::array<Slot, kSlots> slots_;
  std::atomic<std::uint32_t> files_made_{0};
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<std::uint64_t> refused_{0};  // Reads of a path that is required and could not serve them.
  std::atomic<bool> stop_{false};
  std::unique_ptr<Watchdog> watchdog_;
  std::mutex faults_mutex_;
  std::vector<std::string> faults_;
};

std::string name_of(const testing::TestParamInfo<Case>& one) {
  std::string name = one.param.place.file_system + "_" + one.param.setting.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Settings, StressTest, testing::ValuesIn(all_cases()), name_of);

void StressTest::SetUp() {
  const core::Fixture& place = GetParam().place;
  if (!place.missing.empty()) GTEST_SKIP() << "no " << place.file_system << ": " << place.missing;
  directory_ = place.directory + "/penstock_stress_XXXXXX";
  ASSERT_NE(::mkdtemp(directory_.data()), nullptr) << directory_ << ": " << std::strerror(errno);
  ::setenv("PENSTOCK_POLICY", setting().policy, 1);
  // Less than the files have, so that mappings come and go; or more, so that they are kept while files change.
  ::setenv("PENSTOCK_REGISTRATION_CACHE_MIB", setting().required ? "64" : "16", 1);
  Config config;
  config.set("device", "host").set("bounce_mib", "24").set("workers", "3");
  if (setting().paths != nullptr) config.set("paths", setting().paths);
  if (setting().required) config.set("require", setting().paths);
  ASSERT_TRUE(config.status().ok()) << config.status().message();
  const penstock_status status = penstock_session_open(config.raw(), &session_);
  ASSERT_EQ(status.code, 0) << status.step;
  Random random(seed);
  for (unsigned i = 0; i < kSlots; ++i) {
    slots_[i].name = directory_ + "/" + std::to_string(i);
    slots_[i].current = new_file(slots_[i].name, random);
    ASSERT_NE(slots_[i].current, nullptr) << std::strerror(errno);
  }
  if (setting().path < 0) return;
  const Memory memory(session_, setting().on_device, 4096);
  Request request;
  request.file = slots_[0].current->handle(false);
  request.base = memory.base();
  std::vector<Verdict> verdicts(penstock_path_count());
  std::uint32_t count = 0;
  ASSERT_EQ(penstock_explain(&request, verdicts.data(), penstock_path_count(), &count).code, 0);
  for (unsigned i = 0; i < count; ++i) {
    if (verdicts[i].path != setting().path || verdicts[i].usable != 0) continue;
    GTEST_SKIP() << penstock_path_name(setting().path) << ": " << penstock_reason_sentence(verdicts[i].reason);
  }
}

void StressTest::TearDown() {
  for (Slot& slot : slots_) {
    slot.current.reset();
    slot.previous.reset();
    if (!slot.name.empty()) ::unlink(slot.name.c_str());
  }
  penstock_session_close(session_);
  if (!directory_.empty()) ::rmdir(directory_.c_str());
}

void StressTest::report(const std::string& fault) {
  stop_.store(true);
  const std::lock_guard lock(faults_mutex_);
  if (faults_.size() < 5) faults_.push_back(fault);
}

std::uint64_t StressTest::bytes_of(int path) const {
  Counter counters[256];
  std::uint32_t count = 0;
  EXPECT_EQ(penstock_counters(session_, counters, 256, &count).code, 0);
  EXPECT_LE(count, 256u);
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (counters[i].path == path) bytes += counters[i].read_bytes;
  }
  return bytes;
}

// ---- Those who change ----------------------------------------------------------------------------------------------

std::shared_ptr<ChangingFile> StressTest::new_file(const std::string& name, Random& random) {
  const auto number = static_cast<std::uint8_t>(1 + files_made_.fetch_add(1) % 255);
  std::shared_ptr<ChangingFile> file = ChangingFile::create(session_, name, number);
  if (file != nullptr) file->start_over(random);
  return file;
}

// Another file gets the name: by a rename over it, or after an unlink.
void StressTest::replace(unsigned slot_number, Random& random) {
  Slot& slot = slots_[slot_number];
  const bool by_rename = draw(random, 0, 1) == 0;
  if (!by_rename) ::unlink(slot.name.c_str());
  const std::string name = by_rename ? slot.name + ".new" : slot.name;
  std::shared_ptr<ChangingFile> file = new_file(name, random);
  if (file == nullptr) return report("cannot make a file: " + std::string(std::strerror(errno)));
  if (by_rename && ::rename(name.c_str(), slot.name.c_str()) != 0) return report("cannot rename");
  const std::lock_guard lock(slot.mutex);
  slot.previous = std::exchange(slot.current, std::move(file));
}

void StressTest::rename_there_and_back(unsigned slot) {
  const std::string& name = slots_[slot].name;
  const std::string other = name + ".moved";
  if (::rename(name.c_str(), other.c_str()) != 0 || ::rename(other.c_str(), name.c_str()) != 0) report("cannot rename");
}

void StressTest::change_files(unsigned number) {
  Random random(seed * 1000 + 500 + number);
  Memory memory(session_, setting().on_device, kFileMax);
  while (!stop_.load()) {
    watchdog_->step(number, "change a file");
    const auto slot = static_cast<unsigned>(number + kChangers * draw(random, 0, kSlots / kChangers - 1)) % kSlots;
    const std::uint64_t what = draw(random, 0, 19);
    const std::shared_ptr<ChangingFile> file = what == 2 ? slots_[slot].previous : slots_[slot].current;
    if (what == 0) replace(slot, random);
    else if (what == 1) rename_there_and_back(slot);
    else if (file != nullptr) file->change(random, memory);
    changes_.fetch_add(1);
    // In between, time enough for reads with no change beside them: those show what is stale.
    const std::uint64_t mood = draw(random, 0, 3);
    if (mood == 0) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(draw(random, 0, mood == 1 ? 20000 : 2000)));
  }
  watchdog_->leave(number);
}

// ---- Those who read ------------------------------------------------------------------------------------------------

std::shared_ptr<ChangingFile> StressTest::pick(Random& random, std::string& name) {
  Slot& slot = slots_[draw(random, 0, kSlots - 1)];
  name = slot.name;
  const std::lock_guard lock(slot.mutex);
  return slot.previous != nullptr && draw(random, 0, 4) == 0 ? slot.previous : slot.current;
}

StressTest::Read StressTest::draw_read(Random& random, ChangingFile& file, bool large) const {
  const std::uint64_t end = file.history().size();
  // Sometimes behind the end, often the same range as before.
  std::uint64_t offset = draw(random, 0, 1) == 0 ? 0 : draw(random, 0, end + end / 8);
  std::uint64_t size = large ? draw(random, 1 << 20, kFileMax) : draw(random, 1, kSmallMax);
  std::uint64_t shift = draw(random, 0, kShiftMax);
  if (draw(random, 0, 1) == 0) {
    offset &= ~std::uint64_t{4095};
    size = (size + 4095) & ~std::uint64_t{4095};
    shift = 0;
  }
  if (draw(random, 0, 3) != 0 && offset < end) size = std::min(size, end - offset);
  return {offset, size, shift};
}

StressTest::Answer StressTest::perform(const Read& read, const UniqueFd& own, penstock_file* handle, int fd,
                                       Memory& memory) {
  const auto offset = static_cast<std::int64_t>(read.offset);
  if (setting().paths == nullptr) {
    const ssize_t got = ::pread(own.valid() ? own.get() : fd, memory.base() + read.shift, read.size, offset);
    if (got >= 0) return {static_cast<std::uint64_t>(got), {}};
    // With O_DIRECT: not aligned, or the kernel met a buffered write on its way.
    const bool direct_says = errno == EINVAL || errno == EIO;
    return {0, {.domain = PENSTOCK_DOMAIN_OS, .driver = 0, .code = direct_says ? 0 : errno, .step = "read"}};
  }
  Answer answer;
  Report report;
  penstock_file* file = handle;
  if (own.valid()) answer.status = penstock_file_register(session_, own.get(), &file);
  if (answer.status.code != 0) return answer;
  answer.status = penstock_read(file, memory.base(), read.size, offset, static_cast<std::int64_t>(read.shift), &report);
  answer.bytes = report.bytes;
  if (own.valid()) penstock_file_close(file);
  return answer;
}

// An error is legal only where the file's size was changed beside the read; what had been moved is compared anyway.
void StressTest::judge(ChangingFile& file, std::uint32_t ended, const Read& read, const Answer& answer,
                       Memory& memory) {
  const bool resized = file.history().was_resized(ended);
  const bool failed = answer.status.code != 0;
  const bool refused = setting().required && answer.status.domain == PENSTOCK_DOMAIN_PENSTOCK &&
                       answer.status.code == PENSTOCK_PATH_REFUSED;
  std::vector<std::byte> got(answer.bytes);
  memory.get(read.shift, got);
  // The kernel's own calls may stop early, and refuse what is not aligned.
  const bool whole = !failed && setting().paths != nullptr;
  const std::optional<std::string> fault = file.history().end_read(ended, read.offset, read.size, got, whole);
  if (fault) {
    report(*fault);
  } else if (failed && !resized && !refused) {
    char text[256];
    (void)penstock_status_message(answer.status, text, sizeof text);
    report("a read failed of a file that kept its size: " + std::string(text));
  }
  (refused ? refused_ : reads_).fetch_add(1);
  // The path that is required takes what is in the page cache, and brings nothing there.
  if (refused) (void)::readahead(file.descriptor(false), 0, kFileMax);
}

void StressTest::read_once(unsigned number, Random& random, Memory& memory) {
  const bool direct = is_direct(number);
  std::string name;
  const std::shared_ptr<ChangingFile> file = pick(random, name);
  const Read read = draw_read(random, *file, number >= kReaders / 2);
  const std::vector<std::byte> poison(read.size, std::byte{0xa5});
  memory.put(read.shift, poison);
  UniqueFd own;
  if (draw(random, 0, 7) == 0) own = file->open_again(name, direct);
  const std::uint32_t ended = file->history().begin_read();
  const Answer answer = perform(read, own, file->handle(direct), file->descriptor(direct), memory);
  judge(*file, ended, read, answer, memory);
}

void StressTest::read_by_queue(unsigned number, Random& random, Memory& memory, penstock_queue* queue) {
  struct Flight {
    std::shared_ptr<ChangingFile> file;
    Read read;
    std::uint32_t ended;
  };
  std::array<Flight, kQueueDepth> flights;
  constexpr std::uint64_t kRoom = kSmallMax + 2 * kShiftMax;
  for (unsigned i = 0; i < kQueueDepth; ++i) {
    Flight& flight = flights[i];
    std::string name;
    flight.file = pick(random, name);
    flight.read = draw_read(random, *flight.file, false);
    flight.read.shift += i * kRoom;
    memory.put(flight.read.shift, std::vector<std::byte>(flight.read.size, std::byte{0xa5}));
    flight.ended = flight.file->history().begin_read();
    Request request;
    request.file = flight.file->handle(is_direct(number));
    request.base = memory.base();
    request.size = flight.read.size;
    request.file_offset = static_cast<std::int64_t>(flight.read.offset);
    request.buffer_offset = static_cast<std::int64_t>(flight.read.shift);
    request.cookie = i;
    if (penstock_queue_submit(queue, &request, 1, nullptr).code != 0) report("a queue with room refused a read");
  }
  Completion completions[kQueueDepth];
  for (unsigned left = kQueueDepth; left > 0;) {
    std::uint32_t count = 0;
    const penstock_status reaped = penstock_queue_reap(queue, completions, kQueueDepth, 1, Queue::kForever, &count);
    if (reaped.code != 0 || count == 0) return report("a queue lost a read");
    for (unsigned i = 0; i < count; ++i) {
      const Flight& flight = flights[completions[i].cookie];
      const Answer answer{completions[i].report.bytes, completions[i].status};
      judge(*flight.file, flight.ended, flight.read, answer, memory);
    }
    left -= count;
  }
}

void StressTest::read_files(unsigned number) {
  Random random(seed * 1000 + number);
  Memory memory(session_, setting().on_device, kFileMax + kQueueDepth * 2 * kShiftMax);
  penstock_queue* queue = nullptr;
  const bool queued = setting().paths != nullptr && (number == 2 || number == 3);
  QueueOptions options;
  options.mode = PENSTOCK_QUEUE_POLLED;
  options.depth = kQueueDepth;
  options.request_bytes_max = kSmallMax + kShiftMax;
  if (queued && penstock_queue_open(session_, &options, &queue).code != 0) {
    report("cannot open a queue");
  }
  const unsigned place = kChangers + number;
  while (!stop_.load()) {
    watchdog_->step(place, queue != nullptr ? "read by a queue" : "read");
    if (queue != nullptr) read_by_queue(number, random, memory, queue);
    else read_once(number, random, memory);
  }
  if (queue != nullptr) penstock_queue_close(queue);
  watchdog_->leave(place);
}

// Once nothing changes any more: there is one legal answer.
void StressTest::look_at_everything() {
  Memory memory(session_, setting().on_device, kFileMax);
  for (Slot& slot : slots_) {
    for (const std::shared_ptr<ChangingFile>& file : {slot.current, slot.previous}) {
      for (const bool direct : {false, true}) {
        if (file == nullptr || (direct && setting().required)) continue;
        const Read read{0, kFileMax, 0};
        const std::uint32_t ended = file->history().begin_read();
        judge(*file, ended, read, perform(read, {}, file->handle(direct), file->descriptor(direct), memory), memory);
      }
    }
  }
}

void StressTest::run() {
  const std::string note = "run again with --seed=" + std::to_string(seed) + " --gtest_filter=*" +
                           testing::UnitTest::GetInstance()->current_test_info()->name();
  watchdog_ = std::make_unique<Watchdog>(note, kWatchLimitS);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kChangers; ++i) threads.emplace_back([this, i] { change_files(i); });
  for (unsigned i = 0; i < kReaders; ++i) threads.emplace_back([this, i] { read_files(i); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!stop_.load() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stop_.store(true);
  for (std::thread& thread : threads) thread.join();
  if (faults_.empty()) look_at_everything();
  watchdog_.reset();
  for (const std::string& fault : faults_) ADD_FAILURE() << fault << "\n" << note;
}

TEST_P(StressTest, EveryByteIsOneThatCouldHaveBeenThere) {
  run();

  EXPECT_GT(reads_.load(), 0u);
  EXPECT_GT(changes_.load(), 0u);
  // Where it is left to the session, it may pay or not.
  if (setting().path >= 0 && (setting().required || setting().path != PENSTOCK_PATH_PAGECACHE)) {
    EXPECT_GT(bytes_of(setting().path), 0u) << "another path moved everything";
  }
  RecordProperty("reads", std::to_string(reads_.load()));
  RecordProperty("changes", std::to_string(changes_.load()));
  RecordProperty("refused", std::to_string(refused_.load()));
  RecordProperty("pagecache_bytes", std::to_string(bytes_of(PENSTOCK_PATH_PAGECACHE)));
  RecordProperty("seed", std::to_string(seed));
}

bool take_argument(const char* text, const char* name, std::string& value) {
  const std::size_t length = std::strlen(name);
  if (std::strncmp(text, name, length) != 0) return false;
  value = text + length;
  return true;
}

}  // namespace
}  // namespace penstock::stress

int main(int count, char** arguments) {
  using namespace penstock::stress;
  testing::InitGoogleTest(&count, arguments);
  seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) % 1000000;
  for (int i = 1; i < count; ++i) {
    std::string value;
    if (take_argument(arguments[i], "--seconds=", value)) seconds = std::atof(value.c_str());
    else if (take_argument(arguments[i], "--seed=", value)) seed = std::strtoull(value.c_str(), nullptr, 10);
    else return 2;
  }
  return RUN_ALL_TESTS();
}
