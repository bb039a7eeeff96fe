// SPDX-License-Identifier: Apache-2.0

// YAML and JSON as Kubernetes takes them: what each value is and where it stands. Read as hostile: size, depth and
// number of values are bounded, also where aliases multiply them; a key given twice is told. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools::k8s {

constexpr std::size_t kManifestBytesMax = std::size_t{8} << 20;
constexpr std::size_t kValuesMax = 1'000'000;  // Of one file, aliases counted with all that is in them.
constexpr std::size_t kDepthMax = 100;

// Of one file: what people write stays within these; what a cluster prints of itself may be larger.
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
  std::string key;  // Of a map's; a list's have none.
  Place place;      // The key's, or the element's.
  const Value* value = nullptr;
};

struct Value {
  Kind kind = Kind::null;
  Place place;
  std::string text;             // A scalar's as it is written, without quotes.
  std::int64_t integer = 0;     // Of a whole number; 1 for true.
  std::vector<Member> members;  // Of a list or map, in their order.
  std::size_t weight = 1;       // Values in it, itself included, each alias counted with all that is in it.
  bool is_block = false;        // Text whose lines begin below its place: behind | or >.

  bool is_there() const { return kind != Kind::null; }
  bool is_map() const { return kind == Kind::map; }
  bool is_list() const { return kind == Kind::list; }
  bool is_text() const { return kind == Kind::text; }
  bool is_true() const { return kind == Kind::boolean && integer == 1; }
  bool is_false() const { return kind == Kind::boolean && integer == 0; }
  const Member* member(std::string_view key) const;  // Null where there is none.
  // What a map has by a key, or by several in turn: "spec.driver". Null's value where there is none.
  const Value& operator[](std::string_view keys) const;
};

extern const Value kNothing;

struct Fault {
  const char* rule = "";  // A lint's (rules.h).
  Place place;
  std::string sentence;
};

struct Manifest {
  std::string file;                     // As named.
  std::string text;                     // All of it.
  std::deque<Value> values;             // All that documents hold.
  std::vector<const Value*> documents;  // Whole ones, without empty ones.
  std::vector<Fault> faults;
  std::size_t weight = 0;  // Of all documents.
  bool is_whole = true;    // Whether all documents could be read.
};

Manifest read_manifest(std::string file, std::string text, Bounds bounds = {});

// "FILE:LINE:COLUMN: ..." of one that is not whole: why.
std::string fault_sentence(const Manifest& manifest);

}  // namespace penstock::tools::k8s
