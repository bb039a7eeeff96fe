// SPDX-License-Identifier: Apache-2.0

// So many cuFileRead of so many bytes on the null path, where nothing is moved: what is left is the library's own cost.
// For bench/instructions.py, which counts the instructions of two runs that differ in their number of requests.
//
//   instructions BYTES REQUESTS
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cufile.h"
#include "penstock/cufile_session.h"

namespace {

constexpr std::size_t kFileSize = std::size_t{64} << 20;

void require(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "instructions: could not %s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::size_t size = std::strtoul(argv[1], nullptr, 10), requests = std::strtoul(argv[2], nullptr, 10);
  if (size == 0 || size > kFileSize) return 2;
  ::setenv("PENSTOCK_PATHS", "null", 1);
  ::setenv("PENSTOCK_DEVICE", "host", 1);
  const int fd = ::memfd_create("instructions", MFD_CLOEXEC);
  require(fd >= 0 && ::ftruncate(fd, kFileSize) == 0, "make a file");
  require(cuFileDriverOpen().err == CU_FILE_SUCCESS, "open the driver");
  penstock_session* session = nullptr;
  require(penstock_cufile_session(&session).code == 0, "find the session");
  void* memory = nullptr;
  require(penstock_device_alloc(session, 0, size, &memory).code == 0, "allocate device memory");
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd;
  CUfileHandle_t handle = nullptr;
  require(cuFileHandleRegister(&handle, &descr).err == CU_FILE_SUCCESS, "register the file");
  require(cuFileBufRegister(memory, size, 0).err == CU_FILE_SUCCESS, "register the memory");
  for (std::size_t i = 0; i < requests; ++i) {
    const auto offset = static_cast<off_t>(i * size % kFileSize);
    require(cuFileRead(handle, memory, size, offset, 0) == static_cast<ssize_t>(size), "read");
  }
  std::fflush(nullptr);
  ::_exit(0);  // Closing is not counted.
}
