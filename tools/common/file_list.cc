// SPDX-License-Identifier: Apache-2.0

#include "tools/common/file_list.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "tools/common/failure.h"
#include "tools/common/files.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_too_many(const std::string& word) {
  throw Failure(fmt::format("{}: has more than {} files; name a folder within it", word, kFilesMost), kUsage);
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) names.push_back(at->path().string());
    if (names.size() > kFilesMost) fail_too_many(folder);
  }
  if (error) throw Failure(fmt::format("{}: cannot be listed: {}", folder, error.message()));
  if (names.empty()) throw Failure(folder + ": has no regular file");
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (names.empty()) throw Failure(pattern + ": no file has such a name");
  if (names.size() > kFilesMost) fail_too_many(pattern);
  return names;
}

}  // namespace

std::vector<std::string> files_of(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    const bool is_pattern = !exists(word) && word.find_first_of("*?[") != std::string::npos;
    for (const std::string& name : is_pattern ? matches_of(word) : std::vector{word}) {
      std::error_code ignored;
      if (!fs::is_directory(name, ignored)) {
        files.push_back(name);
        continue;
      }
      const std::vector<std::string> below = files_below(name);
      files.insert(files.end(), below.begin(), below.end());
    }
  }
  return files;
}

}  // namespace penstock::tools
