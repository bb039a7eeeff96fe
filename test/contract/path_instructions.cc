// SPDX-License-Identifier: Apache-2.0

// Makes REQUESTS reads of BYTES bytes by one path, between stand-ins for drive, kernel and device that move nothing
// once the path has had its self-test: what remains is what the path, its channels and its verdict cost. One by one, or
// 32 at a time. For bench/instructions.py.
//
// `in-place` is dmabuf with registered memory.
//
//   path_instructions p2pdma|dmabuf|in-place|bounce|null call|queue BYTES REQUESTS
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fakes/fake_gpu.h"
#include "fakes/fake_peer.h"
#include "fakes/fake_storage.h"
#include "path/dmabuf/dmabuf_path.h"
#include "path/p2pdma/p2pdma_path.h"
#include "path/paths.h"

namespace {

using namespace penstock::core;

constexpr std::uint64_t kFileBytes = std::uint64_t{64} << 20;
constexpr unsigned kDepth = 32;

bool g_moves_bytes = true;

void require(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "path_instructions: could not %s\n", what);
  std::exit(1);
}

// Completes in order, at once.
class InstantRing final : public Ring {
 public:
  explicit InstantRing(std::unique_ptr<Ring> real) : Ring(real->dmabufs()), real_(std::move(real)) {}
  void push(const RingOp& op) override {
    if (g_moves_bytes) return real_->push(op);
    done_[end_++ % kDepth] = {op.tag, static_cast<std::int32_t>(op.size)};
  }
  Status submit() override { return success(); }
  Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) override {
    if (g_moves_bytes) return real_->reap(completions, wait);
    unsigned count = 0;
    while (count < completions.size() && begin_ != end_) completions[count++] = done_[begin_++ % kDepth];
    return count;
  }
  bool wait_until(std::chrono::steady_clock::time_point) override { return true; }
  Status register_memory(void*, std::size_t) override { return success(); }
  int register_file(int) override { return 0; }
  void unregister_file(int) override {}

 private:
  const std::unique_ptr<Ring> real_;
  RingCompletion done_[kDepth];
  unsigned begin_ = 0, end_ = 0;
};

class InstantStorage final : public FakeStorage {
 public:
  InstantStorage() {
    content.resize(kFileBytes);
    open_flags = O_RDWR | O_DIRECT;
    dmabufs = &kernel_;
  }
  Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    return g_moves_bytes ? FakeStorage::read(fd, memory, size, offset) : size;
  }
  Result<std::unique_ptr<Ring>> open_ring(unsigned depth) override {
    return std::unique_ptr<Ring>(std::make_unique<InstantRing>(std::move(*FakeStorage::open_ring(depth))));
  }

 private:
  FakeDmabufs kernel_;
};

class InstantGpu final : public FakeGpu {
 public:
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    return std::unique_ptr<CopyQueue>(std::make_unique<Queue>(std::move(*FakeGpu::open_copy_queue(markers))));
  }
  std::uint64_t allocation_number(const void*) const override { return 1; }  // Without the driver's call.

 private:
  class Queue final : public CopyQueue {
   public:
    explicit Queue(std::unique_ptr<CopyQueue> real) : real_(std::move(real)) {}
    Status copy_many(std::span<const Copy> copies, Direction direction) override {
      return g_moves_bytes ? real_->copy_many(copies, direction) : success();
    }
    Status copy_on_device(void* to, const void* from, std::size_t size) override {
      return g_moves_bytes ? real_->copy_on_device(to, from, size) : success();
    }
    Status record(unsigned marker) override { return g_moves_bytes ? real_->record(marker) : success(); }
    Result<bool> reached(unsigned marker) override { return g_moves_bytes ? real_->reached(marker) : true; }
    Status wait(unsigned marker, bool spin) override { return g_moves_bytes ? real_->wait(marker, spin) : success(); }

   private:
    const std::unique_ptr<CopyQueue> real_;
  };
};

class NoObstacle final : public Outlook {
 public:
  Reason of_device(const DeviceFacts&) override { return Reason::none; }
  Reason of_file(File&, Op) override { return Reason::none; }
  Reason of_route(const DeviceFacts&, File&) override { return Reason::none; }
};

struct World {
  explicit World(std::string_view name) {
    const bool is_dmabuf = name == "dmabuf" || name == "in-place";
    if (name == "p2pdma") {
      peers.add("0000:03:00.0", 8 << 20);
      devices = std::move(*peers.open());
      path = std::make_unique<P2pdmaPath>(storage, *devices, std::make_unique<NoObstacle>(), P2pdmaRules{});
    } else {
      devices = std::make_unique<InstantGpu>();
      storage.type = is_dmabuf ? FileType::block_device : FileType::regular;
      if (!is_dmabuf) path = make_path(path_named(name).value(), {storage, *devices, settings});
      else
        path = std::make_unique<DmabufPath>(storage, std::make_unique<NoObstacle>(), DmabufRules{.is_on = true},
                                            DmabufPath::Seams{});
    }
    file = std::move(*File::open(storage, FakeStorage::kUserFd));
    device = *devices->device(0);
    memory = static_cast<std::byte*>(*device->memory().allocate(1 << 20));
    facts = devices->describe(memory);
    if (name == "in-place") path->hooks()->add_buffer(facts, facts.base, facts.size);
  }
  ~World() { path->forget_file(*file); }

  InstantStorage storage;
  FakePeers peers;
  PathSettings settings;
  std::unique_ptr<DeviceSet> devices;
  std::unique_ptr<Path> path;
  std::unique_ptr<File> file;
  Device* device = nullptr;
  std::byte* memory = nullptr;
  PointerFacts facts;
};

// Routes a request, and makes its first chunk, which has all of it.
Chunk next(World& world, RoutedRequest& request, std::uint64_t offset, std::uint64_t size, SubmitMode mode) {
  require(world.path->judge(*world.file, world.facts, Op::read).usable, "use the path");
  request.file_offset = offset;
  request.buffer_address = reinterpret_cast<std::uintptr_t>(world.memory);
  request.memory = world.memory;
  request.size = size;
  request.file = world.file.get();
  request.facts = world.facts;
  request.mode = mode;
  request.io_mode = IoMode::o_direct;
  request.chunk_max = 1 << 20;
  request.shape = world.path->shape(request);
  return Plan(request, request.shape.limits).chunk(0);
}

void read_one_by_one(World& world, Channel& channel, std::uint64_t size, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    RoutedRequest request;
    const Chunk chunk = next(world, request, i * size % kFileBytes, size, SubmitMode::alone);
    const Completion done = channel.move_and_wait(request, chunk);
    require(done.bytes == size && done.bounced == Reason::none, "read directly");
  }
}

void read_many(World& world, Channel& channel, std::uint64_t size, std::uint64_t count) {
  Completion done[kDepth];
  for (std::uint64_t i = 0; i < count;) {
    RoutedRequest requests[kDepth];
    for (RoutedRequest& request : requests) {
      channel.submit(request, next(world, request, i++ * size % kFileBytes, size, SubmitMode::queued), 0);
    }
    while (!channel.is_idle()) {
      for (const Completion& one : std::span(done, channel.poll(done, true))) {
        require(one.bytes == size && one.bounced == Reason::none, "read directly");
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::uint64_t size = std::strtoull(argv[3], nullptr, 10), count = std::strtoull(argv[4], nullptr, 10);
  const bool is_queue = std::string_view(argv[2]) == "queue";
  World world(argv[1]);
  const ChannelOptions options{.device = world.device, .depth = is_queue ? kDepth : 1, .chunk_max = 1 << 20};
  const std::unique_ptr<Channel> channel = std::move(*world.path->open_channel(options));
  const auto read = is_queue ? read_many : read_one_by_one;
  read(world, *channel, size, kDepth);
  g_moves_bytes = false;
  read(world, *channel, size, count);
  std::fflush(nullptr);
  ::_exit(0);  // Exits without closing, which is not to be counted.
}
