// SPDX-License-Identifier: Apache-2.0

// The seam to GPUs: the facts of a pointer, memory the device can reach, and copies on streams of the library's own.
//
// Each provider (providers.h) has a folder with its Device and DeviceSet. No other code knows which provider a device
// has: all that matters is asked here. Paths see these classes only. A Device lives as long as the DeviceSet that gave
// it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"

namespace penstock::core {

class Device;
class StreamHome;

enum class MemoryKind : std::uint8_t {
  host,             // Pageable host memory, or an address nobody knows: the kernel will tell.
  registered_host,  // Page-locked host memory that the device driver knows.
  device,           // Memory of a device, not reachable by the CPU.
  managed,          // Migrates between host and device.
};

// By which call device memory was allocated, as far as that decides who may map it. Names of the first are CUDA's.
enum class Allocation : std::uint8_t {
  unknown,
  plain,             // cudaMalloc, cuMemAlloc
  managed,           // cudaMallocManaged
  pool,              // cudaMallocAsync, cuMemAllocAsync
  closed,            // cuMemCreate, without a handle that can be exported to a descriptor,
  not_rdma_capable,  // with one, but not gpuDirectRDMACapable,
  exportable,        // or both.
};

struct PointerFacts {
  MemoryKind kind = MemoryKind::host;
  Device* device = nullptr;  // Its copies reach it. Null for host memory, and where its GPU cannot be used.
  std::uint64_t base = 0;    // First address of the allocation, of pageable memory: registration; unknown if size is 0.
  std::uint64_t size = 0;    // Bytes in the allocation; 0 where unknown.
  std::uint64_t mapped = 0;  // The address in this process where storage's DMA engines reach `base`; 0: nowhere.

  bool needs_device() const { return kind == MemoryKind::device || kind == MemoryKind::managed; }
};

// The terms on which the devices of one provider are opened.
struct DeviceTerms {
  const char* kind = "";       // The provider's name, a literal.
  unsigned first_ordinal = 0;  // The first device's; the others have the next.
  bool export_memory = false;  // Experimental: memory of our own allocation is offered to storage's DMA engines.
};

// The most devices in one set, if it has several providers': then ordinals stay below.
inline constexpr unsigned kDevicesMax = 64;

struct DeviceFacts {
  int ordinal = 0;        // Unique among all devices of the session.
  const char* kind = "";  // Its provider's name.
  char name[96] = "";
  char pci_address[16] = "";  // "0000:17:00.0", lower case; empty for a stand-in.
  std::uint8_t uuid[16] = {};
  std::uint64_t memory_bytes = 0;
  bool stand_in = false;   // True when this is host memory playing a GPU.
  bool is_nvidia = false;  // NVIDIA's driver pins its memory for other modules, by pages of 64 KiB.
};

enum class Direction : std::uint8_t { to_device, to_host };

struct Copy {
  void* device_address = nullptr;
  void* host = nullptr;
  std::size_t size = 0;
  bool locked = false;  // Host memory that was registered with this very device, and still is: nobody need ask.
};

// Device memory and its CRC32C: up to kBytesMax, which one multiprocessor looks at, wherever they begin.
struct ChecksumBlock {
  static constexpr std::uint32_t kBytesMax = 64u << 10;
  const void* address = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t sum = 0;
};

// One stream of the library's own with a fixed number of markers. Used by one thread at a time, any thread; the
// caller's current CUDA context is left as it was. Copies run in order. Nothing is reported complete, and no host
// memory may be reused, before a marker recorded after the copy has been reached. Destroying it waits for its copies.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  Status copy_to_device(void* device_address, const void* host, std::size_t size) {
    return copy({device_address, const_cast<void*>(host), size}, Direction::to_device);
  }
  Status copy_to_host(void* host, const void* device_address, std::size_t size) {
    return copy({const_cast<void*>(device_address), host, size}, Direction::to_host);
  }
  // Between two places of this device's memory, or of managed memory: by the device, where it can copy by itself.
  virtual Status copy_on_device(void* /*to*/, const void* /*from*/, std::size_t /*size*/) {
    return failure(Code::unsupported, "copy within the device's memory");
  }
  // Several copies, in any order. Small ones are best given together, in page-locked memory. After a failure some of
  // them may be under way.
  virtual Status copy_many(std::span<const Copy> copies, Direction direction) = 0;
  // One copy from start to end, the shortest way. Uses marker 0.
  virtual Status copy_and_wait(const Copy& copy, Direction direction);
  // The checksum of each block, by the device, in order with the copies. The array is page-locked; its blocks name
  // memory of this device, by its facts. Fails with `unsupported`, and has queued nothing, where the device cannot do
  // it, or had better not now: then copy, and let the CPU make them.
  virtual Status checksum(std::span<ChecksumBlock> /*blocks*/) {
    return failure(Code::unsupported, "make checksums on the device");
  }
  // Recording a marker again moves it behind everything queued so far.
  virtual Status record(unsigned marker) = 0;
  // True once everything queued before the marker's last record() is done. Does not block.
  virtual Result<bool> reached(unsigned marker) = 0;
  // Blocks until it is. `spin` trades CPU for the last microseconds.
  virtual Status wait(unsigned marker, bool spin) = 0;

 private:
  Status copy(const Copy& one, Direction direction) {
    return one.size == 0 ? success() : copy_many({&one, 1}, direction);
  }
};

inline Status CopyQueue::copy_and_wait(const Copy& copy, Direction direction) {
  Status status = copy_many({&copy, 1}, direction);
  if (status.ok()) status = record(0);
  return status.ok() ? wait(0, true) : status;
}

// Behind copies that were just queued, or were not: waits until they are over.
inline Status finish_copies(CopyQueue& copies, Status queued) {
  if (queued.ok()) queued = copies.record(0);
  return queued.ok() ? copies.wait(0, false) : queued;
}

// A device's memory: the library allocates some, for tools and tests, and programs offer some of theirs.
class DeviceMemory {
 public:
  // Freed with release().
  virtual Result<void*> allocate(std::size_t size) = 0;
  virtual void release(void* memory) = 0;
  // Returns when streams are through with what was queued so far. Does nothing where release() waits for them, as
  // CUDA's driver does. Not for a thread that a stream waits for.
  virtual void finish_streams() {}
  // True if storage's DMA engines reach the memory from allocate() (PointerFacts::mapped).
  virtual bool allocates_mapped() const { return false; }
  // Offers memory to storage's DMA engines that the program allocated, has registered, and says when it is done with.
  // Returns its PointerFacts::mapped, or 0 where that cannot be. Undone by withdraw() of the same buffer.
  virtual std::uint64_t offer(const PointerFacts&, const void* /*buffer*/, std::size_t) { return 0; }
  virtual void withdraw(const void* /*buffer*/) {}

 protected:
  ~DeviceMemory() = default;
};

// Some devices let their DMA engine fetch from pages of a file that are mapped, for copies of this very device (another
// context's would read the mapping by the CPU). Asked by the page cache's path.
class DevicePages {
 public:
  // False where this device's driver knows no such thing.
  virtual bool can_register_pages() const { return true; }
  // Also puts bytes into them where the mapping is `writable`. The pages stay in memory.
  virtual Status register_pages(const std::byte* memory, std::size_t size, bool writable) = 0;
  // True if unregister_pages() may be called now.
  virtual bool can_unregister_pages() { return true; }
  // As Device::unregister_host; and while a request of ours on any stream is under way, since that may be reading them.
  virtual bool unregister_pages(const std::byte* memory) = 0;
  // Names the streams that reach registered pages where they are mapped (StreamHome::reaches_pages_of); null: none do.
  virtual const void* pages_context() const { return nullptr; }

 protected:
  ~DevicePages() = default;
};

// A device as requests use it; memory() and pages() are parts of it.
class Device {
 public:
  // Neither is used before the device is made.
  explicit Device(DeviceMemory* memory, DevicePages* pages = nullptr) : memory_(memory), pages_(pages) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const DeviceFacts& facts() const = 0;
  virtual Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) = 0;
  // Page-locks `size` bytes of mapped host memory for fast copies, on every context of the device. Fails with
  // already_registered where it is page-locked.
  virtual Status register_host(void* memory, std::size_t size) = 0;
  // False where that would have to wait for a stream that a request of ours is on, which may wait for the caller: then
  // the memory stays page-locked, and must stay mapped.
  virtual bool unregister_host(void* memory) = 0;
  // From now on the program's own blocking copies to and from the allocation are over when their calls return, so that
  // our copies, on another stream, find their bytes. Does nothing on devices that know no such thing.
  virtual void finish_blocking_copies(const void* memory) = 0;
  // Returns when bytes that other devices have written to its memory over the bus, and say are there, are seen by all
  // work that it begins from now on. Does nothing on devices that see to it themselves.
  virtual Status settle_peer_writes() { return success(); }
  // Calls `work` with the device's context current, for libraries that go by it; just calls it on devices without
  // contexts.
  virtual Status run_inside(const std::function<void()>& work) {
    work();
    return success();
  }

  DeviceMemory& memory() const { return *memory_; }
  DevicePages* pages() const { return pages_; }  // Null where it has none.

 private:
  DeviceMemory* const memory_;
  DevicePages* const pages_;
};

// The devices of one provider, or of several (mixed_devices.h). Thread-safe.
class DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual unsigned count() const = 0;
  // The device by its place in the set, which is its ordinal where the set has the first; in its primary context,
  // which is retained on first use. Fails with no_device.
  virtual Result<Device*> device(unsigned place) = 0;
  // The device of the calling thread's current context; null if it has none, or it cannot be told. May retain the GPU's
  // primary context besides, as requests do.
  virtual Device* current() { return nullptr; }
  // Gathers the facts of a pointer. Never fails: memory that no device knows is host memory.
  virtual PointerFacts describe(const void* pointer) = 0;
  // May ask the driver several times: for explaining a refusal.
  virtual Allocation allocation_of(const void* /*pointer*/) { return Allocation::unknown; }
  // True if requests on users' streams can be served at all.
  virtual bool has_streams() const { return true; }
  // Where a user's stream runs (stream_home.h), made ready for requests on it. Fails with `unsupported` where that
  // cannot be, and while the stream is being captured.
  virtual Result<StreamHome*> stream_home(void* stream) = 0;
};

}  // namespace penstock::core
