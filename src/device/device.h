// SPDX-License-Identifier: Apache-2.0

// The seam to GPUs: the facts of a pointer, memory the device can reach, and copies on streams of the library's own.
//
// Each provider (providers.h) has a folder with its Device and DeviceSet. No other code knows which provider a device
// has. Paths see these classes only. A Device lives as long as its DeviceSet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

class Device;
class StreamHome;

enum class MemoryKind : std::uint8_t {
  host,             // Pageable host memory, or an unknown address, which the kernel will refuse.
  registered_host,  // Page-locked host memory that the device driver knows.
  device,           // Memory of a device, not reachable by the CPU.
  managed,          // Migrates between host and device.
};

// The call that allocated device memory, as far as it decides who may map the memory. The first names are CUDA's.
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
  Device* device = nullptr;  // The device that can copy it. Null for host memory, and if its GPU is not usable.
  // First address of the allocation, or of the registration for pageable memory; unknown if size is 0.
  std::uint64_t base = 0;
  std::uint64_t size = 0;    // Bytes in the allocation; 0 where unknown.
  std::uint64_t mapped = 0;  // The address in this process where storage's DMA engines reach `base`; 0: nowhere.
  // The driver was asked for this very request, so that a kernel may touch the memory. The facts that a buffer's
  // registration has kept may be out of date.
  bool is_fresh = false;

  bool needs_device() const { return kind == MemoryKind::device || kind == MemoryKind::managed; }
};

// The terms on which the devices of one provider are opened.
struct DeviceTerms {
  const char* kind = "";       // The provider's name, a literal.
  unsigned first_ordinal = 0;  // The first device's ordinal; the others follow.
  bool export_memory = false;  // Experimental: exports our own allocations to storage's DMA engines.
};

// The most devices in a set of several providers: ordinals stay below it.
inline constexpr unsigned kDevicesMax = 64;

struct DeviceFacts {
  int ordinal = 0;        // Unique among all devices of the session.
  const char* kind = "";  // Its provider's name.
  char name[96] = "";
  char pci_address[16] = "";  // "0000:17:00.0", lower case; empty for a stand-in.
  std::uint8_t uuid[16] = {};
  std::uint64_t memory_bytes = 0;
  bool stand_in = false;              // True if host memory stands in for a GPU.
  bool is_nvidia = false;             // NVIDIA's driver pins its memory for other modules, by pages of 64 KiB,
  bool is_pinned_for_modules = true;  // unless this is false: for a GeForce.
};

enum class Direction : std::uint8_t { to_device, to_host };

struct Copy {
  void* device_address = nullptr;
  void* host = nullptr;
  std::size_t size = 0;
  bool locked = false;    // Host memory known to be registered with this device, so that no driver call is needed.
  bool is_fresh = false;  // Device memory whose facts are fresh, so that no driver call is needed.
};

// Device memory and its checksums: up to kBytesMax, processed by one multiprocessor, at any alignment.
struct ChecksumBlock {
  static constexpr std::uint32_t kBytesMax = 64u << 10;
  const void* address = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t sum = 0;     // CRC32C.
  std::uint64_t hash = 0;    // Hash64::of_block(), if it was asked for.
  std::uint64_t unused = 0;  // A device reads sixteen bytes at a time.
};

// One of the library's streams, with a fixed number of markers. Any thread may use it, one at a time; the caller's
// current CUDA context does not change. Copies run in order. No copy counts as complete, and no host memory may be
// reused, before a marker recorded after the copy was reached. The destructor waits for all copies.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  Status copy_to_device(void* device_address, const void* host, std::size_t size) {
    return copy({device_address, const_cast<void*>(host), size}, Direction::to_device);
  }
  Status copy_to_host(void* host, const void* device_address, std::size_t size) {
    return copy({const_cast<void*>(device_address), host, size}, Direction::to_host);
  }
  // Copies within this device's memory, or managed memory, by the device; fails if the device cannot.
  virtual Status copy_on_device(void* /*to*/, const void* /*from*/, std::size_t /*size*/) {
    return failure(Code::unsupported, "copy within the device's memory");
  }
  // Several copies, in any order. Pass small ones together, in page-locked memory. After a failure some of them may be
  // in flight.
  virtual Status copy_many(std::span<const Copy> copies, Direction direction) = 0;
  // One copy from start to end, the shortest way. Uses marker 0.
  virtual Status copy_and_wait(const Copy& copy, Direction direction);
  // Queues the checksum of each block on the device, `hashed` with its hash, in order with the copies; also in the
  // order of the program's stream, if one is given. The array must be page-locked; its blocks must be memory of this
  // device. Fails with `unsupported`, without queueing anything, if the device cannot do it or should not now: then
  // copy, and use the CPU.
  virtual Status checksum(std::span<ChecksumBlock> /*blocks*/, std::optional<void*> /*stream*/, bool /*hashed*/) {
    return failure(Code::unsupported, "make checksums on the device");
  }
  // Further work of this queue comes behind what the program's stream was given so far. Fails with `unsupported` also
  // while the stream is being captured.
  virtual Status follow(void* /*stream*/) { return failure(Code::unsupported, "use the stream"); }
  // Recording a marker again moves it behind everything queued so far.
  virtual Status record(unsigned marker) = 0;
  // True once everything queued before the marker's last record() is done. Does not block.
  virtual Result<bool> reached(unsigned marker) = 0;
  // Blocks until the marker is reached. `spin` trades CPU for the last microseconds.
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

// Waits for the copies just queued, also if queueing failed in part.
inline Status wait_for_copies(CopyQueue& copies, const Status& queued) {
  Status status = copies.record(0);
  if (status.ok()) status = copies.wait(0, false);
  return queued.ok() ? status : queued;
}

// A device's memory: allocated by the library, for tools and tests, or offered by programs.
class DeviceMemory {
 public:
  // Freed with release().
  virtual Result<void*> allocate(std::size_t size) = 0;
  virtual void release(void* memory) = 0;
  // Waits for all work queued on streams so far; a no-op if release() waits, as CUDA's driver does. Do not call it on a
  // thread that a stream waits for.
  virtual void drain_streams() {}
  // True if storage's DMA engines reach the memory from allocate() (PointerFacts::mapped).
  virtual bool allocates_mapped() const { return false; }
  // Exports a registered buffer of the program's to storage's DMA engines. Returns its PointerFacts::mapped, or 0 if
  // that is not possible. withdraw() of the same buffer undoes it.
  virtual std::uint64_t offer(const PointerFacts&, const void* /*buffer*/, std::size_t) { return 0; }
  virtual void withdraw(const void* /*buffer*/) {}
  // A dma-buf of this memory, for drives to read and write: whole pages of 4 KiB of one allocation. It keeps the memory
  // itself alive, also once it is freed. Fails with `unsupported`, or the errno of the driver.
  virtual Result<UniqueFd> export_dmabuf(const void* /*memory*/, std::size_t /*size*/) {
    return failure(Code::unsupported, "export the device's memory as a dma-buf");
  }
  // The number of the allocation that has the address, which no other of the process has or had; 0: unknown.
  virtual std::uint64_t allocation_number(const void* /*memory*/) const { return 0; }

 protected:
  ~DeviceMemory() = default;
};

// For devices whose DMA engine can read mapped file pages, in copies of this device (a copy of another context would
// read the mapping by the CPU). The page-cache path uses it.
class DevicePages {
 public:
  // False if the device's driver does not support it.
  virtual bool can_register_pages() const { return true; }
  // Pins the pages and registers them with the device, for reading, and also for writing if the mapping is `writable`.
  virtual Status register_pages(const std::byte* memory, std::size_t size, bool writable) = 0;
  // True if unregister_pages() may be called now.
  virtual bool can_unregister_pages() { return true; }
  // Like Device::unregister_host; also false while any request of ours on a stream is in flight, since it may be
  // reading the pages.
  virtual bool unregister_pages(const std::byte* memory) = 0;
  // Identifies the streams that reach registered pages at their mapped addresses (StreamHome::reaches_pages_of); null:
  // none.
  virtual const void* pages_context() const { return nullptr; }
  // The address at which kernels of the device reach host memory that is registered with it, by register_pages() or
  // Device::register_host().
  virtual Result<void*> address_in_kernels(void* /*memory*/) {
    return failure(Code::unsupported, "find registered memory's address on the device");
  }
  // Returns when all kernels of the program's on this device that were begun before have ended.
  virtual Status wait_for_kernels() { return failure(Code::unsupported, "wait for the device's kernels"); }

 protected:
  ~DevicePages() = default;
};

// A device as requests use it; memory() and pages() are parts of it.
class Device {
 public:
  // The constructor uses neither.
  explicit Device(DeviceMemory* memory, DevicePages* pages = nullptr) : memory_(memory), pages_(pages) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const DeviceFacts& facts() const = 0;
  virtual Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) = 0;
  // Page-locks `size` bytes of mapped host memory for fast copies, for every context of the device. Fails with
  // already_registered if the memory is page-locked already.
  virtual Status register_host(void* memory, std::size_t size) = 0;
  // Returns false if it would have to wait for a stream with a request of ours, which may wait for the caller: then the
  // memory stays page-locked, and must stay mapped.
  virtual bool unregister_host(void* memory) = 0;
  // Makes the program's own blocking copies to and from the allocation finish before their calls return, so that our
  // copies, on another stream, see their bytes. A no-op on other devices.
  virtual void make_copies_synchronous(const void* memory) = 0;
  // Returns when bytes that other devices have written to this device's memory over the bus are visible to all its
  // later work. A no-op on devices that order such writes themselves.
  virtual Status settle_peer_writes() { return success(); }
  // Calls `work` with the device's context current, for libraries that need it; just calls it on devices without
  // contexts.
  virtual Status run_inside(const std::function<void()>& work) {
    work();
    return success();
  }

  DeviceMemory& memory() const { return *memory_; }
  DevicePages* pages() const { return pages_; }  // Null if the device does not support it.

 private:
  DeviceMemory* const memory_;
  DevicePages* const pages_;
};

// The devices of one provider, or of several (mixed_devices.h). Thread-safe.
class DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual unsigned count() const = 0;
  // The device by its position in the set (its ordinal, if the set's ordinals begin at 0), in its primary context,
  // which is retained on first use. Fails with no_device.
  virtual Result<Device*> device(unsigned place) = 0;
  // The device of the calling thread's current context; null if there is none, or it cannot be determined. May retain
  // the GPU's primary context, as requests do.
  virtual Device* current() { return nullptr; }
  // Gathers the facts of a pointer. Never fails: memory that no device knows is host memory.
  virtual PointerFacts describe(const void* pointer) = 0;
  // May ask the driver several times: for explaining a refusal.
  virtual Allocation allocation_of(const void* /*pointer*/) { return Allocation::unknown; }
  // True if requests on users' streams can be served at all.
  virtual bool has_streams() const { return true; }
  // The home of a user's stream (stream_home.h), ready for requests. Fails with `unsupported` if the stream cannot be
  // used, and while it is being captured.
  virtual Result<StreamHome*> stream_home(void* stream) = 0;
};

}  // namespace penstock::core
