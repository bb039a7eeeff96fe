// SPDX-License-Identifier: Apache-2.0

// The files of a striped object on their file systems. Opens and checks the members of a manifest, and makes new
// members that appear together. A reader finds all of an object or nothing: the manifest gets its name last, in one
// step. A loss of power or kill -9 before that leaves members without a manifest, with the object's number in their
// names; nothing reads them, and anybody may delete them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/new_file.h"
#include "base/unique_fd.h"
#include "stripe/manifest.h"

namespace penstock::core {

struct StripeMembers {
  Manifest manifest;
  std::vector<UniqueFd> files;  // Open for reading, one for each member of the manifest.
};

// Fails with bad_stripe if it is no manifest, or if a member is truncated, missing or from another object; fails with
// an errno if a file cannot be opened. Both name the file.
Result<StripeMembers> open_members(const std::string& manifest);

class NewStripe {
 public:
  struct Options {
    std::vector<std::string> folders;  // One for each member, usually on different drives.
    std::uint64_t size = 0;
    std::uint64_t stripe_bytes = 0;
    mode_t mode = 0600;    // The mode of open(2), less the umask.
    bool direct = false;   // Opens with O_DIRECT if the file system supports it.
    bool replace = false;  // Replaces an object or file of the manifest's name.
  };
  // Makes the members, with space for their bytes. Fails with the errors of their file systems, and with EEXIST.
  static Result<std::unique_ptr<NewStripe>> create(const std::string& manifest, const Options& options);
  // Removes members that already have their names if the manifest does not.
  ~NewStripe();
  NewStripe(const NewStripe&) = delete;
  NewStripe& operator=(const NewStripe&) = delete;

  const Manifest& manifest() const { return manifest_; }
  int fd(std::uint32_t member) const { return members_[member]->fd(); }
  // Flushes the members, and gives them and then the manifest their names. If an object is replaced, its members are
  // removed. May be called again.
  Status publish();

 private:
  NewStripe(std::string name, bool replace) : name_(std::move(name)), replace_(replace) {}
  Status make(const Options& options);
  Status make_manifest();
  Status publish_manifest();
  void note_replaced();

  const std::string name_;  // The name of the manifest.
  const bool replace_;
  mode_t mode_ = 0600;
  Manifest manifest_;
  std::vector<std::unique_ptr<NewFile>> members_;
  std::unique_ptr<NewFile> manifest_file_;
  std::vector<std::string> replaced_;  // The members of the object that has been replaced.
  bool is_published_ = false;
};

}  // namespace penstock::core
