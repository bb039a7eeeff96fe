// SPDX-License-Identifier: Apache-2.0

// The answer about one thing of a machine: a state, a sentence, and if something is wrong, a remedy. Every program that
// reports on a machine prints these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::facts {

enum class State : std::uint8_t {
  pass,
  warn,  // It works, and could be better; or it is off, and would work once it is switched on.
  fail,
  unknown,  // Nothing on this machine shows it.
  not_applicable
};
const char* state_name(State state);  // "pass", "warn", "fail", "unknown", "not_applicable"

enum class Layer : std::uint8_t { drivers = 1, fabric = 2, transfer = 3 };
const char* layer_title(Layer layer);

// How the bytes of a file system go, by its first path.
enum class Reach : std::uint8_t {
  none,      // The finding is about no storage.
  nowhere,   // No path may take them.
  no,        // They go through host memory.
  unknown,   // They go through host memory unless a direct path works, which only a try tells.
  once_set,  // They go through host memory until a setting is changed.
  now        // They go directly as the machine is set; the path's self-test decides.
};
const char* reach_name(Reach reach);  // "", "nowhere", "no", "unknown", "once_set", "now"

struct FindingName {
  std::string code;
  std::string subject;  // "": any finding with this code.
};

// A set of paths (penstock_path), one bit for each.
using PathSet = std::uint32_t;
constexpr PathSet path_bit(int path) { return PathSet{1} << static_cast<unsigned>(path); }

struct Finding {
  Layer layer = Layer::drivers;
  const char* code = "";  // Stable: "nvidia_fs_version".
  std::string subject;    // The thing that it was found on: "mlx5_0 port 1", "/data"; may be empty.
  std::string where;      // The storage under a folder, or the folders on a drive: "ext4 on nvme0n1"; may be empty.
  State state = State::unknown;
  std::string sentence;         // Begins in lower case, and has no full stop.
  std::string remedy;           // Begins with a capital and has a full stop; "" for a pass.
  std::string source;           // The document that says so; "" if this machine itself shows it.
  bool is_switch = false;       // A setting is all that is in the way.
  bool is_of_hardware = false;  // Only other hardware meets it, so no other step helps.
  bool stops_writes = false;    // It warns of a path that reads take, and that no write may take.
  PathSet closes = 0;           // The paths that must not be taken while it fails.
  PathSet doubts = 0;           // The paths that may or may not work while it fails: only a try shows it.
  Reach reach = Reach::none;
  std::vector<FindingName> may_follow_from;  // Findings that would explain this one, the likeliest first.
  std::optional<FindingName> follows_from;   // The one of these that fails: its repair repairs this one, too.

  FindingName name() const { return {code, subject}; }
};
using Findings = std::vector<Finding>;

// A remedy as a sentence, with a capital and a full stop: the library's own begin in lower case and have none.
std::string as_sentence(std::string remedy);
// The reason of the library's with this name (penstock_reason_name()); nothing if there is none.
std::optional<std::int32_t> reason_named(std::string_view name);
// The first reason whose name is a word of this line, such as a log's. A name that is also an ordinary word ("denied",
// "overlay") counts in brackets alone, as reports print it.
std::optional<std::int32_t> reason_in(std::string_view line);
// The numbers of all reasons that a path can have; numbers without a meaning are left out.
std::vector<std::int32_t> all_reasons();
// Makes a finding about a need of a path.
Finding need(const char* code, State state, std::string sentence, std::string remedy = "");
// Makes a finding about a setting that keeps a path off.
Finding switched_off(const char* code, std::string sentence, std::string remedy);

std::string subject_text(const Finding& finding);  // "/data (ext4 on nvme0n1)", or "".

// Says of remedies that no container can carry out, such as another kernel's, that they are the host's.
void say_where(Findings& findings, bool in_container);
// Finds for each finding that did not pass which failed one it follows from. Called once, when all findings are there.
void settle_causes(Findings& findings);
// The failed finding at the beginning of the chain that `finding` follows from; `finding` itself if it follows from
// none.
const Finding& cause_of(const Findings& findings, const Finding& finding);

// The exit code of a command that made these findings: 1 if any failed, 0 if some passed and none failed, 77 if nothing
// could be judged.
int exit_code_of(const Findings& findings);

}  // namespace penstock::facts
