// SPDX-License-Identifier: Apache-2.0

// How bytes may go between files and device memory, path by path, for people and for programs. Pure.
#pragma once

#include "facts/outlook.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

// The state of a need as a word: "ok", "missing", "off", "unknown".
const char* need_state_name(const facts::Finding& need);
// A note in brackets on how the path moves bytes; "" for a path without a note.
const char* mover_of(int path);
// How the path stands, with its reason and sentence: "off (pointer_not_exportable): ...".
std::string headline_of(const facts::PathOutlook& path);
// Says how files reach device memory: "files reach device memory by p2pdma, if its self-test passes".
std::string way_text(const facts::Outlook& outlook);
// The direct path with the best standing. Where all are closed, the one that the fewest steps open, if all its steps
// are known; null if there is none.
const facts::PathOutlook* nearest_direct(const facts::Outlook& outlook);
// Says which direct path is nearest to serving, where none serves yet; else "".
std::string first_counsel(const facts::Outlook& outlook);
// Prints how the path stands, in one line that is cut where it is too long.
void print_headline(Page& page, const facts::PathOutlook& path, const facts::PathOutlook* before);
// Prints how it stands, a line for each of its needs, and remedies.
void print_path(Page& page, const facts::PathOutlook& path);
// Prints why paths are refused, in two lines: a sentence with the reason's name, and the remedy if there is one.
void print_refusal(Page& page, const std::string& paths, std::string_view sentence, std::string_view reason,
                   const std::string& remedy);
// The JSON of one path, {path, standing, usable, reason, sentence, remedy}, and of all paths.
Json path_outlook_json(const facts::PathOutlook& path);
Json outlook_json(const facts::Outlook& outlook);
// Prints way_text() and first_counsel(); print_verdict() also what better paths need.
void print_way(Page& page, const facts::Outlook& outlook);
void print_verdict(Page& page, const facts::Outlook& outlook);

}  // namespace penstock::tools
