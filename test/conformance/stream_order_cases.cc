// SPDX-License-Identifier: Apache-2.0

// cuFileReadAsync and cuFileWriteAsync: in the order of their stream, and streams that wait for one another.
#include <memory>

#include "stream_kit.h"

namespace conformance {
namespace {

// ---- Order ---------------------------------------------------------------------------------------------------------

CASE("stream.order.write_sees_earlier_fill") {
  const int fd = w.file("a", kSize);
  const CUfileHandle_t handle = w.handle(fd);
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  Wish wish;
  Hold hold(w, stream);
  w.must_cuda("fill", w.cuda.cuMemsetD8Async(reinterpret_cast<Address>(memory.base()), 0x3C, kSize, stream));
  w.tell("write", write_async(w, handle, memory.base(), wish, stream));
  hold.let_go();
  synchronize(w, stream);
  std::string bytes(kSize, '\0');
  const ssize_t got = pread(fd, bytes.data(), kSize, 0);
  w.say("bytes: %zd file: %s", wish.bytes,
        got == static_cast<ssize_t>(kSize) && bytes == std::string(kSize, '\x3C') ? "equal" : "differs");
}
CASE("stream.order.copy_sees_earlier_read") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize), back(w, Kind::pinned, kSize);
  const Stream stream = make_stream(w);
  Wish wish;
  Hold hold(w, stream);
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  w.must_cuda("copy",
              w.cuda.cuMemcpyDtoHAsync_v2(back.base(), reinterpret_cast<Address>(memory.base()), kSize, stream));
  hold.let_go();
  synchronize(w, stream);
  w.say("bytes: %zd copied: %s", wish.bytes, compare_memory(back, 0, kSize, 1, 0));
}
CASE("stream.order.call_does_not_wait_for_the_stream") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  Wish wish;
  Hold hold(w, stream);
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  w.say("returned while held: %d bytes: %zd", hold.was_let_go(), wish.bytes);
  hold.let_go();
  synchronize(w, stream);
  w.say("bytes: %zd", wish.bytes);
}
CASE("stream.order.host_function_sees_result") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  static Wish wish;
  static ssize_t seen_before, seen_after;
  w.must_cuda("host function", w.cuda.cuLaunchHostFunc(
                                   stream, [](void*) { seen_before = wish.bytes; }, nullptr));
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  w.must_cuda("host function", w.cuda.cuLaunchHostFunc(
                                   stream, [](void*) { seen_after = wish.bytes; }, nullptr));
  synchronize(w, stream);
  w.say("before: %zd after: %zd", seen_before, seen_after);
}
CASE("stream.order.host_function_sets_parameters") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4 * kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  static Wish wish;
  w.must_cuda("host function", w.cuda.cuLaunchHostFunc(
                                   stream,
                                   [](void*) {
                                     wish.size = 8192;
                                     wish.file_offset = kSize;
                                   },
                                   nullptr));
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  synchronize(w, stream);
  w.say("bytes: %zd memory: %s", wish.bytes, compare_memory(memory, 0, 8192, 1, kSize));
}
CASE("stream.order.result_of_one_is_size_of_next") {
  const int fd = w.file("b", 0);
  const CUfileHandle_t source = w.handle(w.file("a", 5000)), target = w.handle(fd);
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  static Wish first, second;
  w.tell("read", read_async(w, source, memory.base(), first, stream));
  w.must_cuda("host function",
              w.cuda.cuLaunchHostFunc(
                  stream, [](void*) { second.size = static_cast<std::size_t>(first.bytes); }, nullptr));
  w.tell("write", write_async(w, target, memory.base(), second, stream));
  synchronize(w, stream);
  w.say("read: %zd written: %zd size: %zu", first.bytes, second.bytes, size_of(fd));
}
CASE("stream.order.hundred_on_one_stream") {
  const CUfileHandle_t handle = w.handle(w.file("a", 100 * 4096));
  Memory memory(w, Kind::gpu, 100 * 4096);
  const Stream stream = make_stream(w);
  static Wish wishes[100];
  for (off_t i = 0; i < 100; ++i) {
    wishes[i] = {4096, i * 4096, i * 4096, -12345};
    w.must("read", read_async(w, handle, memory.base(), wishes[i], stream));
  }
  synchronize(w, stream);
  int whole = 0;
  for (const Wish& wish : wishes) whole += wish.bytes == 4096;
  w.say("whole: %d memory: %s", whole, compare_memory(memory, 0, 100 * 4096, 1, 0));
}
CASE("stream.order.write_then_read_back") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize), other(w, Kind::gpu, kSize);
  memory.put(0, pattern(2, 0, kSize));
  const Stream stream = make_stream(w);
  Wish write, read;
  w.tell("write", write_async(w, handle, memory.base(), write, stream));
  w.tell("read", read_async(w, handle, other.base(), read, stream));
  synchronize(w, stream);
  w.say("written: %zd read: %zd memory: %s", write.bytes, read.bytes, compare_memory(other, 0, kSize, 2, 0));
}
CASE("stream.order.query_becomes_ready") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  Wish wish;
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  int turns = 0;
  while (w.cuda.cuStreamQuery(stream) != kCudaSuccess && ++turns < 10000) usleep(500);
  w.say("ready: %d bytes: %zd", turns < 10000, wish.bytes);
}

// ---- Several streams -----------------------------------------------------------------------------------------------

CASE("streams.held_one_does_not_hold_another") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, 2 * kSize);
  const Stream held = make_stream(w), running = make_stream(w);
  Wish first, second;
  second.buffer_offset = kSize;
  Hold hold(w, held);
  w.tell("read held", read_async(w, handle, memory.base(), first, held));
  w.tell("read running", read_async(w, handle, memory.base(), second, running));
  synchronize(w, running);
  w.say("bytes: %zd while held: %d", second.bytes, hold.was_let_go());
  hold.let_go();
  synchronize(w, held);
  w.say("bytes: %zd", first.bytes);
}
CASE("streams.sixteen_held_and_one_running") {
  const CUfileHandle_t handle = w.handle(w.file("a", 4096));
  Memory memory(w, Kind::gpu, 17 * 4096);
  static Wish wishes[17];
  std::vector<Stream> streams;
  for (off_t i = 0; i < 17; ++i) {
    streams.push_back(make_stream(w));
    wishes[i] = {4096, 0, i * 4096, -12345};
  }
  std::vector<std::unique_ptr<Hold>> holds;
  for (std::size_t i = 0; i < 4; ++i) holds.push_back(std::make_unique<Hold>(w, streams[i]));
  for (std::size_t i = 0; i < 17; ++i) w.must("read", read_async(w, handle, memory.base(), wishes[i], streams[i]));
  for (std::size_t i = 4; i < 17; ++i) synchronize(w, streams[i]);
  int whole = 0;
  for (std::size_t i = 4; i < 17; ++i) whole += wishes[i].bytes == 4096;
  w.say("whole: %d while held: %d", whole, holds[0]->was_let_go());
  for (auto& hold : holds) hold->let_go();
  for (std::size_t i = 0; i < 4; ++i) synchronize(w, streams[i]);
}
CASE("streams.event_carries_a_read") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize), back(w, Kind::pinned, kSize);
  const Stream reader = make_stream(w), copier = make_stream(w);
  Event event = nullptr;
  w.must_cuda("cuEventCreate", w.cuda.cuEventCreate(&event, 0));
  Wish wish;
  Hold hold(w, reader);
  w.tell("read", read_async(w, handle, memory.base(), wish, reader));
  w.must_cuda("cuEventRecord", w.cuda.cuEventRecord(event, reader));
  w.must_cuda("cuStreamWaitEvent", w.cuda.cuStreamWaitEvent(copier, event, 0));
  w.must_cuda("copy",
              w.cuda.cuMemcpyDtoHAsync_v2(back.base(), reinterpret_cast<Address>(memory.base()), kSize, copier));
  hold.let_go();
  synchronize(w, copier);
  w.say("bytes: %zd copied: %s", wish.bytes, compare_memory(back, 0, kSize, 1, 0));
}
CASE("streams.two_wait_for_one_another") {
  const CUfileHandle_t one = w.handle(w.file("a", kSize)), two = w.handle(w.file("b", kSize));
  Memory a(w, Kind::gpu, kSize), b(w, Kind::gpu, kSize);
  a.put(0, pattern(2, 0, kSize));
  b.put(0, pattern(3, 0, kSize));
  const Stream left = make_stream(w), right = make_stream(w);
  Event of_left = nullptr, of_right = nullptr;
  w.must_cuda("cuEventCreate", w.cuda.cuEventCreate(&of_left, 0));
  w.must_cuda("cuEventCreate", w.cuda.cuEventCreate(&of_right, 0));
  static Wish wishes[4];
  w.tell("left writes", write_async(w, one, a.base(), wishes[0], left));
  w.must_cuda("record", w.cuda.cuEventRecord(of_left, left));
  w.tell("right writes", write_async(w, two, b.base(), wishes[1], right));
  w.must_cuda("record", w.cuda.cuEventRecord(of_right, right));
  w.must_cuda("wait", w.cuda.cuStreamWaitEvent(left, of_right, 0));
  w.must_cuda("wait", w.cuda.cuStreamWaitEvent(right, of_left, 0));
  w.tell("left reads", read_async(w, two, a.base(), wishes[2], left));
  w.tell("right reads", read_async(w, one, b.base(), wishes[3], right));
  synchronize(w, left);
  synchronize(w, right);
  w.say("left: %s right: %s", compare_memory(a, 0, kSize, 3, 0), compare_memory(b, 0, kSize, 2, 0));
}
CASE("streams.null_stream_waits_for_blocking_stream") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w, 0);
  static Wish first, second;
  first = {4096, 0, 0, -12345};
  second = {4096, 4096, 4096, -12345};
  Hold hold(w, stream);
  w.tell("read", read_async(w, handle, memory.base(), first, stream));
  std::thread later([&] {
    usleep(200'000);
    hold.let_go();
  });
  w.tell("read on the null stream", read_async(w, handle, memory.base(), second, nullptr));
  synchronize(w, nullptr);
  w.say("first: %zd second: %zd", first.bytes, second.bytes);
  later.join();
}
CASE("streams.from_eight_threads") {
  const CUfileHandle_t handle = w.handle(w.file("a", 8 * kSize));
  Memory memory(w, Kind::gpu, 8 * kSize);
  Context context = nullptr;
  w.must_cuda("cuCtxGetCurrent", w.cuda.cuCtxGetCurrent(&context));
  std::atomic<int> whole = 0;
  std::vector<std::thread> threads;
  for (off_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      w.cuda.cuCtxPushCurrent_v2(context);
      Stream stream = nullptr;
      w.cuda.cuStreamCreate(&stream, kStreamNonBlocking);
      for (int turn = 0; turn < 20; ++turn) {
        const auto at = static_cast<off_t>(i * static_cast<off_t>(kSize));
        Wish wish = {kSize, at, at, -12345};
        read_async(w, handle, memory.base(), wish, stream);
        w.cuda.cuStreamSynchronize(stream);
        whole += wish.bytes == static_cast<ssize_t>(kSize);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  w.say("whole: %d memory: %s", whole.load(), compare_memory(memory, 0, 8 * kSize, 1, 0));
}
CASE("streams.of_second_context") {
  w.need_gpu();
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Context second = nullptr;
  w.must_cuda("cuCtxCreate", w.cuda.cuCtxCreate_v2(&second, 0, 0));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  Wish wish;
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  synchronize(w, stream);
  w.say("bytes: %zd memory: %s", wish.bytes, compare_memory(memory, 0, kSize, 1, 0));
}
CASE("streams.handle_deregistered_while_held") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  static Wish wish;
  Hold hold(w, stream);
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  std::thread later([&] {
    usleep(300'000);
    hold.let_go();
  });
  w.cuFileHandleDeregister(handle);
  later.join();
  w.tell_cuda("cuStreamSynchronize", w.cuda.cuStreamSynchronize(stream));
  w.say("came back");
}
CASE("streams.close_while_held") {
  const CUfileHandle_t handle = w.handle(w.file("a", kSize));
  Memory memory(w, Kind::gpu, kSize);
  const Stream stream = make_stream(w);
  static Wish wish;
  Hold hold(w, stream);
  w.tell("read", read_async(w, handle, memory.base(), wish, stream));
  std::thread later([&] {
    usleep(300'000);
    hold.let_go();
  });
  w.tell("close", w.cuFileDriverClose_v2());
  later.join();
  w.tell_cuda("cuStreamSynchronize", w.cuda.cuStreamSynchronize(stream));
  w.say("use count: %ld", w.cuFileUseCount());
}

}  // namespace
}  // namespace conformance
