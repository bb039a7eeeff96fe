// SPDX-License-Identifier: Apache-2.0

// Finds the library and the program of `penstock run`, and makes this process the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::tools {

// The exit codes of shells for a program that is not there, or cannot be started.
constexpr int kNotFound = 127, kNotStarted = 126;

// The libcufile.so.0 to put in front: `named`, or with "" the one installed beside the tool. Throws Failure.
std::filesystem::path library_for(const std::string& named);
// Sets LD_PRELOAD of this process. Throws Failure if the loader would not accept the path.
void put_in_front(const std::string& library);

// The path at which execvp(3) would find it, or "".
std::string program_path(const std::string& name);
// A sentence that says why the loader ignores LD_PRELOAD, or "".
std::string why_out_of_reach(const std::string& program);

// Throws Failure if the program cannot be started.
[[noreturn]] void become(const std::vector<std::string>& words);

}  // namespace penstock::tools
