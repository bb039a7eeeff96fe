// SPDX-License-Identifier: Apache-2.0

#include "k8s/shape.h"

#include <algorithm>
#include <iterator>

#include "base/invariant.h"
#include "base/number_text.h"
#include "facts/operator_versions.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::pair<std::string_view, ShapeKind> kKinds[] = {
    {"text", ShapeKind::text},   {"bool", ShapeKind::boolean},  {"int32", ShapeKind::int32},
    {"int64", ShapeKind::int64}, {"number", ShapeKind::number}, {"int-or-text", ShapeKind::int_or_text},
    {"any", ShapeKind::any},     {"object", ShapeKind::object},
};

std::vector<std::string_view> split(std::string_view text, char sign) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(sign);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  core::any_word(line, [&](std::string_view word) {
    words.push_back(word);
    return false;
  });
  return words;
}

// The first two numbers of "v26.3.3": custom resources change only with these.
std::optional<std::pair<int, int>> release_of(std::string_view version) {
  const std::optional<facts::Version> numbers = facts::version_of(version);
  if (!numbers) return {};
  return std::pair{(*numbers)[0], (*numbers)[1]};
}

std::string kind_key(std::string_view kind, std::string_view api_version) {
  return std::string(kind) + " " + std::string(api_version);
}

}  // namespace

const ShapeKey* Shape::find(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const ShapeKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}
ShapeKey* Shape::find(std::string_view name) {
  return const_cast<ShapeKey*>(static_cast<const Shape*>(this)->find(name));
}

// Tables are compiled in, so an error in one aborts the program; a test reads all of them.
class Shapes::Reader {
 public:
  Reader(Shapes& shapes, std::string_view table) : shapes_(shapes) {
    for (std::string_view line : split(table, '\n')) {
      const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
      if (indent == line.size() || line[indent] == '#') continue;
      lines_.push_back({indent, words_of(line)});
    }
  }

  void read() {
    while (at_ < lines_.size()) {
      const std::vector<std::string_view>& words = lines_[at_++].words;
      if (words[0] == "versions") continue;
      const bool is_kind = words[0] == "kind" || words[0] == "add";
      PENSTOCK_INVARIANT(words.size() > (is_kind ? 2u : 1u) && (is_kind || words[0] == "part"));
      const std::string name = is_kind ? kind_key(words[1], words[2]) : std::string(words[1]);
      if (is_in_force(words)) read_keys(shape_named(name), 2);
      else skip(2);
    }
  }

 private:
  struct Line {
    std::size_t indent = 0;
    std::vector<std::string_view> words;
  };

  Shape& shape_named(const std::string& name) {
    Shape*& shape = shapes_.named_[name];
    if (shape == nullptr) shape = &shapes_.all_.emplace_back();
    return *shape;
  }

  bool is_in_force(const std::vector<std::string_view>& words) const {
    const auto release = release_of(shapes_.version_);
    return std::none_of(words.begin(), words.end(), [&](std::string_view word) {
      if (word.starts_with("since=")) return release < release_of(word.substr(6));
      return word.starts_with("until=") && release > release_of(word.substr(6));
    });
  }

  void skip(std::size_t indent) {
    while (at_ < lines_.size() && lines_[at_].indent >= indent) ++at_;
  }

  void read_keys(Shape& shape, std::size_t indent) {
    while (at_ < lines_.size() && lines_[at_].indent >= indent) {
      PENSTOCK_INVARIANT(lines_[at_].indent == indent);
      const std::vector<std::string_view>& words = lines_[at_++].words;
      if (!is_in_force(words)) {
        skip(indent + 2);
        continue;
      }
      read_keys(read_key(shape, words), indent + 2);
    }
  }

  // Returns the shape for the lines below it.
  Shape& read_key(Shape& shape, const std::vector<std::string_view>& words) {
    std::string_view name = words[0];
    const bool is_required = name.ends_with('!');
    if (is_required) name.remove_suffix(1);
    if (words[1] == "none") {
      std::erase_if(shape.keys, [&](const ShapeKey& one) { return one.name == name; });
      return nothing_;
    }
    ShapeKey* key = shape.find(name);
    const bool goes_on = key != nullptr && key->kind == ShapeKind::object && words[1] == "object";
    if (key == nullptr) key = &shape.keys.emplace_back();
    if (goes_on) {
      // Copied, since other keys may share the part.
      key->shape = &shapes_.all_.emplace_back(*key->shape);
      return *key->shape;
    }
    *key = {.name = name, .is_required = is_required};
    read_type(*key, words[1]);
    for (std::size_t i = 2; i < words.size(); ++i) read_word(*key, words[i]);
    return key->kind == ShapeKind::object ? *key->shape : nothing_;
  }

  void read_type(ShapeKey& key, std::string_view word) {
    const std::size_t around = std::min(word.find_first_of("[{"), word.size());
    key.around = word.substr(around);
    word = word.substr(0, around);
    if (word.starts_with('&')) {
      key.kind = ShapeKind::object;
      key.shape = &shape_named(std::string(word.substr(1)));
      return;
    }
    const auto* found =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& kind) { return kind.first == word; });
    PENSTOCK_INVARIANT(found != std::end(kKinds));
    key.kind = found->second;
    if (key.kind == ShapeKind::object) key.shape = &shapes_.all_.emplace_back();
  }

  static void read_word(ShapeKey& key, std::string_view word) {
    const std::size_t sign = word.find('=');
    PENSTOCK_INVARIANT(sign != std::string_view::npos);
    const std::string_view name = word.substr(0, sign), value = word.substr(sign + 1);
    const auto number = core::parse_number<std::int64_t>(value);
    if (name == "enum") key.choices = split(value, ',');
    else if (name == "pattern") key.pattern = pattern_named(value);
    else if (name == "min") key.least = number;
    else if (name == "max") key.most = number;
    else if (name == "shortest") key.shortest = number;
    else if (name == "longest") key.longest = number;
    else if (name == "default") key.has_default = true;
    else PENSTOCK_INVARIANT(name == "since" || name == "until");
  }

  Shapes& shapes_;
  std::vector<Line> lines_;
  std::size_t at_ = 0;
  Shape nothing_;
};

std::vector<std::string_view> Shapes::versions(std::string_view table) {
  for (const std::string_view line : split(table, '\n')) {
    std::vector<std::string_view> words = words_of(line);
    if (words.empty() || words[0] != "versions") continue;
    words.erase(words.begin());
    return words;
  }
  return {};
}

Shapes::Shapes(std::string_view table, std::string_view version) {
  const std::vector<std::string_view> known = versions(table);
  PENSTOCK_INVARIANT(!known.empty());
  version_ = known.back();
  if (!version.empty()) {
    const auto release = release_of(version);
    const auto same =
        std::find_if(known.rbegin(), known.rend(), [&](std::string_view one) { return release_of(one) == release; });
    is_known_ = release.has_value() && same != known.rend();
    if (is_known_) version_ = *same;
  }
  Reader(*this, table).read();
}

void Shapes::add(std::string_view table) { Reader(*this, table).read(); }

const Shape* Shapes::find(std::string_view kind, std::string_view api_version) const {
  const auto found = named_.find(kind_key(kind, api_version));
  return found == named_.end() ? nullptr : found->second;
}

}  // namespace penstock::tools::k8s
