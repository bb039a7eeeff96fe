// SPDX-License-Identifier: Apache-2.0

// gdsio_verify: reads a file with cuFile and with plain system calls, and compares every byte.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/gdsio/io_extents.h"
#include "tools/gdsio/transport.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kShiftMax = std::uint64_t{1} << 20;

constexpr const char* kExamples =
    "Examples:\n"
    "  gdsio_verify -f /mnt/data/file -d 0 -o 0 -s 1G -n 16 -m 1     in sixteen requests of 64 MiB\n"
    "  gdsio_verify -f /mnt/data/file -d 0 -s 1G -n 4096 -t 1M -g 8  through 1 MiB of memory, 8 bytes off a page\n"
    "Exit code: 0 every byte is the same, 1 failed, 2 wrong usage, 77 not applicable on this machine.";

struct VerifySettings {
  std::string file;
  unsigned gpu = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t requests = 1;
  unsigned mode = 1;
  std::uint64_t ring = 0;
  std::uint64_t shift = 0;
  bool wants_sync = false;
};

// A file's content as plain system calls read it, without cuFile.
class FileContent final : public Content {
 public:
  explicit FileContent(const OpenFile& file) : file_(file) {}

 private:
  // Bytes past the end of the file are never compared.
  void words(std::uint64_t first, std::span<std::uint64_t> out) const override {
    const auto bytes = std::as_writable_bytes(out);
    std::fill(out.begin(), out.end(), 0);
    (void)read_at(file_.fd.get(), file_.path, bytes, first * 8);
  }

  const OpenFile& file_;
};

// Opens the file with O_DIRECT if possible, as programs do for cuFile.
OpenFile open_for_cufile(const std::string& path) try {
  return open_file(path, O_RDONLY | O_DIRECT);
} catch (const DirectRefused&) {
  return open_file(path, O_RDONLY);
}

// The requests, and the memory that they use in turn.
struct Shape {
  Extent range;
  std::uint64_t request;
  unsigned slots;
};

Shape shape_of(const VerifySettings& settings, const OpenFile& file) {
  const std::uint64_t rest = file.size > settings.offset ? file.size - settings.offset : 0;
  const std::uint64_t size = settings.size > 0 ? settings.size : rest;
  if (size == 0 || size > rest) {
    throw Failure(fmt::format("{}: it has {} bytes, and -o and -s reach past them", file.path, file.size), kUsage);
  }
  if (settings.requests == 0) throw Failure("-n 0: expected 1 or more", kUsage);
  if (settings.mode > 1) throw Failure(fmt::format("-m {}: expected 0 or 1", settings.mode), kUsage);
  if (settings.shift > kShiftMax) throw Failure(fmt::format("-g {}: expected 0 to 1M", settings.shift), kUsage);
  const std::uint64_t request = size / settings.requests + (size % settings.requests != 0 ? 1 : 0);
  if (request > kMemoryMax || settings.ring > kMemoryMax) {
    throw Failure("at most 1 GiB of memory is used; cut the bytes into more requests with -n", kUsage);
  }
  const std::uint64_t slots = settings.ring > 0 ? settings.ring / slot_size_for(request) : 1;
  if (slots == 0)
    throw Failure("-t: less than one request; give more bytes, or make the requests smaller with a larger -n", kUsage);
  return {{settings.offset, size}, request, static_cast<unsigned>(std::min<std::uint64_t>(slots, 4096))};
}

ThreadSetup setup_of(const VerifySettings& settings, const Shape& shape, const CufileFile& file,
                     penstock_session* session, const CudaDriver* cuda) {
  ThreadSetup setup;
  setup.file = &file;
  setup.session = session;
  setup.cuda = cuda;
  setup.gpu = settings.gpu;
  setup.transfer = settings.mode == 1 ? TransferType::gpu_direct : TransferType::gpu_direct_async;
  setup.depth = shape.slots;
  setup.slot_size = slot_size_for(shape.request);
  setup.shift = settings.shift;
  return setup;
}

void print_settings(const VerifySettings& settings, const Shape& shape, const ThreadSetup& setup) {
  print(
      "gpu index :{}, file :{}, file offset :{}, size :{}, nr ios :{}, io size :{}, sync :{}, ring size :{}, gpu "
      "buffer offset :{}, fsync :{}\n",
      settings.gpu, settings.file, shape.range.offset, shape.range.size, settings.requests, shape.request,
      settings.mode, setup.slot_size * setup.depth, settings.shift, settings.wants_sync ? 1 : 0);
}

// Reads the whole range, and throws at the first byte that differs from the kernel's.
void compare(const ThreadSetup& setup, const Shape& shape, const Content& content) {
  RunSettings run;
  run.label = "verify";
  run.bytes_total = shape.range.size;
  run.random_fill = false;
  run.content = &content;
  IoPattern pattern;
  pattern.range = shape.range;
  pattern.sizes = {shape.request, shape.request, 0};
  std::vector<Part> parts;
  parts.push_back({{setup.file->path()}, shape.request, setup.depth, std::make_unique<IoExtents>(pattern), [&setup] {
                     if (setup.cuda != nullptr) setup.cuda->enter();
                     std::unique_ptr<Transport> transport = open_transport(setup);
                     print("address = {}\n", static_cast<const void*>(transport->arena().data()));
                     return transport;
                   }});
  if (run_parts(run, std::move(parts)).was_interrupted) throw Failure("interrupted");
}

int verify(const VerifySettings& settings) {
  const OpenFile plain = open_file(settings.file, O_RDONLY);
  const Shape shape = shape_of(settings, plain);
  if (settings.wants_sync && fsync(plain.fd.get()) != 0) fail_errno(settings.file, "flush the file");
  const Session opened = cufile_session();
  penstock_session* const session = opened.raw();
  check_gpu(session, settings.gpu);
  const std::unique_ptr<CudaDriver> cuda = CudaDriver::open(session, settings.gpu);
  const CufileFile file(open_for_cufile(settings.file), true);
  const ThreadSetup setup = setup_of(settings, shape, file, session, cuda.get());
  print_settings(settings, shape, setup);
  compare(setup, shape, FileContent(plain));
  print("Data Verification Success\n{}\n", device_line(session, settings.gpu));
  return kSuccess;
}

}  // namespace

void add_gdsio_verify(CommandLine& command) {
  auto settings = std::make_shared<VerifySettings>();
  command.option("-f", settings->file, "The file").required().value_name("FILE");
  command.option("-d", settings->gpu, "The GPU").default_shown();
  command.size("-o", settings->offset, "Where in the file to begin [0]");
  command.size("-s", settings->size, "Bytes to compare [to the file's end]");
  command.option("-n", settings->requests, "How many requests to read them with").default_shown();
  command.option("-m", settings->mode, "1: cuFileRead, 0: cuFileReadAsync").value_name("0|1").default_shown();
  command.size("-t", settings->ring, "Bytes of GPU memory, which the requests use in turn [one request's]");
  command.size("-g", settings->shift, "How many bytes behind a page's start that memory begins [0]");
  command.flag("-S", settings->wants_sync, "Flush the file (fsync) first");
  command.footer(kExamples);
  command.runs([settings] { return verify(*settings); });
}

}  // namespace penstock::tools
