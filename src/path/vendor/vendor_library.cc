// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/vendor/foreign_call.h"
#include "path/vendor/vendor_reasons.h"
#include "topology/nvidia_fs_version.h"
#include "topology/platform.h"
#include "topology/root.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "call NVIDIA's cuFile library";
constexpr const char* kFile = "libcufile.so.0";
constexpr const char* kOurMarker = "penstock_version";  // Only Penstock's library exports it.
constexpr std::int32_t kAlreadyOpen = 5026;
constexpr std::int32_t kNoSuchName = 5031;
constexpr std::int32_t kDescriptorKind = 1;  // A file descriptor, as opposed to a user-space file system.

// The structures of its interface.
struct VendorError {
  std::int32_t error;
  std::int32_t cuda_error;
};
struct VendorDescriptor {
  std::int32_t kind;
  union {
    int fd;
    void* handle;
  } file;
  const void* operations;
};
static_assert(sizeof(VendorError) == 8 && sizeof(VendorDescriptor) == 24);

template <typename Call>
bool find(void* library, Call& call, const char* name) {
  call = reinterpret_cast<Call>(::dlsym(library, name));
  return call != nullptr;
}

// Binds the library's own symbols before ours, which may be in the global scope. Sanitizers do not allow this.
int load_flags() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return RTLD_NOW | RTLD_LOCAL;
#else
  return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
}

bool is_same(const struct stat& one, const struct stat& other) {
  return std::pair(one.st_dev, one.st_ino) == std::pair(other.st_dev, other.st_ino);
}

// False if the file never had a name, another file has it now, or this process cannot look it up.
bool is_what_its_name_says(int fd) {
  char link[32];
  char name[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, name, sizeof name - 1);
  if (length <= 0) return false;
  name[length] = '\0';
  struct stat named {
  }, file{};
  return ::stat(name, &named) == 0 && ::fstat(fd, &file) == 0 && is_same(named, file);
}

// Nothing if the call does not return.
std::optional<VendorError> open_driver(VendorError (*open)(), std::chrono::milliseconds patience) {
  VendorError answer{};
  const bool came_back = ForeignCall::run(patience, [&answer, open](ForeignCall& call) {
    call.go_out();
    const VendorError result = open();
    call.come_back();
    answer = result;
  });
  return came_back ? std::optional(answer) : std::nullopt;
}

// Between the two it touches nothing of this library: function and arguments are on the thread's own stack.
template <typename Foreign, typename... Arguments>
auto call_outside(ForeignCall* call, Foreign foreign, Arguments... arguments) {
  if (call != nullptr) call->go_out();
  errno = 0;
  const auto result = foreign(arguments...);
  const int error = errno;
  if (call != nullptr) call->come_back();
  errno = error;
  return result;
}

Result<std::size_t> moved(ssize_t result, int error) {
  if (result >= 0) return static_cast<std::size_t>(result);
  if (result != -1) return os_failure(static_cast<int>(-result), kStep);
  return os_failure(error != 0 ? error : EIO, kStep);
}

}  // namespace

struct VendorLibrary::Calls {
  VendorError (*open_driver)();
  VendorError (*close_driver)();
  VendorError (*register_file)(void** handle, VendorDescriptor* descriptor);
  void (*deregister_file)(void* handle);
  ssize_t (*read)(void* handle, void* memory, std::size_t size, off_t file_offset, off_t memory_offset);
  ssize_t (*write)(void* handle, const void* memory, std::size_t size, off_t file_offset, off_t memory_offset);

  bool load(void* library) {
    // Programs call the second close since CUDA 11.8: its header renames the first.
    bool has_all =
        find(library, close_driver, "cuFileDriverClose_v2") || find(library, close_driver, "cuFileDriverClose");
    has_all &= find(library, open_driver, "cuFileDriverOpen");
    has_all &= find(library, register_file, "cuFileHandleRegister");
    has_all &= find(library, deregister_file, "cuFileHandleDeregister");
    has_all &= find(library, read, "cuFileRead");
    has_all &= find(library, write, "cuFileWrite");
    return has_all;
  }
};

std::string find_vendor_library(const std::string& root_directory) {
  const Result<Root> root = Root::open(root_directory);
  if (!root.ok()) return {};
  std::vector<std::string> folders;
  const auto add_toolkit = [&](const std::string& toolkit) {
    folders.push_back(toolkit + "/lib64");
    for (const std::string& target : root->list(toolkit + "/targets")) {
      folders.push_back(toolkit + "/targets/" + target + "/lib");
    }
  };
  add_toolkit("/usr/local/cuda");  // The link to the toolkit in use.
  std::vector<std::string> names = root->list("/usr/local");
  std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name.starts_with("cuda-")) add_toolkit("/usr/local/" + name);
  }
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}) {
    folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + kFile;
    if (root->exists(path)) return root->is_machine() ? path : root_directory + path;
  }
  return {};
}

Reason look_at_vendor_file(const std::string& path) {
  struct stat file {};
  if (path.empty() || path[0] != '/' || ::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) {
    return vendor_reason::library_missing;
  }
  Dl_info own{};
  struct stat own_file {};
  (void)::dladdr(reinterpret_cast<const void*>(&look_at_vendor_file), &own);
  const bool is_known = own.dli_fname != nullptr && ::stat(own.dli_fname, &own_file) == 0;
  const bool is_own = is_known && is_same(own_file, file);
  return is_own ? vendor_reason::is_ourselves : Reason::none;
}

std::string vendor_file(const VendorRules& rules) {
  return rules.library.empty() ? find_vendor_library(rules.root) : rules.library;
}

Reason vendor_outlook(const VendorRules& rules) {
  if (rules.use == VendorUse::off) return vendor_reason::off;
  if (const Reason reason = look_at_vendor_file(vendor_file(rules)); reason != Reason::none) return reason;
  const Result<Root> root = Root::open(rules.root);
  const NvidiaFs nvidia_fs = root.ok() ? read_nvidia_fs(*root) : NvidiaFs{};
  if (!nvidia_fs.is_loaded || nvidia_fs.storage_drivers.empty()) return vendor_reason::nvidia_fs_missing;
  const bool is_deadly = nvidia_fs_stops_machine(nvidia_fs, *root) == Tristate::yes;
  return is_deadly ? pipeline_reason::nvidia_fs_task_switch : Reason::none;
}

std::shared_ptr<VendorLibrary> VendorLibrary::open(const std::string& path, std::chrono::milliseconds patience,
                                                   Proof& why_not) {
  // The count of forks at the first load plus one; 0: nothing was loaded.
  static std::atomic<std::uint32_t> loaded_after{0};
  // Never destroyed, because nothing of the library is called at exit.
  static Mutex& mutex = *new Mutex;
  static auto& open_ones = *new std::map<std::string, std::weak_ptr<VendorLibrary>>;
  static auto& given_up = *new std::set<std::string>;

  why_not = {};
  // Checked before the lock, which another thread may have held when the process forked.
  const std::uint32_t generation = fork_count() + 1;
  if (const std::uint32_t first = loaded_after.load(); first != 0 && first != generation) {
    why_not = {vendor_reason::refused, ECHILD};
    return nullptr;
  }
  loaded_after.store(generation);
  const MutexLock lock(mutex);
  if (std::shared_ptr<VendorLibrary> known = open_ones[path].lock()) return known;
  if (given_up.contains(path)) {
    why_not = {vendor_reason::refused, ETIMEDOUT};
    return nullptr;
  }
  void* library = ::dlopen(path.c_str(), load_flags());
  Calls calls{};
  if (library == nullptr) why_not = {vendor_reason::incomplete};
  else if (::dlsym(library, kOurMarker) != nullptr) why_not = {vendor_reason::is_ourselves};
  else if (!calls.load(library)) why_not = {vendor_reason::incomplete};
  if (why_not.reason != Reason::none) {
    if (library != nullptr) ::dlclose(library);
    return nullptr;
  }
  const std::optional<VendorError> opened = open_driver(calls.open_driver, patience);
  if (!opened) given_up.insert(path);
  // If other code opened the driver, it also closes it.
  const bool owns_driver = opened && opened->error == 0;
  if (!owns_driver && (!opened || opened->error != kAlreadyOpen)) {
    why_not = {vendor_reason::refused, opened ? opened->error : ETIMEDOUT};
    return nullptr;
  }
  std::shared_ptr<VendorLibrary> made(new VendorLibrary(calls, owns_driver));
  open_ones[path] = made;
  return made;
}

VendorLibrary::VendorLibrary(const Calls& calls, bool owns_driver)
    : calls_(std::make_unique<const Calls>(calls)), owns_driver_(owns_driver), forks_(fork_count()) {}

VendorLibrary::~VendorLibrary() {
  if (owns_driver_ && forks_ == fork_count() && !is_given_up()) (void)calls_->close_driver();
}

Result<void*> VendorLibrary::register_file(int fd, ForeignCall* call) {
  if (is_given_up()) return os_failure(ETIMEDOUT, kStep);
  // The library reopens the file by its name, and would use any file that has the name by then.
  if (!is_what_its_name_says(fd)) return os_failure(kNoSuchName, kStep);
  VendorDescriptor descriptor{};
  descriptor.kind = kDescriptorKind;
  descriptor.file.fd = fd;
  void* handle = nullptr;
  const VendorError result = call_outside(call, calls_->register_file, &handle, &descriptor);
  if (result.error != 0) return os_failure(result.error, kStep);
  return handle;
}

void VendorLibrary::deregister_file(void* handle) {
  if (forks_ == fork_count() && !is_given_up()) calls_->deregister_file(handle);
}

Result<std::size_t> VendorLibrary::read(void* handle, std::byte* memory, std::size_t size, std::uint64_t offset,
                                        ForeignCall* call) {
  const ssize_t result = call_outside(call, calls_->read, handle, memory, size, static_cast<off_t>(offset), off_t{0});
  return moved(result, errno);
}

Result<std::size_t> VendorLibrary::write(void* handle, const std::byte* memory, std::size_t size, std::uint64_t offset,
                                         ForeignCall* call) {
  const ssize_t result = call_outside(call, calls_->write, handle, memory, size, static_cast<off_t>(offset), off_t{0});
  return moved(result, errno);
}

}  // namespace penstock::core
