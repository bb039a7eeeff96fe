// SPDX-License-Identifier: Apache-2.0

#include "base/status.h"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace penstock::core {
namespace {

struct CodeText {
  const char* cause;
  const char* remedy;
};

// Indexed by Code. Causes read after "could not <step>: ".
constexpr CodeText kCodeTexts[] = {
    {"no error", ""},
    {"an argument is invalid", "check for null pointers, unknown constants and impossible sizes"},
    {"an offset is negative", "pass offsets of zero or more"},
    {"it is not registered", "register it first, and do not use it after it was deregistered"},
    {"it is registered already", "use the registration that there is, or deregister it first"},
    {"it is neither a regular file nor a block device", "use a regular file or a block device"},
    {"the descriptor's open flags do not allow positioned I/O", "open the file without O_APPEND and O_PATH"},
    {"the descriptor is open for writing only", "open the file with O_RDWR or O_RDONLY"},
    {"the descriptor is open for reading only", "open the file with O_RDWR or O_WRONLY"},
    {"the address belongs neither to host memory nor to a GPU's", "pass memory that is allocated and not yet freed"},
    {"the range runs past the end of the registered buffer", "check size and offset against the registration"},
    {"there is no such device, or its driver cannot be used", "run 'penstock check' to see what is missing"},
    {"no path that the configuration allows can move the bytes",
     "run 'penstock explain' on the file to see each path's reason, "
     "or change PENSTOCK_PATHS, PENSTOCK_REQUIRE or cufile.json's allow_compat_mode"},
    {"the write is unaligned, and no buffered descriptor could be opened beside the O_DIRECT one",
     "open the file without O_DIRECT, or align offset and size to the file's block size"},
    {"the storage moved fewer bytes than asked for, repeatedly, or reported an impossible number",
     "check the kernel log for storage errors"},
    {"there is not enough host memory", "lower PENSTOCK_BOUNCE_MIB, or free host memory"},
    {"a limit is reached",
     "close what is no longer used, submit fewer requests at once, or raise PENSTOCK_BOUNCE_MIB, which limits the "
     "bytes of all requests in flight"},
    {"the session is closed, or was opened before a fork",
     "open a session in this process, and use its handles until it is closed"},
    {"this version of Penstock, the kernel, the device or the file does not support it",
     "run 'penstock check' to see what is supported here"},
    {"the device, or the GPU's context, is gone",
     "keep the CUDA context alive and the device's driver bound while its memory is in use"},
    {"the range runs past the end of the allocation", "check size and offset against the allocation"},
    {"", ""},  // bad_setting: the step names the setting, its value, and what was expected.
    {"the denylist of cufile.json names the file's mount, file system, device or driver, and compatibility mode is off",
     "take that entry off the denylist, or set allow_compat_mode to true in cufile.json"},
    {"the configuration allows only direct paths, and none can serve this request",
     "set allow_compat_mode to true in cufile.json, or set CUFILE_ALLOW_COMPAT_MODE=true"},
    {"the program closed a descriptor that Penstock had opened on the file, and its number may belong to another file "
     "now",
     "close only descriptors that the program opened itself (closefrom and close_range close all), and register the "
     "file again"},
    {"the program canceled the request before it began", "submit the request again if it is still needed"},
    {"the deadline passed before the request began",
     "set a later deadline, or submit fewer requests at once: 'penstock bench' measures how many the storage can "
     "serve"},
    {"", ""},  // bad_stripe: the step names the file, and what is wrong with it.
};
static_assert(std::size(kCodeTexts) == static_cast<std::size_t>(Code::bad_stripe) + 1);

const char* errno_remedy(int error_number) {
  switch (error_number) {
    case ENOSPC: return "free space on the file system";
    case EDQUOT: return "free space or raise the quota";
    case EIO: return "check the kernel log for storage errors";
    case EBADF: return "pass an open descriptor, and do not close it before it is deregistered";
    case ENOENT: return "check the name";
    case EEXIST: return "choose another name, or allow the file to be replaced";
    case EACCES:
    case EPERM: return "check ownership and permissions";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    case ENOMEM: return "free memory, or raise the locked-memory limit (ulimit -l)";
    case EFBIG: return "check the file-size limit (ulimit -f) and the file system's largest file";
    case EISDIR: return "name a file, not a directory";
    case EROFS: return "mount the file system writable";
    case ENOSYS:
    case EOPNOTSUPP: return "check that the kernel, its drivers and the file system can do this";
    default: return "";
  }
}

// True if the step itself contains cause and remedy, after a colon, as for some limits.
bool says_all(const Status& status) {
  const bool names_limit = status.is(Code::limit) && std::strchr(status.step, ':') != nullptr;
  return names_limit || status.is(Code::bad_setting) || status.is(Code::bad_stripe);
}

std::string with_remedy(std::string sentence, const char* remedy) {
  if (remedy[0] != '\0') sentence.append("; ").append(remedy);
  return sentence;
}

}  // namespace

std::string describe(const Status& status, const char* driver) {
  if (status.ok()) return "success";
  std::string sentence = std::string("could not ") + (status.step[0] ? status.step : "complete the request");
  if (says_all(status)) return sentence;
  sentence += ": ";
  switch (status.domain) {
    case Domain::penstock: {
      const auto index = static_cast<std::size_t>(status.code);
      if (index >= std::size(kCodeTexts)) return sentence + "unknown error " + std::to_string(status.code);
      return with_remedy(sentence + kCodeTexts[index].cause, kCodeTexts[index].remedy);
    }
    case Domain::os: {
      char text[128] = "";
      return with_remedy(sentence + strerror_r(status.code, text, sizeof text), errno_remedy(status.code));
    }
    case Domain::driver:
      return sentence + "error " + std::to_string(status.code) + " of the " + (driver[0] != '\0' ? driver : "device") +
             " driver";
  }
  return sentence + "unknown error";
}

}  // namespace penstock::core
