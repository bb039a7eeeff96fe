// Ctrl-C and its kin. The first signal only raises a flag, so that a sub-command can stop between two requests and
// put its affairs in order; the second ends the process at once, after removing the one file that would be left.
#pragma once

namespace penstock::tools {

void catch_interrupts();  // SIGINT, SIGTERM, SIGHUP. Once, at the start.
bool interrupted();       // Async-signal-safe and cheap.
void throw_if_interrupted();
// Ends the process by the signal that was caught, so that a shell sees it; returns where there was none.
void die_of_interrupt();

// The file to remove should a second signal arrive; "" for none. Not thread-safe; the path is copied.
void remove_on_second_interrupt(const char* path);

}  // namespace penstock::tools
