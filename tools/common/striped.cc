// SPDX-License-Identifier: Apache-2.0

#include "tools/common/striped.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "stripe/manifest.h"
#include "tools/common/context.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kBeginning = 256;

std::string beginning_of(const OpenFile& file) {
  if (file.is_block_device() || file.size > core::kManifestBytesMax) return "";
  std::string text(kBeginning, '\0');
  text.resize(read_at(file.fd.get(), file.path, std::as_writable_bytes(std::span(text)), 0));
  return text;
}

}  // namespace

bool is_striped(const std::string& path) {
  try {
    return core::is_manifest(beginning_of(open_file(path, O_RDONLY)));
  } catch (const Failure&) {
    return false;  // The next caller that opens it reports why.
  }
}

File file_or_stripe(const Session& session, OpenFile& opened) {
  if (!is_striped(opened.path)) return require(session.file(opened.fd.get()), opened.path);
  File file = require(session.stripe(opened.path.c_str()), opened.path);
  opened.size = require(file.stripe_info(), opened.path).size;
  return file;
}

std::string StripeNote::text() const {
  return fmt::format("{}: a striped object of {} member{}, {} a stripe, {}", manifest, info.member_count,
                     info.member_count == 1 ? "" : "s", format_size(info.stripe_bytes), format_size(info.size));
}

StripeNote stripe_note(const Session& session, const std::string& manifest) {
  const File file = require(session.stripe(manifest.c_str()), manifest);
  StripeNote note{manifest, require(file.stripe_info(), manifest), {}};
  note.info.object = nullptr;  // The object belongs to the handle, which is closed.
  for (unsigned i = 0; i < note.info.member_count; ++i) {
    const char* name = nullptr;
    (void)require(file.member(i, &name), manifest);
    note.members.emplace_back(name);
  }
  return note;
}

}  // namespace penstock::tools
