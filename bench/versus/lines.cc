// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/lines.h"

#include <algorithm>

namespace penstock::versus {
namespace {

constexpr const char* kDefault = "balanced";
constexpr unsigned kReadsUntilRegistered = 3;
constexpr std::uint64_t kSmall = 4096;

Task whole(const char* what, const std::string& file, std::uint64_t size) {
  Task task;
  task.what = what;
  task.file = file;
  task.size = size;
  return task;
}

Entry entry(std::string side, Task task) { return {side, side, std::move(task), {}, {}}; }

// The same, on a handle that stays open and has read the file before.
Entry kept(Entry entry) {
  Task open = entry.task, read = entry.task, close = entry.task;
  open.what = "open";
  read.what = "read";
  read.times = kReadsUntilRegistered;
  close.what = "close";
  entry.prepare = {open, read};
  entry.finish = {close};
  return entry;
}

Measure at_least(const std::string& ours, const std::string& rival, Figure figure, std::optional<double> target) {
  return {ours, rival, figure, target, true};
}
Measure at_most(const std::string& ours, const std::string& rival, Figure figure, std::optional<double> target) {
  return {ours, rival, figure, target, false};
}

std::vector<Entry> by_every_side(const Task& task) {
  std::vector<Entry> entries;
  for (const char* policy : kPolicies) entries.push_back(entry(policy, task));
  entries.push_back(entry(kRival, task));
  return entries;
}

Entry link_entry(Task task) {
  task.what = "link";
  Entry link = entry(kDefault, std::move(task));
  link.name = "link, pinned";
  return link;
}

// Lines a to c: the page cache into device memory, on a fresh handle each time.
Contest first_read(const Files& files, const Effort& effort) {
  Contest contest{
      .lines = "abc", .title = "first read of the file, one call", .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  const Task read = whole("read", files.data, effort.size);
  contest.entries = by_every_side(read);
  contest.entries.push_back(link_entry(read));
  contest.measures = {at_least("throughput", kRival, Figure::gb_per_s, 2.0),
                      at_least("throughput", "link, pinned", Figure::gb_per_s, 0.85),
                      at_least("cpu", kRival, Figure::gb_per_s, 1.0),
                      at_most("cpu", kRival, Figure::cpu_per_gb, 0.30),
                      at_least(kDefault, kRival, Figure::gb_per_s, {}),
                      at_most(kDefault, kRival, Figure::cpu_per_gb, {})};
  return contest;
}

// Not in the table of targets: reads in blocks, as programs do that do not read a file at once.
Contest first_read_by(const Files& files, const Effort& effort, std::uint64_t block) {
  block = std::min(block, effort.size);
  Contest contest{.lines = "p",
                  .title = "first read of the file, calls of " + std::to_string(block >> 20) + " MiB",
                  .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  Task read = whole("read", files.data, effort.size);
  read.block = block;
  contest.entries = by_every_side(read);
  for (const char* policy : kPolicies) {
    contest.measures.push_back(at_least(policy, kRival, Figure::gb_per_s, {}));
    contest.measures.push_back(at_most(policy, kRival, Figure::cpu_per_gb, {}));
  }
  return contest;
}

Contest second_read(const Files& files, const Effort& effort) {
  Contest contest{
      .lines = "d", .title = "read of a registered file, one call", .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  const Task read = whole("read", files.data, effort.size);
  for (const Entry& one : by_every_side(read)) contest.entries.push_back(kept(one));
  contest.entries.push_back(link_entry(read));
  for (const char* policy : kPolicies) {
    const bool counts = policy == std::string(kDefault);
    const auto target = [counts](double value) { return counts ? std::optional(value) : std::nullopt; };
    contest.measures.push_back(at_least(policy, "link, pinned", Figure::gb_per_s, target(0.97)));
    contest.measures.push_back(at_most(policy, kRival, Figure::cpu_per_gb, target(0.15)));
  }
  return contest;
}

Contest latency(const Files& files, const Effort& effort, const char* ours, std::uint64_t block, bool warm) {
  Contest contest{.lines = "e",
                  .title = std::to_string(block >> 10) + " KiB read, " +
                           (warm ? "warm: the handle has read the file" : "fresh handle, fresh range"),
                  .shown = {Figure::p50_us, Figure::p99_us}};
  Task task = whole("latency", files.data, effort.size);
  task.block = block;
  task.times = effort.times;
  for (const char* side : {ours, kRival}) {
    contest.entries.push_back(warm ? kept(entry(side, task)) : entry(side, task));
  }
  contest.measures = {at_most(ours, kRival, Figure::p50_us, 0.65), at_most(ours, kRival, Figure::p99_us, 0.80)};
  if (ours != std::string(kDefault)) return contest;  // The short comparison only has the two libraries.
  Task copies = task;
  copies.what = "latency copies";
  contest.entries.push_back({"pread and copy", ours, copies, {}, {}});
  contest.measures.push_back(at_most(ours, "pread and copy", Figure::p50_us, {}));
  return contest;
}

Contest batch(const Files& files, const Effort& effort) {
  Contest contest{.lines = "f", .title = "batches of 128 random 4 KiB reads", .shown = {Figure::kiops, Figure::cpu_us}};
  Task task = whole("batch", files.data, effort.size);
  task.block = kSmall;
  task.depth = 128;
  task.seconds = effort.seconds;
  Task queue = task;
  queue.what = "queues";
  queue.threads = 1;
  contest.entries = {entry(kDefault, task), entry(kRival, task), {"one queue, depth 128", kDefault, queue, {}, {}}};
  contest.measures = {at_least(kDefault, kRival, Figure::kiops, 25),
                      at_least(kDefault, "one queue, depth 128", Figure::kiops, {})};
  return contest;
}

Contest small_threads(const Files& files, const Effort& effort) {
  Contest contest{.lines = "g", .title = "8 threads, random 4 KiB reads", .shown = {Figure::kiops, Figure::cpu_us}};
  Task task = whole("threads", files.data, effort.size);
  task.block = kSmall;
  task.threads = 8;
  task.depth = 32;  // Depth of the queues; the others spread their reads over as many slots.
  task.seconds = effort.seconds;
  Task queues = task, copies = task;
  queues.what = "queues";
  Task deep = queues;
  deep.depth = 64;
  copies.what = "copies";
  contest.entries = {{"cuFileRead", kDefault, task, {}, {}},
                     {"queue, depth 32", kDefault, queues, {}, {}},
                     {"queue, depth 64", kDefault, deep, {}, {}},
                     {"pread and copy", kDefault, copies, {}, {}},
                     {"rival's cuFileRead", kRival, task, {}, {}}};
  contest.measures = {at_least("queue, depth 32", "pread and copy", Figure::kiops, 3),
                      at_least("queue, depth 64", "pread and copy", Figure::kiops, {}),
                      at_least("cuFileRead", "pread and copy", Figure::kiops, 3),
                      at_least("cuFileRead", "rival's cuFileRead", Figure::kiops, {})};
  return contest;
}

// Not in the table of targets: requests between the whole file and the small ones.
Task reads_of_threads(const Files& files, const Effort& effort, unsigned threads, std::uint64_t block) {
  Task task = whole("threads", files.data, effort.size);
  task.block = block;
  task.threads = threads;
  task.seconds = effort.seconds;
  return task;
}

Contest large_threads(const Files& files, const Effort& effort, unsigned threads, std::uint64_t block) {
  block = std::min(block, effort.size / 64);
  Contest contest{
      .lines = "k",
      .title = std::to_string(threads) + " threads, random reads of " + std::to_string(block >> 10) + " KiB",
      .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  const Task task = reads_of_threads(files, effort, threads, block);
  contest.entries = by_every_side(task);
  for (const char* policy : kPolicies) contest.measures.push_back(at_least(policy, kRival, Figure::gb_per_s, {}));
  return contest;
}

// Reads for which no page is registered: files that are read once, or too small.
Contest bounced(const Files& files, const Effort& effort, unsigned threads, std::uint64_t block) {
  block = std::min(block, effort.size / 64);
  Contest contest{.lines = "q",
                  .title = "bounced, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
                           ", random reads of " + std::to_string(block >> 10) + " KiB",
                  .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  const Task task = reads_of_threads(files, effort, threads, block);
  contest.entries = {entry(kBounce, task), entry(kRival, task)};
  contest.measures = {at_least(kBounce, kRival, Figure::gb_per_s, {}),
                      at_most(kBounce, kRival, Figure::cpu_per_gb, {})};
  return contest;
}

// Time from the call until its stream is synchronized.
Contest on_stream(const Files& files, const Effort& effort, std::uint64_t block) {
  block = std::min(block, effort.size);
  const bool is_whole = block == effort.size;
  Contest contest{
      .lines = "l",
      .title = (is_whole ? "the whole file" : std::to_string(block >> 10) + " KiB") + " read on a stream",
      .shown = {is_whole ? Figure::gb_per_s : Figure::p50_us, is_whole ? Figure::cpu_per_gb : Figure::p99_us}};
  Task task = whole("stream", files.data, effort.size);
  task.block = block;
  task.times = is_whole ? 3 : std::max(effort.times / 4, 1u);
  contest.entries = {kept(entry(kDefault, task)), kept(entry(kRival, task))};
  if (is_whole) {
    contest.measures = {at_least(kDefault, kRival, Figure::gb_per_s, {})};
  } else {
    contest.measures = {at_most(kDefault, kRival, Figure::p50_us, {}), at_most(kDefault, kRival, Figure::p99_us, {})};
  }
  return contest;
}

// NVIDIA's library takes at most about 500 at a time, so these are compared with plain copies.
Contest on_many_streams(const Files& files, const Effort& effort) {
  Contest contest{.lines = "l", .title = "4 KiB reads queued on 8 streams", .shown = {Figure::kiops, Figure::cpu_us}};
  Task task = whole("streams", files.data, effort.size);
  task.block = kSmall;
  task.threads = 8;
  task.seconds = effort.seconds;
  Task copies = task;
  copies.what = "stream copies";
  contest.entries = {entry(kDefault, task), {"pread and copy", kDefault, copies, {}, {}}};
  contest.measures = {at_least(kDefault, "pread and copy", Figure::kiops, {})};
  return contest;
}

Contest write(const Files& files, const Effort& effort, const char* ours, bool fresh) {
  Contest contest{.lines = "h",
                  .title = fresh ? "write, new file, page cache" : "write over it, page cache",
                  .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  for (const char* side : {ours, kRival}) {
    Task task = whole("write", files.written[side == kRival ? 1 : 0], effort.size / 2);
    task.fresh = fresh;
    Entry one = entry(side, task);
    one.prepare = {whole("load", files.data, effort.size / 2)};
    contest.entries.push_back(std::move(one));
  }
  contest.measures = {at_least(ours, kRival, Figure::gb_per_s, fresh ? std::optional(1.3) : std::nullopt),
                      at_most(ours, kRival, Figure::cpu_per_gb, {})};
  return contest;
}

Contest cold_read(const Files& files, const Effort& effort) {
  Contest contest{
      .lines = "i", .title = "O_DIRECT read of a cold file", .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  Task task = whole("read", files.cold, effort.size / 2);
  task.direct = true;
  contest.cold_file = files.cold;
  contest.entries = {entry(kDefault, task), entry(kRival, task)};
  contest.measures = {at_least(kDefault, kRival, Figure::gb_per_s, 1.0),
                      at_most(kDefault, kRival, Figure::cpu_per_gb, 0.6)};
  return contest;
}

// What a program waits for before its first byte: each turn is a process of its own.
std::vector<Contest> opening(const Files& files) {
  const std::pair<const char*, const char*> kSteps[] = {{"driver open", "cuFileDriverOpen"},
                                                        {"register", "open(2) and cuFileHandleRegister"},
                                                        {"first byte", "cuFileRead of 4 KiB"}};
  std::vector<Contest> contests;
  for (const auto& [what, title] : kSteps) {
    Contest contest{
        .lines = "m", .title = std::string(title) + ", a process's first", .shown = {Figure::ms, Figure::cpu_us}};
    Task task = whole(what, files.data, kSmall);
    task.block = kSmall;
    contest.fresh_processes = true;
    contest.entries = {entry(kDefault, task), entry(kRival, task)};
    contest.measures = {at_most(kDefault, kRival, Figure::ms, 1.0)};
    contests.push_back(std::move(contest));
  }
  return contests;
}

// Chunks of the file, in pieces that lie all over device memory. Who has no call for that makes one for each.
Contest paged(const Files& files, const Effort& effort, bool write, std::uint64_t chunk, std::uint64_t piece) {
  const std::uint64_t most = write ? effort.size / 2 : effort.size;
  chunk = std::min(chunk, most);
  Contest contest{.lines = "n",
                  .title = std::string(write ? "write from" : "read into") + " paged blocks of " +
                           std::to_string(piece >> 10) + " KiB, " + std::to_string(chunk >> 20) + " MiB at once",
                  .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  Task task = whole("paged chunks", write ? files.written[0] : files.data, most / chunk * chunk);
  task.write = write;
  task.block = chunk;
  task.piece = piece;
  task.depth = 8;
  Task pieces = task;
  pieces.what = "paged pieces";
  if (write) pieces.file = files.written[1];
  contest.entries = {entry(kDefault, task), entry(kRival, pieces), link_entry(task)};
  if (!write) {
    Entry again = kept(entry(kOurs, task));  // A separate process, so that the other one has no kept handle.
    again.name = "registered file";
    contest.entries.push_back(std::move(again));
    contest.measures.push_back(at_least("registered file", "link, pinned", Figure::gb_per_s, 0.7));
  }
  const auto target = write ? std::nullopt : std::optional(0.7);
  for (const Measure& measure :
       {at_least(kDefault, "link, pinned", Figure::gb_per_s, target), at_least(kDefault, kRival, Figure::gb_per_s, {}),
        at_most(kDefault, kRival, Figure::cpu_per_gb, {})}) {
    contest.measures.push_back(measure);
  }
  return contest;
}

std::vector<Contest> all_paged(const Files& files, const Effort& effort) {
  std::vector<Contest> contests;
  for (const std::uint64_t piece : {16u << 10, 64u << 10}) {
    for (const std::uint64_t chunk : {2u << 20, 16u << 20}) {
      contests.push_back(paged(files, effort, false, chunk, piece));
      contests.push_back(paged(files, effort, true, chunk, piece));
    }
  }
  return contests;
}

Contest many_gpus(const Files& files, const Effort& effort, bool again) {
  Contest contest{.lines = "j",
                  .title = std::to_string(effort.ranks) + " processes, a GPU and a file each, " +
                           (again ? "registered files" : "first pass"),
                  .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  Task task = whole("read", files.ranks, effort.rank_size);
  task.times = again ? kReadsUntilRegistered : 1;
  contest.ranks = effort.ranks;
  for (const Entry& one : by_every_side(task)) contest.entries.push_back(again ? kept(one) : one);
  if (again) contest.entries.push_back(link_entry(task));
  for (const char* policy : kPolicies) {
    const bool counts = policy == std::string(kDefault);
    const auto target = [counts](double value) { return counts ? std::optional(value) : std::nullopt; };
    contest.measures.push_back(at_least(policy, kRival, Figure::gb_per_s, target(again ? 3.0 : 1.2)));
    contest.measures.push_back(at_most(policy, kRival, Figure::cpu_per_gb, again ? std::nullopt : target(0.25)));
  }
  return contest;
}

// One process, which has a GPU and a file for each rank.
Contest every_gpu(const Files& files, const Effort& effort, bool again) {
  const std::string all = std::to_string(effort.ranks) + " GPUs";
  Contest contest{.lines = "o",
                  .title = std::string("one process, files of its GPUs, ") + (again ? "registered" : "first pass"),
                  .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  contest.every_gpu = true;
  Task task = whole("gpus", files.ranks, effort.rank_size);
  task.depth = effort.ranks;
  task.fresh = !again;
  task.times = again ? kReadsUntilRegistered : 1;
  for (const auto& [name, count] : {std::pair{std::string("one GPU"), 1u}, std::pair{all, effort.ranks}}) {
    task.threads = count;
    Entry one{name, kDefault, task, {}, {}};
    if (again) one.prepare = {task};
    for (unsigned rank = 0; again && rank < effort.ranks; ++rank) {
      one.finish.push_back(whole("close", rank_file(files.ranks, rank, effort.ranks), effort.rank_size));
    }
    contest.entries.push_back(std::move(one));
  }
  contest.measures = {at_least(all, "one GPU", Figure::gb_per_s, again ? std::optional(1.8) : std::nullopt),
                      at_most(all, "one GPU", Figure::cpu_per_gb, {})};
  return contest;
}

}  // namespace

std::vector<Contest> all_lines(const Files& files, const Effort& effort) {
  std::vector<Contest> lines = {first_read(files, effort), first_read_by(files, effort, 2 << 20),
                                first_read_by(files, effort, 16 << 20), second_read(files, effort)};
  for (const bool warm : {false, true}) {
    for (const std::uint64_t kib : {4u, 64u, 256u}) lines.push_back(latency(files, effort, kDefault, kib << 10, warm));
  }
  lines.push_back(batch(files, effort));
  lines.push_back(small_threads(files, effort));
  lines.push_back(large_threads(files, effort, 4, 16 << 20));
  lines.push_back(large_threads(files, effort, 16, 1 << 20));
  for (const std::uint64_t kib : {512u, 1024u, 2048u, 4096u, 8192u, 16384u, 32768u}) {
    lines.push_back(bounced(files, effort, 1, kib << 10));
  }
  lines.push_back(bounced(files, effort, 4, 16 << 20));
  lines.push_back(bounced(files, effort, 16, 2 << 20));
  for (const bool fresh : {true, false}) lines.push_back(write(files, effort, kDefault, fresh));
  lines.push_back(cold_read(files, effort));
  for (const std::uint64_t kib : {std::uint64_t{4}, std::uint64_t{64}, std::uint64_t{1024}, effort.size >> 10}) {
    lines.push_back(on_stream(files, effort, kib << 10));
  }
  lines.push_back(on_many_streams(files, effort));
  for (const auto& more : {opening(files), all_paged(files, effort)})
    lines.insert(lines.end(), more.begin(), more.end());
  if (effort.ranks > 1) {
    for (const bool again : {false, true}) lines.push_back(many_gpus(files, effort, again));
    for (const bool again : {false, true}) lines.push_back(every_gpu(files, effort, again));
  }
  return lines;
}

std::vector<Contest> short_lines(const Files& files, const Effort& effort) {
  Contest read{
      .lines = "a", .title = "read from the page cache, one call", .shown = {Figure::gb_per_s, Figure::cpu_per_gb}};
  const Task task = whole("read", files.data, effort.size);
  read.entries = {entry(kOurs, task), entry(kRival, task)};
  read.measures = {at_least(kOurs, kRival, Figure::gb_per_s, {}), at_most(kOurs, kRival, Figure::cpu_per_gb, {})};
  std::vector<Contest> lines = {read};
  for (const std::uint64_t kib : {4u, 64u, 256u}) lines.push_back(latency(files, effort, kOurs, kib << 10, true));
  lines.push_back(write(files, effort, kOurs, true));
  return lines;
}

}  // namespace penstock::versus
