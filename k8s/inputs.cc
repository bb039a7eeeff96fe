// SPDX-License-Identifier: Apache-2.0

#include "k8s/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/common/files.h"

namespace penstock::tools::k8s {
namespace {

namespace fs = std::filesystem;

bool is_manifest(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".yaml" || ending == ".yml" || ending == ".json";
}

// Sorted by name. Does not follow links to folders, which could form a loop.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  if (error) throw Failure(fmt::format("{}: cannot be listed: {}", folder, error.message()), kUsage);
  for (; at != fs::recursive_directory_iterator() && !error; at.increment(error)) {
    std::error_code ignored;
    if (is_manifest(at->path()) && at->is_regular_file(ignored)) names.push_back(at->path().string());
    if (names.size() > kFilesMax) {
      throw Failure(fmt::format("{}: has more than {} manifests; name a folder within it", folder, kFilesMax), kUsage);
    }
  }
  if (names.empty()) throw Failure(folder + ": has no file *.yaml, *.yml or *.json", kUsage);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> files_of(const std::string& name) {
  std::error_code ignored;
  if (name == "-") return {name};
  return fs::is_directory(name, ignored) ? files_below(name) : std::vector<std::string>{name};
}

std::string text_of(const std::string& name, std::size_t bytes_max) {
  try {
    return read_bounded(name, bytes_max);
  } catch (const Failure& failure) {
    throw Failure(failure.what(), kUsage);
  }
}

}  // namespace

std::deque<Manifest> read_inputs(const std::vector<std::string>& names, Bounds each) {
  std::deque<Manifest> manifests;
  std::size_t bytes = 0, values = 0;
  for (const std::string& name : names) {
    for (const std::string& file : files_of(name)) {
      std::string text = text_of(file, each.bytes);
      bytes += text.size();
      if (bytes > kInputBytesMax) {
        throw Failure(
            fmt::format("{}: with it there are more than {} MiB to read; name fewer files", file, kInputBytesMax >> 20),
            kUsage);
      }
      manifests.push_back(read_manifest(file == "-" ? "<stdin>" : file, std::move(text), each));
      values += manifests.back().weight;
      if (values > kInputValuesMax) {
        throw Failure(fmt::format("{}: with it there are more than {} values to look at; name fewer files", file,
                                  kInputValuesMax),
                      kUsage);
      }
    }
  }
  return manifests;
}

}  // namespace penstock::tools::k8s
