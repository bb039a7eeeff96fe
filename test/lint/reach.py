# SPDX-License-Identifier: Apache-2.0

"""Whether a source includes what it names of this tree, for lint.py. A build that joins sources hides that one lacks a
header which another had before it, and so it is with the test `clang`; to compile each alone takes half an hour. This
reads text: a type, a constant, a macro or a function that a header declares outside of classes is among what the
file's own includes lead to. It takes no notice of names that these also have otherwise, of members, and of the headers
of others."""

import re
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
ATTRIBUTE = r"(?:(?:\[\[\w+\]\]|(?:CAPABILITY|alignas)\(\w+\)) )?"
# From the beginning of a line: what is declared outside of classes.
DECLARED = [re.compile(form, re.MULTILINE) for form in (
    rf"^(?:template <[^\n]*>\n?)?(?:struct|class|enum class|enum|union) {ATTRIBUTE}(\w+)(?! *;)",
    r"^(?:using|#\s*define) (\w+)",
    r"^(?:inline |static )?constexpr [^=;{(\n]*?\b(\w+)(?:\[\w*\])?\s*(?:=|\{|;)",
    r"^(?!return\b|using\b|namespace\b|#|typedef\b|else\b)(?:\[\[nodiscard\]\] |inline |constexpr |extern )*(?:const )?"
    r"[\w:<>,*& ]+[ *&](\w+)\((?![*])")]
# Anywhere: all that looks like a declaration, so that a local or a member of that name is not taken for another's.
KNOWN = [re.compile(form) for form in (
    rf"\b(?:struct|class|enum|union|using|define|typename|auto|namespace) {ATTRIBUTE}\[?[&*]*(\w+)",
    r"(?:(?!(?:return|else|throw|new|case|operator|in)\b)\b[\w>]+|[>*&\]]) ?[*&]*\b(\w+)\b(?=\s*[({=;,):\[])",
    r", (\w+)(?= ?[,;=])")]
# A type or constant, or a function that is called; bare, or by the namespace of a room.
NAMED = [re.compile(form) for form in (
    r"(?<![\w.>~:])(k?[A-Z]\w*)\b", r"(?<![\w.>:])([a-z]\w*(?<!_))\(",
    r"\b(?:core|facts|tools|model|k8s|kv)::(k?[A-Z]\w*|[a-z_]\w*(?=\())")]
KEYWORDS = {"static_assert", "alignas", "offsetof", "decltype", "bool"}
SYSTEM_CALLS = {"open", "read", "close"}


def names_by(forms, text):
    return {name for form in forms for name in form.findall(text)}


class Reach:
    """What each file of `code` declares, and which files its includes lead to; `code` has no comments and strings,
    `text` has them."""

    def __init__(self, text, code):
        self.text, self.code, self.reached, self.known = text, code, {}, {}
        self.homes = {}  # The headers that declare a name.
        for header in (name for name in code if name.endswith((".h", ".hpp"))):
            for name in names_by(DECLARED, code[header]) - KEYWORDS - SYSTEM_CALLS:
                self.homes.setdefault(name, set()).add(header)

    def files_of(self, name):
        """The file, and those that its includes lead to."""
        if name not in self.reached:
            self.reached[name] = found = {name}
            for header in INCLUDE.findall(self.text[name]):
                places = ["src/" + header, "include/" + header, header, (Path(name).parent / header).as_posix()]
                for file in [place for place in places if place in self.code][:1]:
                    found |= self.files_of(file)
        return self.reached[name]

    def known_in(self, name):
        if name not in self.known:
            self.known[name] = names_by(KNOWN, self.code[name])
        return self.known[name]

    def lacks(self, name, may_include):
        """Names that the file uses, each with the headers that it `may_include` for it and does not."""
        files = self.files_of(name)
        known = set().union(*(self.known_in(file) for file in files))
        for used in sorted(names_by(NAMED, self.code[name]) - known):
            homes = sorted(header for header in self.homes.get(used, ()) if may_include(header))
            if homes and files.isdisjoint(homes):
                yield used, homes
