// SPDX-License-Identifier: Apache-2.0

// Compares what a benchmark claims to do with the flags of its gdsio.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/checks.h"

namespace penstock::tools::k8s {
namespace {

constexpr int kContinuedMax = 50;  // The most lines of one call.

struct Call {
  int io_type = -1;    // -I: 0 and 2 read, 1 and 3 write.
  int transfer = -1;   // -x: 0, 5 and 6 use GPUDirect Storage.
  std::string intent;  // The context: its line, and the comment or echo before it.
  Place place;
};

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

// The number after a one-letter flag, "-I 0" or "-I0"; -1 for none.
int number_of(std::string_view line, std::string_view flag) {
  for (std::size_t at = line.find(flag); at != std::string_view::npos; at = line.find(flag, at + 1)) {
    if (at > 0 && !is_blank(line[at - 1])) continue;
    std::size_t digit = at + flag.size();
    while (digit < line.size() && is_blank(line[digit])) ++digit;
    if (digit < line.size() && line[digit] >= '0' && line[digit] <= '9') return line[digit] - '0';
  }
  return -1;
}

bool is_remark(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t");
  return at != std::string_view::npos && (line[at] == '#' || line.substr(at).starts_with("echo"));
}

void add_calls(const std::string& script, const Value& value, std::vector<Call>& calls) {
  std::string remark;
  int line_number = 0;
  std::size_t begin = 0;
  while (begin <= script.size()) {
    const std::size_t end = std::min(script.find('\n', begin), script.size());
    std::string line = script.substr(begin, end - begin);
    for (int i = 0; i < kContinuedMax && line.ends_with('\\') && begin + line.size() + 1 < script.size();
         ++i) {  // The call continues on the next line.
      const std::size_t next = begin + line.size() + 1;
      line = line.substr(0, line.size() - 1) + "  " + script.substr(next, script.find('\n', next) - next);
    }
    ++line_number;
    if (has_part(line, "gdsio") && !is_remark(line)) {
      const int below = value.is_block ? line_number : 0;
      calls.push_back({number_of(line, "-I"),
                       number_of(line, "-x"),
                       remark + " " + line,
                       {value.place.line + below, below > 0 ? 1 : value.place.column}});
    }
    if (is_remark(line)) remark = line;
    begin += std::max(line.size(), end - begin) + 1;
  }
}

std::vector<Call> calls_of(const Value& container) {
  std::vector<Call> calls;
  std::string words;  // The words of a list, if each is one line.
  const Value* first = nullptr;
  for (const char* key : {"command", "args"}) {
    for (const Member& member : container[key].members) {
      if (member.value->text.find('\n') != std::string::npos) {
        add_calls(member.value->text, *member.value, calls);
        continue;
      }
      if (first == nullptr) first = member.value;
      words += member.value->text + " ";
    }
  }
  if (first != nullptr) add_calls(words, *first, calls);
  return calls;
}

void check_direction(const Pod& pod, const Value& container, const Call& call, Findings& findings) {
  const std::string names = call.intent + " " + container["name"].text + " " + pod.object->name;
  const bool says_read = has_part(names, "read"), says_write = has_part(names, "writ");
  if (call.io_type < 0 || call.io_type > 3 || says_read == says_write) return;
  const bool writes = call.io_type % 2 == 1;
  if (writes == says_write) return;
  findings.add("gdsio_direction", *pod.object, call.place,
               {fmt::format("gdsio -I {} {}, and this is called a {}", call.io_type,
                            writes ? "writes over the file" : "reads", says_write ? "write" : "read")});
}

}  // namespace

void check_gdsio(const Cluster& cluster, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    for (const Value* container : pod.containers()) {
      const std::vector<Call> calls = calls_of(*container);
      for (const Call& call : calls) check_direction(pod, *container, call, findings);
      const bool uses_cpu = !calls.empty() && std::all_of(calls.begin(), calls.end(), [](const Call& call) {
        return call.transfer >= 1 && call.transfer <= 4;
      });
      if (!uses_cpu) continue;
      findings.add(
          "gdsio_transfer", *pod.object, calls[0].place,
          {fmt::format("gdsio -x {} goes through the CPU, and measures no GPUDirect Storage", calls[0].transfer)});
    }
  }
}

}  // namespace penstock::tools::k8s
