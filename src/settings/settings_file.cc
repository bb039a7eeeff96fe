// SPDX-License-Identifier: Apache-2.0

// Reads the text of a cufile.json: JSON with comments. The parser keeps no tree and does not recurse: it sends one
// event after the other, and each value is checked against the table at its event.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "settings/counting_reader.h"
#include "settings/names.h"
#include "settings/settings.h"
#include "settings/words.h"

namespace penstock::core {
namespace {

constexpr std::size_t kNestingMax = 32;
constexpr std::size_t kFoundMax = 60;  // Bytes of a list that are kept for messages.

// Quotes a setting: "allow_compat_mode" (section "properties").
std::string quoted(Setting setting) {
  const std::string key(setting.key());
  const std::size_t dot = key.rfind('.');
  return "\"" + key.substr(dot + 1) + "\" (section \"" + key.substr(0, dot) + "\")";
}

// Receives the parser's events. A return of false ends the parsing.
class Taker {
 public:
  Taker(LoadedSettings& loaded, std::string_view file_name, bool named_by_user, const int& line)
      : loaded_(loaded), file_name_(file_name), named_by_user_(named_by_user), reader_line_(line) {}

  // ---- The parser's events.
  bool null() { return take(std::nullopt, "null"); }
  bool boolean(bool value) { return take(Value(value), value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return take(Value(value), std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) {
    return take(value <= INT64_MAX ? std::optional<Value>(static_cast<std::int64_t>(value)) : std::nullopt,
                std::to_string(value));
  }
  bool number_float(double, const std::string& text) { return take(std::nullopt, text); }
  bool string(std::string& value) {
    std::string text = "\"" + shown(value) + "\"";
    // Refuses an embedded zero byte: C code would read a truncated string.
    if (value.find('\0') != std::string::npos) return take(std::nullopt, std::move(text));
    return take(Value(std::move(value)), std::move(text));
  }
  bool binary(std::vector<std::uint8_t>&) { return take(std::nullopt, "binary"); }

  bool key(std::string& name) {
    if (passing_over_ > 0) return true;  // A list that contains a table ends under the list's own name.
    name_ = name;
    line_ = reader_line_;
    return true;
  }
  bool start_object(std::size_t) {
    if (!deeper()) return false;
    if (passing_over_ > 0) {
      ++passing_over_;
    } else if (in_list_) {
      list_fits_ = false;
      passing_over_ = 1;
    } else if (depth_ == 1) {
      return true;  // The top level of the file.
    } else if (is_section(full_name())) {
      enter();
    } else if (const auto known = named()) {
      found_ = "{ ... }";
      assign(*known, std::nullopt);
      passing_over_ = 1;
    } else {
      // A user who misspelt a section meant its keys all the same.
      ++unknown_levels_;
      enter();
    }
    return true;
  }
  bool end_object() {
    --depth_;
    if (passing_over_ > 0) {
      --passing_over_;
    } else if (!section_ends_.empty()) {
      section_.resize(section_ends_.back());
      section_ends_.pop_back();
      if (unknown_levels_ > 0) --unknown_levels_;
    }
    return true;
  }
  bool start_array(std::size_t) {
    if (!deeper()) return false;
    if (depth_ == 1) return refuse_text("must be one object: { ... }");
    if (passing_over_ > 0) {
      ++passing_over_;
    } else if (in_list_) {
      list_fits_ = false;
      passing_over_ = 1;
    } else {
      in_list_ = true;
      list_fits_ = true;
      list_.clear();
      found_ = "[";
    }
    return true;
  }
  bool end_array() {
    --depth_;
    if (passing_over_ > 0) {
      --passing_over_;
      return true;
    }
    in_list_ = false;
    found_ += "]";
    if (const auto known = named()) assign(*known, list_fits_ ? list_value(known->setting.row().kind) : std::nullopt);
    return true;
  }
  template <typename Error>
  bool parse_error(std::size_t, const std::string& token, const Error&) {
    line_ = reader_line_;
    return refuse_text("this is not JSON (comments are allowed) at: " + shown(token));
  }

 private:
  std::string full_name() const { return section_.empty() ? name_ : section_ + "." + name_; }

  void enter() {
    section_ends_.push_back(section_.size());
    section_ = full_name();
  }

  void report(Severity severity, std::string sentence, std::string key) {
    if (severity == Severity::error && named_by_user_) loaded_.must_refuse = true;
    if (loaded_.notes.size() < kNotesMax) {
      loaded_.notes.push_back({severity, file_name_, line_, std::move(key), std::move(sentence)});
    }
  }

  // Refuses because of a key that may have forbidden something, wherever the file lies.
  void refuse(std::string sentence, std::string key) {
    loaded_.must_refuse = true;
    report(Severity::error, std::move(sentence), std::move(key));
  }

  // The text as a whole is useless.
  bool refuse_text(std::string sentence) {
    loaded_.settings = Settings();
    refuse(std::move(sentence), "");
    return false;
  }

  bool deeper() { return ++depth_ <= kNestingMax || refuse_text("nested too deeply"); }

  std::optional<NamedSetting> named() {
    const std::string name = full_name();
    const std::optional<NamedSetting> known = setting_named(name);
    if (!known && is_section(name)) refuse("must be a section: { ... }", name);
    else if (!known) report_unknown(name);
    else if (known->standing == Standing::misplaced) {
      report(Severity::note, std::string(kTakenAs) + std::string(known->setting.key()) + ", which is its place",
             shown(name));
    }
    return known;
  }

  void report_unknown(const std::string& name) {
    // The section was reported as a whole.
    const bool is_told = unknown_levels_ == 0 && loaded_.notes.size() < kNotesMax;
    const std::optional<Setting> near = is_told ? setting_near(name) : prohibition_near(name);
    std::string sentence = "is not a key of cuFile's configuration";
    if (near) sentence += "; did you mean " + quoted(*near) + "?";
    if (near && near->row().forbids) refuse(std::move(sentence), shown(name));
    else if (is_told) report(Severity::note, std::move(sentence), shown(name));
  }

  bool take(std::optional<Value> value, std::string text) {
    if (passing_over_ > 0) return true;
    if (depth_ == 0) return refuse_text("must be one object: { ... }");
    if (in_list_) {
      if (found_.size() < kFoundMax) found_ += (found_ == "[" ? "" : ", ") + text;
      if (value && list_.size() < kSettingsFileBytesMax) list_.push_back(std::move(*value));
      else list_fits_ = false;
      return true;
    }
    found_ = std::move(text);
    if (const auto known = named()) assign(*known, std::move(value));
    return true;
  }

  template <typename List>
  std::optional<Value> list_of() {
    using Element = typename List::value_type;
    List elements;
    for (Value& value : list_) {
      Element* element = std::get_if<Element>(&value);
      if (element == nullptr) return std::nullopt;
      elements.push_back(std::move(*element));
    }
    return Value(std::move(elements));
  }
  std::optional<Value> list_value(SettingKind kind) {
    if (kind == SettingKind::numbers) return list_of<Numbers>();
    if (kind == SettingKind::texts) return list_of<Texts>();
    return kind == SettingKind::anything ? std::optional<Value>(std::string("(a list)")) : std::nullopt;
  }

  // The value in the form that the table wants; nothing if it is of another kind.
  static std::optional<Value> fitted(const SettingRow& row, std::optional<Value> value) {
    if (row.kind == SettingKind::anything) return Value(std::string("(something)"));
    if (!value || value->index() != static_cast<std::size_t>(row.kind)) return std::nullopt;
    return among_choices(row, std::move(*value));
  }

  void assign(const NamedSetting& named, std::optional<Value> value) {
    const SettingRow& row = named.setting.row();
    const std::string key = shown(full_name());  // A user of an older name looks for that name.
    value = fitted(row, std::move(value));
    std::string fault = value ? range_fault(row, *value) : kind_fault(row) + "; it is " + shown(found_);
    Given& earlier = given_[named.setting.index()];
    if (row.forbids && fault.empty() && earlier.line != 0 && *value != loaded_.settings.value(named.setting)) {
      fault = "contradicts line " + std::to_string(earlier.line) + "; say it once";
    }
    if (row.forbids && !fault.empty()) return refuse(std::move(fault), key);
    if (earlier.line != 0 && named.standing < earlier.standing) {
      const char* what = named.standing == Standing::older ? "is an older name of " : "is not the place of ";
      return report(Severity::note, what + std::string(row.key) + ", which is given too and counts", key);
    }
    if (earlier.line != 0) {
      report(Severity::note,
             "is given twice, in line " + std::to_string(earlier.line) +
                 " too: " + (named.standing > earlier.standing ? "this one counts" : "the later one counts"),
             key);
    }
    earlier = {line_, named.standing};
    // In another section the same name may belong to something else.
    const Severity severity = named.standing == Standing::misplaced ? Severity::note : fault_severity(named.setting);
    if (!fault.empty()) return report(severity, std::move(fault), key);
    if (asks_in_vain(named.setting, *value)) report(Severity::idle, std::string(row.idle), key);
    loaded_.settings.set(named.setting, std::move(*value), named_by_user_ ? Origin::file : Origin::installed);
  }

  LoadedSettings& loaded_;
  const std::string file_name_;
  const bool named_by_user_;
  const int& reader_line_;
  int line_ = 1;         // The line of the latest key.
  std::string name_;     // The latest key.
  std::string found_;    // Its value as the file has it, for messages.
  std::string section_;  // The section of the latest key.
  std::vector<std::size_t> section_ends_;
  std::size_t depth_ = 0;
  std::size_t passing_over_ = 0;  // Nesting depth within an ignored value.
  bool in_list_ = false;
  bool list_fits_ = true;
  std::vector<Value> list_;
  std::size_t unknown_levels_ = 0;  // Number of enclosing sections that the table does not have.
  struct Given {
    int line = 0;  // 0: it was not given.
    Standing standing = Standing::own;
  };
  std::array<Given, kSettingCount> given_{};
};

}  // namespace

LoadedSettings parse_settings(std::string_view text, std::string_view file_name, bool named_by_user) {
  LoadedSettings loaded;
  loaded.file = file_name;
  int line = 1;
  Taker taker(loaded, file_name, named_by_user, line);
  (void)nlohmann::json::sax_parse(CountingReader{text.data(), &line}, CountingReader{text.data() + text.size(), &line},
                                  &taker, nlohmann::json::input_format_t::json, true, true);
  return loaded;
}

}  // namespace penstock::core
