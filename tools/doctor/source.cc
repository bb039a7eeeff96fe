// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "stripe/members.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/residency.h"
#include "tools/common/striped.h"

namespace penstock::tools {
namespace {

core::StripeMembers open_object(const std::string& manifest) {
  auto opened = core::open_members(manifest);
  if (!opened.ok()) throw Failure(core::describe(opened.status()));
  return std::move(*opened);
}

using Identity = std::pair<dev_t, ino_t>;
Identity identity_of(const OpenFile& file) { return {file.facts.st_dev, file.facts.st_ino}; }

}  // namespace

Source::Source(const std::string& path) : path_(path), is_object_(is_striped(path)) {
  if (is_object_) {
    const core::StripeMembers object = open_object(path);
    layout_ = object.manifest.layout;
    for (const std::string& file : object.manifest.files) files_.push_back(open_file(file, O_RDONLY));
    return;
  }
  files_.push_back(open_file(path, O_RDONLY));
  layout_ = {.size = files_[0].size, .stripe_bytes = core::StripeLayout::kStripeMax, .members = 1};
}

File Source::open_in(const Session& session) const {
  return is_object_ ? require(session.stripe(path_.c_str()), path_) : require(session.file(files_[0].fd.get()), path_);
}

std::size_t Source::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < bytes.size() && offset + done < size()) {
    const std::uint64_t at = offset + done;
    const OpenFile& file = files_[layout_.member_at(at)];
    const auto asked = std::min<std::uint64_t>(std::min(layout_.stripe_end(at), size()) - at, bytes.size() - done);
    const ssize_t count =
        pread(file.fd.get(), bytes.data() + done, asked, static_cast<off_t>(layout_.offset_in_member(at)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(file.path, "read the file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void Source::each_part(std::uint64_t offset, std::uint64_t size, const Visit& visit) const {
  core::StripeLayout before = layout_, behind = layout_;
  before.size = std::min(offset, layout_.size);
  behind.size = size == 0 ? layout_.size : std::min(layout_.size, before.size + size);
  for (std::uint32_t i = 0; i < layout_.members; ++i) {
    const std::uint64_t begin = before.member_bytes(i), end = behind.member_bytes(i);
    if (begin < end) visit(files_[i], begin, end - begin);
  }
}

std::optional<std::uint64_t> Source::cached(std::uint64_t offset, std::uint64_t size) const {
  std::optional<std::uint64_t> sum = 0;
  each_part(offset, size, [&](const OpenFile& file, std::uint64_t at, std::uint64_t bytes) {
    const auto part = cached_bytes(file.fd.get(), at, bytes);
    if (!part) sum.reset();
    else if (sum) *sum += *part;
  });
  return sum;
}

void Source::warm(std::uint64_t offset, std::uint64_t size) const {
  each_part(offset, size,
            [](const OpenFile& file, std::uint64_t at, std::uint64_t bytes) { warm_cache(file.path, at, bytes); });
}

void Source::forget(std::uint64_t offset, std::uint64_t size) const {
  each_part(offset, size, [](const OpenFile& file, std::uint64_t at, std::uint64_t bytes) {
    posix_fadvise(file.fd.get(), static_cast<off_t>(at), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  });
}

std::vector<std::string> without_members(const std::vector<std::string>& files) {
  std::set<Identity> members;
  for (const std::string& file : files) {
    if (!is_striped(file)) continue;
    for (const OpenFile& member : Source(file).files()) members.insert(identity_of(member));
  }
  if (members.empty()) return files;
  std::vector<std::string> rest;
  for (const std::string& file : files) {
    if (!members.contains(identity_of(open_file(file, O_RDONLY)))) rest.push_back(file);
  }
  return rest;
}

}  // namespace penstock::tools
