// SPDX-License-Identifier: Apache-2.0

// A small file system of its own for a test, in memory, with its drive: an image in /dev/shm behind a loop device. It
// needs root. The test's process gets a mount namespace of its own, with which everything goes, also when it is killed.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/unique_fd.h"

namespace penstock {

class LoopFileSystem {
 public:
  struct Terms {
    std::string size;  // As truncate takes it.
    std::string options = "defaults";
    bool in_partition = false;  // It begins a mebibyte behind the drive's start.
  };

  // `make` is the command that makes the file system on the device, which is put behind it.
  LoopFileSystem(const std::string& type, const std::string& make, const Terms& terms) {
    failure_ = enter_namespace();
    if (failure_.empty()) failure_ = make_folder();
    if (failure_.empty()) failure_ = mount(type, make, terms);
  }
  ~LoopFileSystem() {
    if (folder_.empty()) return;
    drive_.reset();
    (void)::umount2(folder_.c_str(), MNT_DETACH);
    ::rmdir(folder_.c_str());
  }
  LoopFileSystem(const LoopFileSystem&) = delete;
  LoopFileSystem& operator=(const LoopFileSystem&) = delete;

  // The sentence that says why there is none; "" if there is one.
  const std::string& failure() const { return failure_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // The node that the file system lies on, with O_DIRECT: the loop device, or its partition.
  int drive() const { return drive_.get(); }
  // The node of the whole loop device, if that has the file system in a partition.
  core::UniqueFd open_whole_drive() const {
    return core::UniqueFd(::open(node_.substr(0, node_.rfind("p1")).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  }

 private:
  static std::string enter_namespace() {
    static const int error = [] {
      const bool is_alone = ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
      return is_alone ? 0 : errno;
    }();
    return error == 0 ? "" : std::string("mounting needs root: ") + std::strerror(error);
  }
  std::string make_folder() {
    char folder[] = "/dev/shm/loop-test-XXXXXX";
    if (::mkdtemp(folder) == nullptr) return "no folder can be made in /dev/shm";
    folder_ = folder;
    return "";
  }
  // The device is detached when it is unmounted.
  std::string mount(const std::string& type, const std::string& make, const Terms& terms) {
    const std::string image = folder_ + ".image";
    const std::string add = terms.in_partition ? "addpart $device 1 2048 40960; device=${device}p1; " : "";
    node_ = output_of("PATH=$PATH:/usr/sbin:/sbin; set -e; truncate --size " + terms.size + " " + image +
                      "; device=$(losetup --find --show --partscan " + image + "); rm " + image +
                      "; trap \"losetup --detach $device\" EXIT; " + add + make + " $device >&2; mount -t " + type +
                      " -o " + terms.options + " $device " + folder_ + "; echo $device");
    if (node_.empty()) return "could not make " + type + " behind a loop device";
    drive_ = core::UniqueFd(::open(node_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    return drive_.valid() ? "" : "could not open " + node_;
  }
  static std::string output_of(const std::string& script) {
    std::FILE* const pipe = ::popen(script.c_str(), "r");
    if (pipe == nullptr) return "";
    char text[4096] = "";
    const bool has_text = std::fgets(text, sizeof text, pipe) != nullptr;
    const bool is_good = ::pclose(pipe) == 0;
    text[std::strcspn(text, "\n")] = 0;
    return has_text && is_good ? text : "";
  }

  std::string folder_;
  std::string node_;
  std::string failure_;
  core::UniqueFd drive_;
};

}  // namespace penstock
