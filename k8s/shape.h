// SPDX-License-Identifier: Apache-2.0

// How custom resources look, out of the tables in shapes/: what each key is called, takes and needs, by the operator's
// release. Pure.
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
  std::string_view around;  // "[]", "{}" or both: lists and maps of it, the innermost first.
  bool is_required = false;
  bool has_default = false;
  std::vector<std::string_view> choices;  // Of text; empty for any.
  const Pattern* pattern = nullptr;
  std::optional<std::int64_t> least, most;
  std::optional<std::size_t> shortest, longest;
  Shape* shape = nullptr;  // Of an object.
};

struct Shape {
  std::vector<ShapeKey> keys;
  const ShapeKey* find(std::string_view name) const;
  ShapeKey* find(std::string_view name);
};

// The tables of one operator, of one of its releases.
class Shapes {
 public:
  // Of the release that the version names, v26.3.1 as well as v26.3.3; of the newest for "" and what is not known.
  Shapes(std::string_view table, std::string_view version);
  // Adds keys of another table to the kind's, which its "add KIND APIVERSION" names.
  void add(std::string_view table);

  const Shape* find(std::string_view kind, std::string_view api_version) const;  // Null where there is none.
  std::string_view version() const { return version_; }
  bool is_known() const { return is_known_; }
  static std::vector<std::string_view> versions(std::string_view table);

 private:
  class Reader;
  std::deque<Shape> all_;
  std::map<std::string, Shape*, std::less<>> named_;  // Kinds and parts.
  std::string_view version_;
  bool is_known_ = true;
};

// The tables that the build puts in.
extern const std::string_view kGpuOperatorShapes;
extern const std::string_view kGpuOperatorValues;
extern const std::string_view kNetworkOperatorShapes;
extern const std::string_view kMetadataShapes;
extern const std::string_view kPodShapes;

}  // namespace penstock::tools::k8s
