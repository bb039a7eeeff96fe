// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/side.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>

#include "bench/versus/failure.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMessageMax = 65536;
constexpr int kPatienceSeconds = 180;  // More than any task takes.
constexpr const char* kGo = "go";
constexpr const char* kQuit = "quit";

void send_text(int socket, const std::string& text) { (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

// Returns "" if the other process is gone, or too slow.
std::string receive_text(int socket) {
  std::string text(kMessageMax, '\0');
  ssize_t size;
  do {
    size = ::recv(socket, text.data(), text.size(), 0);
  } while (size < 0 && errno == EINTR);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

Sample perform(Fixture& fixture, const Task& task, const Gate& gate) {
  static const std::map<std::string, Sample (*)(Fixture&, const Task&, const Gate&)> kTasks = {
      {"read", read_whole},
      {"write", write_whole},
      {"link", copy_pinned},
      {"gpus", read_on_gpus},
      {"latency", read_latency},
      {"latency copies", time_copies},
      {"batch", read_batches},
      {"threads", read_in_threads},
      {"queues", read_in_queues},
      {"copies", read_and_copy_in_threads},
      {"load", load_memory},
      {"open", open_kept},
      {"close", close_kept},
      {"paged chunks", move_paged_chunks},
      {"paged pieces", move_paged_pieces},
      {"driver open", tell_driver_open},
      {"register", register_first},
      {"first byte", read_first},
      {"stream", read_on_stream},
      {"streams", read_on_many_streams},
      {"stream copies", copy_on_many_streams},
  };
  const auto found = kTasks.find(task.what);
  if (found == kTasks.end()) throw Failure("there is no task '" + task.what + "'");
  return found->second(fixture, task, gate);
}

Sample open_driver(const Calls& calls) {
  Sample opening{.begin = now(), .cpu = -cpu_seconds(), .operations = 1};
  if (const CUfileError_t error = calls.driver_open(); error.err != CU_FILE_SUCCESS) {
    throw Failure(calls.name + ": cuFileDriverOpen says " + std::to_string(error.err));
  }
  opening.end = now();
  opening.cpu += cpu_seconds();
  return opening;
}

// The main loop of the new process, until it gets "quit" or the other process is gone.
void serve(const SideSettings& settings, int socket) {
  const Calls calls = settings.load();
  const std::unique_ptr<Gpu> cuda = settings.stand_in ? nullptr : open_cuda();
  const Sample driver_open = open_driver(calls);
  const std::unique_ptr<Gpu> stand_in = settings.stand_in ? open_stand_in(calls) : nullptr;
  Gpu& gpu = cuda != nullptr ? *cuda : *stand_in;
  Fixture fixture(calls, gpu, settings.memory_bytes, driver_open);
  send_text(socket, Json{{"gpu", gpu.name()}}.dump());
  const Gate gate = [socket] {
    send_text(socket, Json{{"ready", true}}.dump());
    if (receive_text(socket) != kGo) ::_exit(0);
  };
  for (;;) {
    const std::string text = receive_text(socket);
    if (text.empty() || text == kQuit) return;
    send_text(socket, Json{{"sample", perform(fixture, Json::parse(text).get<Task>(), gate)}}.dump());
  }
}

[[noreturn]] void live(const SideSettings& settings, int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // Standard output is only for the results.
  for (const auto& [name, value] : settings.environment) ::setenv(name.c_str(), value.c_str(), 1);
  try {
    serve(settings, socket);
  } catch (const Failure& failure) {
    send_text(socket, Json{{"error", failure.what()}, {"exit_code", failure.exit_code()}}.dump());
  } catch (const std::exception& error) {
    send_text(socket, Json{{"error", error.what()}, {"exit_code", kFailed}}.dump());
  }
  ::_exit(0);
}

}  // namespace

Side::Side(const SideSettings& settings) : name_(settings.name) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) fail_errno(name_, "make a socket");
  process_ = ::fork();
  if (process_ < 0) fail_errno(name_, "start a process");
  if (process_ == 0) {
    ::close(sockets[0]);
    live(settings, sockets[1]);
  }
  ::close(sockets[1]);
  socket_ = sockets[0];
  const timeval patience{kPatienceSeconds, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

// Does not wait for a side that is busy or hangs.
Side::~Side() {
  quit();
  for (int i = 0; i < 100 && process_ > 0; ++i) {
    if (::waitpid(process_, nullptr, WNOHANG) != 0) process_ = -1;
    else ::usleep(20'000);
  }
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(socket_);
}

void Side::send(const std::string& text) { send_text(socket_, text); }

// Throws the reason why there is no answer.
void Side::lost() {
  int status = 0;
  ::usleep(10'000);  // The socket closes before the process is gone.
  if (::waitpid(process_, &status, WNOHANG) != process_) throw Failure(name_ + ": its process does not answer");
  process_ = -1;
  throw Failure(name_ + ": its process ended, " +
                (WIFSIGNALED(status) ? "by signal " + std::to_string(WTERMSIG(status)) : std::string("by itself")));
}

Json Side::receive() {
  const std::string text = receive_text(socket_);
  if (text.empty()) lost();
  Json answer = Json::parse(text);
  if (answer.contains("error")) throw Failure(name_ + ": " + answer["error"].get<std::string>(), answer["exit_code"]);
  return answer;
}

std::string Side::greet() { return receive().at("gpu"); }
void Side::prepare(const Task& task) { send(Json(task).dump()); }
void Side::wait_until_ready() { (void)receive().at("ready"); }
void Side::go() { send(kGo); }
void Side::quit() { send(kQuit); }
Sample Side::result() { return receive().at("sample"); }

std::string rank_file(const std::string& file, unsigned rank, unsigned ranks) {
  return ranks > 1 ? file + "." + std::to_string(rank) : file;
}

Team::Team(const SideSettings& settings, unsigned ranks) {
  for (unsigned rank = 0; rank < ranks; ++rank) {
    SideSettings own = settings;
    if (ranks > 1) {
      own.name += ", rank " + std::to_string(rank);
      own.environment.emplace_back("CUDA_VISIBLE_DEVICES", std::to_string(rank));
    }
    sides_.push_back(std::make_unique<Side>(own));
  }
  for (const auto& side : sides_) gpu_ = side->greet();
}

Team::~Team() {
  for (const auto& side : sides_) side->quit();  // All get "quit" first, so that they end in parallel.
}

Sample Team::run(const Task& task) {
  const auto ranks = static_cast<unsigned>(sides_.size());
  for (unsigned rank = 0; rank < ranks; ++rank) {
    Task own = task;
    own.file = rank_file(task.file, rank, ranks);
    sides_[rank]->prepare(own);
  }
  for (const auto& side : sides_) side->wait_until_ready();
  for (const auto& side : sides_) side->go();
  Sample total = sides_[0]->result();
  for (unsigned rank = 1; rank < ranks; ++rank) total.merge(sides_[rank]->result());
  return total;
}

}  // namespace penstock::versus
