// SPDX-License-Identifier: Apache-2.0

// Serves the sub-commands around a session: opening it, naming the device it got, and printing a path and its reason.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/finding.h"
#include "penstock/penstock.hpp"

namespace penstock::tools {

using Json = nlohmann::ordered_json;

// Null for "".
inline Json or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

// The settings of a session. "" leaves a setting to the library, which looks at the environment (PENSTOCK_...).
struct SessionSettings {
  std::string device;
  std::string paths;
  std::string require;
  std::string direct_io;
  std::string io_uring;
  std::vector<std::pair<std::string, std::string>> more;  // Further settings by name; they override the ones above.
};

Session open_session(const SessionSettings& settings);

// Process::other_for_cufile() of programs that would be started here.
std::string other_for_cufile();

// Fails with exit code 77 if there is no such GPU.
void check_gpu(penstock_session* session, unsigned gpu);

// Why host memory stands in for a GPU: "asked for", or what is missing, with a remedy.
facts::Finding why_stand_in(penstock_session* session);
// "device: GPU 0, NVIDIA H200 (0000:17:00.0)" or "device: host memory standing in for a GPU (reason: ...)".
std::string device_line(penstock_session* session, unsigned gpu);
Json device_json(penstock_session* session, unsigned gpu);

// "bounce, not p2pdma: the kernel was built without CONFIG_PCI_P2PDMA (kernel_no_p2pdma)"
std::string path_sentence(int path, int reason, int refused_path);
// Prints to stdout, in ASCII. An object without `schema`, the version of its format, gets version 1. Bytes of file
// names that are not UTF-8 are replaced. With indent -1 all is in one line.
void print_json(const Json& json, int indent = 2);
// Describes a failure with PENSTOCK_PATH_REFUSED, to follow the file's name: the path that was required, and its
// obstacle. "" if no path refuses.
std::string refusal_text(const Session& session, const File& file, unsigned gpu, bool is_write);
// True if NVIDIA's library, as the path vendor, might be used for a file like this one. It opens files by their names.
bool nvidia_library_may_serve(const File& file, unsigned gpu);
// A line that says why the path itself is slower than it could be, or "".
std::string path_note(int path_reason);
Json path_json(int path, int reason, int refused_path);

}  // namespace penstock::tools
