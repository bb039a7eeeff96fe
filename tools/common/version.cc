// SPDX-License-Identifier: Apache-2.0

#include "tools/common/version.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace penstock::tools {
namespace {

constexpr int kSchema = 1;
constexpr const char* kLicence = "Apache-2.0";

std::string cxx_library() {
#if defined(_LIBCPP_VERSION)
  return fmt::format("libc++ {}", _LIBCPP_VERSION);
#elif defined(_GLIBCXX_RELEASE)
  return fmt::format("libstdc++ {}", _GLIBCXX_RELEASE);
#else
  return "";
#endif
}

std::string c_library() {
#if defined(__GLIBC__)
  return fmt::format("glibc {}.{}", __GLIBC__, __GLIBC_MINOR__);
#else
  return "";
#endif
}

struct Feature {
  const char* name;
  const char* what;
  bool is_there;
};
constexpr Feature kFeatures[] = {
    {"model", "the program penstock-model", PENSTOCK_HAS_MODEL},
    {"versus", "penstock bench --versus", PENSTOCK_HAS_VERSUS},
    {"portable", "the C++ library linked into each file", PENSTOCK_IS_PORTABLE},
};

std::string features_text(bool there) {
  std::string text;
  for (const Feature& feature : kFeatures) {
    if (feature.is_there != there) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", feature.name, feature.what);
  }
  return text;
}

}  // namespace

std::string version_text(const char* program) {
  const std::pair<const char*, std::string> facts[] = {
      {"libraries", PENSTOCK_SONAME ", " PENSTOCK_CUFILE_SONAME},
      {"revision", PENSTOCK_REVISION},
      {"architecture", PENSTOCK_ARCHITECTURE},
      {"build type", PENSTOCK_BUILD_TYPE},
      {"compiler", PENSTOCK_COMPILER},
      {"C++ library", cxx_library()},
      {"C library", c_library()},
      {"liburing", PENSTOCK_LIBURING},
      {"sanitizers", PENSTOCK_SANITIZERS},
      {"built with", features_text(true)},
      {"built without", features_text(false)},
      {"licence", kLicence},
  };
  std::string text = fmt::format("{} {}", program, penstock_version());
  for (const auto& [name, fact] : facts) {
    if (!fact.empty()) text += fmt::format("\n  {}: {}", name, fact);
  }
  return text;
}

Json version_json() {
  Json features = Json::object();
  for (const Feature& feature : kFeatures) features[feature.name] = feature.is_there;
  return {{"schema", kSchema},
          {"version", penstock_version()},
          {"libraries", {{"libpenstock", PENSTOCK_SONAME}, {"libcufile", PENSTOCK_CUFILE_SONAME}}},
          {"revision", or_null(PENSTOCK_REVISION)},
          {"architecture", PENSTOCK_ARCHITECTURE},
          {"build_type", or_null(PENSTOCK_BUILD_TYPE)},
          {"compiler", PENSTOCK_COMPILER},
          {"cxx_library", or_null(cxx_library())},
          {"c_library", or_null(c_library())},
          {"liburing", or_null(PENSTOCK_LIBURING)},
          {"sanitizers", or_null(PENSTOCK_SANITIZERS)},
          {"features", features},
          {"licence", kLicence}};
}

}  // namespace penstock::tools
