// SPDX-License-Identifier: Apache-2.0

// A headless browser, for tests of pages that the tools write.
#pragma once

#include <stdio.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace penstock {

inline std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[4096];
  for (std::size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  pclose(pipe);
  return text;
}

// The browser's command; "" if there is none.
inline std::string browser() {
  for (const char* name : {"chromium-headless-shell", "chromium", "google-chrome"}) {
    if (!output_of(std::string("command -v ") + name).empty()) return name;
  }
  return "";
}

// The document after its script has run.
inline std::string opened(const std::string& html) {
  std::string folder = std::filesystem::temp_directory_path() / "penstock-page-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return "";
  std::ofstream(folder + "/page.html") << html;
  const std::string dom =
      output_of("HOME=" + folder + " timeout 120 " + browser() +
                " --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom file://" + folder +
                "/page.html 2>/dev/null");
  std::filesystem::remove_all(folder);
  return dom;
}

}  // namespace penstock
