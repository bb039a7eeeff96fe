// Reads the text of a cufile.json: JSON with comments. The parser keeps no tree and does not recurse: it tells one
// event after the other, and here each value is checked against the table as it comes by.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "settings/settings.h"

namespace penstock::core {
namespace {

constexpr std::size_t kNestingMax = 32;
constexpr std::size_t kShownMax = 60;  // Bytes of the file's own text in a sentence.

// Counts the lines that the parser has read.
struct Reader {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  int* line = nullptr;

  reference operator*() const { return *at; }
  Reader& operator++() {
    if (*at++ == '\n') ++*line;
    return *this;
  }
  Reader operator++(int) {
    const Reader before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Reader& a, const Reader& b) { return a.at == b.at; }
  friend bool operator!=(const Reader& a, const Reader& b) { return a.at != b.at; }
};

std::string shown(std::string_view text) {
  return printable(text.substr(0, kShownMax)) + (text.size() > kShownMax ? "..." : "");
}

bool has_word(std::string_view words, std::string_view wanted) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == wanted) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// Sections that tell calls from files are no part of a file.
bool is_in_files(const SettingRow& row) { return !row.key.starts_with("call."); }

std::optional<Setting> setting_named(std::string_view name) {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    const SettingRow& row = kSettingRows[i];
    if (is_in_files(row) && (row.key == name || has_word(row.aliases, name))) return Setting::at(i);
  }
  return std::nullopt;
}

bool starts_a_word(std::string_view words, std::string_view prefix) {
  for (std::size_t at = words.find(prefix); at != std::string_view::npos; at = words.find(prefix, at + 1)) {
    if (at == 0 || words[at - 1] == ' ') return true;
  }
  return false;
}

bool is_section(const std::string& name) {
  const std::string prefix = name + ".";
  return std::any_of(std::begin(kSettingRows), std::end(kSettingRows), [&](const SettingRow& row) {
    return is_in_files(row) && (row.key.starts_with(prefix) || starts_a_word(row.aliases, prefix));
  });
}

// Takes the parser's events. A false answer ends the parsing.
class Taker {
 public:
  Taker(LoadedSettings& loaded, std::string_view file_name, bool named_by_user, const int& line)
      : loaded_(loaded), file_name_(file_name), named_by_user_(named_by_user), reader_line_(line) {}

  // ---- The parser's events.
  bool null() { return take(std::nullopt); }
  bool boolean(bool value) { return take(Value(value)); }
  bool number_integer(std::int64_t value) { return take(Value(value)); }
  bool number_unsigned(std::uint64_t value) {
    return take(value <= INT64_MAX ? std::optional<Value>(static_cast<std::int64_t>(value)) : std::nullopt);
  }
  bool number_float(double, const std::string&) { return take(std::nullopt); }
  bool string(std::string& value) {
    // No path, name or word has one, and whoever takes the text as C does would see another.
    if (value.find('\0') != std::string::npos) return take(std::nullopt);
    return take(Value(std::move(value)));
  }
  bool binary(std::vector<std::uint8_t>&) { return take(std::nullopt); }

  bool key(std::string& name) {
    if (passing_over_ > 0) return true;  // The list that a table is in ends under its own name.
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
      return true;  // The file's own.
    } else if (is_section(full_name())) {
      section_ends_.push_back(section_.size());
      section_ = full_name();
    } else {
      if (const auto setting = named()) assign(*setting, Value(std::string("(a table)")));
      passing_over_ = 1;
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
    if (const auto setting = named()) assign(*setting, list_fits_ ? list_value(setting->row().kind) : std::nullopt);
    return true;
  }
  template <typename Error>
  bool parse_error(std::size_t, const std::string& token, const Error&) {
    line_ = reader_line_;
    return refuse_text("this is no JSON (comments are fine) at: " + shown(token));
  }

 private:
  std::string full_name() const { return section_.empty() ? name_ : section_ + "." + name_; }

  void report(Severity severity, std::string sentence, std::string key) {
    if (severity == Severity::error) loaded_.must_refuse = named_by_user_;
    if (loaded_.notes.size() < kNotesMax) {
      loaded_.notes.push_back({severity, file_name_, line_, std::move(key), std::move(sentence)});
    }
  }

  // The text as a whole is of no use.
  bool refuse_text(std::string sentence) {
    loaded_.settings = Settings();
    report(Severity::error, std::move(sentence) + (named_by_user_ ? "" : "; the defaults hold"), "");
    return false;
  }

  bool deeper() { return ++depth_ <= kNestingMax || refuse_text("nested too deeply"); }

  std::optional<Setting> named() {
    const std::string name = full_name();
    const std::optional<Setting> setting = setting_named(name);
    if (setting) return setting;
    if (is_section(name)) report(Severity::error, "must be a section: { ... }", name);
    else report(Severity::note, "is no key of cuFile's configuration", shown(name));
    return std::nullopt;
  }

  bool take(std::optional<Value> value) {
    if (passing_over_ > 0) return true;
    if (depth_ == 0) return refuse_text("must be one object: { ... }");
    if (in_list_) {
      if (value && list_.size() < kSettingsFileBytesMax) list_.push_back(std::move(*value));
      else list_fits_ = false;
      return true;
    }
    if (const auto setting = named()) assign(*setting, std::move(value));
    return true;
  }

  template <typename Element>
  std::optional<Value> list_of() {
    std::vector<Element> elements;
    for (Value& value : list_) {
      Element* element = std::get_if<Element>(&value);
      if (element == nullptr) return std::nullopt;
      elements.push_back(std::move(*element));
    }
    return Value(std::move(elements));
  }
  std::optional<Value> list_value(SettingKind kind) {
    if (kind == SettingKind::numbers) return list_of<std::int64_t>();
    if (kind == SettingKind::texts) return list_of<std::string>();
    return kind == SettingKind::anything ? std::optional<Value>(std::string("(a list)")) : std::nullopt;
  }

  // The value in the form that the table wants; nothing where it is of another kind.
  static std::optional<Value> fitted(const SettingRow& row, std::optional<Value> value) {
    if (row.kind == SettingKind::anything) return Value(std::string("(something)"));
    if (!value || value->index() != static_cast<std::size_t>(row.kind)) return std::nullopt;
    if (row.kind == SettingKind::text) return parse_value(row, *std::get_if<std::string>(&*value));
    return value;
  }

  void assign(Setting setting, std::optional<Value> value) {
    const SettingRow& row = setting.row();
    const std::string key(row.key);
    int& earlier = lines_[setting.index()];
    bool& has_own_name = own_names_[setting.index()];
    const bool is_own_name = full_name() == row.key;
    if (earlier != 0 && has_own_name && !is_own_name) {
      return report(Severity::note, "is an older name of " + key + ", which is given too and counts", full_name());
    }
    has_own_name = is_own_name;
    if (earlier != 0) {
      report(Severity::note, "is given twice, in line " + std::to_string(earlier) + " too: the later one counts", key);
    }
    earlier = line_;
    value = fitted(row, std::move(value));
    if (!value) return report(fault_severity(setting), kind_fault(row), key);
    if (std::string fault = range_fault(row, *value); !fault.empty()) {
      return report(fault_severity(setting), std::move(fault), key);
    }
    loaded_.settings.set(setting, std::move(*value), named_by_user_ ? Origin::file : Origin::installed);
  }

  LoadedSettings& loaded_;
  const std::string file_name_;
  const bool named_by_user_;
  const int& reader_line_;
  int line_ = 1;         // Of the latest key.
  std::string name_;     // The latest key,
  std::string section_;  // and the section it is in.
  std::vector<std::size_t> section_ends_;
  std::size_t depth_ = 0;
  std::size_t passing_over_ = 0;  // Levels of something that is of no interest.
  bool in_list_ = false;
  bool list_fits_ = true;
  std::vector<Value> list_;
  std::array<int, kSettingCount> lines_{};       // Where each key was given; 0: nowhere.
  std::array<bool, kSettingCount> own_names_{};  // Whether under its own name.
};

}  // namespace

LoadedSettings parse_settings(std::string_view text, std::string_view file_name, bool named_by_user) {
  LoadedSettings loaded;
  loaded.file = file_name;
  int line = 1;
  Taker taker(loaded, file_name, named_by_user, line);
  (void)nlohmann::json::sax_parse(Reader{text.data(), &line}, Reader{text.data() + text.size(), &line}, &taker,
                                  nlohmann::json::input_format_t::json, true, true);
  return loaded;
}

}  // namespace penstock::core
