// SPDX-License-Identifier: Apache-2.0

#include "python/native/engine.h"

#include <dlfcn.h>
#include <nanobind/nanobind.h>

#include <cstring>
#include <memory>

#include "python/native/symbol.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

constexpr const char* kCufile = "libcufile.so.0";

// Call both functions with the GIL held. Their objects are never freed: requests may be in flight when the interpreter
// ends.
std::string& own_library() {
  static auto* const path = new std::string;
  return *path;
}
std::unique_ptr<Engine>& loaded() {
  static auto* const engine = new std::unique_ptr<Engine>;
  return *engine;
}

[[noreturn]] void refuse(const std::string& why) { throw nb::import_error(why.c_str()); }

std::string file_of(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Finds Penstock's libcufile.so.0 if the process has it, preloaded, linked or opened by name; else null.
void* mapped_cufile() {
  if (void* const found = ::dlsym(RTLD_DEFAULT, "penstock_cufile_session")) {
    return ::dlopen(file_of(found).c_str(), RTLD_NOW | RTLD_NOLOAD);
  }
  void* const named = ::dlopen(kCufile, RTLD_NOW | RTLD_NOLOAD);
  if (named == nullptr) return nullptr;
  if (::dlsym(named, "penstock_cufile_session") != nullptr) return named;
  ::dlclose(named);  // NVIDIA's.
  return nullptr;
}

void* open_own() {
  if (void* const library = ::dlopen(own_library().c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  refuse("penstock: could not load the package's library: " + std::string(::dlerror()) +
         ". Reinstall the package penstock.");
}

// Before 1.0 each minor version may have changed the interface.
void check_version(const Engine& engine) {
  const std::string ours = std::to_string(PENSTOCK_VERSION_MAJOR) + "." + std::to_string(PENSTOCK_VERSION_MINOR) + ".";
  if (std::strncmp(engine.version(), ours.c_str(), ours.size()) == 0) return;
  refuse("penstock: " + engine.library + " is Penstock " + engine.version() + ", and this package needs " + ours +
         "x. Install a package and a library of one version.");
}

std::unique_ptr<Engine> load_engine() {
  auto engine = std::make_unique<Engine>();
  void* const cufile = mapped_cufile();
  void* const library = cufile != nullptr ? cufile : open_own();
  if (!find(library, "penstock_version", engine->version)) refuse("penstock: the library has no penstock_version()");
  engine->library = file_of(reinterpret_cast<void*>(engine->version));
  check_version(*engine);
#define PENSTOCK_PYTHON_CALL(name)                     \
  if (!find(library, "penstock_" #name, engine->name)) \
    refuse("penstock: " + engine->library + " has no penstock_" #name "(). Reinstall Penstock.");
  PENSTOCK_PYTHON_CALLS(PENSTOCK_PYTHON_CALL)
#undef PENSTOCK_PYTHON_CALL
  if (cufile == nullptr) return engine;
  const bool complete = find(cufile, "cuFileDriverOpen", engine->cufile_driver_open) &&
                        find(cufile, "cuFileDriverClose_v2", engine->cufile_driver_close) &&
                        find(cufile, "penstock_cufile_session", engine->cufile_session);
  if (!complete) refuse("penstock: " + engine->library + " lacks a call of cuFile. Reinstall Penstock.");
  return engine;
}

}  // namespace

void set_library_folder(const std::string& folder) { own_library() = folder + "/" + PENSTOCK_SONAME; }

const Engine& engine() {
  if (loaded() == nullptr) loaded() = load_engine();
  return *loaded();
}

}  // namespace penstock::python
