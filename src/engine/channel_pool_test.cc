// SPDX-License-Identifier: Apache-2.0

#include "engine/channel_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "fakes/waiting.h"
#include "path/null/null_path.h"

namespace penstock::core {
namespace {

TEST(ChannelShapesTest, AllChannelsFitIntoTheBounceBuffersWhateverIsAskedFor) {
  for (std::uint64_t mib = 1; mib <= 1024; mib *= 2) {
    for (std::uint64_t chunk = 64; chunk <= 256 * 1024; chunk *= 4) {
      for (const unsigned workers : {1u, 2u, 7u, 16u, 64u, 256u}) {
        const ChannelShapes shapes = shape_channels(mib << 20, chunk << 10, workers);
        const auto bytes = [](const ChannelShape& shape) { return shape.count * shape.depth * shape.chunk; };
        ASSERT_LE(bytes(shapes.small) + bytes(shapes.large), mib << 20) << mib << " " << chunk << " " << workers;
        for (const ChannelShape& shape : {shapes.small, shapes.large}) {
          ASSERT_GE(shape.count, 1u);
          ASSERT_GE(shape.depth, 1u);
          ASSERT_GE(shape.chunk, 64u << 10);
          ASSERT_EQ(shape.chunk % 4096, 0u);
        }
      }
    }
  }
}

TEST(ChannelPoolTest, ABorrowerWaitsUntilAChannelComesBack) {
  NullPath path;
  BounceBudget budget(1 << 20);
  ChannelPool pool(path, nullptr, {.count = 1, .depth = 1, .chunk = 65536}, budget);
  std::atomic<bool> borrowed{false};
  std::thread waiter;
  {
    const Result<ChannelPool::Loan> loan = pool.borrow();
    ASSERT_TRUE(loan.ok());
    EXPECT_FALSE(pool.try_borrow());
    waiter = std::thread([&] {
      ASSERT_TRUE(pool.borrow().ok());
      borrowed = true;
    });
    give_time_to_go_wrong();
    EXPECT_FALSE(borrowed);
  }
  waiter.join();

  EXPECT_TRUE(borrowed);
}

TEST(ChannelPoolTest, LongRequestsLeaveOneChannelToShortOnes) {
  NullPath path;
  BounceBudget budget(1 << 20);
  ChannelPool pool(path, nullptr, {.count = 3, .depth = 2, .chunk = 65536}, budget);
  EXPECT_TRUE(pool.shape().fits(2 * 65536));
  EXPECT_FALSE(pool.shape().fits(2 * 65536 + 1));
  const Result<ChannelPool::Loan> first = pool.borrow(true), second = pool.borrow(true);

  // Whichever place is a thread's usual one.
  for (unsigned i = 0; i < 3; ++i) {
    std::thread([&] {
      EXPECT_FALSE(pool.try_borrow(true));
      EXPECT_TRUE(pool.try_borrow());
    }).join();
  }
}

TEST(ChannelPoolTest, AShortRequestGetsItsChannelThoughALongOneWaitsToo) {
  NullPath path;
  BounceBudget budget(1 << 20);
  ChannelPool pool(path, nullptr, {.count = 2, .depth = 1, .chunk = 65536}, budget);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> waiting;
  {
    const Result<ChannelPool::Loan> held = pool.borrow(true);
    std::optional<ChannelPool::Loan> last(pool.try_borrow());
    for (int i = 0; i < 4; ++i) waiting.emplace_back([&] { EXPECT_TRUE(pool.borrow(true).ok()); });
    give_time_to_go_wrong();
    std::thread brief([&] { is_over = pool.borrow().ok(); });
    give_time_to_go_wrong();
    last.reset();
    brief.join();
    EXPECT_TRUE(is_over);
  }
  for (std::thread& thread : waiting) thread.join();
}

// Opens channels until it is told not to.
class FussyPath final : public Path {
 public:
  bool refuses = false;
  Verdict judge(File&, const PointerFacts&, Op) override { return usable(PathId::null); }
  Shape shape(const RoutedRequest& request) override { return {.limits = {.chunk_max = request.chunk_max}}; }
  std::uint64_t channel_bytes(const ChannelOptions& options) const override {
    return options.depth * options.chunk_max;
  }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override {
    if (refuses) return failure(Code::out_of_memory, "open a channel");
    return NullPath().open_channel(options);
  }
};

TEST(ChannelPoolTest, AThreadWhoseOwnChannelCannotBeOpenedTakesAnother) {
  FussyPath path;
  BounceBudget budget(1 << 20);
  ChannelPool pool(path, nullptr, {.count = 8, .depth = 1, .chunk = 65536}, budget);
  ASSERT_TRUE(pool.borrow().ok());
  path.refuses = true;

  for (int i = 0; i < 16; ++i) {
    std::thread([&] { EXPECT_TRUE(pool.borrow().ok()); }).join();
  }

  EXPECT_EQ(budget.used(), 65536u);
}

// Each finds all places taken by others that are trying to open them, and must not sleep on that.
TEST(ChannelPoolTest, WhereNoChannelCanBeOpenedEveryBorrowerIsToldSo) {
  FussyPath path;
  path.refuses = true;
  BounceBudget budget(1 << 20);
  ChannelPool pool(path, nullptr, {.count = 2, .depth = 1, .chunk = 65536}, budget);
  std::atomic<unsigned> told{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        if (round % 3 == 0) (void)pool.try_borrow();
        told += pool.borrow().status().is(Code::out_of_memory) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, 16u * 500);
}

TEST(ChannelPoolTest, ALongRequestTakesTheLastChannelWhereNoOtherCanBeOpened) {
  FussyPath path;
  BounceBudget budget(1 << 20);
  ChannelPool pool(path, nullptr, {.count = 2, .depth = 1, .chunk = 65536}, budget);
  const auto open_one_and_take_it = [&] {
    for (IdleChannel idle; (idle = pool.take_idle_channel(budget)).channel != nullptr;) budget.give_back(idle.bytes);
    path.refuses = false;
    EXPECT_TRUE(pool.borrow().ok());
    path.refuses = true;
    EXPECT_TRUE(pool.borrow(true).ok());
  };

  open_one_and_take_it();
  std::thread(open_one_and_take_it).join();  // The last place is the usual one of one of the two threads.
}

TEST(ChannelPoolTest, IdleChannelsOfOnePoolMakeRoomForAnother) {
  FussyPath path;
  BounceBudget budget(3 * 65536);
  ChannelPool first(path, nullptr, {.count = 3, .depth = 1, .chunk = 65536}, budget);
  ChannelPool second(path, nullptr, {.count = 3, .depth = 1, .chunk = 65536}, budget);
  {
    const auto one = first.borrow();
    const auto two = first.borrow();
    const auto three = first.borrow();
    EXPECT_TRUE(second.borrow().status().is(Code::limit)) << "all of them are in use";
  }

  EXPECT_TRUE(second.borrow().ok());
  EXPECT_LE(budget.used(), 3u * 65536);
}

class ClosedByFunction final : public Channel {
 public:
  explicit ClosedByFunction(std::function<void()>& on_close) : on_close_(on_close) {}
  ~ClosedByFunction() override { on_close_(); }
  bool has_room() const override { return true; }
  bool is_idle() const override { return true; }
  void submit(const RoutedRequest&, const Chunk&, std::uint64_t) override {}
  unsigned poll(std::span<Completion>, bool) override { return 0; }
  Completion move_and_wait(const RoutedRequest&, const Chunk&) override { return {}; }
  void forget_file(std::uint64_t) override {}
  bool is_broken() const override { return false; }

 private:
  std::function<void()>& on_close_;
};

class ClosedByFunctionPath final : public Path {
 public:
  std::function<void()> on_close;
  Verdict judge(File&, const PointerFacts&, Op) override { return usable(PathId::null); }
  Shape shape(const RoutedRequest& request) override { return {.limits = {.chunk_max = request.chunk_max}}; }
  std::uint64_t channel_bytes(const ChannelOptions& options) const override {
    return options.depth * options.chunk_max;
  }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions&) override {
    return std::unique_ptr<Channel>(new ClosedByFunction(on_close));
  }
};

// Closing may wait for the GPU, and so for a held stream: whoever feeds the stream may need the budget meanwhile.
TEST(ChannelPoolTest, TheBudgetIsFreeForOthersWhileAnIdleChannelIsClosed) {
  std::atomic<bool> closes{false}, is_fed{false};
  ClosedByFunctionPath path;
  path.on_close = [&] {
    closes = true;
    EXPECT_TRUE(wait_until([&] { return is_fed.load(); }));
  };
  BounceBudget budget(65536);
  const ChannelShape shape{.count = 1, .depth = 1, .chunk = 65536};
  ChannelPool first(path, nullptr, shape, budget), second(path, nullptr, shape, budget);
  ASSERT_TRUE(first.borrow().ok());
  std::thread other([&] { EXPECT_TRUE(second.borrow().ok()); });
  EXPECT_TRUE(wait_until([&] { return closes.load(); }));

  ChannelPool third(path, nullptr, shape, budget);
  EXPECT_FALSE(budget.reserve_or_reclaim(65536));

  is_fed = true;
  other.join();
}

// Whoever has the room is another's call, say, which ends soon; nobody who returns it knows of this pool.
TEST(ChannelPoolTest, ABorrowerWaitsAWhileForRoomThatOthersHave) {
  FussyPath path;
  BounceBudget budget(65536);
  ChannelPool pool(path, nullptr, {.count = 1, .depth = 1, .chunk = 65536}, budget);
  ASSERT_TRUE(budget.reserve(65536));
  std::thread other([&] {
    be_slow(std::chrono::milliseconds(20));
    budget.give_back(65536);
  });

  EXPECT_TRUE(pool.borrow().ok());

  other.join();
}

TEST(BounceBudgetTest, NeverGivesMoreThanItsLimit) {
  BounceBudget budget(100);

  EXPECT_TRUE(budget.reserve(60));
  EXPECT_FALSE(budget.reserve(41));
  EXPECT_TRUE(budget.reserve(40));
  budget.give_back(60);
  EXPECT_EQ(budget.used(), 40u);
  EXPECT_FALSE(budget.reserve(UINT64_MAX));
}

}  // namespace
}  // namespace penstock::core
