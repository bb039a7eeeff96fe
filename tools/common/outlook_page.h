// SPDX-License-Identifier: Apache-2.0

// How bytes may go between files and device memory, path by path, for people and for programs. Pure.
#pragma once

#include "facts/outlook.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

// "ok", "missing", "off", "unknown"
const char* need_state_name(const facts::Finding& need);
// A line for the path, one for each need, and remedies.
void print_path(Page& page, const facts::PathOutlook& path);
// {path, standing, usable, reason, sentence, remedy}, of one and of all.
Json path_outlook_json(const facts::PathOutlook& path);
Json outlook_json(const facts::Outlook& outlook);
// "files reach device memory by p2pdma, if its self-test passes", and what the better paths want.
void print_verdict(Page& page, const facts::Outlook& outlook);

}  // namespace penstock::tools
