// SPDX-License-Identifier: Apache-2.0

#include "tools/common/job.h"

#include <algorithm>
#include <optional>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

Arena memory_of(const Job& job) {
  const std::uint64_t size = slot_size_for(block_size_of(job)) * job.depth;
  return job.host_memory ? Arena::on_host(size) : Arena::on_device(job.session->raw(), job.gpu, size);
}

class SessionTransport : public Transport {
 public:
  explicit SessionTransport(const Job& job) : Transport(memory_of(job), slot_size_for(block_size_of(job))), job_(job) {
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
      return call(job_.files[extent.file].file->raw(), arena().data(), extent.size,
                  static_cast<std::int64_t>(extent.offset), static_cast<std::int64_t>(slot * slot_size()), &report_);
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

// True for paths whose calls wait for storage: a polled queue makes their requests one after the other.
bool goes_by_waiting(const Job& job, const JobFile& file) {
  if (job.host_memory) return false;
  const DryRun run{.op = job.is_write ? PENSTOCK_WRITE : PENSTOCK_READ, .device = job.gpu};
  const auto choice = file.file->choose(run, block_size_of(job), 0);
  return choice && (choice->path == PENSTOCK_PATH_NVFS || choice->path == PENSTOCK_PATH_VENDOR);
}

// Opens the cheapest queue that will do; polled queues do not take striped objects.
Queue queue_for(const Job& job) {
  const bool needs_threads = std::any_of(job.files.begin(), job.files.end(), [&](const JobFile& file) {
    return file.file->stripe_info() || goes_by_waiting(job, file);
  });
  return require(
      needs_threads ? job.session->queue(job.depth) : job.session->polled_queue(job.depth, block_size_of(job)),
      "queue");
}

class QueueTransport final : public SessionTransport {
 public:
  explicit QueueTransport(const Job& job) : SessionTransport(job), queue_(queue_for(job)) {}

  void start(unsigned slot, const Extent& extent) override {
    const JobFile& to = job_.files[extent.file];
    Request request =
        to.file->request(job_.is_write ? PENSTOCK_WRITE : PENSTOCK_READ, arena().data(), extent.size,
                         static_cast<std::int64_t>(extent.offset), static_cast<std::int64_t>(slot * slot_size()));
    request.cookie = slot;
    require(queue_.submit(request), to.path);
  }
  unsigned reap(std::span<Completion> done) override {
    return require(queue_.reap(done.data(), static_cast<unsigned>(done.size()), 1), job_.files[0].path);
  }

 private:
  Queue queue_;
};

std::unique_ptr<Transport> open_transport(const Job& job) {
  if (job.depth > 1) return std::make_unique<QueueTransport>(job);
  return std::make_unique<CallTransport>(job);
}

// In a job of one file, its last block, which may be short, is never drawn at random; in a job of several files it is.
std::unique_ptr<ExtentSource> extents_of(const Job& job, const std::shared_ptr<const FileBlocks>& blocks, unsigned i) {
  if (job.files.size() > 1) {
    return std::make_unique<FileExtents>(blocks, job.is_random, job.is_endless, i, job.threads, job.seed);
  }
  return std::make_unique<Extents>(job.files[0].range, job.is_random, job.is_endless, i, job.threads, job.seed);
}

}  // namespace

std::uint64_t bytes_of(const Job& job) {
  std::uint64_t bytes = 0;
  for (const JobFile& each : job.files) bytes += each.range.size;
  return bytes;
}

std::uint64_t block_size_of(const Job& job) { return job.files[0].range.block_size; }

JobResult run_job(const Job& job) {
  RunSettings settings = job;
  settings.bytes_total = bytes_of(job);
  std::vector<std::string> paths;
  std::vector<Range> ranges;
  for (const JobFile& each : job.files) {
    paths.push_back(each.path);
    ranges.push_back(each.range);
  }
  const auto blocks = std::make_shared<const FileBlocks>(std::move(ranges));
  std::vector<Part> parts;
  for (unsigned i = 0; i < job.threads; ++i) {
    parts.push_back(
        {paths, block_size_of(job), job.depth, extents_of(job, blocks, i), [&job] { return open_transport(job); }});
  }
  return run_parts(settings, std::move(parts));
}

}  // namespace penstock::tools
