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

  std::vector<Platform> read(const YAML::Node& document) const {
    if (!document.IsMap() || !document["platforms"] || !document["platforms"].IsSequence()) {
      fail(document, "a list 'platforms' is expected");
    }
    const YAML::Node list = document["platforms"];
    if (list.size() == 0 || list.size() > kPlatformsMax) {
      fail(list, fmt::format("from 1 to {} platforms are expected", kPlatformsMax));
    }
    std::vector<Platform> platforms;
    std::set<std::string> names;
    for (const YAML::Node& entry : list) {
      platforms.push_back(platform(entry));
      if (!names.insert(platforms.back().name).second) fail(entry, "this name is there twice");
    }
    return platforms;
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw InvalidInput(fmt::format("{}:{}: {}", name_, node.Mark().line + 1, what));
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
    if (!entry.IsMap()) fail(entry, "a platform is a map with 'name', 'gpu', 'gpus', 'gds' and 'source'");
    static const std::set<std::string> kKeys = {"name",   "gpu", "gpus",      "on_demand", "spot",
                                                "drives", "gds", "billing_s", "source"};
    for (const auto& pair : entry) {
      if (!pair.first.IsScalar() || kKeys.count(pair.first.Scalar()) == 0) {
        fail(pair.first, fmt::format("unknown key; there are: {}", fmt::join(kKeys, ", ")));
      }
    }
    Platform made;
    made.name = text(entry, "name");
    made.gpu = text(entry, "gpu");
    made.source = text(entry, "source");
    if (!entry["gpus"]) fail(entry, "'gpus' is missing");
    made.gpus = count(entry["gpus"], "gpus", 1);
    if (entry["on_demand"]) made.on_demand = number(entry["on_demand"], "on_demand", 0, kPriceMax);
    if (entry["spot"]) made.spot = number(entry["spot"], "spot", 0, kPriceMax);
    if (entry["drives"]) made.drives = count(entry["drives"], "drives", 0);
    if (entry["billing_s"]) made.billing_s = number(entry["billing_s"], "billing_s", 1, 1e7);
    made.gds = standing(entry);
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

}  // namespace

std::string_view gds_standing_words(GdsStanding standing) {
  return kStandingWords.at(static_cast<std::size_t>(standing));
}

std::vector<Platform> parse_platforms(const std::string& text, const std::string& name) {
  try {
    return Reader(name).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    throw InvalidInput(fmt::format("{}:{}: {}", name, error.mark.line + 1, error.msg));
  }
}

}  // namespace penstock::model
