// SPDX-License-Identifier: Apache-2.0

#include "tools/run/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tools/common/units.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kReportsMax = 16;  // The most shown; the others are counted.
constexpr std::size_t kFilesMax = 8;
// A program reads up to this much for itself: Python's modules are some megabytes.
constexpr std::uint64_t kNextToNothing = 16 << 20;

const char* plural(std::size_t count) { return count == 1 ? "" : "es"; }

// The sums over all processes.
struct Reading {
  std::uint64_t call_bytes = 0;
  std::uint64_t storage_bytes = 0;
  std::uint64_t write_call_bytes = 0;
  std::map<std::string, FileSeen> files;
  bool has_io_uring = false, has_aio = false, has_torch = false, has_kvikio = false;
};

Reading reading_of(const Account& account) {
  Reading all;
  for (const ProcessSeen& process : account.processes) {
    all.call_bytes += process.read_call_bytes;
    all.storage_bytes += process.storage_bytes;
    all.write_call_bytes += process.write_call_bytes;
    all.has_io_uring |= process.has_io_uring;
    all.has_aio |= process.has_aio;
    all.has_torch |= process.has_torch;
    all.has_kvikio |= process.has_kvikio;
    for (const auto& [path, file] : process.files) {
      FileSeen& known = all.files.try_emplace(path, file).first->second;
      known.is_mapped |= file.is_mapped;
      known.is_direct |= file.is_direct;
    }
  }
  return all;
}

bool any_file(const Reading& reading, bool FileSeen::*what) {
  return std::any_of(reading.files.begin(), reading.files.end(), [&](const auto& file) { return file.second.*what; });
}

// The ways to read that were seen, as "mmap and read()".
std::vector<std::string> ways_of(const Reading& reading) {
  std::vector<std::string> ways;
  if (any_file(reading, &FileSeen::is_mapped)) ways.emplace_back("mmap");
  if (reading.has_io_uring) ways.emplace_back("io_uring");
  if (reading.has_aio) ways.emplace_back("libaio");
  if (any_file(reading, &FileSeen::is_direct)) ways.emplace_back("O_DIRECT");
  if (reading.call_bytes > kNextToNothing) ways.emplace_back("read()");
  return ways;
}

// Where no file was seen, the kernel's counts still tell what no drive was asked for.
std::string unseen_text(const Reading& reading) {
  if (reading.call_bytes <= kNextToNothing) return "";
  if (reading.call_bytes <= reading.storage_bytes + kNextToNothing)
    return "; whether the bytes went through the page cache or around it, no look saw";
  return fmt::format("; {} came from no drive, but from the page cache, a pipe or a socket",
                     format_size(reading.call_bytes - reading.storage_bytes));
}

// Says that no byte took a path of Penstock's, and what served instead.
std::string path_text(const Reading& reading) {
  const bool is_direct = any_file(reading, &FileSeen::is_direct);
  const bool was_seen = !reading.files.empty() && !ways_of(reading).empty();  // Else it may have been O_DIRECT.
  const bool is_cached = any_file(reading, &FileSeen::is_mapped) || (!is_direct && was_seen);
  std::string text = "  path      none of Penstock's: no call of cuFile came";
  if (is_cached) text += "; the bytes went through the page cache into host memory";
  if (is_direct) text += is_cached ? "; some" : "; the bytes went";
  if (is_direct) text += " by O_DIRECT around the page cache, into host memory";
  if (reading.files.empty()) text += unseen_text(reading);
  return text + "\n";
}

bool reads_nothing(const Reading& reading) {
  return reading.call_bytes <= kNextToNothing && reading.storage_bytes <= kNextToNothing && reading.files.empty();
}

bool has_word(const Account& account, std::string_view part) {
  return std::any_of(account.words.begin(), account.words.end(),
                     [&](const std::string& word) { return word.find(part) != std::string::npos; });
}

// The remedies that would make such a program use cuFile, or Penstock without cuFile.
std::vector<std::string> remedies_of(const Account& account, const Reading& reading) {
  std::vector<std::string> remedies;
  const auto add = [&](bool applies, const char* remedy) {
    if (applies) remedies.emplace_back(remedy);
  };
  add(has_word(account, "vllm") || has_word(account, "sglang"), "--load-format penstock, with the Python package");
  add(has_word(account, "fio"), "--ioengine=libcufile, for fio built with it");
  add(reading.has_kvikio, "KVIKIO_COMPAT_MODE=OFF: KvikIO leaves cuFile alone where it finds no nvidia-fs");
  add(reading.has_torch,
      "torch.cuda.gds; or of the package penstock, weights.load_file and weights.load_torch in place of safetensors' "
      "load_file and of torch.load");
  add(remedies.empty(),
      "a loader that calls cuFile: torch.cuda.gds, KvikIO, fastsafetensors, NIXL, DeepSpeed, LMCache, fio's engine "
      "libcufile; or the Python package penstock, which needs none");
  return remedies;
}

std::vector<std::pair<std::string, FileSeen>> largest_of(const Reading& reading) {
  std::vector<std::pair<std::string, FileSeen>> files(reading.files.begin(), reading.files.end());
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  if (files.size() > kFilesMax) files.resize(kFilesMax);
  return files;
}

std::string how(const FileSeen& file) { return file.is_mapped ? "mapped" : file.is_direct ? "open, O_DIRECT" : "open"; }

bool had(const Account& account, Maker maker) {
  const auto is_its = [&](const CuFileLibrary& library) { return library.maker == maker; };
  return std::any_of(account.processes.begin(), account.processes.end(), [&](const ProcessSeen& process) {
    return std::any_of(process.libraries.begin(), process.libraries.end(), is_its);
  });
}

// A process that was seen after it had loaded its libraries.
const ProcessSeen* loaded_process(const Account& account) {
  const auto found = std::find_if(account.processes.begin(), account.processes.end(),
                                  [](const ProcessSeen& process) { return process.has_loaded; });
  return found == account.processes.end() ? nullptr : &*found;
}

// A process that loaded the library may have started another without it, so one that was seen without counts more.
bool is_in_place(const Account& account) {
  const bool was_seen_without = had(account, Maker::other) || loaded_process(account) != nullptr;
  return !account.reports.empty() || had(account, Maker::penstock) || (!account.loaded.empty() && !was_seen_without);
}

// The reason why no process had Penstock's library; unknown if no process was seen with its libraries.
std::string why_not_in_place(const Account& account) {
  if (!account.out_of_reach.empty()) return account.out_of_reach;
  if (had(account, Maker::other)) return "another libcufile was loaded, and Penstock's was not: LD_PRELOAD was dropped";
  if (const ProcessSeen* const process = loaded_process(account)) {
    return fmt::format("LD_PRELOAD was dropped: process {} ({}) had its libraries, and not Penstock's", process->pid,
                       process->command);
  }
  return "Penstock's libcufile was put in front; whether it was in place cannot be known, since the program ended "
         "before a look";
}

std::string why_not(const Account& account) {
  if (!is_in_place(account)) return why_not_in_place(account);
  if (account.reports.empty() && !had(account, Maker::penstock)) {
    return fmt::format(
        "process {} had loaded Penstock's libcufile, and did not call it; whether a program that it "
        "started or became had it cannot be known, since all ended before a look",
        account.loaded.begin()->first);
  }
  return "Penstock's libcufile was in place, and the program did not call it";
}

std::string nothing_text(const Account& account) {
  const Reading reading = reading_of(account);
  const std::string& name = account.words[0];
  const std::string why = "  why       " + why_not(account) + "\n" + path_text(reading);
  if (reads_nothing(reading)) {
    return fmt::format("penstock run: nothing went through cuFile: {} read next to nothing ({})\n", name,
                       format_size(reading.call_bytes)) +
           why + "  instead   give it work that reads files: nothing can be told of this\n";
  }
  const std::vector<std::string> ways = ways_of(reading);
  std::string text = fmt::format("penstock run: nothing went through cuFile: {} reads with {}\n", name,
                                 ways.empty() ? "calls that were not seen" : fmt::format("{}", fmt::join(ways, ", "))) +
                     why;
  text += fmt::format("  read      {} by read() and its like; {} came from storage, by whatever calls\n",
                      format_size(reading.call_bytes), format_size(reading.storage_bytes));
  if (reading.write_call_bytes > kNextToNothing) {
    text += fmt::format("  wrote     {} by write() and its like\n", format_size(reading.write_call_bytes));
  }
  const auto files = largest_of(reading);
  if (files.empty() && reading.call_bytes > kNextToNothing) {
    text += "  files     none was open at a look: they are seen by looking every few milliseconds\n";
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    text += fmt::format("  {:<9} {:>11}  {:<14}  {}\n", i == 0 ? "files" : "", format_size(files[i].second.bytes),
                        how(files[i].second), files[i].first);
  }
  for (const std::string& remedy : remedies_of(account, reading)) text += "  instead   " + remedy + "\n";
  return text;
}

bool has_session(const ProcessSeen& process) { return process.moved.has_value(); }

bool used_cufile(const Account& account) {
  return !account.reports.empty() || std::any_of(account.processes.begin(), account.processes.end(), has_session);
}

// Names processes that still run, and those that used Penstock and wrote no report.
std::string silent_text(const Account& account) {
  std::string text;
  for (const ProcessSeen& process : account.processes) {
    const bool is_silent = has_session(process) && !account.reports.contains(process.pid);
    if (!is_silent && !process.is_running) continue;
    text += fmt::format("penstock run: process {} ({}) {}", process.pid, process.command,
                        process.is_running ? fmt::format("still runs, and its report at its end is lost: set "
                                                         "PENSTOCK_REPORT=FILE to get it, or see 'penstock stats {}'",
                                                         process.pid)
                                           : "had a session open and wrote no report: a signal ended it, or _exit");
    const auto [read, written] = process.moved.value_or(std::array<WayCount, 2>{});
    text +=
        !has_session(process)
            ? "\n"
            : fmt::format("; when it was last looked at, it had {} read and {} written in {} requests\n",
                          format_size(read.bytes), format_size(written.bytes), read.operations + written.operations);
  }
  return text;
}

std::string reports_text(const Account& account) {
  std::string text;
  std::size_t told = 0;
  for (const auto& [pid, report] : account.reports) {
    if (++told <= kReportsMax) text += report;
  }
  if (told > kReportsMax) {
    text += fmt::format("penstock run: {} more processes wrote reports; --report=FILE.json has them all\n",
                        told - kReportsMax);
  }
  return text;
}

struct LibrarySeen {
  Maker maker = Maker::unknown;
  std::size_t processes = 0;
};
// The library that wrote the report, if it is JSON.
std::string library_of(const std::string& report) {
  const Json told = Json::parse(report, nullptr, false);
  const auto library = told.is_object() ? told.find("library") : told.end();
  return library != told.end() && library->is_string() ? library->get<std::string>() : "";
}

// Libraries that were seen in processes, and libraries that wrote reports.
std::map<std::string, LibrarySeen> libraries_of(const Account& account) {
  std::map<std::string, std::set<pid_t>> processes;
  std::map<std::string, LibrarySeen> seen;
  for (const ProcessSeen& process : account.processes) {
    for (const CuFileLibrary& library : process.libraries) {
      seen[library.path].maker = library.maker;
      processes[library.path].insert(process.pid);
    }
  }
  for (const auto& [pid, report] : account.reports) {
    const std::string path = library_of(report);
    if (path.empty()) continue;
    seen[path].maker = Maker::penstock;
    processes[path].insert(pid);
  }
  for (const auto& [pid, path] : account.loaded) {
    seen[path].maker = Maker::penstock;
    processes[path].insert(pid);
  }
  for (auto& [path, library] : seen) library.processes = processes[path].size();
  return seen;
}

std::size_t processes_of(const Account& account) {
  std::set<pid_t> all;
  for (const ProcessSeen& process : account.processes) all.insert(process.pid);
  for (const auto& [pid, report] : account.reports) all.insert(pid);
  for (const auto& [pid, path] : account.loaded) all.insert(pid);
  return all.size();
}

// Null if it cannot be known.
Json in_place_json(const Account& account) {
  if (is_in_place(account)) return true;
  const bool is_known =
      !account.out_of_reach.empty() || had(account, Maker::other) || loaded_process(account) != nullptr;
  return is_known ? Json(false) : Json(nullptr);
}

Json files_json(const Reading& reading) {
  Json rows = Json::array();
  for (const auto& [path, file] : largest_of(reading)) {
    rows.push_back({{"name", path}, {"bytes", file.bytes}, {"mapped", file.is_mapped}, {"direct", file.is_direct}});
  }
  return rows;
}

Json process_json(const Account& account, const ProcessSeen& process) {
  const auto [read, written] = process.moved.value_or(std::array<WayCount, 2>{});
  return {{"pid", process.pid},
          {"command", process.command},
          {"running", process.is_running},
          {"session", has_session(process)},
          {"report", account.reports.contains(process.pid)},
          {"read_bytes", read.bytes},
          {"written_bytes", written.bytes},
          {"requests", read.operations + written.operations}};
}

std::string where_calls_go(const Account& account) {
  if (!is_in_place(account)) return why_not_in_place(account);
  const bool is_first = !account.reports.empty() || libraries_of(account).contains(account.library);
  if (is_first || !had(account, Maker::other)) return "cuFile's calls go to Penstock's library, which comes first";
  return "Penstock's library was there, but not the one that was put in front: which of them comes first cannot be "
         "known";
}

}  // namespace

std::string which_text(const Account& account) {
  std::string text;
  const std::size_t all = processes_of(account);
  for (const auto& [path, library] : libraries_of(account)) {
    text += fmt::format("penstock run: {} of {} process{} had {} mapped, which is {}\n", library.processes, all,
                        plural(all), path, library.maker == Maker::penstock ? "Penstock's" : "another's");
  }
  return text + "penstock run: " + where_calls_go(account) + "\n";
}

std::string account_text(const Account& account) {
  std::string text = used_cufile(account) ? reports_text(account) : nothing_text(account);
  text += silent_text(account);
  text += nvidia_fs_text(account.nvidia_fs);
  if (used_cufile(account) || had(account, Maker::other)) text += which_text(account);
  if (account.signal_number != 0) {
    text += fmt::format("penstock run: {} was ended by signal {} ({})\n", account.words[0], account.signal_number,
                        strsignal(account.signal_number));
  }
  return text;
}

Json account_json(const Account& account) {
  const Reading reading = reading_of(account);
  Json json = {{"schema", 1},
               {"program", account.words},
               {"exit_code", account.exit_code},
               {"signal", account.signal_number},
               {"seconds", account.seconds},
               {"used_cufile", used_cufile(account)},
               {"library", account.library},
               {"out_of_reach", account.out_of_reach},
               {"in_place", in_place_json(account)},
               {"nvidia_fs", nvidia_fs_json(account.nvidia_fs)},
               {"libraries", Json::array()},
               {"reports", Json::array()},
               {"processes", Json::array()}};
  for (const auto& [path, library] : libraries_of(account)) {
    json["libraries"].push_back(
        {{"path", path}, {"maker", maker_name(library.maker)}, {"processes", library.processes}});
  }
  for (const auto& [pid, report] : account.reports) {
    Json told = Json::parse(report, nullptr, false);
    if (!told.is_discarded()) json["reports"].push_back(std::move(told));
  }
  for (const ProcessSeen& process : account.processes) json["processes"].push_back(process_json(account, process));
  json["without_cufile"] = {{"ways", ways_of(reading)},
                            {"read_call_bytes", reading.call_bytes},
                            {"write_call_bytes", reading.write_call_bytes},
                            {"storage_bytes", reading.storage_bytes},
                            {"files", files_json(reading)},
                            {"instead", remedies_of(account, reading)}};
  return json;
}

}  // namespace penstock::tools
