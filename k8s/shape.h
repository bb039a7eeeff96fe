// SPDX-License-Identifier: Apache-2.0

// The schemas of custom resources, from the tables in shapes/: each key's name, type and required keys, by the
// operator's release. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/patterns.h"

namespace penstock::tools::k8s {

enum class ShapeKind : std::uint8_t { text, boolean, int32, int64, number, int_or_text, object, any };

struct Shape;

struct ShapeKey {
  std::string_view name;
  ShapeKind kind = ShapeKind::any;
  std::string_view around;  // "[]", "{}" or both: the key is a list or map of this type; the innermost first.
  bool is_required = false;
  bool has_default = false;
  std::vector<std::string_view> choices;  // The allowed texts; empty for any.
  const Pattern* pattern = nullptr;
  std::optional<std::int64_t> least, most;
  std::optional<std::size_t> shortest, longest;
  Shape* shape = nullptr;  // The members of an object.
};

struct Shape {
  std::vector<ShapeKey> keys;
  const ShapeKey* find(std::string_view name) const;
  ShapeKey* find(std::string_view name);
};

// The schemas of one operator in one release.
class Shapes {
 public:
  // Reads the tables for the version's release (v26.3.1 and v26.3.3 are one); for "" and unknown versions the newest.
  Shapes(std::string_view table, std::string_view version);
  // Adds the keys of another table to the kind that its line "add KIND APIVERSION" names.
  void add(std::string_view table);

  const Shape* find(std::string_view kind, std::string_view api_version) const;  // Null if there is none.
  std::string_view version() const { return version_; }
  bool is_known() const { return is_known_; }
  static std::vector<std::string_view> versions(std::string_view table);

 private:
  class Reader;
  std::deque<Shape> all_;
  std::map<std::string, Shape*, std::less<>> named_;  // Kinds and named parts.
  std::string_view version_;
  bool is_known_ = true;
};

// The tables, embedded by the build.
extern const std::string_view kGpuOperatorShapes;
extern const std::string_view kGpuOperatorValues;
extern const std::string_view kNetworkOperatorShapes;
extern const std::string_view kMetadataShapes;
extern const std::string_view kPodShapes;

}  // namespace penstock::tools::k8s
