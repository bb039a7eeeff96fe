// SPDX-License-Identifier: Apache-2.0

#include "simulation/objects.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/stripes.h"
#include "simulation/asked.h"
#include "simulation/drive.h"

namespace penstock::simulation {
namespace {

constexpr std::uint64_t kStripe = 64 << 10, kSizeMax = 6 * kStripe;
constexpr unsigned kNames = 2, kTriesMax = 50;

using Bytes = std::vector<std::byte>;
// What a name may mean: nothing, or these bytes.
using Possible = std::vector<std::optional<Bytes>>;

struct Named {
  std::string path;
  bool is_striped = false;
  Possible possible{std::nullopt};
  std::optional<Bytes> published;  // A publication is under way.
  bool replaces = true;            // It does so where the name means something.
  bool may_be_held = false;        // A publication failed, and it is not known which of its steps are durable.
  Possible after_loss;             // Once power was lost.

  void note_loss() {
    after_loss = possible;
    if (published) after_loss.push_back(published);
    const Drive::Kind& kind = drive().kind();
    // An empty file holds the name meanwhile.
    if (((published && !replaces) || may_be_held) && !kind.has_links && !kind.has_kept_renames)
      after_loss.emplace_back(Bytes{});
  }
};

class Objects {
 public:
  Tally run();

 private:
  void set_up(Random& random);
  void act(unsigned number, std::uint64_t seed);
  void make(Random& random, Named& named);
  penstock_status create(Random& random, const Named& named, std::uint64_t size, penstock_file** file);
  void ask_for_too_long_a_name(const Named& named);
  bool write(Random& random, penstock_file* file, const Bytes& bytes);
  void publish(Random& random, Named& named, penstock_file* file);
  penstock_status open(const Named& named, penstock_file** file);
  void read(Random& random, const Named& named, const Possible& possible);
  void judge(const penstock_status& status, const char* what);
  void verify();

  penstock_session* session_ = nullptr;
  std::vector<Named> names_;
  Tally tally_;
};

// Why something may fail; nothing does in fair weather.
void Objects::judge(const penstock_status& status, const char* what) {
  if (status.code == 0) return;
  ++tally_.failed;
  const bool is_fault = status.domain == PENSTOCK_DOMAIN_OS && (status.code == EIO || status.code == ENOSPC);
  if (is_fault && (disk().has_had(Fault::broken) || disk().has_had(Fault::full) || disk().has_had(Fault::refused)))
    return;
  const auto is = [&](int code) { return status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == code; };
  if (is(PENSTOCK_LIMIT) || (is(PENSTOCK_NO_PROGRESS) && disk().has_had(Fault::cut_short))) return;
  if (is(PENSTOCK_OUT_OF_MEMORY) && scheduler().refuses_threads()) return;
  if (disk().has_had(Fault::ring) && is_of_a_broken_ring(status)) return;
  scheduler().fail((std::string(what) + " fails, which nothing explains: " + text_of(status)).c_str());
}

Drive::Kind draw_kind(Random& random) {
  if (random.one_in(2)) return {};
  const bool has_links = random.one_in(2);
  return {has_links && random.one_in(2), has_links, random.one_in(2), !random.one_in(4)};
}

void Objects::set_up(Random& random) {
  draw_weather(random);
  // What is left half done is seen where the drive fails now and then.
  unsigned& breaks_one_in = disk().weather[static_cast<std::size_t>(Fault::broken)];
  if (random.one_in(2)) breaks_one_in = 8;
  // What a flush was to write is lost only where the write itself has succeeded.
  else if (random.one_in(2))
    breaks_one_in = 0, disk().fails_flushes_one_in = static_cast<unsigned>(random.between(2, 4));
  drive().make(3, draw_kind(random));
  if (open_session(random, &session_).code != 0) scheduler().fail("no session opens");
  for (unsigned i = 0; i < 3 * kNames; ++i)
    names_.push_back({.path = drive().folder(0) + "/" + std::to_string(i), .is_striped = !random.one_in(4)});
  if (random.one_in(4)) return;
  drive().lose_power_at(random.between(1, random.one_in(2) ? 40 : 400), [this] {
    for (Named& named : names_) named.note_loss();
  });
}

// ---- Making ---------------------------------------------------------------------------------------------------------

penstock_status Objects::create(Random& random, const Named& named, std::uint64_t size, penstock_file** file) {
  const std::uint32_t flags =
      (named.replaces ? PENSTOCK_CREATE_REPLACE : 0) | (random.one_in(2) ? PENSTOCK_CREATE_DIRECT : 0);
  if (!named.is_striped) return penstock_file_create(session_, named.path.c_str(), 0600, flags, file);
  const char* folders[] = {drive().folder(1).c_str(), drive().folder(2).c_str(), drive().folder(0).c_str()};
  penstock_stripe_options options{};
  options.struct_size = sizeof options;
  options.folder_count = static_cast<std::uint32_t>(random.between(1, 3));
  options.folders = folders;
  options.size = size;
  options.stripe_bytes = kStripe;
  options.mode = 0600;
  options.flags = flags;
  return penstock_stripe_create(session_, named.path.c_str(), &options, file);
}

// By several requests one after the other, some of which write again what is there.
bool Objects::write(Random& random, penstock_file* file, const Bytes& bytes) {
  const Place place(session_, bytes.size(), random.one_in(2));
  if (place.base() == nullptr) return false;
  for (std::uint64_t done = 0; done < bytes.size();) {
    const std::uint64_t first = random.one_in(8) ? random.below(done + 1) : done;
    const std::uint64_t size = random.between(std::min(bytes.size() - first, done - first + 1), bytes.size() - first);
    std::byte* const memory = place.base() + Place::kGuard + (random.one_in(2) ? 4096 - Place::kGuard : 0);
    std::memcpy(memory, bytes.data() + first, size);
    Request request;
    request.op = PENSTOCK_WRITE;
    request.file = file;
    request.base = memory;
    request.size = size;
    request.file_offset = static_cast<std::int64_t>(first);
    Report report;
    const penstock_status status = penstock_transfer(&request, &report);
    ++tally_.requests;
    judge(status, "a write of an object");
    if (status.code != 0) return false;
    if (report.bytes != size) scheduler().fail("a write of an object succeeded without all of its bytes");
    done = std::max(done, first + size);
  }
  return true;
}

bool is_there_already(const penstock_status& status, const Named& named) {
  const bool may_be_there = named.possible.size() > 1 || named.possible[0];
  return status.domain == PENSTOCK_DOMAIN_OS && status.code == EEXIST && !named.replaces && may_be_there;
}

void Objects::publish(Random& random, Named& named, penstock_file* file) {
  for (std::uint64_t tries = random.between(1, 4); tries > 0; --tries) {
    const penstock_status status = penstock_file_publish(file);
    if (is_there_already(status, named)) return named.published.reset();
    judge(status, "a publication");
    if (status.code != 0) continue;
    const bool is_there = std::find(named.possible.begin(), named.possible.end(), std::nullopt) == named.possible.end();
    if (!named.replaces && is_there) scheduler().fail("a file was replaced that should not have been");
    named.possible = {std::exchange(named.published, std::nullopt)};
    named.may_be_held = false;
    return;
  }
  // It has its name, or has not.
  named.possible.push_back(std::exchange(named.published, std::nullopt));
  named.may_be_held = named.may_be_held || !named.replaces;
}

// That is told before a byte is written.
void Objects::ask_for_too_long_a_name(const Named& named) {
  penstock_file* file = nullptr;
  const penstock_status status =
      penstock_file_create(session_, (named.path + std::string(300, 'a')).c_str(), 0600, 0, &file);
  if (status.domain != PENSTOCK_DOMAIN_OS || status.code != ENAMETOOLONG)
    scheduler().fail("a file is made whose name its folder cannot have");
}

void Objects::make(Random& random, Named& named) {
  Bytes bytes(random.between(1, random.one_in(2) ? kSizeMax : 8192));
  for (std::size_t at = 0, seed = random.next(); at < bytes.size(); ++at, seed = seed * 6364136223846793005u + 1)
    bytes[at] = static_cast<std::byte>(seed >> 56);
  if (random.one_in(32)) ask_for_too_long_a_name(named);
  named.replaces = !random.one_in(4);
  penstock_file* file = nullptr;
  const penstock_status created = create(random, named, bytes.size(), &file);
  if (is_there_already(created, named)) return;
  judge(created, "making an object");
  if (created.code != 0) return;
  if (write(random, file, bytes) && !random.one_in(8)) {
    named.published = std::move(bytes);
    publish(random, named, file);
  }
  penstock_file_close(file);
}

// ---- Reading --------------------------------------------------------------------------------------------------------

penstock_status Objects::open(const Named& named, penstock_file** file) {
  if (named.is_striped) return penstock_stripe_open(session_, named.path.c_str(), 0, file);
  const int fd = ::open(named.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {PENSTOCK_DOMAIN_OS, 0, errno, "open the file"};
  const penstock_status status = penstock_file_register(session_, fd, file);
  ::close(fd);
  return status;
}

// All bytes of the object.
void Objects::read(Random& random, const Named& named, const Possible& possible) {
  penstock_file* file = nullptr;
  const penstock_status opened = open(named, &file);
  if (opened.domain == PENSTOCK_DOMAIN_OS && opened.code == ENOENT) {
    if (std::find(possible.begin(), possible.end(), std::nullopt) == possible.end())
      scheduler().fail((named.path + " is gone, which was published").c_str());
    return;
  }
  const bool may_be_empty = std::find(possible.begin(), possible.end(), Bytes{}) != possible.end();
  if (opened.domain == PENSTOCK_DOMAIN_PENSTOCK && opened.code == PENSTOCK_BAD_STRIPE && may_be_empty) return;
  judge(opened, "opening an object");
  if (opened.code != 0) return;
  {
    const Place place(session_, kSizeMax, random.one_in(2));
    std::byte* const memory = place.base() + Place::kGuard;
    Request request;
    request.op = PENSTOCK_READ;
    request.file = file;
    request.base = memory;
    request.size = kSizeMax;
    Report report;
    const penstock_status status = place.base() == nullptr ? penstock_status{} : penstock_transfer(&request, &report);
    ++tally_.requests;
    judge(status, "a read of an object");
    const auto is_it = [&](const std::optional<Bytes>& one) {
      return one && one->size() == report.bytes && std::memcmp(one->data(), memory, report.bytes) == 0;
    };
    if (place.base() != nullptr && status.code == 0 && std::none_of(possible.begin(), possible.end(), is_it))
      scheduler().fail((named.path + " has other bytes than were published").c_str());
  }
  penstock_file_close(file);
}

void Objects::act(unsigned number, std::uint64_t seed) {
  Random random(seed);
  for (std::uint64_t left = random.between(2, 12); left > 0; --left) {
    Named& named = names_[number * kNames + random.below(kNames)];
    if (random.one_in(2)) make(random, named);
    else read(random, named, named.possible);
  }
}

// By other sessions, behind everything: a ring may be broken for one.
void Objects::verify() {
  const bool is_after_loss = drive().has_lost_power();
  disk().weather = {};
  disk().fails_flushes_one_in = 0;
  scheduler().refuse_threads(0);
  drive().start_anew();
  Random& random = scheduler().random();
  for (const Named& named : names_) {
    const std::uint64_t before = tally_.failed;
    for (unsigned tries = 1;; ++tries, tally_.failed = before) {
      if (tries > kTriesMax) scheduler().fail("an object cannot be read");
      if (open_session(random, &session_).code != 0) scheduler().fail("no session opens");
      read(random, named, is_after_loss ? named.after_loss : named.possible);
      penstock_session_close(session_);
      if (tally_.failed == before) break;
    }
  }
}

Tally Objects::run() {
  Random& random = scheduler().random();
  set_up(random);
  std::vector<std::thread> threads;
  for (unsigned i = 0, count = static_cast<unsigned>(random.between(1, 3)); i < count; ++i)
    threads.emplace_back([this, i, seed = random.next()] { act(i, seed); });
  if (random.one_in(8)) scheduler().refuse_threads(static_cast<unsigned>(random.between(1, 4)));
  for (std::thread& thread : threads) thread.join();
  penstock_session_close(session_);
  drive().lose_power();  // What was told as published is there all the same.
  verify();
  if (scheduler().tasks_alive() > 1) scheduler().fail("a thread outlives the session");
  return tally_;
}

}  // namespace

Tally run_objects() { return std::make_unique<Objects>()->run(); }

}  // namespace penstock::simulation
