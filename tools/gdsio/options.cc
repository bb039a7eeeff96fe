// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/options.h"

#include <fmt/format.h>
#include <getopt.h>

#include <cmath>
#include <limits>

#include "base/number_text.h"
#include "settings/words.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/units.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kIoSizeMax = std::uint64_t{1} << 30;
constexpr unsigned kThreadsMax = 1024;
constexpr unsigned kGroupsMax = 1024;
constexpr std::size_t kJobFileMax = std::size_t{1} << 20;
constexpr int kJsonOption = 1000;

[[noreturn]] void misuse(const std::string& sentence) { throw Failure(sentence, kUsage); }

template <typename Number>
Number number(std::string_view text, std::uint64_t most = std::numeric_limits<Number>::max()) {
  const auto value = core::parse_number<std::uint64_t>(text);
  if (!value || *value > most) misuse(fmt::format("'{}' is not a number from 0 to {}", text, most));
  return static_cast<Number>(*value);
}

std::uint64_t size_of(std::string_view text) {
  const auto size = parse_size(text);
  if (!size) misuse(fmt::format("'{}' is not a size; write 4096, 4K, 1M or 2G", text));
  return *size;
}

IoSizes io_sizes_of(std::string_view text) {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) return {size_of(text), size_of(text), 0};
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string_view::npos) misuse(fmt::format("'{}': sizes are written SIZE or MIN:MAX:STEP", text));
  return {size_of(text.substr(0, first)), size_of(text.substr(first + 1, second - first - 1)),
          size_of(text.substr(second + 1))};
}

double seconds_of(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(seconds > 0 && seconds < 1e8)) {
    misuse(fmt::format("'{}' is not a number of seconds above 0", text));
  }
  return seconds;
}

void set_operation(GdsioSettings& settings, const std::string& text) {
  constexpr const char* kNames[] = {"read", "write", "randread", "randwrite"};
  for (unsigned i = 0; i < 4; ++i) {
    if (text != kNames[i] && text != std::string(1, static_cast<char>('0' + i))) continue;
    settings.is_write = i % 2 == 1;
    settings.is_random = i >= 2;
    return;
  }
  misuse(fmt::format("'{}' is not an operation; write 0 (read), 1 (write), 2 (randread) or 3 (randwrite)", text));
}

bool truth_of(const std::string& text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  misuse(fmt::format("'{}' is neither 1 nor 0", text));
}

// A flag that names a target opens a new group if the current group has one; other flags keep their values.
GdsioGroup& group_for_target(GdsioSettings& settings) {
  if (settings.groups.back().has_target()) {
    if (settings.groups.size() == kGroupsMax) misuse("there are too many files and folders");
    GdsioGroup next = settings.groups.back();
    next.file = next.folder = "";
    settings.groups.push_back(next);
  }
  return settings.groups.back();
}

enum class Level : std::uint8_t { everywhere, global, job };  // The sections of a job file in which a key may stand.

struct GdsioOption {
  char flag;
  bool takes_value;
  Level level;
  std::string_view keys;  // The keys in job files, separated by blanks.
  const char* metavar;
  const char* help;
  void (*apply)(GdsioSettings&, const std::string& value);
};

using Text = const std::string&;

// A switch of the command line has a truth value in a job file.
template <bool GdsioSettings::*member>
void set_switch(GdsioSettings& settings, Text value) {
  settings.*member = truth_of(value);
}

const GdsioOption kOptions[] = {
    {'f', true, Level::job, "filename", "FILE",
     "The file; may be repeated, each with -d, -n and -w of its own behind it",
     [](GdsioSettings& settings, Text value) { group_for_target(settings).file = value; }},
    {'D', true, Level::job, "directory", "DIR",
     "A folder with a file for each thread: gdsio.0, gdsio.1, ...; write them first",
     [](GdsioSettings& settings, Text value) { group_for_target(settings).folder = value; }},
    {'d', true, Level::job, "gpu_dev_id", "GPU", "The GPU [0]",
     [](GdsioSettings& settings, Text value) { settings.groups.back().gpu = number<unsigned>(value); }},
    {'n', true, Level::job, "numa_node", "NODE", "Run the threads on this NUMA node",
     [](GdsioSettings& settings, Text value) { settings.groups.back().numa_node = number<unsigned>(value, 1023); }},
    {'w', true, Level::job, "num_threads", "N",
     "Threads; with -x 6 and 7 one thread keeps as many requests in flight [1]",
     [](GdsioSettings& settings, Text value) {
       settings.groups.back().threads = number<unsigned>(value, kThreadsMax);
     }},
    {'m', true, Level::global, "mem_type", "0..4",
     "0 device memory, 1 device memory by cuMemCreate, 2 pinned host memory, 3 malloc, 4 mmap (2 to 4 go with -x 0, 5, "
     "6 and 7) [0]",
     [](GdsioSettings& settings, Text value) {
       settings.memory = static_cast<MemoryType>(number<unsigned>(value, kMemoryTypes - 1));
     }},
    {'s', true, Level::global, "size", "SIZE", "Bytes of each file to work on (K, M, G) [reads: the whole file]",
     [](GdsioSettings& settings, Text value) { settings.size = size_of(value); }},
    {'o', true, Level::global, "start_offset", "SIZE", "Where in the file they begin [0]",
     [](GdsioSettings& settings, Text value) { settings.offset = size_of(value); }},
    {'i', true, Level::global, "bs io_size", "SIZE", "Bytes of a request, or MIN:MAX:STEP [1M]",
     [](GdsioSettings& settings, Text value) { settings.io = io_sizes_of(value); }},
    {'x', true, Level::global, "xfer_type", "0..7",
     "0 GPU_DIRECT, 1 CPU_ONLY, 2 CPU_GPU, 3 CPU_ASYNC_GPU, 4 CPU_CACHED_GPU, 5 GPU_DIRECT_ASYNC, 6 GPU_BATCH, "
     "7 GPU_BATCH_STREAM [0]",
     [](GdsioSettings& settings, Text value) {
       settings.transfer = static_cast<TransferType>(number<unsigned>(value, kTransferTypes - 1));
     }},
    {'I', true, Level::global, "rw", "0..3", "0 read, 1 write, 2 randread, 3 randwrite [0]", set_operation},
    {'T', true, Level::global, "runtime", "SECONDS", "How long to run, over and over [once over the files]",
     [](GdsioSettings& settings, Text value) { settings.seconds = seconds_of(value); }},
    {'k', true, Level::global, "random_seed", "N", "Seed of random offsets and content [1]",
     [](GdsioSettings& settings, Text value) { settings.seed = number<std::uint64_t>(value); }},
    {'O', true, Level::global, "fd_type", "0|1", "0: open the files with O_DIRECT, 1: without [0]",
     [](GdsioSettings& settings, Text value) { settings.buffered = number<unsigned>(value, 1) == 1; }},
    {'p', false, Level::global, "enable_nvlinks", "", "Without effect: there are no copies between GPUs to route",
     set_switch<&GdsioSettings::wants_nvlinks>},
    {'b', false, Level::global, "skip_bufregister", "", "Do not register the memory with cuFile",
     set_switch<&GdsioSettings::skip_register>},
    {'V', false, Level::global, "do_verify", "",
     "Write known bytes and read them back; reads: compare with them (not with -T)",
     set_switch<&GdsioSettings::verify>},
    {'U', false, Level::global, "unaligned_random", "", "Let random offsets be at any byte",
     set_switch<&GdsioSettings::is_unaligned>},
    {'R', false, Level::global, "fill_random", "", "Fill the memory with random bytes first",
     set_switch<&GdsioSettings::random_fill>},
    {'F', false, Level::global, "refill_buffer", "", "Fill it with random bytes before each write",
     set_switch<&GdsioSettings::refill>},
};

const GdsioOption* option_of(int flag) {
  for (const GdsioOption& option : kOptions) {
    if (option.flag == flag) return &option;
  }
  return nullptr;
}

void check_io(const GdsioSettings& settings) {
  const IoSizes& io = settings.io;
  if (io.smallest == 0 || io.largest > kIoSizeMax) misuse("-i: sizes are from 1 to 1G");
  if (io.largest < io.smallest || (io.largest > io.smallest && io.step == 0)) {
    misuse("-i: MIN:MAX:STEP needs a MAX of at least MIN, and a STEP");
  }
  constexpr auto kLargestFile = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (settings.offset > kLargestFile || settings.size > kLargestFile - settings.offset) {
    misuse("-o and -s reach past the largest file");
  }
  if (settings.is_unaligned && !settings.is_random) misuse("-U goes with -I 2 or 3");
}

void check_settings(const GdsioSettings& settings) {
  unsigned threads = 0;
  for (const GdsioGroup& group : settings.groups) {
    if (!group.has_target()) misuse("there is neither a file (-f) nor a folder (-D)");
    if (!group.file.empty() && !group.folder.empty()) misuse("-f and -D exclude one another");
    if (group.threads == 0 || group.threads > kThreadsMax) misuse(fmt::format("-w: from 1 to {}", kThreadsMax));
    threads += group.threads;
  }
  if (threads > kThreadsMax) misuse(fmt::format("{} threads are too many; at most {}", threads, kThreadsMax));
  check_io(settings);
  if (settings.memory != MemoryType::device && !settings.calls_cufile()) {
    misuse("-m 1 to 4 go with -x 0, 5, 6 and 7");
  }
}

std::string read_job_file(const std::string& path) {
  std::string text;
  try {
    text = read_bounded(path, kJobFileMax);
  } catch (const Failure& failure) {
    misuse(fmt::format("cannot read the job file: {}", failure.what()));
  }
  if (text.size() > kJobFileMax) misuse(fmt::format("the job file '{}' is too large", path));
  return text;
}

// Reads a job file, line by line. Keys of a job may also stand in [global], for the jobs that do not set them.
class JobReader {
 public:
  void line(std::string_view text) {
    text = core::trim(text.substr(0, text.find('#')));
    if (text.empty()) return;
    if (text.front() == '[') return section(text);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) misuse("a line is [section], key=value or # comment");
    set(core::trim(text.substr(0, equals)), std::string(core::trim(text.substr(equals + 1))));
  }

  GdsioSettings finish() {
    if (jobs_.empty()) misuse("there is no [job...] section");
    settings_.groups = jobs_;
    check_settings(settings_);
    return settings_;
  }

 private:
  void section(std::string_view text) {
    if (text.back() != ']') misuse("a section's name ends with ']'");
    const std::string_view name = core::trim(text.substr(1, text.size() - 2));
    if (name == "global") {
      if (!jobs_.empty()) misuse("[global] must come before the jobs");
      place_ = Level::global;
    } else if (name.starts_with("job")) {
      if (jobs_.size() == kGroupsMax) misuse("there are too many jobs");
      place_ = Level::job;
      jobs_.push_back(defaults_);
    } else {
      misuse(fmt::format("there is no section [{}]; write [global] or [job1]", name));
    }
  }

  void set(std::string_view key, const std::string& value) {
    if (place_ == Level::everywhere) misuse("there is a key before the first section");
    if (key == "name") return;
    for (const GdsioOption& option : kOptions) {
      if (!core::any_word(option.keys, [&](std::string_view word) { return word == key; })) continue;
      if (option.level == Level::global && place_ == Level::job) {
        misuse(fmt::format("'{}' holds for all jobs, so it belongs to [global]", key));
      }
      GdsioGroup& group = place_ == Level::job ? jobs_.back() : defaults_;
      if (key == "filename" || key == "directory") {
        if (place_ == Level::global) misuse(fmt::format("'{}' belongs to a job", key));
        if (group.has_target()) misuse("a job has one file or folder");
      }
      settings_.groups = {group};
      option.apply(settings_, value);
      group = settings_.groups.back();
      return;
    }
    misuse(fmt::format("there is no key '{}'", key));
  }

  GdsioSettings settings_;
  GdsioGroup defaults_;
  std::vector<GdsioGroup> jobs_;
  Level place_ = Level::everywhere;
};

GdsioSettings parse_flags(int argc, char** argv, bool& wants_help) {
  GdsioSettings settings;
  settings.groups.emplace_back();
  std::string flags = ":hBS";
  for (const GdsioOption& option : kOptions) {
    flags += option.flag;
    if (option.takes_value) flags += ':';
  }
  const option long_options[] = {
      {"help", no_argument, nullptr, 'h'}, {"json", no_argument, nullptr, kJsonOption}, {nullptr, 0, nullptr, 0}};
  opterr = 0;
  optind = 0;
  for (int flag = 0; (flag = getopt_long(argc, argv, flags.c_str(), long_options, nullptr)) != -1;) {
    if (flag == 'h') wants_help = true;
    if (flag == kJsonOption) settings.json = true;
    if (flag == ':') misuse(fmt::format("-{} needs a value", static_cast<char>(optopt)));
    if (flag == '?') {
      misuse(optopt > ' ' && optopt < kJsonOption ? fmt::format("there is no flag -{}", static_cast<char>(optopt))
                                                  : fmt::format("there is no option {}", argv[optind - 1]));
    }
    if (flag == 'B' || flag == 'S') {
      throw Failure(fmt::format("-{} is not served: NVIDIA does not say what it means", static_cast<char>(flag)),
                    kNotApplicable);
    }
    const GdsioOption* option = option_of(flag);
    if (option == nullptr) continue;
    try {
      option->apply(settings, option->takes_value ? optarg : "1");
    } catch (const Failure& failure) {
      misuse(fmt::format("-{}: {}", option->flag, failure.what()));
    }
  }
  return settings;
}

}  // namespace

std::string gdsio_help() {
  std::string text =
      "Measure reads or writes of files, with the flags and the result line of NVIDIA's gdsio\n"
      "Usage: gdsio (-f FILE | -D DIR) [flags]\n"
      "       gdsio JOBFILE [--json]\n\n"
      "  -h, --help       Print this help\n"
      "      --json       Print JSON\n";
  for (const GdsioOption& option : kOptions) {
    text += fmt::format("  -{} {:<13} {}\n", option.flag, option.metavar, option.help);
  }
  text +=
      "\nThe keys of a job file, in [global]: xfer_type rw bs size runtime do_verify skip_bufregister enable_nvlinks\n"
      "random_seed refill_buffer fill_random unaligned_random start_offset io_size mem_type fd_type; in [job1], "
      "[job2],\n"
      "...: filename or directory, gpu_dev_id, num_threads, numa_node. # begins a comment.\n\n"
      "Examples:\n"
      "  gdsio -f /mnt/data/file -d 0 -w 4 -s 1G -i 1M -x 0 -I 1      write a file from GPU memory, then:\n"
      "  gdsio -f /mnt/data/file -d 0 -w 4 -s 1G -i 1M -x 0 -I 0      read it\n"
      "  gdsio -D /mnt/data -d 0 -w 8 -s 1G -i 4K -x 6 -I 2 -T 10     random reads in batches for ten seconds\n"
      "  gdsio -f a -d 0 -w 2 -f b -d 1 -w 2 -s 1G -i 1M              two files, two GPUs\n"
      "Exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable on this machine.\n";
  return text;
}

GdsioSettings parse_gdsio_job(std::string_view text, const std::string& name) {
  JobReader reader;
  unsigned line = 1;
  try {
    for (; !text.empty(); ++line) {
      const std::size_t end = text.find('\n');
      reader.line(text.substr(0, end));
      text = end == std::string_view::npos ? "" : text.substr(end + 1);
    }
  } catch (const Failure& failure) {
    misuse(fmt::format("{}:{}: {}", name, line, failure.what()));
  }
  try {
    return reader.finish();
  } catch (const Failure& failure) {
    misuse(fmt::format("{}: {}", name, failure.what()));
  }
}

GdsioSettings parse_gdsio(std::vector<std::string> words, bool& wants_help) {
  words.insert(words.begin(), "gdsio");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(words.size());
  wants_help = false;
  GdsioSettings settings = parse_flags(argc, argv.data(), wants_help);
  if (wants_help) return settings;
  if (optind == argc) {
    check_settings(settings);
    return settings;
  }
  // With a job file, only --json may be given.
  const bool is_alone = argc - optind == 1 && argc == (settings.json ? 3 : 2);
  const char* const file = argv[static_cast<std::size_t>(optind)];
  if (!is_alone) misuse(fmt::format("'{}': only --json may stand beside a job file", file));
  GdsioSettings job = parse_gdsio_job(read_job_file(file), file);
  job.json = settings.json;
  return job;
}

}  // namespace penstock::tools
