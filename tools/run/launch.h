// SPDX-License-Identifier: Apache-2.0

// Finds the library and the program of `penstock run`, and makes this process the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::tools {

// The exit codes of shells for a program that is not there, or cannot be started.
constexpr int kNotFound = 127, kNotStarted = 126;

// The libcufile.so.0 to put in front: the one named, or "" for the one installed beside the tool. Throws Failure.
std::filesystem::path library_for(const std::string& named);
// By LD_PRELOAD of this process. Throws Failure where the loader would not take the path.
void put_in_front(const std::string& library);

// The path by which execvp(3) would find it, or "".
std::string program_path(const std::string& name);
// Why the loader does not listen to LD_PRELOAD: a sentence, or "".
std::string why_out_of_reach(const std::string& program);

// Throws Failure where it cannot be started.
[[noreturn]] void become(const std::vector<std::string>& words);

}  // namespace penstock::tools
