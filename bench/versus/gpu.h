// SPDX-License-Identifier: Apache-2.0

// The memory that both sides move bytes into and out of, and the plain copies they are held against: a GPU by the CUDA
// driver alone, or host memory that Penstock lets stand in for one, so that everything here runs without a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace penstock::versus {

struct Calls;

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string name() const = 0;
  // Makes the GPU the calling thread's. Before any of the others, on every thread.
  virtual void enter() const = 0;
  // Both live as long as the process.
  virtual char* allocate(std::size_t size) = 0;
  virtual char* allocate_pinned(std::size_t size) = 0;
  // Blocking.
  virtual void to_device(char* device, const char* host, std::size_t size) const = 0;
  virtual void to_host(char* host, const char* device, std::size_t size) const = 0;
  // In stream order; null is not one of them.
  virtual void* open_stream() const = 0;
  virtual void close_stream(void* stream) const = 0;
  virtual void copy_to_device(char* device, const char* host, std::size_t size, void* stream) const = 0;
  virtual void wait(void* stream) const = 0;
  // Another GPU of the machine. Of stand-ins there is one.
  virtual std::unique_ptr<Gpu> other(unsigned ordinal) const = 0;
};

// The first GPU that the driver shows. Throws a Failure of kNotApplicable where there is none.
std::unique_ptr<Gpu> open_cuda();
// Memory of `calls`' session, whose driver is open. Throws where it is not Penstock's.
std::unique_ptr<Gpu> open_stand_in(const Calls& calls);

}  // namespace penstock::versus
