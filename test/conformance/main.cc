// SPDX-License-Identifier: Apache-2.0

// penstock_conformance: what a cuFile library does, as JSON. The same program examines NVIDIA's library and ours;
// compare.py tells where the two differ.
#include <fnmatch.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <thread>

#include "runner.h"

namespace conformance {
namespace {

constexpr const char* kUsage =
    "penstock_conformance [--library PATH] [--cuda PATH] [--dir DIR] [--case PATTERN] [--names FILE]\n"
    "                     [--list] [--jobs N] [--timeout SECONDS] [--output FILE]\n";

struct Wishes {
  Options options;
  std::string pattern = "*";
  std::string names;  // A file with the names of the cases to run, one to a line, or "" for all.
  std::string output;
  bool list = false;
};

// False where the command line cannot be understood.
bool understand(int count, char** words, Wishes& wishes) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--list") {
      wishes.list = true;
      continue;
    }
    if (i + 1 >= count) return false;
    const std::string value = words[++i];
    if (word == "--library") wishes.options.library = value;
    else if (word == "--cuda") wishes.options.cuda = value;
    else if (word == "--dir") wishes.options.folder = value;
    else if (word == "--case") wishes.pattern = value;
    else if (word == "--names") wishes.names = value;
    else if (word == "--jobs") wishes.options.jobs = static_cast<unsigned>(std::max(1, std::atoi(value.c_str())));
    else if (word == "--timeout") wishes.options.timeout_s = std::max(1, std::atoi(value.c_str()));
    else if (word == "--output") wishes.output = value;
    else return false;
  }
  return true;
}

std::set<std::string> names_in(const std::string& file) {
  std::set<std::string> names;
  std::ifstream lines(file);
  for (std::string name; std::getline(lines, name);) names.insert(name);
  return names;
}

// Asked in a child, like everything that loads the library or CUDA.
Case machine_case() {
  return {"machine", {}, [](Fixture& w) {
            int version = 0;
            w.cuFileGetVersion(&version);
            w.say("version %d", version);
            char name[128] = "none";
            int driver = 0;
            if (w.has_gpu) w.cuda.cuDeviceGetName(name, sizeof(name), 0);
            if (w.has_gpu && w.cuda.cuDriverGetVersion.present()) w.cuda.cuDriverGetVersion(&driver);
            w.say("gpu %s", name);
            w.say("cuda %d", driver);
          }};
}

std::string file_system_of(const std::string& folder) {
  struct statfs about = {};
  statfs(folder.c_str(), &about);
  switch (static_cast<unsigned long>(about.f_type)) {
    case 0xEF53: return "ext4";
    case 0x58465342: return "xfs";
    case 0x01021994: return "tmpfs";
    case 0x794C7630: return "overlay";
    case 0x9123683E: return "btrfs";
  }
  return "type " + std::to_string(about.f_type);
}

nlohmann::json describe(const Options& options, nlohmann::json& library) {
  library["path"] = options.library.substr(options.library.rfind('/') + 1);
  nlohmann::json machine;
  Outcomes machine_outcomes = run({machine_case()}, options);  // Outlives the loop over its lines.
  for (const std::string& line : machine_outcomes["machine"]) {
    const std::size_t space = line.find(' ');
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    if (key == "version") library["version"] = std::atoi(value.c_str());
    else machine[key] = value;
  }
  utsname about = {};
  uname(&about);
  machine["kernel"] = about.release;
  machine["file_system"] = file_system_of(options.folder);
  machine["etc_cufile_json"] = access("/etc/cufile.json", R_OK) == 0;
  machine["nvidia_fs"] = access("/proc/driver/nvidia-fs/version", F_OK) == 0;
  return machine;
}

int main_of(int count, char** words) {
  Wishes wishes;
  wishes.options.jobs = std::max(1U, std::thread::hardware_concurrency());
  if (!understand(count, words, wishes)) {
    std::cerr << kUsage;
    return 2;
  }
  const std::set<std::string> named = names_in(wishes.names);
  std::vector<Case> chosen;
  std::copy_if(cases().begin(), cases().end(), std::back_inserter(chosen), [&](const Case& each) {
    const bool is_named = wishes.names.empty() || named.count(each.name) > 0;
    return is_named && fnmatch(wishes.pattern.c_str(), each.name.c_str(), 0) == 0;
  });
  std::set<std::string> names;
  for (const Case& each : chosen) {
    if (!names.insert(each.name).second) throw std::logic_error("two cases have the name " + each.name);
  }
  if (wishes.list) {
    for (const Case& each : chosen) std::cout << each.name << "\n";
    return 0;
  }
  nlohmann::json library = nlohmann::json::object();
  nlohmann::json machine = describe(wishes.options, library);
  const Outcomes outcomes = run(chosen, wishes.options);
  if (outcomes.size() != chosen.size()) {
    std::cerr << "penstock_conformance: " << chosen.size() - outcomes.size() << " cases were not run\n";
  }
  const nlohmann::json report = {{"library", library}, {"machine", machine}, {"cases", outcomes}};
  const std::string text = report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (wishes.output.empty()) {
    std::cout << text;
    return std::cout.good() ? 0 : 1;
  }
  std::ofstream out(wishes.output);
  out << text;
  out.close();
  return out.good() ? 0 : 1;
}

}  // namespace
}  // namespace conformance

int main(int count, char** words) try {
  return conformance::main_of(count, words);
} catch (const std::exception& error) {
  std::cerr << "penstock_conformance: " << error.what() << "\n";
  return 1;
}
