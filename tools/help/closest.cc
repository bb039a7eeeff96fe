// SPDX-License-Identifier: Apache-2.0

#include "tools/help/closest.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>

namespace penstock::tools {
namespace {

constexpr int kOfAName = 3, kOfASentence = 1;
constexpr std::size_t kShareLeast = 4;  // One of so many words must be found.

using Words = std::set<std::string, std::less<>>;

constexpr std::size_t kWordsMost = 32;
constexpr std::string_view kSaysNothing[] = {
    "a",      "i",     "am",    "an",    "as",    "at",   "be",    "by",    "do",   "go",    "if",      "in",   "is",
    "it",     "me",    "my",    "no",    "of",    "on",   "or",    "so",    "to",   "up",    "we",      "all",  "and",
    "any",    "are",   "best",  "but",   "can",   "did",  "does",  "for",   "from", "get",   "has",     "have", "her",
    "how",    "into",  "its",   "may",   "more",  "much", "need",  "not",   "one",  "our",   "out",     "see",  "set",
    "the",    "tell",  "that",  "their", "them",  "then", "there", "these", "they", "this",  "use",     "want", "was",
    "way",    "what",  "when",  "where", "which", "who",  "why",   "will",  "with", "would", "you",     "your", "could",
    "should", "about", "using", "help",  "know",  "make", "say",   "show",  "file", "files", "penstock"};

Words words_of(std::string_view text) {
  Words words;
  std::string word;
  const auto end_word = [&] {
    const bool is_telling = !word.empty() && std::ranges::find(kSaysNothing, word) == std::end(kSaysNothing);
    if (is_telling && words.size() < kWordsMost) words.insert(word);
    word.clear();
  };
  for (const unsigned char letter : text) {
    if (std::isalnum(letter) != 0) word += static_cast<char>(std::tolower(letter));
    else end_word();
  }
  end_word();
  return words;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// True for two forms of one word: "save" and "saving", "slow" and "slower"; but not "drive" and "driver".
bool is_alike(std::string_view one, std::string_view other) {
  const auto common = std::distance(one.begin(), std::ranges::mismatch(one, other).in1);
  const std::string_view rest = one.substr(static_cast<std::size_t>(common));
  const std::string_view end = other.substr(static_cast<std::size_t>(common));
  if (rest.empty() && end.empty()) return true;
  if (common < 3) return false;
  const auto is_ending = [](std::string_view text) {
    return is_one_of(text, {"", "e", "s", "es", "d", "ed", "ing", "ly"});
  };
  return (is_ending(rest) && is_ending(end)) || (rest.empty() && end == "er") || (rest == "er" && end.empty());
}

bool is_among(std::string_view word, const Words& words) {
  return std::ranges::any_of(words, [&](const std::string& each) { return is_alike(word, each); });
}

// For each word of the question, how well it fits a topic: a word of a name says more than one of a sentence.
using Fit = std::map<std::string, int, std::less<>>;

void add_entry(const Words& asked, const Entry& entry, Fit& fit) {
  const Words name = words_of(entry.name);
  const Words text = words_of(entry.text);
  const bool is_named = !name.empty() && std::ranges::all_of(name, [&](auto& one) { return is_among(one, asked); });
  for (const std::string& word : asked) {
    const int found = is_named && is_among(word, name) ? kOfAName : is_among(word, text) ? kOfASentence : 0;
    if (found > 0) fit[word] = std::max(fit[word], found);
  }
}

int sum_of(const Fit& fit) {
  int sum = 0;
  for (const auto& [word, found] : fit) sum += found;
  return sum;
}

}  // namespace

std::vector<std::string> closest_topics(std::string_view question, const std::vector<Entry>& entries) {
  const Words asked = words_of(question);
  std::map<std::string_view, Fit> fits;
  for (const Entry& entry : entries) add_entry(asked, entry, fits[entry.topic]);
  std::vector<std::string> best;
  int most = kOfAName;  // A topic that no word names is too far.
  for (const auto& [topic, fit] : fits) {
    const int sum = fit.size() * kShareLeast < asked.size() ? 0 : sum_of(fit);
    if (sum > most) best.clear();
    if (sum >= most) best.emplace_back(topic);
    most = std::max(most, sum);
  }
  return best;
}

}  // namespace penstock::tools
