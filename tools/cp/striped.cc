// SPDX-License-Identifier: Apache-2.0

#include "tools/cp/striped.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <vector>

#include "stripe/layout.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/new_file.h"
#include "tools/common/striped.h"
#include "tools/cp/copier.h"

namespace penstock::tools {
namespace {

using core::StripeLayout;

std::vector<std::string> folders_of(const CpSettings& settings) {
  std::vector<std::string> folders;
  for (std::size_t at = 0; at <= settings.stripe.size();) {
    const std::size_t comma = std::min(settings.stripe.find(',', at), settings.stripe.size());
    if (comma == at) throw Failure("--stripe: expected folders with commas between them", kUsage);
    folders.push_back(settings.stripe.substr(at, comma - at));
    at = comma + 1;
  }
  const StripeLayout layout{0, settings.stripe_size, static_cast<std::uint32_t>(folders.size())};
  if (folders.size() > StripeLayout::kMembersMax) {
    throw Failure(fmt::format("--stripe: {} folders, and a striped object has at most {} members", folders.size(),
                              StripeLayout::kMembersMax),
                  kUsage);
  }
  if (!layout.is_sane()) throw Failure("--stripe-size: expected a multiple of 64k up to 1G", kUsage);
  return folders;
}

// The new file or object, and how it gets its name.
class Destination {
 public:
  Destination(const CpSettings& settings, const std::string& path, std::uint64_t size, mode_t mode, Session& session)
      : force_(settings.force) {
    if (!force_ && exists(path)) throw Failure(path + ": it exists; --force replaces it");
    if (settings.stripe.empty()) {
      plain_ = std::make_unique<NewFile>(path, settings.direct ? O_DIRECT : 0, false);
      file_ = std::make_unique<File>(require(session.file(plain_->fd()), path));
      if (fchmod(plain_->fd(), mode) != 0) fail_errno(path, "set the file's mode");
      return;
    }
    unsigned flags = 0;
    if (force_) flags |= PENSTOCK_CREATE_REPLACE;
    if (settings.direct) flags |= PENSTOCK_CREATE_DIRECT;
    file_ = std::make_unique<File>(require(
        session.create_stripe(path.c_str(), folders_of(settings), size, settings.stripe_size, mode, flags), path));
  }
  const File& file() const { return *file_; }
  int fd() const { return plain_ == nullptr ? -1 : plain_->fd(); }
  void flush(const std::string& path) { require(file_->sync(), path); }
  void publish(const std::string& path) {
    if (plain_ != nullptr) plain_->publish(force_);
    else require(file_->publish(), path);
  }

 private:
  const bool force_;
  std::unique_ptr<NewFile> plain_;
  std::unique_ptr<File> file_;
};

}  // namespace

CpOutcome copy_striped(const CpSettings& settings, const std::string& path, Session& session) {
  CpOutcome outcome;
  outcome.destination = path;
  OpenFile opened = open_file(settings.source, O_RDONLY | (settings.direct ? O_DIRECT : 0));
  const bool is_object = is_striped(settings.source);
  const File from = file_or_stripe(session, opened);
  outcome.size = opened.size;
  const mode_t mode = opened.is_block_device() ? 0644 : opened.facts.st_mode & 0777;
  Destination to(settings, path, opened.size, mode, session);
  CopyEnd source{settings.source, is_object ? -1 : opened.fd.get(), &from, {}};
  CopyEnd destination{path, to.fd(), &to.file(), {}};
  Copier copier(session, settings.gpu, source, destination, opened.size, settings.window);
  const auto start = std::chrono::steady_clock::now();
  outcome.data_bytes = copier.copy();
  to.flush(path);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.read = source.tally;
  outcome.written = destination.tally;
  if (settings.verify) copier.compare();
  throw_if_interrupted();
  to.publish(path);
  return outcome;
}

}  // namespace penstock::tools
