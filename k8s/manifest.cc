// SPDX-License-Identifier: Apache-2.0

#include "k8s/manifest.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "base/printable.h"
#include "k8s/scalar.h"
#include "settings/words.h"

namespace penstock::tools::k8s {

const Value kNothing;

namespace {

constexpr std::size_t kFaultsMax = 100;
constexpr const char* kTextTag = "tag:yaml.org,2002:str";

struct Refused {
  Fault fault;
};

Place place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Builds values from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  Builder(Manifest& manifest, std::size_t values_max) : manifest_(manifest), values_max_(values_max) {
    lines_.push_back(0);
    for (std::size_t i = 0; i < manifest.text.size(); ++i) {
      if (manifest.text[i] == '\n') lines_.push_back(i + 1);
    }
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // At a character that begins no token the parser would return empty documents for ever.
    if (mark.pos == document_begin_) refuse(mark, "is no YAML here");
    document_begin_ = mark.pos;
    anchors_.clear();
    frames_.clear();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { OnScalar(mark, "?", anchor, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    const bool is_within =
        found != anchors_.end() &&
        std::any_of(frames_.begin(), frames_.end(), [&](const Frame& frame) { return frame.value == found->second; });
    if (found == anchors_.end() || is_within) refuse(mark, "an alias names what is not there yet");
    take(place_of(mark), *found->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Value& value = add(mark, anchor);
    const bool is_quoted = tag == "!" || tag == kTextTag;
    if (is_quoted) {
      value.kind = Kind::text;
      value.text = text;
      value.is_block = begins_block(value.place);
    } else {
      set_plain(value, text);
    }
    const bool is_merge = !is_quoted && text == "<<" && awaits_key();
    take(value.place, value);
    if (is_merge) frames_.back().merges = true;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    enter(mark, anchor, Kind::list);
  }
  void OnSequenceEnd() override { leave(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    enter(mark, anchor, Kind::map);
  }
  void OnMapEnd() override { leave(); }

 private:
  struct Frame {
    Value* value;
    bool has_key = false;
    bool merges = false;  // The next value is a merge key (<<): another map's members.
    Member member;
    std::unordered_set<std::string> keys;
    std::vector<const Value*> merged;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string sentence) const {
    throw Refused{{"yaml_syntax", place_of(mark), std::move(sentence)}};
  }

  Value& add(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (manifest_.values.size() >= values_max_) refuse(mark, too_many());
    Value& value = manifest_.values.emplace_back();
    value.place = place_of(mark);
    if (anchor != 0) anchors_[anchor] = &value;
    return value;
  }
  std::string too_many() const { return fmt::format("has more than {} values, aliases counted", values_max_); }

  bool begins_block(Place place) const {
    if (place.line < 1 || static_cast<std::size_t>(place.line) > lines_.size()) return false;
    const std::size_t at =
        lines_[static_cast<std::size_t>(place.line) - 1] + static_cast<std::size_t>(place.column) - 1;
    return at < manifest_.text.size() && (manifest_.text[at] == '|' || manifest_.text[at] == '>');
  }

  bool awaits_key() const { return !frames_.empty() && frames_.back().value->is_map() && !frames_.back().has_key; }

  void enter(const YAML::Mark& mark, YAML::anchor_t anchor, Kind kind) {
    if (frames_.size() >= kDepthMax) refuse(mark, fmt::format("is nested deeper than {} levels", kDepthMax));
    if (awaits_key()) refuse(mark, "a key must be a word, not a list or map");
    Value& value = add(mark, anchor);
    value.kind = kind;
    frames_.push_back({.value = &value});
  }

  void leave() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    for (const Value* other : frame.merged) {
      for (const Member& member : other->members) {
        if (frame.keys.insert(member.key).second) append(*frame.value, member);
      }
    }
    take(frame.value->place, *frame.value);
  }

  void append(Value& to, const Member& member) {
    to.members.push_back(member);
    to.weight += member.value->weight;
    if (to.weight > values_max_) throw Refused{{"yaml_syntax", member.place, too_many()}};
  }

  // Adds a finished value to its parent.
  void take(Place place, const Value& value) {
    if (frames_.empty()) {
      if (!value.is_there()) return;
      manifest_.weight += value.weight;
      if (manifest_.weight > values_max_) throw Refused{{"yaml_syntax", place, too_many()}};
      manifest_.documents.push_back(&value);
      return;
    }
    Frame& frame = frames_.back();
    if (awaits_key()) return take_key(frame, place, value);
    if (frame.merges) return merge(frame, place, value);
    frame.member.value = &value;
    if (frame.value->is_list()) frame.member.place = place;
    append(*frame.value, frame.member);
    frame.has_key = false;
  }
  void take_key(Frame& frame, Place place, const Value& value) {
    if (value.kind == Kind::list || value.kind == Kind::map) {
      throw Refused{{"yaml_syntax", place, "a key must be a word, not a list or map"}};
    }
    const std::string key = value.is_true() ? "true" : value.is_false() ? "false" : value.text;
    frame.member = {key, place, nullptr};
    frame.has_key = true;
    if (!frame.keys.insert(key).second && key != "<<" && manifest_.faults.size() < kFaultsMax) {
      manifest_.faults.push_back(
          {"duplicate_key", place, fmt::format("'{}' is given twice in one map", core::shown(key))});
    }
  }
  void merge(Frame& frame, Place place, const Value& value) {
    frame.merges = frame.has_key = false;
    const auto add_map = [&](const Value& one) {
      if (!one.is_map()) throw Refused{{"yaml_syntax", place, "'<<' takes a map, or a list of maps"}};
      frame.merged.push_back(&one);
    };
    if (value.is_list()) {
      for (const Member& member : value.members) add_map(*member.value);
    } else {
      add_map(value);
    }
  }

  Manifest& manifest_;
  std::size_t values_max_;
  std::vector<std::size_t> lines_;  // The offset of each line.
  std::unordered_map<YAML::anchor_t, const Value*> anchors_;
  std::vector<Frame> frames_;
  int document_begin_ = -1;
};

Place place_at(const std::string& text, std::size_t position) {
  const std::string_view before = std::string_view(text).substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n');
  return {static_cast<int>(line) + 1, static_cast<int>(before.size() - (before.rfind('\n') + 1)) + 1};
}

// Finds faults that need no parser; "" if there is none.
Fault fault_of_bytes(const std::string& text, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    return {"unreadable_file", {1, 1}, fmt::format("is larger than {} MiB", bytes_max >> 20)};
  }
  const auto control = std::find_if(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) < 0x20 && letter != '\n' && letter != '\t' && letter != '\r') ||
           letter == 0x7f;
  });
  if (control != text.end()) {
    return {"unreadable_file", place_at(text, static_cast<std::size_t>(control - text.begin())),
            fmt::format("has the control character {}, and is no text", core::printable({&*control, 1}))};
  }
  if (!core::is_utf8(text)) return {"unreadable_file", {1, 1}, "is not UTF-8"};
  return {};
}

// The text of a JSON file without its comments, which YAML does not know: blanks stand in their place, so that every
// line and column stays.
std::string without_comments(std::string text) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') ++i;
    else if (text[i] == '"') in_string = !in_string;
    if (in_string || i >= text.size() || text[i] != '/') continue;
    const std::string_view begin = std::string_view(text).substr(i, 2);
    if (begin != "//" && begin != "/*") continue;
    const std::size_t found = begin == "//" ? text.find('\n', i) : text.find("*/", i + 2);
    const std::size_t end = found == std::string::npos ? text.size() : found + (begin == "//" ? 0 : 2);
    for (; i < end; ++i) text[i] = text[i] == '\n' ? '\n' : ' ';
    --i;
  }
  return text;
}

// The fault of a text that is no JSON, in the words of a reader of JSON; without a sentence if it is JSON.
Fault fault_of_json(const std::string& text) {
  constexpr std::string_view kBeforeCause = " - ";
  const auto keep_nothing = [](int, nlohmann::json::parse_event_t, nlohmann::json&) { return false; };
  try {
    const auto nothing = nlohmann::json::parse(text, keep_nothing, true, true);
    (void)nothing;
  } catch (const nlohmann::json::parse_error& error) {
    std::string_view cause = error.what();
    if (const std::size_t at = cause.rfind(kBeforeCause); at != std::string_view::npos) cause.remove_prefix(at + 3);
    return {"json_syntax", place_at(text, error.byte > 0 ? error.byte - 1 : 0),
            fmt::format("is no JSON here: {}", core::printable(cause))};
  }
  return {};
}

}  // namespace

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {"null", "a boolean", "a whole number", "a number", "text", "a list", "a map"};
  return kNames[static_cast<std::size_t>(kind)];
}

const Member* Value::member(std::string_view key) const {
  if (!is_map()) return nullptr;
  const auto found = std::find_if(members.rbegin(), members.rend(), [&](const Member& one) { return one.key == key; });
  return found == members.rend() ? nullptr : &*found;
}

const Value& Value::operator[](std::string_view keys) const {
  const Value* at = this;
  while (!keys.empty()) {
    const std::size_t point = std::min(keys.find('.'), keys.size());
    const Member* found = at->member(keys.substr(0, point));
    if (found == nullptr) return kNothing;
    at = found->value;
    keys.remove_prefix(std::min(point + 1, keys.size()));
  }
  return *at;
}

Manifest read_manifest(std::string file, std::string text, Bounds bounds) {
  Manifest manifest;
  manifest.file = std::move(file);
  manifest.text = std::move(text);
  const auto refuse = [&](Fault fault) {
    manifest.faults.push_back(std::move(fault));
    manifest.is_whole = false;
  };
  if (Fault fault = fault_of_bytes(manifest.text, bounds.bytes); !fault.sentence.empty()) {
    refuse(std::move(fault));
    return manifest;
  }
  const bool is_json = manifest.file.ends_with(".json");
  // A file of JSON is told what is wrong with it as JSON, though YAML would take more.
  const auto refuse_as = [&](Fault fault) {
    const Fault of_json = is_json ? fault_of_json(manifest.text) : Fault{};
    refuse(of_json.sentence.empty() ? std::move(fault) : of_json);
  };
  Builder builder(manifest, bounds.values);
  try {
    std::istringstream stream(is_json ? without_comments(manifest.text) : manifest.text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    if (is_json && manifest.documents.empty()) refuse({"json_syntax", {1, 1}, "is empty, which is no JSON"});
  } catch (const Refused& refused) {
    refuse_as(refused.fault);
  } catch (const YAML::Exception& error) {
    refuse_as({"yaml_syntax", place_of(error.mark), "is no YAML here: " + error.msg});
  }
  return manifest;
}

std::string fault_sentence(const Manifest& manifest) {
  if (manifest.faults.empty()) return manifest.file;
  const Fault& fault = manifest.faults.back();
  return fmt::format("{}:{}:{}: {}", manifest.file, fault.place.line, fault.place.column, fault.sentence);
}

}  // namespace penstock::tools::k8s
