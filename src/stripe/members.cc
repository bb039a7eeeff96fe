// SPDX-License-Identifier: Apache-2.0

#include "stripe/members.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/kept_text.h"
#include "base/missing_call.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "base/whole_transfer.h"

namespace penstock::core {
namespace {

constexpr std::size_t kNameBytesMax = 160;  // The manifest's share of the 255 bytes of a member's name.

Status errno_at(int error, const std::string& step, const std::string& path) {
  return os_failure(error, kept_text(step + " " + printable(path), "use a file of the striped object"));
}

Result<Manifest> read_manifest(const std::string& name) {
  const RegularFile file = open_regular_file(name);
  if (file.error != 0) return errno_at(file.error, "open the manifest", name);
  std::string text(kManifestBytesMax + 1, '\0');
  const Result<std::size_t> got = read_all(file.fd.get(), std::as_writable_bytes(std::span(text)), 0, "read");
  if (!got.ok()) return errno_at(got.status().code, "read the manifest", name);
  text.resize(*got);
  if (text.size() <= kManifestBytesMax) return parse_manifest(text, name);
  return bad_stripe("open the striped object " + printable(name) + ": it is larger than 256 KiB, so no manifest");
}

Status bad_member(const Manifest& manifest, std::uint32_t member, const std::string& fault) {
  return bad_stripe("open member " + std::to_string(member) + " of the striped object, " +
                    printable(manifest.files[member]) + ": " + fault);
}

Status check_member(const Manifest& manifest, std::uint32_t member, int fd, const struct stat& facts) {
  const std::uint64_t offset = trailer_offset(manifest, member), expected = offset + kTrailerBytes;
  if (static_cast<std::uint64_t>(facts.st_size) != expected) {
    return bad_member(manifest, member,
                      "it has " + std::to_string(facts.st_size) + " bytes instead of " + std::to_string(expected));
  }
  std::string found(kTrailerBytes, '\0');
  const Result<std::size_t> got = read_all(fd, std::as_writable_bytes(std::span(found)), offset, "read");
  if (!got.ok()) return errno_at(got.status().code, "read", manifest.files[member]);
  if (*got == kTrailerBytes && found == trailer_of(manifest, member)) return success();
  return bad_member(manifest, member, trailer_fault(manifest, member, found));
}

std::string random_id() {
  unsigned char bytes[kObjectIdDigits / 2];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return "";
  std::string id;
  for (const unsigned char byte : bytes) id.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
  return id;
}

// Resolves links and relative parts, so that every reader of the manifest finds the same folder.
Result<std::string> real_folder(const std::string& folder) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(folder.c_str(), nullptr), std::free);
  if (real == nullptr) return errno_at(errno, "open the folder", folder);
  const std::string path = real.get();
  return is_utf8(path) ? Result<std::string>(path == "/" ? "" : path) : errno_at(EILSEQ, "use the folder", folder);
}

// Allocates the space at once, so that a full drive fails before any byte is copied.
Status lay_out(int fd, std::uint64_t size, const std::string& path) {
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) return errno_at(errno, "set the size of", path);
  while (::fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) {
    if (errno == EOPNOTSUPP || is_call_missing(errno)) break;  // The writes allocate the blocks then.
    if (errno != EINTR) return errno_at(errno, "reserve space for", path);
  }
  return success();
}

Result<std::unique_ptr<NewFile>> create_member(const std::string& path, const NewStripe::Options& options) {
  NewFile::Options wanted{.mode = options.mode};
  if (options.direct) wanted.flags = O_DIRECT;
  Result<std::unique_ptr<NewFile>> file = NewFile::create(path, wanted);
  if (file.ok() || !options.direct || !file.status().is_errno(EINVAL)) return file;
  return NewFile::create(path, {.mode = options.mode});
}

Status write_whole(int fd, std::string_view text, std::uint64_t offset, const std::string& path) {
  const Status status = write_all(fd, std::as_bytes(std::span(text)), offset, "write");
  return status.ok() ? status : errno_at(status.code, "write", path);
}

Status write_trailer(int fd, const Manifest& manifest, std::uint32_t member) {
  alignas(kTrailerBytes) char block[kTrailerBytes];  // Direct I/O may need this alignment.
  std::memcpy(block, trailer_of(manifest, member).data(), sizeof block);
  return write_whole(fd, {block, sizeof block}, trailer_offset(manifest, member), manifest.files[member]);
}

}  // namespace

Result<StripeMembers> open_members(const std::string& name) {
  Result<Manifest> manifest = read_manifest(name);
  if (!manifest.ok()) return manifest.status();
  StripeMembers opened{std::move(*manifest), {}};
  for (std::uint32_t i = 0; i < opened.manifest.layout.members; ++i) {
    RegularFile file = open_regular_file(opened.manifest.files[i]);
    const std::string step = "open member " + std::to_string(i) + " of the striped object,";
    if (file.error == ENOENT || file.error == ENOTDIR)
      return bad_member(opened.manifest, i, "it is missing; is its drive mounted?");
    if (file.error != 0) return errno_at(file.error, step, opened.manifest.files[i]);
    if (const Status status = check_member(opened.manifest, i, file.fd.get(), file.facts); !status.ok()) return status;
    opened.files.push_back(std::move(file.fd));
  }
  return opened;
}

Result<std::unique_ptr<NewStripe>> NewStripe::create(const std::string& manifest, const Options& options) {
  std::unique_ptr<NewStripe> made(new NewStripe(absolute_path(manifest), options.replace));
  if (const Status status = made->make(options); !status.ok()) return status;
  return made;
}

Status NewStripe::make(const Options& options) {
  mode_ = options.mode;
  manifest_.layout = {options.size, options.stripe_bytes, 0};
  if (options.folders.size() <= StripeLayout::kMembersMax) {
    manifest_.layout.members = static_cast<std::uint32_t>(options.folders.size());
  }
  if (!manifest_.layout.is_sane()) return failure(Code::invalid_argument, "create the striped object");
  struct stat there {};
  if (!replace_ && ::lstat(name_.c_str(), &there) == 0) return errno_at(EEXIST, "create the manifest", name_);
  manifest_.id = random_id();
  if (manifest_.id.empty()) return os_failure(EAGAIN, "draw a number for the striped object");
  const std::string base = name_.substr(name_.rfind('/') + 1);
  if (base.empty() || base.size() > kNameBytesMax || !is_utf8(base))
    return errno_at(base.empty() ? EISDIR : EINVAL, "create the manifest", name_);
  for (std::uint32_t i = 0; i < manifest_.layout.members; ++i) {
    const Result<std::string> folder = real_folder(options.folders[i]);
    if (!folder.ok()) return folder.status();
    manifest_.files.push_back(*folder + "/" + base + "." + manifest_.id + "." + std::to_string(i) + "of" +
                              std::to_string(manifest_.layout.members));
    Result<std::unique_ptr<NewFile>> file = create_member(manifest_.files[i], options);
    if (!file.ok()) return file.status();
    members_.push_back(std::move(*file));
    const std::uint64_t whole = trailer_offset(manifest_, i) + kTrailerBytes;
    if (const Status status = lay_out(fd(i), whole, manifest_.files[i]); !status.ok()) return status;
  }
  return success();
}

NewStripe::~NewStripe() {
  if (is_published_) return;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i]->is_published()) (void)::unlink(manifest_.files[i].c_str());
  }
}

Status NewStripe::make_manifest() {
  Result<std::unique_ptr<NewFile>> file = NewFile::create(name_, {.mode = mode_});
  if (!file.ok()) return file.status();
  const Status status = write_whole((*file)->fd(), manifest_text(manifest_), 0, name_);
  if (status.ok()) manifest_file_ = std::move(*file);
  return status;
}

// The file is kept: where its folder could not be flushed it has its name, and only that is left to do.
Status NewStripe::publish_manifest() {
  if (manifest_file_ == nullptr) {
    if (const Status status = make_manifest(); !status.ok()) return status;
  }
  const Status status = manifest_file_->publish(replace_);
  is_published_ = manifest_file_->is_published();
  return status;
}

// Only members that really belong to the old object, whatever its manifest says.
void NewStripe::note_replaced() {
  replaced_.clear();
  const Result<StripeMembers> old = open_members(name_);
  if (old.ok() && old->manifest.id != manifest_.id) replaced_ = old->manifest.files;
}

Status NewStripe::publish() {
  for (std::uint32_t i = 0; i < manifest_.layout.members; ++i) {
    NewFile& member = *members_[i];
    if (const Status status = write_trailer(member.fd(), manifest_, i); !status.ok()) return status;
    if (const Status status = member.publish(false); !status.ok()) return status;
  }
  if (replace_ && !is_published_) note_replaced();
  if (const Status status = publish_manifest(); !status.ok()) return status;
  for (const std::string& file : replaced_) (void)::unlink(file.c_str());
  return success();
}

}  // namespace penstock::core
