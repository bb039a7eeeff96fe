// SPDX-License-Identifier: Apache-2.0

// A fake GPU whose driver refuses one call, by its number: a test that refuses each in turn sees every place at which a
// driver can say no. Where it cannot tell that copies are done, the context is lost, and no copy lands. For one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "fakes/fake_gpu.h"

namespace penstock::core {

class FailingGpu final : public FakeGpu {
 public:
  using FakeGpu::FakeGpu;

  // From now on the call of this number fails, once; 0: none.
  void fail_at(unsigned number) {
    calls_ = 0;
    fails_at_ = number;
    loses_context = false;
  }
  // False once there were fewer calls than that.
  bool has_failed() const { return fails_at_ != 0 && calls_ >= fails_at_; }

  Result<void*> allocate(std::size_t size) override {
    return fails() ? failure(Code::out_of_memory, kStep) : FakeGpu::allocate(size);
  }
  Result<UniqueFd> export_dmabuf(const void* memory, std::size_t size) override {
    return fails() ? os_failure(EOPNOTSUPP, kStep) : FakeGpu::export_dmabuf(memory, size);
  }
  Status settle_peer_writes() override { return status(); }
  Status run_inside(const std::function<void()>& work) override {
    if (fails()) return lost();
    work();
    return success();
  }
  Status register_host(void* memory, std::size_t size) override {
    return fails() ? failure(Code::out_of_memory, kStep) : FakeGpu::register_host(memory, size);
  }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    if (fails()) return failure(Code::out_of_memory, kStep);
    return std::unique_ptr<CopyQueue>(std::make_unique<Queue>(*this, std::move(*FakeGpu::open_copy_queue(markers))));
  }

 private:
  static constexpr const char* kStep = "do as the GPU's driver was asked";

  class Queue final : public CopyQueue {
   public:
    Queue(FailingGpu& gpu, std::unique_ptr<CopyQueue> queue) : gpu_(gpu), queue_(std::move(queue)) {}

    Status copy_many(std::span<const Copy> copies, Direction direction) override {
      return gpu_.fails() ? lost() : queue_->copy_many(copies, direction);
    }
    Status copy_on_device(void* to, const void* from, std::size_t size) override {
      return gpu_.fails() ? lost() : queue_->copy_on_device(to, from, size);
    }
    Status record(unsigned marker) override { return gpu_.loses() ? lost() : queue_->record(marker); }
    Result<bool> reached(unsigned marker) override {
      return gpu_.loses() ? Result<bool>(lost()) : queue_->reached(marker);
    }
    Status wait(unsigned marker, bool spin) override { return gpu_.loses() ? lost() : queue_->wait(marker, spin); }

   private:
    FailingGpu& gpu_;
    const std::unique_ptr<CopyQueue> queue_;
  };

  static Status lost() { return failure(Code::device_lost, kStep); }
  bool fails() { return ++calls_ == fails_at_; }
  bool loses() { return loses_context = loses_context || fails(); }
  Status status() { return fails() ? lost() : success(); }

  unsigned calls_ = 0, fails_at_ = 0;
};

}  // namespace penstock::core
