// SPDX-License-Identifier: Apache-2.0

#include "model/platform_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cmath>
#include <set>

#include "model/input.h"

namespace penstock::model {
namespace {

constexpr std::array<std::string_view, 4> kStandings = {"ready", "install", "custom-image", "none"};
constexpr std::array<std::string_view, 4> kStandingWords = {"ready", "to be installed", "needs an image of one's own",
                                                            "no"};
constexpr std::size_t kPlatformsMax = 1000;
constexpr double kPriceMax = 1e6;

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  std::vector<Platform> platforms(const YAML::Node& document) const {
    if (!document.IsMap() || !document["platforms"]) fail(document, "a list 'platforms' is expected");
    return all_of<Platform>(document["platforms"], "platforms",
                            [this](const YAML::Node& one) { return platform(one); });
  }

  std::vector<FileSystem> file_systems(const YAML::Node& document) const {
    if (!document.IsMap() || !document["file_systems"]) return {};
    return all_of<FileSystem>(document["file_systems"], "file_systems",
                              [this](const YAML::Node& one) { return file_system(one); });
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw InvalidInput(fmt::format("{}:{}: {}", name_, node.Mark().line + 1, what));
  }

  template <typename One, typename Make>
  std::vector<One> all_of(const YAML::Node& list, const char* what, const Make& make) const {
    if (!list.IsSequence()) fail(list, fmt::format("a list '{}' is expected", what));
    if (list.size() == 0 || list.size() > kPlatformsMax) {
      fail(list, fmt::format("from 1 to {} {} are expected", kPlatformsMax, what));
    }
    std::vector<One> all;
    std::set<std::string> names;
    for (const YAML::Node& entry : list) {
      all.push_back(make(entry));
      if (!names.insert(all.back().name).second) fail(entry, "this name is there twice");
    }
    return all;
  }

  void require_keys(const YAML::Node& entry, const char* what, const std::set<std::string>& keys) const {
    if (!entry.IsMap()) fail(entry, what);
    for (const auto& pair : entry) {
      if (!pair.first.IsScalar() || keys.count(pair.first.Scalar()) == 0) {
        fail(pair.first, fmt::format("unknown key; there are: {}", fmt::join(keys, ", ")));
      }
    }
  }

  double given(const YAML::Node& entry, const char* key, double low, double high) const {
    if (!entry[key]) fail(entry, fmt::format("'{}' is missing", key));
    return number(entry[key], key, low, high);
  }

  std::string text(const YAML::Node& entry, const char* key) const {
    const YAML::Node node = entry[key];
    if (!node || !node.IsScalar() || node.Scalar().empty()) fail(entry, fmt::format("'{}' must be a text", key));
    return node.Scalar();
  }

  double number(const YAML::Node& node, const char* key, double low, double high) const {
    double value = 0;
    const bool is_number = node.IsScalar() && YAML::convert<double>::decode(node, value);
    if (!is_number || !(value >= low && value <= high)) {
      fail(node, fmt::format("'{}' must be a number from {:g} to {:g}", key, low, high));
    }
    return value;
  }

  unsigned count(const YAML::Node& node, const char* key, double low) const {
    const double value = number(node, key, low, 1e6);
    if (value != std::floor(value)) fail(node, fmt::format("'{}' must be a whole number", key));
    return static_cast<unsigned>(value);
  }

  Platform platform(const YAML::Node& entry) const {
    require_keys(entry, "a platform is a map with 'name', 'gpu', 'gpus', 'gds' and 'source'",
                 {"name", "gpu", "gpus", "on_demand", "spot", "drives", "drives_hour", "gds", "billing_s", "source"});
    Platform made;
    made.name = text(entry, "name");
    made.gpu = text(entry, "gpu");
    made.source = text(entry, "source");
    if (!entry["gpus"]) fail(entry, "'gpus' is missing");
    made.gpus = count(entry["gpus"], "gpus", 1);
    if (entry["on_demand"]) made.on_demand = number(entry["on_demand"], "on_demand", 0, kPriceMax);
    if (entry["spot"]) made.spot = number(entry["spot"], "spot", 0, kPriceMax);
    if (entry["drives"]) made.drives = count(entry["drives"], "drives", 0);
    if (entry["drives_hour"]) made.drives_hour = number(entry["drives_hour"], "drives_hour", 0, kPriceMax);
    if (entry["billing_s"]) made.billing_s = number(entry["billing_s"], "billing_s", 1, 1e7);
    made.gds = standing(entry);
    return made;
  }

  FileSystem file_system(const YAML::Node& entry) const {
    require_keys(entry, "a file system is a map with 'name', 'tb', 'gb_per_s', 'month_money' and 'source'",
                 {"name", "tb", "gb_per_s", "month_money", "source"});
    FileSystem made;
    made.name = text(entry, "name");
    made.source = text(entry, "source");
    made.terabytes = given(entry, "tb", 1e-3, 1e9);
    made.bytes_per_s = given(entry, "gb_per_s", 1e-6, 1e6) * 1e9;
    made.month_money = given(entry, "month_money", 0, 1e12);
    return made;
  }

  GdsStanding standing(const YAML::Node& entry) const {
    const std::string word = text(entry, "gds");
    for (std::size_t i = 0; i < kStandings.size(); ++i) {
      if (kStandings.at(i) == word) return static_cast<GdsStanding>(i);
    }
    fail(entry["gds"], fmt::format("'{}' is none of {}", word, fmt::join(kStandings, ", ")));
  }

  std::string name_;
};

YAML::Node loaded(const std::string& text, const std::string& name) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InvalidInput(fmt::format("{}:{}: {}", name, error.mark.line + 1, error.msg));
  }
}

}  // namespace

std::string_view gds_standing_words(GdsStanding standing) {
  return kStandingWords.at(static_cast<std::size_t>(standing));
}

FileSystem FileSystem::of_size(double wanted_terabytes) const {
  FileSystem sized = *this;
  const double times = wanted_terabytes / terabytes;
  sized.terabytes = wanted_terabytes;
  sized.bytes_per_s *= times;
  sized.read_bytes_per_s *= times;
  sized.month_money *= times;
  return sized;
}

std::vector<Platform> parse_platforms(const std::string& text, const std::string& name) {
  return Reader(name).platforms(loaded(text, name));
}

std::vector<FileSystem> parse_file_systems(const std::string& text, const std::string& name) {
  return Reader(name).file_systems(loaded(text, name));
}

}  // namespace penstock::model
