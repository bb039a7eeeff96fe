// SPDX-License-Identifier: Apache-2.0

// The memory that both sides transfer to and from, and the plain copies that they are compared with: a GPU, by the CUDA
// driver alone, or host memory that stands in for one, so that everything here runs without a GPU.
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
  // Makes the GPU current on the calling thread. Each thread calls this first.
  virtual void enter() const = 0;
  // The memory of both lives as long as the process.
  virtual char* allocate(std::size_t size) = 0;
  virtual char* allocate_pinned(std::size_t size) = 0;
  // Blocking.
  virtual void to_device(char* device, const char* host, std::size_t size) const = 0;
  virtual void to_host(char* host, const char* device, std::size_t size) const = 0;
  // Opens a stream; never null.
  virtual void* open_stream() const = 0;
  virtual void close_stream(void* stream) const = 0;
  virtual void copy_to_device(char* device, const char* host, std::size_t size, void* stream) const = 0;
  virtual void wait(void* stream) const = 0;
  // Another GPU of the machine; there is only one stand-in.
  virtual std::unique_ptr<Gpu> other(unsigned ordinal) const = 0;
};

// Opens the driver's first GPU. Throws a Failure with kNotApplicable if there is none.
std::unique_ptr<Gpu> open_cuda();
// Opens memory of the session of `calls`, whose driver must be open. Throws if the library is not Penstock's.
std::unique_ptr<Gpu> open_stand_in(const Calls& calls);

}  // namespace penstock::versus
