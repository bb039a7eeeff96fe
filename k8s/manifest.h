// SPDX-License-Identifier: Apache-2.0

// Parses YAML and JSON as Kubernetes does: each value with its kind and its place. Input is untrusted: size, depth and
// number of values are limited, also if aliases multiply them; a duplicate key is reported. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools::k8s {

constexpr std::size_t kManifestBytesMax = std::size_t{8} << 20;
constexpr std::size_t kValuesMax = 1'000'000;  // Limit for one file; aliases count with their contents.
constexpr std::size_t kDepthMax = 100;

// Limits for one file: files written by people fit; a cluster's dump may be larger.
struct Bounds {
  std::size_t bytes = kManifestBytesMax;
  std::size_t values = kValuesMax;
};

struct Place {
  int line = 0;  // From 1.
  int column = 0;
};

enum class Kind : std::uint8_t { null, boolean, integer, number, text, list, map };
const char* kind_name(Kind kind);  // "null", "a boolean", "a whole number", "a number", "text", "a list", "a map"

struct Value;

struct Member {
  std::string key;  // Only for members of a map.
  Place place;      // The place of the key, or of the element.
  const Value* value = nullptr;
};

struct Value {
  Kind kind = Kind::null;
  Place place;
  std::string text;             // A scalar's text, without quotes.
  std::int64_t integer = 0;     // The value of a whole number; 1 for true.
  std::vector<Member> members;  // The members of a list or map, in order.
  std::size_t weight = 1;       // Number of values in it, itself included; aliases count with their contents.
  bool is_block = false;        // A block scalar (| or >), whose lines begin below its place.

  bool is_there() const { return kind != Kind::null; }
  bool is_map() const { return kind == Kind::map; }
  bool is_list() const { return kind == Kind::list; }
  bool is_text() const { return kind == Kind::text; }
  bool is_true() const { return kind == Kind::boolean && integer == 1; }
  bool is_false() const { return kind == Kind::boolean && integer == 0; }
  const Member* member(std::string_view key) const;  // Null if there is none.
  // The value of a key of a map, or of a path of keys: "spec.driver". A null value if there is none.
  const Value& operator[](std::string_view keys) const;
};

extern const Value kNothing;

struct Fault {
  const char* rule = "";  // A rule of lint (rules.h).
  Place place;
  std::string sentence;
};

struct Manifest {
  std::string file;                     // As named.
  std::string text;                     // The whole file.
  std::deque<Value> values;             // All values of all documents.
  std::vector<const Value*> documents;  // The complete, non-empty documents.
  std::vector<Fault> faults;
  std::size_t weight = 0;  // Sum over all documents.
  bool is_whole = true;    // Whether all documents could be read.
};

Manifest read_manifest(std::string file, std::string text, Bounds bounds = {});

// "FILE:LINE:COLUMN: ...": why a manifest could not be read to its end.
std::string fault_sentence(const Manifest& manifest);

}  // namespace penstock::tools::k8s
