// SPDX-License-Identifier: Apache-2.0

#include "simulation/forks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "simulation/ends.h"
#include "simulation/nvfs.h"
#include "simulation/requests.h"

namespace penstock::simulation {
namespace {

constexpr unsigned kPatienceSeconds = 600;  // Of real time: nothing in a child waits for it.
constexpr std::uint64_t kSizeMax = 64 << 10;

void expect_closed(const penstock_status& status, const char* call) {
  if (status.domain != PENSTOCK_DOMAIN_PENSTOCK || status.code != PENSTOCK_CLOSED)
    scheduler().fail(
        ("a forked child is not told that its parent's handle is closed, but " + text_of(status) + ", by " + call)
            .c_str());
}

void be_refused(const Inherited& inherited) {
  Request request;
  request.op = PENSTOCK_READ;
  request.file = inherited.handle->raw;
  request.base = inherited.place.base();
  request.size = 4096;
  Report report;
  expect_closed(penstock_transfer(&request, &report), "penstock_transfer");
  expect_closed(penstock_file_sync(inherited.handle->raw), "penstock_file_sync");
  std::uint32_t count = 0;
  Counter counter;
  expect_closed(penstock_counters(inherited.session, &counter, 1, &count), "penstock_counters");
  if (inherited.queue == nullptr) return;
  expect_closed(penstock_queue_submit(inherited.queue, &request, 1, &count), "penstock_queue_submit");
  Completion completion;
  expect_closed(penstock_queue_reap(inherited.queue, &completion, 1, 1, -1, &count), "penstock_queue_reap");
  penstock_queue_close(inherited.queue);
}

// By a session of its own, to a file of its own. `may_leave`: exit() or a kill may come between.
void move_bytes(Random& random, bool may_leave) {
  penstock_session* session = nullptr;
  if (open_session(random, &session).code != 0) scheduler().fail("a forked child opens no session");
  const auto handle = std::make_shared<Handle>();
  handle->file = disk().create(random.between(1, kSizeMax));
  const int fd = disk().open(handle->file, random.one_in(2));
  if (penstock_file_register(session, fd, &handle->raw).code != 0 && !scheduler().refuses_threads())
    scheduler().fail("a forked child's session does not take a file");
  ::close(fd);
  Sums sums;
  for (std::uint64_t left = random.between(1, 4); left > 0 && handle->raw != nullptr; --left) {
    const Place place(session, kSizeMax, random.one_in(2));
    Asked asked;
    if (may_leave) ends().exit_if_due();
    if (!asked.begin(random, place, handle, kSizeMax, random.one_in(2))) continue;
    Report report;
    const penstock_status status = penstock_transfer(&asked.request, &report);
    asked.end(status, report, sums);
  }
  penstock_file_close(std::exchange(handle->raw, nullptr));
  penstock_session_close(session);
  if (!may_leave && scheduler().tasks_alive() > 1) scheduler().fail("a thread outlives the session of a forked child");
}

// While threads of its own are within calls, as its parent's were when it forked.
[[noreturn]] void leave_busy(Random& random) {
  static const Tally none;
  scheduler().refuse_threads(0);
  ends().draw(random, none);
  std::vector<std::thread> threads;
  for (std::uint64_t i = random.between(1, 3); i > 0; --i) {
    threads.emplace_back([seed = random.next()] {
      Random own(seed);
      move_bytes(own, true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ends().exit_now();
}

[[noreturn]] void be_a_child(Random& random, const Inherited& inherited) {
  ::alarm(kPatienceSeconds);
  scheduler().forget_others();
  Moving::forget_all();
  Nvfs::forget_parents();
  const bool may_exit = !ends().is_exiting();  // A parent that is within it may have the C library's lock.
  ends().begin([] {});
  be_refused(inherited);
  if (random.one_in(2)) penstock_file_close(inherited.handle->raw);
  if (random.one_in(2)) penstock_session_close(inherited.session);
  if (may_exit && random.one_in(2)) leave_busy(random);
  move_bytes(random, false);
  ::_exit(0);
}

}  // namespace

void fork_a_child(Random& random, const Inherited& inherited) {
  scheduler().point(Call::program);
  const pid_t child = ::fork();
  if (child == 0) be_a_child(random, inherited);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) scheduler().fail("no child can be had");
  if (status != 0) scheduler().fail("a forked child has found something");
}

}  // namespace penstock::simulation
