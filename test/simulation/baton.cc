// SPDX-License-Identifier: Apache-2.0

#include "simulation/baton.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simulation/ends.h"
#include "simulation/files.h"

namespace penstock::simulation {
namespace {

constexpr unsigned kPatienceSeconds = 600;  // Of real time: nothing in a process waits for it but the baton.
constexpr Nanoseconds kTurnMax = 1'000'000;
constexpr unsigned kIdleMax = 24;

bool say(int line) {
  const char any = 1;
  return ::send(line, &any, 1, MSG_NOSIGNAL) == 1;
}
bool hear(int line) {
  char any = 0;
  return ::recv(line, &any, 1, 0) == 1;
}

// Of a process, which gives the baton back at some point of any of its threads. Turns in which nothing happens become
// longer: time only passes then, or nobody can go on.
void take_turn(int line, std::uint64_t points_before, unsigned idle) {
  if (!hear(line)) ::_exit(0);  // The conductor has found something elsewhere.
  if (idle > kIdleMax) scheduler().fail("deadlock: no thread of a process can go on");
  Random& random = scheduler().random();
  const Nanoseconds turn = random.below(random.one_in(8) ? 100 * kTurnMax : kTurnMax) << idle;
  scheduler().at(scheduler().now() + turn, [=] {
    const std::uint64_t points = scheduler().points();
    if (!say(line)) ::_exit(0);
    take_turn(line, points, points == points_before ? idle + 1 : 0);
  });
}

}  // namespace

void Conductor::start(const std::function<void(Random&)>& body) {
  int ends_of_line[2];
  const std::uint64_t seed = scheduler().random().next();
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_of_line) != 0) scheduler().fail("no line can be had");
  const pid_t child = ::fork();
  if (child < 0) scheduler().fail("no process can be had");
  if (child > 0) {
    ::close(ends_of_line[1]);
    processes_.push_back({child, ends_of_line[0]});
    return;
  }
  ::close(ends_of_line[0]);
  ::alarm(kPatienceSeconds);
  scheduler().forget_others();
  scheduler().random() = Random(seed);
  disk().faults = {};
  take_turn(ends_of_line[1], 0, 0);
  Random random(seed + 1);
  body(random);
  ends().be_over();
}

bool Conductor::go_on(std::size_t process) {
  const Process one = processes_[process];
  if (say(one.line) && hear(one.line)) return true;
  int status = 0;
  if (::waitpid(one.pid, &status, 0) != one.pid || status != 0)
    scheduler().fail("a process has found something, or ended by a signal");
  ::close(one.line);
  processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(process));
  return false;
}

}  // namespace penstock::simulation
