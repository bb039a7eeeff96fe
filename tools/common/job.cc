// SPDX-License-Identifier: Apache-2.0

#include "tools/common/job.h"

#include <optional>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

Arena memory_of(const Job& job) {
  const std::uint64_t size = slot_size_for(job.range.block_size) * job.depth;
  return job.host_memory ? Arena::on_host(size) : Arena::on_device(job.session->raw(), job.gpu, size);
}

class SessionTransport : public Transport {
 public:
  explicit SessionTransport(const Job& job)
      : Transport(memory_of(job), slot_size_for(job.range.block_size)), job_(job) {
    if (job.register_memory) registration_ = require(job.session->buffer(arena().data(), arena().size()), "buffer");
  }

 protected:
  const Job& job_;

 private:
  std::optional<Buffer> registration_;
};

class CallTransport final : public SessionTransport {
 public:
  using SessionTransport::SessionTransport;

  void start(unsigned slot, const Extent& extent) override {
    const auto transfer = [&](auto call) {
      return call(job_.file->raw(), arena().data(), extent.size, static_cast<std::int64_t>(extent.offset),
                  static_cast<std::int64_t>(slot * slot_size()), &report_);
    };
    done_.cookie = slot;
    done_.status = job_.is_write ? transfer(penstock_write) : transfer(penstock_read);
    done_.report = report_;
  }
  unsigned reap(std::span<Completion> done) override {
    done[0] = done_;
    return 1;
  }

 private:
  Completion done_;
  Report report_;
};

class QueueTransport final : public SessionTransport {
 public:
  explicit QueueTransport(const Job& job)
      : SessionTransport(job), queue_(require(job.session->polled_queue(job.depth, job.range.block_size), "queue")) {}

  void start(unsigned slot, const Extent& extent) override {
    Request request =
        job_.file->request(job_.is_write ? PENSTOCK_WRITE : PENSTOCK_READ, arena().data(), extent.size,
                           static_cast<std::int64_t>(extent.offset), static_cast<std::int64_t>(slot * slot_size()));
    request.cookie = slot;
    require(queue_.submit(request), job_.path);
  }
  unsigned reap(std::span<Completion> done) override {
    return require(queue_.reap(done.data(), static_cast<unsigned>(done.size()), 1), job_.path);
  }

 private:
  Queue queue_;
};

std::unique_ptr<Transport> open_transport(const Job& job) {
  if (job.depth > 1) return std::make_unique<QueueTransport>(job);
  return std::make_unique<CallTransport>(job);
}

}  // namespace

JobResult run_job(const Job& job) {
  RunSettings settings;
  settings.label = job.label;
  settings.is_write = job.is_write;
  settings.seconds = job.seconds;
  settings.bytes_total = job.range.size;
  settings.seed = job.seed;
  settings.content = job.content;
  settings.written = job.written;
  std::vector<Part> parts;
  for (unsigned i = 0; i < job.threads; ++i) {
    parts.push_back({{job.path}, job.range.block_size, job.depth,
                     std::make_unique<Extents>(job.range, job.is_random, job.seconds > 0, i, job.threads, job.seed),
                     [&job] { return open_transport(job); }});
  }
  return run_parts(settings, std::move(parts));
}

}  // namespace penstock::tools
