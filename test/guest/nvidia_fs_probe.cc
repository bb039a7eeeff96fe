// SPDX-License-Identifier: Apache-2.0

// nvidia_fs_probe: asks the stand-in for nvidia-fs by its calls alone, and prints what came of it, one JSON object a
// line. It is the stand-in's own test, and shows what a client has to expect.
//
//   nvidia_fs_probe run CASE PEER TARGET MARKS FIRST   reads and writes of TARGET with memory of PEER, as peer_probe's
//   nvidia_fs_probe refuse CASE PEER FILE              each refusal, with its code; FILE is on a file system with holes
//   nvidia_fs_probe fault CASE PEER FILE               what goes wrong by the stand-in's settings
//   nvidia_fs_probe small CASE PEER FILE               what it leaves out; FILE is on a file system with blocks of 1
//   KiB nvidia_fs_probe cached CASE PEER FILE              what goes through the page cache; FILE is on ext4 without
//   extents nvidia_fs_probe count NAME                         prints the figure NAME of /proc/driver/nvidia-fs/standin
#include <signal.h>
#include <sys/wait.h>

#include <functional>
#include <vector>

#include "nvidia_fs_calls.h"

namespace penstock::guest {
namespace {

constexpr size_t kShadow = 256 * kKiB;

int open_node() { return open_or_fail("/dev/nvidia-fs0", O_RDWR); }

// All of the peer's memory that is used, from a boundary of 64 KiB on.
struct Memory {
  char* start;
  size_t bytes;
};

Memory gpu_memory(const std::string& peer) {
  char* mapped = peer_memory(peer);
  const size_t skip = (kGpuPage - reinterpret_cast<uintptr_t>(mapped) % kGpuPage) % kGpuPage;
  return {mapped + skip, kPeerBytes - kGpuPage};
}

void set(const std::string& setting, const std::string& value) {
  const std::string path = "/sys/module/nvidia_fs/parameters/" + setting;
  const int fd = open_or_fail(path.c_str(), O_WRONLY);
  if (write(fd, value.data(), value.size()) < 0) fail("set " + setting);
  close(fd);
}

long count(const std::string& wanted) {
  std::ifstream counts("/proc/driver/nvidia-fs/standin");
  long value = 0;
  for (std::string name; counts >> name >> value;) {
    if (name == wanted) return value;
  }
  return -1;
}

std::string bytes_or_error(long result) { return result < 0 ? name_of(result) : std::to_string(result); }

// ---- run ----

struct Operation {
  Piece piece;
  size_t at;  // In the device's memory.
  uint64_t ticket;
};

// As peer_probe's, in the pieces that the calls take: below 64 KiB within one GPU page, else several shadow buffers.
constexpr Operation kOperations[] = {
    {{"read", false, 64 * kKiB, 64 * kKiB}, 0, 0},
    {{"read_page", false, 4 * kKiB, 4 * kKiB}, 4 * kKiB, 0},
    {{"read_large", false, 256 * kKiB, kMiB}, 128 * kKiB, 0},
    {{"read_async", false, 128 * kKiB, 128 * kKiB}, 64 * kKiB, 7},
    {{"write", true, 2048 * kKiB, 64 * kKiB}, 0, 0},
    {{"write_page", true, 2240 * kKiB, 4 * kKiB}, 8 * kKiB, 0},
    {{"write_large", true, 2560 * kKiB, kMiB}, 128 * kKiB, 0},
    {{"write_async", true, 2304 * kKiB, 64 * kKiB}, 64 * kKiB, 8},
};

int run(const char* name, const std::string& peer, const char* target, const char* marks, uint64_t first) {
  const Memory memory = gpu_memory(peer);
  Group group = make_group(open_node(), kShadow);
  if (const long error = map_gpu(group, memory.start, memory.bytes); error != 0) fail("MAP: " + name_of(error));
  Bench bench = open_bench(name, target, marks, first);
  for (const auto& [piece, at, ticket] : kOperations) {
    measure(&bench, piece, memory.start + at, [&, piece = piece, at = at, ticket = ticket] {
      const long moved = move(group, bench.direct, piece.writes, piece.offset, piece.bytes, at, ticket);
      return group.fenced<uint32_t>(36) == 0 ? moved : -EIO;  // No read here may leave a hole.
    });
  }
  close_group(&group);
  answer(name, "unpinned", count("pinned_bytes") == 0 && count("leaked_groups") == 0 ? "" : "still pinned");
  return 0;
}

// ---- refuse ----

struct Fixture {
  const char* name;
  int node;
  Memory memory;
  const char* file;
  int fd;  // Direct, both ways.
};

Fixture open_fixture(const char* name, const std::string& peer, const char* file) {
  return {name, open_node(), gpu_memory(peer), file, open_or_fail(file, O_RDWR | O_DIRECT)};
}

Group mapped_group(const Fixture& fixture, size_t shadow = kShadow) {
  Group group = make_group(fixture.node, shadow);
  if (const long error = map_gpu(group, fixture.memory.start, fixture.memory.bytes); error != 0)
    fail("MAP: " + name_of(error));
  return group;
}

void say(const Fixture& fixture, const char* step, long result) { answer(fixture.name, step, bytes_or_error(result)); }

void refuse_mmap(const Fixture& fixture) {
  struct Try {
    const char* step;
    size_t bytes;
    int protection, flags;
    off_t offset;
  };
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  for (const auto& [step, bytes, protection, flags, offset] :
       {Try{"mmap_offset", kShadow, kBoth, MAP_SHARED, 4096}, Try{"mmap_private", kShadow, kBoth, MAP_PRIVATE, 0},
        Try{"mmap_read", kShadow, PROT_READ, MAP_SHARED, 0},
        Try{"mmap_exec", kShadow, kBoth | PROT_EXEC, MAP_SHARED, 0}, Try{"mmap_most", 16 * kMiB, kBoth, MAP_SHARED, 0},
        Try{"mmap_more", 16 * kMiB + kGpuPage, kBoth, MAP_SHARED, 0},
        Try{"mmap_odd", kGpuPage + kPage, kBoth, MAP_SHARED, 0}, Try{"mmap_page", kPage, kBoth, MAP_SHARED, 0}}) {
    void* got = mmap(nullptr, bytes, protection, flags, fixture.node, offset);
    answer(fixture.name, step, got == MAP_FAILED ? name_of(-errno) : "mapped");
    if (got != MAP_FAILED) munmap(got, bytes);
  }
  Group group = make_group(fixture.node, kShadow);
  say(fixture, "munmap_part", munmap(group.shadow, kPage) == 0 ? 0 : -errno);
  say(fixture, "munmap_whole", munmap(group.shadow, kShadow) == 0 ? 0 : -errno);
}

void refuse_calls(const Fixture& fixture) {
  say(fixture, "remove", Argument{}.call(fixture.node, kRemove));
  say(fixture, "batch", Argument{}.call(fixture.node, kBatch));
  say(fixture, "no_argument", ioctl(fixture.node, 0x40047401u, nullptr) == 0 ? 0 : -errno);
}

// A change to a MAP that would succeed, each on a shadow buffer of its own.
void refuse_map(const Fixture& fixture, const char* step, const std::function<void(Argument*)>& change,
                size_t shadow = kShadow) {
  Group group = make_group(fixture.node, shadow);
  Argument map = map_argument(group, fixture.memory.start, fixture.memory.bytes);
  change(&map);
  say(fixture, step, map.call(fixture.node, kMap));
  close_group(&group);
}

void refuse_maps(const Fixture& fixture) {
  const char* gpu = fixture.memory.start;
  char* host = host_memory(2 * kGpuPage);
  refuse_map(fixture, "map", [](Argument*) {});
  refuse_map(fixture, "map_no_shadow", [](Argument* map) { map->put(16, uint64_t{0}); });
  refuse_map(fixture, "map_odd_shadow", [](Argument* map) { map->put(16, map->get<uint64_t>(16) + 8); });
  refuse_map(fixture, "map_other_memory", [&](Argument* map) { map->put(16, host); });
  say(fixture, "leaked_before", count("leaked_groups"));
  refuse_map(fixture, "map_no_fence", [](Argument* map) { map->put(32, uint64_t{0}); });
  refuse_map(fixture, "map_odd_fence", [](Argument* map) { map->put(32, map->get<uint64_t>(32) + 8); });
  refuse_map(fixture, "map_wrapping", [](Argument* map) { map->put(24, ~uint64_t{0} - 4095); });
  refuse_map(
      fixture, "map_small_shadow",
      [&](Argument* map) {
        map->put(0, int64_t{8192});
        map->put(24, gpu + 4096);
      },
      2 * kPage);
  refuse_map(fixture, "map_host_memory", [&](Argument* map) {
    map->put(0, static_cast<int64_t>(kPage));
    map->put(24, host + kGpuPage);
  });
  say(fixture, "leaked_after", count("leaked_groups"));
}

void refuse_ios(const Fixture& fixture) {
  Group group = mapped_group(fixture);
  const int reading = open_or_fail(fixture.file, O_RDONLY | O_DIRECT);
  const int writing = open_or_fail(fixture.file, O_WRONLY | O_DIRECT);
  const int buffered = open_or_fail(fixture.file, O_RDWR);
  const auto attempt = [&](const char* step, Number number, const std::function<void(Argument*)>& change) {
    Argument io = io_argument(group, fixture.fd, 0, kGpuPage, 0);
    change(&io);
    say(fixture, step, call_io(group, &io, number));
  };
  const auto putting = [](size_t at, auto value) { return [=](Argument* io) { io->put(at, value); }; };
  attempt("io", kRead, [](Argument*) {});
  attempt("io_negative", kRead, putting(8, int64_t{-4096}));
  attempt("io_odd_offset", kRead, putting(8, int64_t{512}));
  attempt("io_odd_size", kRead, putting(16, uint64_t{512}));
  attempt("io_overflow", kRead, putting(8, INT64_MAX - 4095));
  attempt("io_no_file", kRead, putting(72, int32_t{1000}));
  attempt("io_write_of_reader", kWrite, putting(72, reading));
  attempt("io_read_of_writer", kRead, putting(72, writing));
  attempt("io_read_allowed", kRead, [&](Argument* io) {
    io->put(72, writing);
    io->put(76, uint8_t{5});
  });
  attempt("io_no_inode", kRead, putting(40, uint64_t{0}));
  attempt("io_generation", kRead, putting(48, uint32_t{1}));
  attempt("io_other_inode", kRead, putting(40, uint64_t{1}));
  attempt("io_other_device", kRead, putting(56, uint32_t{77}));
  attempt("io_inner_shadow", kRead, putting(0, group.shadow + kPage));
  attempt("io_buffered", kRead, putting(72, buffered));
  attempt("io_no_ticket", kRead, putting(76, uint8_t{0}));
  attempt("io_odd_place", kRead, putting(60, uint64_t{512}));
  attempt("io_too_long", kRead, putting(16, uint64_t{fixture.memory.bytes + kPage}));
  attempt("io_behind", kRead, putting(60, uint64_t{fixture.memory.bytes}));
  attempt("io_over_boundary", kRead, putting(60, uint64_t{kPage}));
  attempt("io_still_ready", kRead, [](Argument*) {});
  close_group(&group);
}

int refuse(const char* name, const std::string& peer, const char* file) {
  const Fixture fixture = open_fixture(name, peer, file);
  refuse_calls(fixture);
  refuse_mmap(fixture);
  refuse_maps(fixture);
  refuse_ios(fixture);
  return 0;
}

// ---- fault ----

void busy(const Fixture& fixture) {
  set("async_delay_ms", "300");
  Group group = mapped_group(fixture);
  Argument first = io_argument(group, fixture.fd, 0, kGpuPage, 0, 5);
  say(fixture, "busy_first", call_io(group, &first, kRead));
  Argument second = io_argument(group, fixture.fd, 0, kGpuPage, kGpuPage);
  say(fixture, "busy_second", second.call(fixture.node, kRead));
  wait_for(group, 5);
  set("async_delay_ms", "0");
  say(fixture, "busy_ever_after", move(group, fixture.fd, false, 0, kGpuPage, 0));
  close_group(&group);
}

void refused_mapping(const Fixture& fixture) {
  set("fault_map", "12");
  Group group = make_group(fixture.node, kShadow);
  say(fixture, "map_fails", map_gpu(group, fixture.memory.start, fixture.memory.bytes));
  set("fault_map", "0");
  say(fixture, "map_again", map_gpu(group, fixture.memory.start, fixture.memory.bytes));
  close_group(&group);
  set("bar1_kib", "512");
  group = make_group(fixture.node, kShadow);
  say(fixture, "map_fits", map_gpu(group, fixture.memory.start, 8 * kGpuPage));
  Group more = make_group(fixture.node, kShadow);
  say(fixture, "map_is_full", map_gpu(more, fixture.memory.start, kGpuPage));
  set("bar1_kib", "0");
  close_group(&group);
  close_group(&more);
}

void failing_io(const Fixture& fixture) {
  Group group = mapped_group(fixture);
  const auto both = [&](const char* read, const char* write) {
    say(fixture, read, move(group, fixture.fd, false, 0, 2 * kGpuPage, 0));
    say(fixture, write, move(group, fixture.fd, true, 0, 2 * kGpuPage, 0));
  };
  set("fault_after", "1");
  set("fault_io", "5");
  set("fault_times", "2");
  both("good", "eio_write");
  both("eio_read", "good_write");
  set("fault_short", "65536");
  both("short_read", "short_write");
  say(fixture, "short_async", move(group, fixture.fd, false, 0, 2 * kGpuPage, 0, 9));
  set("fault_short", "0");
  const int empty = open_or_fail((std::string(fixture.file) + "-empty").c_str(), O_RDWR | O_DIRECT | O_CREAT | O_TRUNC);
  set("fault_times", "1");
  set("fault_io", "5");
  say(fixture, "empty_write", move(group, empty, true, 0, kPage, 0));
  struct stat facts;
  if (fstat(empty, &facts) != 0) fail("fstat");
  say(fixture, "empty_size", facts.st_size);
  close_group(&group);
}

std::string holes_of(const Group& group) {
  std::string said = std::to_string(group.fenced<uint32_t>(36));
  for (uint32_t i = 0; i < group.fenced<uint32_t>(36) && i < 4; ++i) {
    const auto first = group.fenced<uint16_t>(48 + 4 * i), blocks = group.fenced<uint16_t>(50 + 4 * i);
    said += " " + std::to_string(first) + "+" + std::to_string(blocks);
  }
  return said;
}

bool is_all(const char* memory, size_t bytes, char value) {
  for (size_t i = 0; i < bytes; ++i) {
    if (static_cast<const volatile char*>(memory)[i] != value) return false;
  }
  return true;
}

// What the call says of an asynchronous write, and what its fence page says.
std::string write_at_once(const Group& group, int fd, size_t offset, uint64_t ticket) {
  Argument io = io_argument(group, fd, offset, kGpuPage, 0, ticket);
  const std::string written = bytes_or_error(call_io(group, &io, kWrite));
  return written + ", fence " + bytes_or_error(wait_for(group, ticket));
}

// Bytes that no driver asked about: reads leave them in the shadow buffer, writes take them from there.
void unhooked(const Fixture& fixture) {
  char* gpu = fixture.memory.start;
  Group group = mapped_group(fixture);
  set("hooked", "0");
  std::memset(gpu, 0x5A, 2 * kGpuPage);
  say(fixture, "unhooked_read", move(group, fixture.fd, false, kMiB, 2 * kGpuPage, 0));
  answer(fixture.name, "unhooked_holes", holes_of(group));
  answer(fixture.name, "unhooked_gpu", is_all(gpu, 2 * kGpuPage, 0x5A) ? "untouched" : "written");
  answer(fixture.name, "unhooked_shadow", has_pattern(group.shadow, 2 * kGpuPage, kMiB, 0) ? "right" : "wrong");
  std::memset(group.shadow, 0x33, kGpuPage);
  say(fixture, "unhooked_write", move(group, fixture.fd, true, 3 * kMiB, kGpuPage, 0));
  char* host = host_memory(kGpuPage);
  if (pread(fixture.fd, host, kGpuPage, 3 * kMiB) != static_cast<ssize_t>(kGpuPage)) fail("pread");
  answer(fixture.name, "unhooked_file", is_all(host, kGpuPage, 0x33) ? "has the shadow's bytes" : "has others");
  say(fixture, "unhooked_async", move(group, fixture.fd, true, 3 * kMiB, kGpuPage, 0, 3));
  set("async_inline", "1");
  answer(fixture.name, "unhooked_at_once", write_at_once(group, fixture.fd, 3 * kMiB, 6));
  set("async_inline", "0");
  set("hooked", "1");
  close_group(&group);
}

void holes(const Fixture& fixture) {
  Group group = mapped_group(fixture);
  set("hole_every", "8");
  say(fixture, "holes_read", move(group, fixture.fd, false, kMiB, kGpuPage, 0));
  answer(fixture.name, "holes", holes_of(group));
  const char* gpu = fixture.memory.start;
  answer(fixture.name, "holes_between",
         has_pattern(gpu + 8 * kPage, 7 * kPage, kMiB + 8 * kPage, 0) ? "right" : "wrong");
  // It stops behind the first shadow buffer that has holes.
  say(fixture, "holes_many_chunks", move(group, fixture.fd, false, kMiB, 2 * kShadow, 0));
  close_group(&group);
  set("hole_every", "0");
  group = mapped_group(fixture, 16 * kMiB);
  const int sparse =
      open_or_fail((std::string(fixture.file) + "-sparse").c_str(), O_RDWR | O_DIRECT | O_CREAT | O_TRUNC);
  if (ftruncate(sparse, kMiB) != 0) fail("ftruncate");
  say(fixture, "sparse_write", move(group, sparse, true, kGpuPage, kGpuPage, 0));
  say(fixture, "sparse_read", move(group, sparse, false, 0, kMiB, 0));
  answer(fixture.name, "sparse_holes", holes_of(group));
  if (ftruncate(sparse, 2 * kGpuPage - 1000) != 0) fail("ftruncate");
  say(fixture, "end_read", move(group, sparse, false, kGpuPage, 2 * kGpuPage, 0));
  say(fixture, "behind_end", move(group, sparse, false, 4 * kGpuPage, kGpuPage, 0));
  close_group(&group);
}

// What happens to a process that does what NVIDIA's module answers with an assertion.
std::string end_of(const std::function<void()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    act();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "ended";
}

void assertions(const Fixture& fixture) {
  answer(fixture.name, "long_async", end_of([&] {
           Group group = mapped_group(fixture);
           move(group, fixture.fd, false, 0, 2 * kShadow, 0, 4);
         }));
  answer(fixture.name, "no_blocks", end_of([&] {
           Group group = make_group(fixture.node, kShadow);
           Argument map = map_argument(group, fixture.memory.start, fixture.memory.bytes);
           map.put(40, uint32_t{0});
           map.call(fixture.node, kMap);
         }));
  Group group = mapped_group(fixture);
  answer(fixture.name, "child", end_of([&] {
           // It has no shadow buffer of its parent's.
           Argument io;
           io.put(0, group.shadow);
           raise(move(group, fixture.fd, false, 0, kPage, 0) == -EINVAL ? SIGUSR1 : SIGUSR2);
         }));
  close_group(&group);
  say(fixture, "assertions", count("assertions"));
}

// A process with one thread that ends while its request is under way.
void lost(const Fixture& fixture) {
  const long alone = count("async_alone"), lost_before = count("lost_pins");
  set("async_delay_ms", "100");
  answer(fixture.name, "ends", end_of([&] {
           Group group = mapped_group(fixture);
           Argument read = io_argument(group, fixture.fd, 0, kGpuPage, 0, 5);
           call_io(group, &read, kRead);
         }));
  while (count("requests_now") > 0) usleep(1000);
  set("async_delay_ms", "0");
  say(fixture, "ends_alone", count("async_alone") - alone);
  say(fixture, "lost_pins", count("lost_pins") - lost_before);
  answer(fixture.name, "still_pinned", count("pinned_bytes") > 0 ? "yes" : "no");
}

void unloading(const Fixture& fixture) {
  set("unloading", "1");
  const int node = open("/dev/nvidia-fs1", O_RDWR | O_CLOEXEC);
  say(fixture, "unloading_open", node < 0 ? -errno : 0);
  say(fixture, "unloading_call", Argument{}.call(fixture.node, kRemove));
  set("unloading", "0");
}

int fault(const char* name, const std::string& peer, const char* file) {
  const Fixture fixture = open_fixture(name, peer, file);
  unhooked(fixture);
  holes(fixture);
  failing_io(fixture);
  refused_mapping(fixture);
  busy(fixture);
  assertions(fixture);
  lost(fixture);
  unloading(fixture);
  return 0;
}

// ---- small, cached ----

// A file of 16 blocks of 4 KiB, the second of which has one KiB of data.
int small(const char* name, const std::string& peer, const char* file) {
  const int buffered = open_or_fail(file, O_RDWR | O_CREAT | O_TRUNC);
  char* host = host_memory(kKiB);
  fill_pattern(host, kKiB, kPage + kKiB, 0);
  if (ftruncate(buffered, kGpuPage) != 0 || pwrite(buffered, host, kKiB, kPage + kKiB) != kKiB || fsync(buffered) != 0)
    fail(std::string("make ") + file);
  const Fixture fixture = open_fixture(name, peer, file);
  const char* gpu = fixture.memory.start + kPage;
  Group group = mapped_group(fixture);
  std::memset(fixture.memory.start, 0x5A, kGpuPage);
  say(fixture, "read", move(group, fixture.fd, false, 0, kGpuPage, 0));
  answer(name, "holes", holes_of(group));
  answer(name, "data", has_pattern(gpu + kKiB, kKiB, kPage + kKiB, 0) ? "right" : "wrong");
  const bool is_old = is_all(gpu, kKiB, 0x5A) && is_all(gpu + 2 * kKiB, 2 * kKiB, 0x5A);
  answer(name, "zeros", is_old ? "left out" : "written");
  close_group(&group);
  return 0;
}

int cached(const char* name, const std::string& peer, const char* file) {
  const int made = open_or_fail(file, O_RDWR | O_CREAT | O_TRUNC);
  if (ftruncate(made, kMiB) != 0) fail(std::string("make ") + file);
  const Fixture fixture = open_fixture(name, peer, file);
  Group group = mapped_group(fixture);
  std::memset(fixture.memory.start, 0x11, kGpuPage);
  std::memset(group.shadow, 0x33, kGpuPage);
  answer(name, "async", write_at_once(group, fixture.fd, kGpuPage, 3));
  char* host = host_memory(kGpuPage);
  if (pread(fixture.fd, host, kGpuPage, kGpuPage) != static_cast<ssize_t>(kGpuPage)) fail("pread");
  answer(name, "file", is_all(host, kGpuPage, 0x33) ? "has the shadow's bytes" : "has others");
  say(fixture, "sync", move(group, fixture.fd, true, 4 * kGpuPage, kGpuPage, 0));
  say(fixture, "again", move(group, fixture.fd, true, kGpuPage, kGpuPage, 0, 4));
  say(fixture, "behind_end", move(group, fixture.fd, true, kMiB, kGpuPage, 0));
  close_group(&group);
  return 0;
}

int run_words(int words_count, char** words) {
  const std::string what = words_count > 1 ? words[1] : "";
  if (what == "run" && words_count == 7)
    return run(words[2], words[3], words[4], words[5], std::strtoull(words[6], nullptr, 10));
  if (what == "refuse" && words_count == 5) return refuse(words[2], words[3], words[4]);
  if (what == "fault" && words_count == 5) return fault(words[2], words[3], words[4]);
  if (what == "small" && words_count == 5) return small(words[2], words[3], words[4]);
  if (what == "cached" && words_count == 5) return cached(words[2], words[3], words[4]);
  if (what == "count" && words_count == 3) return std::printf("%ld\n", count(words[2])) < 0;
  std::fprintf(
      stderr,
      "usage: nvidia_fs_probe run|refuse|fault|small|cached|count ...; the head of nvidia_fs_probe.cc says more\n");
  return 2;
}

}  // namespace
}  // namespace penstock::guest

int main(int count, char** words) { return penstock::guest::run_words(count, words); }
