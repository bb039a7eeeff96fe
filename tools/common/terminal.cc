// SPDX-License-Identifier: Apache-2.0

#include "tools/common/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "tools/common/interrupt.h"
#include "tools/common/variable.h"
#include "tools/common/wrapping.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kColumnsElsewhere = 100, kColumnsLeast = 60, kColumnsMost = 120;

bool terminal_obeys_codes() {
  const std::string terminal = variable("TERM");
  return output_is_terminal() && !terminal.empty() && terminal != "dumb";
}

bool colors_are_shown = false;
bool breaks_lines = true;

// The width of the terminal that a descriptor is; 0 if it is none.
std::size_t columns_of(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Breaks the lines for the terminal that they go to. They stay whole elsewhere.
void write_lines(std::string_view safe, std::FILE* file) {
  const std::size_t columns = breaks_lines ? columns_of(fileno(file)) : 0;
  const std::string text = columns == 0 ? std::string(safe) : wrapped(safe, std::max(columns, kColumnsLeast));
  std::fwrite(text.data(), 1, text.size(), file);
}

// Writes all at once, with write(2): stdio's buffer would send a page in parts, and signal handlers cannot use it.
// False if the text did not arrive.
bool send(std::string_view codes) {
  while (!codes.empty()) {
    const ssize_t sent = ::write(STDOUT_FILENO, codes.data(), codes.size());
    if (sent < 0 && errno != EINTR) return false;
    codes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  return true;
}

// kEnter shows a screen of its own, without a cursor, on which long lines end at the edge; kLeave goes back.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr std::string_view kLeave = "\033[?7h\033[?25h\033[?1049l";
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGQUIT};

// The state of the one screen, which signal handlers use, and the thread that ends an interrupted process.
struct Drawing {
  std::atomic<bool> is_on = false;
  bool has_keyboard = false;
  termios before{};
} drawing;

void enter_screen() {
  termios raw = drawing.before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  if (drawing.has_keyboard) ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  (void)send(kEnter);
  drawing.is_on = true;
}

void leave_screen() {
  if (!drawing.is_on.exchange(false)) return;
  (void)send(kLeave);
  if (drawing.has_keyboard) ::tcsetattr(STDIN_FILENO, TCSANOW, &drawing.before);
}

void crash(int signal_number) {
  leave_screen();
  ::raise(signal_number);  // The handler was removed before this.
}

// Handles Ctrl-Z: the shell has its terminal until it continues this process.
void stop_for_a_while(int) {
  leave_screen();
  ::raise(SIGSTOP);
  enter_screen();
}

void handle(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal_number, &action, nullptr);
}

}  // namespace

void terminal::show_long_lines() { breaks_lines = false; }

void terminal::write_document(std::string_view safe) { std::fwrite(safe.data(), 1, safe.size(), stdout); }

void terminal::write_out(std::string_view safe) { write_lines(safe, stdout); }

void terminal::write_error(std::string_view safe) {
  write_lines(safe, stderr);
  std::fflush(stderr);
}

bool flush_output() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

void show_colors(std::string_view when) {
  colors_are_shown = when == "always" || (when == "auto" && terminal_obeys_codes() && variable("NO_COLOR").empty());
}

std::size_t output_columns() {
  const std::size_t columns = columns_of(STDOUT_FILENO);
  return columns == 0 ? kColumnsElsewhere : std::clamp(columns, kColumnsLeast, kColumnsMost);
}

Text Text::painted(Color color, std::string_view words) {
  constexpr const char* kCodes[] = {"\033[32m", "\033[33m", "\033[31m", "\033[1m"};
  Text text(words);
  if (colors_are_shown) text.safe_ = kCodes[static_cast<std::size_t>(color)] + text.safe_ + "\033[0m";
  return text;
}

bool Screen::is_possible() { return terminal_obeys_codes(); }

Screen::Screen() : keyboard_(STDIN_FILENO) {
  drawing.has_keyboard = ::tcgetattr(STDIN_FILENO, &drawing.before) == 0;
  if (!drawing.has_keyboard) keyboard_ = -1;
  for (const int signal_number : kCrashes) handle(signal_number, crash, static_cast<int>(SA_RESETHAND) | SA_NODEFER);
  handle(SIGTSTP, stop_for_a_while, SA_RESTART);
  handle(
      SIGWINCH, [](int) {}, SA_RESTART);
  before_forced_end(leave_screen);
  std::fflush(stdout);
  enter_screen();
}

Screen::~Screen() {
  leave_screen();
  for (const int signal_number : kCrashes) handle(signal_number, SIG_DFL, 0);
  for (const int signal_number : {SIGTSTP, SIGWINCH}) handle(signal_number, SIG_DFL, 0);
}

Screen::Size Screen::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

bool Screen::show(const std::vector<Text>& lines) {
  const std::size_t rows = size().rows, shown = std::min(lines.size(), rows);
  std::string page = "\033[H";
  // Clears each line before it is written: after a line of full width, the cursor still stands on its last letter.
  for (std::size_t i = 0; i < shown; ++i) page += (i == 0 ? "\033[K" : "\n\033[K") + lines[i].string();
  return send(page + (shown < rows ? "\n\033[J" : ""));
}

char Screen::key_until(Time end) {
  char key = 0;
  if (!wait_for_input(keyboard_, end)) return 0;
  if (::read(keyboard_, &key, 1) <= 0) keyboard_ = -1;
  return key;
}

}  // namespace penstock::tools
