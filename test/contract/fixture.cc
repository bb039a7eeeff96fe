// SPDX-License-Identifier: Apache-2.0

#include "contract/fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <random>

#include "device/providers.h"
#include "fakes/dmabuf_machine.h"
#include "fakes/fake_gpu.h"
#include "fakes/fake_nvfs.h"
#include "fakes/fake_peer.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "fakes/vendor_machine.h"
#include "path/reasons.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

// "ext4=/path:xfs=/path", as scripts/with_filesystems exports it.
std::vector<std::pair<std::string, std::string>> pairs(const char* text, char separator) {
  std::vector<std::pair<std::string, std::string>> found;
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(separator);
    const std::string item = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (const std::size_t equals = item.find('='); equals != std::string::npos) {
      found.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    }
  }
  return found;
}

constexpr std::uint64_t kBusySeed = 11;

// Room for the largest request of the suite, and what is beside it.
constexpr std::uint64_t kDeviceBytesMin = 256 << 20;
constexpr std::uint64_t kDriveBytes = 112 << 20;
constexpr const char* kPeerAddress = "0000:03:00.0";  // On the captured machine, too.
constexpr const char* kPeerMachine = PENSTOCK_MACHINES "cmb-peer";

Result<std::unique_ptr<DeviceSet>> open_provider(const std::string& name) {
  std::string why_not;
  return provider_named(name)->open({.kind = provider_named(name)->name}, why_not);
}

// The kinds of devices available here: those that every session opens, or the others.
std::vector<std::string> devices_here(bool unasked) {
  std::vector<std::string> names;
  for (const Provider& provider : providers()) {
    if ((provider.unasked != Unasked::left) != unasked) continue;
    const Result<std::unique_ptr<DeviceSet>> set = open_provider(provider.name);
    const Result<Device*> device = set.ok() ? (*set)->device(0) : set.status();
    if (device.ok() && (*device)->facts().memory_bytes >= kDeviceBytesMin) names.emplace_back(provider.name);
  }
  return names;
}

// A file accessed by plain system calls on a separate descriptor.
class KernelFile final : public TestFile {
 public:
  // Fills in the name's Xs.
  explicit KernelFile(std::string& name) : fd_(::mkostemp(name.data(), O_CLOEXEC)), name_(name) {
    EXPECT_TRUE(fd_.valid()) << name << ": " << std::strerror(errno);
  }
  ~KernelFile() override { ::unlink(name_.c_str()); }

  UniqueFd open(int flags) override {
    UniqueFd fd(::open(name_.c_str(), flags | O_CLOEXEC));
    // A memory file system of an older kernel has no O_DIRECT at all.
    if (!fd.valid() && errno == EINVAL) fd.reset(::open(name_.c_str(), (flags & ~O_DIRECT) | O_CLOEXEC));
    return fd;
  }
  std::string content(std::uint64_t offset, std::uint64_t size) override {
    std::string content(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t moved = ::pread(fd_.get(), content.data() + got, size - got, static_cast<off_t>(offset + got));
      if (moved <= 0) break;
      got += static_cast<std::size_t>(moved);
    }
    content.resize(got);
    return content;
  }
  void set_content(const std::string& content, std::uint64_t offset) override {
    std::size_t put = 0;
    while (put < content.size()) {
      const ssize_t moved =
          ::pwrite(fd_.get(), content.data() + put, content.size() - put, static_cast<off_t>(offset + put));
      ASSERT_GT(moved, 0) << std::strerror(errno);
      put += static_cast<std::size_t>(moved);
    }
  }
  void set_size(std::uint64_t size) override {
    ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(size)), 0) << std::strerror(errno);
  }
  std::uint64_t size() override {
    struct stat status {};
    EXPECT_EQ(::fstat(fd_.get(), &status), 0);
    return static_cast<std::uint64_t>(status.st_size);
  }

 private:
  UniqueFd fd_;
  const std::string name_;  // As mkostemp() filled it in.
};

class FakeFile final : public TestFile {
 public:
  explicit FakeFile(FakeStorage& storage) : storage_(storage) {}

  UniqueFd open(int flags) override { return storage_.open_user_fd(flags); }
  std::string content(std::uint64_t offset, std::uint64_t size) override {
    return storage_.with_content([&](const std::vector<char>& bytes) {
      const std::uint64_t begin = std::min<std::uint64_t>(offset, bytes.size());
      return std::string(bytes.data() + begin, std::min<std::uint64_t>(size, bytes.size() - begin));
    });
  }
  void set_content(const std::string& content, std::uint64_t offset) override {
    storage_.with_content([&](std::vector<char>& bytes) {
      if (bytes.size() < offset + content.size()) bytes.resize(offset + content.size());
      std::memcpy(bytes.data() + offset, content.data(), content.size());
    });
  }
  void set_size(std::uint64_t size) override {
    if (storage_.type == FileType::block_device) return;  // It stays as it is.
    storage_.with_content([&](std::vector<char>& bytes) { bytes.resize(size); });
  }
  std::uint64_t size() override {
    return storage_.with_content([](const std::vector<char>& bytes) { return bytes.size(); });
  }

 private:
  FakeStorage& storage_;
};

std::vector<Fixture> kernel_places() {
  std::vector<Fixture> places;
  for (const auto& [name, path] : pairs(std::getenv("PENSTOCK_TEST_DIRS"), ':')) {
    places.push_back({.file_system = name, .directory = path});
  }
  if (places.empty()) places.push_back({.file_system = "local", .directory = testing::TempDir()});
  for (const auto& [name, reason] : pairs(std::getenv("PENSTOCK_TEST_SKIPPED_DIRS"), ';')) {
    places.push_back({.file_system = name, .missing = reason});
  }
  return places;
}

// Fixtures of paths that need no special machine, and of those whose machine is available.
std::vector<Fixture> fixtures_of_paths() {
  std::vector<Fixture> fixtures;
  for (const PathRow& row : kPaths) {
    if (!row.traits.posix || row.id == PathId::bounce) continue;
    for (const bool direct : {false, true}) {
      fixtures.push_back({.file_system = "fake", .direct = direct, .path = row.id});
    }
  }
  fixtures.push_back({.file_system = "fake", .direct = true, .device = "p2pmem", .path = PathId::p2pdma});
  fixtures.push_back({.file_system = "fake", .direct = true, .device = "fake_gpu", .path = PathId::dmabuf});
  for (const PathId path : {PathId::nvfs, PathId::vendor}) {
    Fixture fixture = kernel_places().front();
    fixture.direct = true;
    fixture.device = "p2pmem";
    fixture.path = path;
    fixtures.push_back(fixture);
  }
  return fixtures;
}

}  // namespace

std::vector<Fixture> all_fixtures() {
  std::vector<Fixture> fixtures = bounce_fixtures();
  for (Fixture& fixture : fixtures_of_paths()) fixtures.push_back(std::move(fixture));
  return fixtures;
}

std::vector<Fixture> bounce_fixtures() {
  std::vector<Fixture> fixtures = kernel_fixtures();
  std::vector<std::string> devices = devices_here(false);
  devices.emplace_back("host");
  for (const std::string& device : devices) {
    for (const bool direct : {false, true}) {
      fixtures.push_back({.file_system = "fake", .direct = direct, .device = device});
    }
  }
  return fixtures;
}

std::vector<Fixture> drive_fixtures() {
  std::vector<Fixture> fixtures = all_fixtures();
  std::erase_if(fixtures, [](const Fixture& fixture) { return !fixture.is_drive(); });
  return fixtures;
}

std::vector<Fixture> kernel_fixtures() {
  static const std::vector<std::string>& devices = *new std::vector<std::string>(devices_here(true));
  std::vector<Fixture> fixtures;
  for (const Fixture& place : kernel_places()) {
    for (const std::string& device : devices) {
      for (const bool direct : {false, true}) {
        for (const bool io_uring : {true, false}) {
          Fixture fixture = place;
          fixture.device = device;
          fixture.direct = direct;
          fixture.io_uring = io_uring;
          fixtures.push_back(fixture);
          if (direct || !io_uring) continue;
          for (const char* registering : {"at_once", "throughput", "cpu"}) {
            fixture.registering = registering;
            fixtures.push_back(fixture);
          }
        }
      }
    }
  }
  return fixtures;
}

namespace {

std::string name_of(const Fixture& fixture) {
  const std::string ring = fixture.is_fake() ? "" : fixture.io_uring ? "_uring" : "_preadv2";
  std::string name = fixture.file_system + (fixture.direct ? "_direct" : "_buffered") + ring +
                     (fixture.registering.empty() ? "" : "_" + fixture.registering) + "_" + fixture.device;
  if (fixture.path != PathId::bounce) name.append("_").append(path_name(fixture.path));
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
}

}  // namespace

void PrintTo(const Fixture& fixture, std::ostream* out) { *out << name_of(fixture); }
std::string fixture_name(const testing::TestParamInfo<Fixture>& info) { return name_of(info.param); }

ContractTest::ContractTest() = default;
ContractTest::~ContractTest() = default;

void ContractTest::SetUp() {
  if (!fixture().missing.empty()) GTEST_SKIP() << "no " << fixture().file_system << ": " << fixture().missing;
  std::unique_ptr<DeviceSet> devices = open_devices();
  session_ = std::make_unique<Session>(config(), open_storage(), std::move(devices));
  const bool needs_direct = fixture().path == PathId::vendor || fixture().path == PathId::nvfs;
  if (needs_direct && (::fcntl(open_fd().get(), F_GETFL) & O_DIRECT) == 0) {
    GTEST_SKIP() << "no direct I/O on " << fixture().file_system;
  }
  if (fixture().io_uring && session_->storage().io_uring_error() != 0) {
    GTEST_SKIP() << "io_uring is refused here: " << std::strerror(session_->storage().io_uring_error());
  }
}

Config ContractTest::config() {
  Config config = test_config({{"workers", "4"}});
  config.paths_said = !fixture().registering.empty();
  config.register_at_once = fixture().registering == "at_once";
  if (fixture().registering == "throughput") config.policy = Policy::throughput;
  if (fixture().registering == "cpu") config.policy = Policy::cpu;
  if (fixture().path != PathId::bounce) config.paths = {fixture().path, PathId::host};
  if (fixture().path == PathId::p2pdma) config.root = kPeerMachine;
  if (fixture().path == PathId::dmabuf) {
    config.dmabuf = true;
    config.scratch = dmabuf_machine_->scratch();
  }
  if (fixture().path == PathId::nvfs) {
    config.nvfs_kernel = std::make_shared<FakeNvfs>();
    config.nvfs = NvfsUse::stand_in;
  }
  if (fixture().path == PathId::vendor) {
    vendor_machine_ = std::make_unique<VendorMachine>();
    config.root = vendor_machine_->root();
    config.vendor_library = vendor_machine_->library_file();
  }
  adjust(config);
  return config;
}

std::unique_ptr<Storage> ContractTest::open_storage() {
  if (fixture().is_fake()) {
    auto storage = std::make_unique<FakeStorage>();
    storage->be_busy(kBusySeed);
    // Just written bytes of a kernel's file are resident, too. To p2pdma's self-test this would mean that the CPU
    // copied.
    storage->resident = fixture().path != PathId::p2pdma;
    if (fixture().is_drive()) {
      storage->type = FileType::block_device;
      storage->content.resize(kDriveBytes);
      dmabuf_machine_->run(*storage);
    }
    test_file_ = std::make_unique<FakeFile>(*storage);
    return storage;
  }
  name_ = fixture().directory + "/penstock_contract_XXXXXX";
  test_file_ = std::make_unique<KernelFile>(name_);
  return std::make_unique<PosixStorage>(fixture().io_uring);
}

std::unique_ptr<DeviceSet> ContractTest::open_devices() {
  if (fixture().path == PathId::dmabuf) {
    dmabuf_machine_ = std::make_unique<DmabufMachine>();
    return std::make_unique<FakeGpu>();
  }
  if (fixture().device != "p2pmem") return std::move(open_provider(fixture().device).value());
  peers_ = std::make_unique<FakePeers>();
  peers_->add(kPeerAddress, kDeviceBytesMin);
  peers_->give_each_its_own(kPeerAddress);
  return std::move(peers_->open().value());
}

void ContractTest::TearDown() {
  if (session_ != nullptr) {
    for (void* memory : memory_) device().memory().release(memory);
  }
  session_.reset();
}

UniqueFd ContractTest::open_fd(int access_mode) {
  UniqueFd fd = test_file_->open(access_mode | (fixture().direct ? O_DIRECT : 0));
  EXPECT_TRUE(fd.valid()) << std::strerror(errno);
  return fd;
}

std::uint64_t ContractTest::register_fd(const UniqueFd& fd) {
  const Result<std::uint64_t> file = session_->register_file(fd.get());
  EXPECT_TRUE(file.ok()) << describe(file.status());
  return file.ok() ? *file : 0;
}

std::byte* ContractTest::allocate(std::size_t size) {
  const Result<void*> memory = device().memory().allocate(size);
  EXPECT_TRUE(memory.ok()) << describe(memory.status());
  if (!memory.ok()) return nullptr;
  memory_.push_back(*memory);
  return static_cast<std::byte*>(*memory);
}

void ContractTest::upload(std::byte* device_memory, const std::string& content) {
  const auto queue = std::move(device().open_copy_queue(1).value());
  ASSERT_TRUE(queue->copy_to_device(device_memory, content.data(), content.size()).ok());
  ASSERT_TRUE(queue->record(0).ok());
  ASSERT_TRUE(queue->wait(0, false).ok());
}

std::string ContractTest::download(const std::byte* device_memory, std::size_t size, Device* owner) {
  std::string content(size, '\0');
  const auto queue = std::move((owner != nullptr ? *owner : device()).open_copy_queue(1).value());
  EXPECT_TRUE(queue->copy_to_host(content.data(), device_memory, size).ok());
  EXPECT_TRUE(queue->record(0).ok());
  EXPECT_TRUE(queue->wait(0, false).ok());
  return content;
}

std::uint64_t ContractTest::end_file_with(const std::string& content) {
  set_file_size(0);
  const std::uint64_t offset = fixture().is_drive() ? file_size() - content.size() : 0;
  set_file_content(content, offset);
  return offset;
}

bool ContractTest::goes_direct(std::uint64_t file) {
  const Result<FileFacts> facts = session_->file_facts(file);
  return facts.ok() && facts->opened_o_direct() && facts->can_do_o_direct();
}

bool ContractTest::goes_by(const Report& report, PathId expected) const {
  const bool may_be_bounced =
      report.reason == reason_of(Obstacle::misaligned) || report.reason == reason_of(Obstacle::holes);
  const bool was_refused = report.refused == static_cast<int>(expected) && may_be_bounced;
  if (traits_of(expected).direct && report.path == PathId::bounce && was_refused) return true;
  const bool may_be_registered = !fixture().registering.empty() || fixture().is_gpu();
  return report.path == expected || (may_be_registered && expected == PathId::bounce &&
                                     report.path == PathId::pagecache && report.direct_bytes == 0);
}

void ContractTest::expect_moved(const Outcome& outcome, std::uint64_t bytes, std::optional<PathId> path) {
  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, bytes);
  EXPECT_TRUE(goes_by(outcome.report, path.value_or(fixture().path))) << path_name(outcome.report.path);
  EXPECT_LE(outcome.report.direct_bytes, outcome.report.bytes);
}

std::string pattern(std::size_t size, std::uint64_t seed) {
  std::string content(size, '\0');
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(content.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return content;
}

}  // namespace penstock::core
