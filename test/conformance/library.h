// SPDX-License-Identifier: Apache-2.0

// The library under examination: every function of cufile.h, looked up by name when a case begins. A function that the
// library does not have is an outcome of the case that calls it, never a failure to start. Links to no library.
#ifndef PENSTOCK_CONFORMANCE_LIBRARY_H_
#define PENSTOCK_CONFORMANCE_LIBRARY_H_

#include <dlfcn.h>

#include <cerrno>
#include <string>

#include "cufile.h"

namespace conformance {

// Thrown where a case calls what is not there.
struct Absent {
  std::string name;
};

template <typename Signature>
class Function;
template <typename Result, typename... Arguments>
class Function<Result(Arguments...)> {
 public:
  void find(void* library, const char* name) {
    name_ = name;
    call_ = reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, name));
  }
  bool present() const { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    if (call_ == nullptr) throw Absent{name_};
    errno = 0;
    return call_(arguments...);
  }

 private:
  const char* name_ = "";
  Result (*call_)(Arguments...) = nullptr;
};

// cuFileDriverClose is a macro for its second version; the first one is looked up apart.
// clang-format 14 never comes to rest on this list.
// clang-format off
#define CONFORMANCE_FUNCTIONS(X) \
  X(cuFileDriverOpen) X(cuFileDriverClose_v2) X(cuFileUseCount) X(cuFileDriverGetProperties) \
  X(cuFileDriverSetPollMode) X(cuFileDriverSetMaxDirectIOSize) X(cuFileDriverSetMaxCacheSize) \
  X(cuFileDriverSetMaxPinnedMemSize) X(cuFileHandleRegister) X(cuFileHandleDeregister) X(cuFileBufRegister) \
  X(cuFileBufDeregister) X(cuFileRead) X(cuFileWrite) X(cuFileBatchIOSetUp) X(cuFileBatchIOSubmit) \
  X(cuFileBatchIOGetStatus) X(cuFileBatchIOCancel) X(cuFileBatchIODestroy) X(cuFileReadAsync) \
  X(cuFileWriteAsync) X(cuFileStreamRegister) X(cuFileStreamDeregister) X(cuFileGetVersion) \
  X(cuFileGetParameterSizeT) X(cuFileGetParameterBool) X(cuFileGetParameterString) X(cuFileSetParameterSizeT) \
  X(cuFileSetParameterBool) X(cuFileSetParameterString) X(cuFileGetParameterMinMaxValue) \
  X(cuFileSetStatsLevel) X(cuFileGetStatsLevel) X(cuFileStatsStart) X(cuFileStatsStop) X(cuFileStatsReset) \
  X(cuFileGetStatsL1) X(cuFileGetStatsL2) X(cuFileGetStatsL3) X(cuFileGetBARSizeInKB) \
  X(cuFileSetParameterPosixPoolSlabArray) X(cuFileGetParameterPosixPoolSlabArray) X(cuFileDriverSetP2PFlags) \
  X(cuFileDriverGetP2PFlags) X(cuFileSetParameterGpuBounceBufferSlabArray) \
  X(cuFileGetParameterGpuBounceBufferSlabArray) X(cuFileExportPCIeTopology) X(cuFileReadv) X(cuFileWritev)
// clang-format on

struct Library {
#define X(name) Function<decltype(::name)> name;
  CONFORMANCE_FUNCTIONS(X)
#undef X
  Function<CUfileError_t()> close_version_1;
  void* opened = nullptr;

  // False where there is no such library; dlerror() tells why.
  bool load(const char* path) {
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return false;
#define X(name) name.find(opened, #name);
    CONFORMANCE_FUNCTIONS(X)
#undef X
    close_version_1.find(opened, "cuFileDriverClose");
    return true;
  }
};

}  // namespace conformance

#endif  // PENSTOCK_CONFORMANCE_LIBRARY_H_
