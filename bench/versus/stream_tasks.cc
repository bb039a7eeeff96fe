// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "bench/versus/failure.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {
namespace {

constexpr unsigned kStreamWarmUp = 16;       // Untimed requests before the clock starts.
constexpr unsigned kSmallRequests = 10'000;  // Queued on all streams before any wait.
constexpr std::size_t kStreamPinnedMax = std::size_t{64} << 20;

class Stream {
 public:
  explicit Stream(Gpu& gpu) : gpu_(gpu), stream_(gpu.open_stream()) {}
  ~Stream() { gpu_.close_stream(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* get() const { return stream_; }
  void wait() const { gpu_.wait(stream_); }

 private:
  Gpu& gpu_;
  void* stream_;
};

// A request's parameters, which must stay valid until the stream has executed it.
struct Request {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t place = 0;
  ssize_t moved = 0;
};

void queue(const Fixture& fixture, const Handle& handle, Request& request, const Stream& stream) {
  const Calls& calls = fixture.calls();
  const CUfileError_t error = calls.read_async(handle.get(), fixture.memory(), &request.size, &request.file_offset,
                                               &request.place, &request.moved, static_cast<CUstream>(stream.get()));
  if (error.err != CU_FILE_SUCCESS) throw Failure(calls.name + ": cuFileReadAsync says " + std::to_string(error.err));
}

std::vector<std::unique_ptr<Stream>> open_streams(Fixture& fixture, unsigned count) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (unsigned i = 0; i < count; ++i) streams.push_back(std::make_unique<Stream>(fixture.gpu()));
  return streams;
}

Request small_request(const Task& task, unsigned number) {
  const std::uint64_t blocks = task.size / task.block;
  return {task.block, static_cast<off_t>(number * 7 % blocks * task.block),
          static_cast<off_t>(number % task.threads * 2 * task.block)};
}

}  // namespace

Sample read_on_stream(Fixture& fixture, const Task& task, const Gate& gate) {
  const bool is_whole = task.block == task.size;
  const Opened source(fixture, task.file, O_RDONLY);
  const Stream stream(fixture.gpu());
  std::mt19937_64 random(task.seed);
  std::vector<double> times(task.times);
  const auto read = [&] {
    Request request{task.block, static_cast<off_t>(random() % (task.size / task.block) * task.block)};
    const double start = now();
    queue(fixture, source.handle(), request, stream);
    stream.wait();
    const double time = now() - start;
    expect(fixture.calls(), request.moved, task.block);
    if (task.verify && !is_whole) {
      fixture.compare(source.handle().fd(), static_cast<std::uint64_t>(request.file_offset), fixture.memory(),
                      task.block);
    }
    return time;
  };
  for (unsigned i = 0; i < (is_whole ? 1 : kStreamWarmUp); ++i) read();
  Stopwatch watch(gate);
  for (double& time : times) time = read() * 1e6;
  watch.stop();
  Sample sample = watch.sample(task.times * task.block, task.times);
  std::sort(times.begin(), times.end());
  sample.p50 = times[times.size() / 2];
  sample.p99 = times[times.size() * 99 / 100];
  if (task.verify && is_whole) fixture.compare(task.file, task.size);
  return sample;
}

Sample read_on_many_streams(Fixture& fixture, const Task& task, const Gate& gate) {
  const Opened source(fixture, task.file, O_RDONLY);
  const auto streams = open_streams(fixture, task.threads);
  std::vector<Request> requests(kSmallRequests);
  std::uint64_t done = 0;
  Stopwatch watch(gate);
  for (const double until = now() + task.seconds; done == 0 || now() < until; done += kSmallRequests) {
    for (unsigned i = 0; i < kSmallRequests; ++i) {
      requests[i] = small_request(task, i);
      queue(fixture, source.handle(), requests[i], *streams[i % task.threads]);
    }
    for (const auto& stream : streams) stream->wait();
    for (const Request& request : requests) expect(fixture.calls(), request.moved, task.block);
  }
  watch.stop();
  for (unsigned i = kSmallRequests - task.threads; task.verify && i < kSmallRequests; ++i) {
    const Request& last = requests[i];
    fixture.compare(source.handle().fd(), static_cast<std::uint64_t>(last.file_offset), fixture.memory() + last.place,
                    task.block);
  }
  return watch.sample(done * task.block, done);
}

Sample copy_on_many_streams(Fixture& fixture, const Task& task, const Gate& gate) {
  const core::UniqueFd fd = open_plainly(task.file);
  const auto streams = open_streams(fixture, task.threads);
  // A place is reused only after its stream has finished with it.
  const std::size_t places = std::min(fixture.pinned_size(), kStreamPinnedMax) / task.block;
  std::uint64_t done = 0;
  Stopwatch watch(gate);
  for (const double until = now() + task.seconds; done == 0 || now() < until; done += kSmallRequests) {
    for (unsigned i = 0; i < kSmallRequests; ++i) {
      const Request request = small_request(task, i);
      if (i > 0 && i % places == 0) {
        for (const auto& stream : streams) stream->wait();
      }
      char* const staging = fixture.pinned() + i % places * task.block;
      expect(fixture.calls(), ::pread(fd.get(), staging, task.block, request.file_offset), task.block);
      fixture.gpu().copy_to_device(fixture.memory() + request.place, staging, task.block,
                                   streams[i % task.threads]->get());
    }
    for (const auto& stream : streams) stream->wait();
  }
  watch.stop();
  return watch.sample(done * task.block, done);
}

}  // namespace penstock::versus
