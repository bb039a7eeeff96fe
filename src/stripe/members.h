// SPDX-License-Identifier: Apache-2.0

// The files of a striped object on their file systems: opening those of a manifest, each of which is looked at, and
// making new ones that appear together. A reader finds all of an object or nothing: the manifest gets its name last,
// and in one step. A loss of power or kill -9 before that leaves members without a manifest, with the object's number
// in their names, which nothing reads and anybody may delete.
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
  std::vector<UniqueFd> files;  // For reading, one for each of the manifest's.
};

// Fails with bad_stripe where the manifest is none or a member is cut off, another's or missing, and with an errno for
// what cannot be opened. Both name the file.
Result<StripeMembers> open_members(const std::string& manifest);

class NewStripe {
 public:
  struct Options {
    std::vector<std::string> folders;  // One for each member: on a drive each, as a rule.
    std::uint64_t size = 0;
    std::uint64_t stripe_bytes = 0;
    mode_t mode = 0600;    // The mode of open(2), less the umask.
    bool direct = false;   // With O_DIRECT, where the file system takes it.
    bool replace = false;  // An object or file of the manifest's name.
  };
  // Makes the members, with room for their bytes. Fails as the members' file systems do, and with EEXIST.
  static Result<std::unique_ptr<NewStripe>> create(const std::string& manifest, const Options& options);
  // Removes members that have their names already where the manifest has not.
  ~NewStripe();
  NewStripe(const NewStripe&) = delete;
  NewStripe& operator=(const NewStripe&) = delete;

  const Manifest& manifest() const { return manifest_; }
  int fd(std::uint32_t member) const { return members_[member]->fd(); }
  // Writes down the members, gives them and then the manifest their names. The members of an object that it replaces
  // are removed. May be tried again.
  Status publish();

 private:
  NewStripe(std::string name, bool replace) : name_(std::move(name)), replace_(replace) {}
  Status make(const Options& options);
  Status publish_manifest(mode_t mode);

  const std::string name_;  // The manifest's.
  const bool replace_;
  mode_t mode_ = 0600;
  Manifest manifest_;
  std::vector<std::unique_ptr<NewFile>> members_;
  bool is_published_ = false;
};

}  // namespace penstock::core
