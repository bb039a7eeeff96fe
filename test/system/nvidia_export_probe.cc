// SPDX-License-Identifier: Apache-2.0

// How far GPU memory gets on its way to storage's DMA engines (device/cuda/nvidia_export.h) on this machine: every step
// with its result, as lines; for machines with an NVIDIA GPU, by hand.
//
//   nvidia_export_probe [FILE]
//
// Where the mapping is reached, stores and loads of the CPU are compared with copies of the GPU, and FILE, if there is
// one, is read into the mapping with O_DIRECT. Exits with 0 where the mapping was reached and agrees, with 77 where
// there is no GPU, and with 1 where a step refused, which is named last.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device/cuda/cuda_api.h"
#include "device/cuda/nvidia_export.h"

namespace {

using namespace penstock::core;
using namespace penstock::core::cuda;

constexpr std::size_t kSize = std::size_t{4} << 20;

void say(const std::string& name, const std::string& result) {
  std::printf("%-60s %s\n", name.c_str(), result.c_str());
}

std::string first_line(const char* path) {
  char line[256] = "";
  FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return std::string("<") + std::strerror(errno) + ">";
  if (std::fgets(line, sizeof line, file) != nullptr) line[std::strcspn(line, "\n")] = '\0';
  std::fclose(file);
  return line;
}

void describe_machine() {
  utsname kernel = {};
  ::uname(&kernel);
  say("kernel", kernel.release);
  say("driver", first_line("/proc/driver/nvidia/version"));
  const NvidiaVersions versions = NvidiaVersions::read();
  say("versions as read", std::to_string(versions.driver.major) + "." + std::to_string(versions.driver.minor) + " on " +
                              std::to_string(versions.kernel.major) + "." + std::to_string(versions.kernel.minor));
  for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"}) {
    const bool is_usable = ::access(node, R_OK | W_OK) == 0;
    say(node, is_usable ? "readable and writable" : std::strerror(errno));
  }
}

std::vector<unsigned char> pattern(unsigned seed) {
  std::vector<unsigned char> bytes(kSize);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(seed + i * 131 + (i >> 12) * 7);
  return bytes;
}

class Copies {
 public:
  Copies(const CudaApi& api, void* device) : api_(api), device_(reinterpret_cast<CUdeviceptr>(device)) {
    result_ = api_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  }
  ~Copies() {
    if (stream_ != nullptr) api_.cuStreamDestroy(stream_);
  }
  bool to_device(const std::vector<unsigned char>& from) {
    return run(api_.cuMemcpyHtoDAsync(device_, from.data(), from.size(), stream_));
  }
  bool to_host(std::vector<unsigned char>& to) {
    return run(api_.cuMemcpyDtoHAsync(to.data(), device_, to.size(), stream_));
  }

 private:
  bool run(CUresult result) {
    if (result_ == CUDA_SUCCESS) result_ = result;
    if (result_ == CUDA_SUCCESS) result_ = api_.cuStreamSynchronize(stream_);
    if (result_ != CUDA_SUCCESS) say("copy", api_.describe(result_));
    return result_ == CUDA_SUCCESS;
  }
  const CudaApi& api_;
  CUdeviceptr device_;
  CUstream stream_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
};

bool verdict(const char* what, bool agrees) {
  say(what, agrees ? "agrees" : "DIFFERS");
  return agrees;
}

// The kernel looks first, since it says EFAULT where a load of ours would end the process.
bool is_accessible(const std::byte* mapped) {
  const int file = ::memfd_create("probe", MFD_CLOEXEC);
  const bool can = ::pwrite(file, mapped, 4096, 0) == 4096 && ::pwrite(file, mapped + kSize - 4096, 4096, 0) == 4096;
  say("the kernel's read of the mapping", can ? "ok" : std::strerror(errno));
  ::close(file);
  return can;
}

bool compare(const CudaApi& api, const NvidiaExport::Piece& piece) {
  if (!is_accessible(piece.mapped)) return false;
  Copies copies(api, piece.device_address);
  std::vector<unsigned char> seen(kSize);

  const auto stored = pattern(17);
  std::memcpy(piece.mapped, stored.data(), kSize);
  __sync_synchronize();
  static_cast<void>(*reinterpret_cast<volatile std::byte*>(piece.mapped + kSize - 1));  // After the posted stores.
  if (!copies.to_host(seen)) return false;
  bool agrees = verdict("stored by the CPU, copied back by the GPU", seen == stored);

  const auto copied = pattern(91);
  if (!copies.to_device(copied)) return false;
  std::memcpy(seen.data(), piece.mapped, kSize);
  return verdict("copied by the GPU, loaded by the CPU", seen == copied) && agrees;
}

bool read_direct(const CudaApi& api, const NvidiaExport::Piece& piece, const char* path) {
  const int direct = ::open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  const int buffered = ::open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = direct < 0 ? -1 : ::pread(direct, piece.mapped, kSize, 0);
  const int error = errno;
  say("O_DIRECT read of the file into the mapping", size < 0 ? std::strerror(error) : std::to_string(size) + " bytes");
  std::vector<unsigned char> wanted(kSize);
  std::vector<unsigned char> seen(kSize);
  const bool can_compare = size > 0 && ::pread(buffered, wanted.data(), static_cast<std::size_t>(size), 0) == size;
  ::close(direct);
  ::close(buffered);
  if (!can_compare || !Copies(api, piece.device_address).to_host(seen)) return false;
  const bool is_same = std::memcmp(seen.data(), wanted.data(), static_cast<std::size_t>(size)) == 0;
  return verdict("read by O_DIRECT, copied back by the GPU", is_same);
}

int refuse(const Status& status) {
  say("REFUSED", describe(status));
  return 1;
}

int probe(const CudaApi& api, const char* file) {
  CUdevice device = 0;
  char name[96] = "";
  CudaContext context;
  NvidiaExport::Setup setup{.api = api, .context = {}};
  CUresult result = api.cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS) result = api.cuDeviceGetName(name, sizeof name, device);
  if (result == CUDA_SUCCESS) result = api.cuDeviceGetUuid(setup.uuid.data(), device);
  if (result == CUDA_SUCCESS) result = api.cuDevicePrimaryCtxRetain(&context.handle, device);
  if (result == CUDA_SUCCESS) result = api.cuCtxPushCurrent(context.handle);
  say("GPU 0, its context", result == CUDA_SUCCESS ? name : api.describe(result));
  if (result != CUDA_SUCCESS || !api.identify(context.handle, &context.id)) return 1;

  setup.context = context;
  setup.observer = [](const char* step, const NvidiaStep& how) { say(step, how.status.ok() ? "ok" : describe(how)); };
  auto opened = NvidiaExport::open(setup);
  if (!opened.ok()) return refuse(opened.status());
  NvidiaExport& exports = **opened;
  const auto made = exports.allocate(kSize);
  if (!made.ok()) return refuse(made.status());
  char addresses[96];
  std::snprintf(addresses, sizeof addresses, "device %p, mapped %p, %zu bytes", made->device_address,
                static_cast<void*>(made->mapped), made->size);
  say("REACHED", addresses);
  bool agrees = compare(api, *made);
  if (file != nullptr) agrees = read_direct(api, *made, file) && agrees;
  exports.release(*made);
  return agrees ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  describe_machine();
  CudaApi api = {};
  std::string why_not;
  int devices = 0;
  if (!api.load("libcuda.so.1", &why_not)) return say("CUDA", why_not), 77;
  CUresult result = api.cuInit(0);
  if (result == CUDA_SUCCESS) result = api.cuDeviceGetCount(&devices);
  say("CUDA", result == CUDA_SUCCESS ? std::to_string(devices) + " GPUs" : api.describe(result));
  if (result != CUDA_SUCCESS || devices == 0) return 77;
  return probe(api, count > 1 ? words[1] : nullptr);
}
