// SPDX-License-Identifier: Apache-2.0

// Parameters by number: defaults, ranges, staging, what wins, strings, slab arrays.
#include <cstring>

#include "fixture.h"

namespace conformance {
namespace {

constexpr int kSizes = 12, kBools = 14, kStrings = 4;

template <typename Parameter>
Parameter number(int value) {
  Parameter parameter;
  std::memcpy(&parameter, &value, sizeof(value));
  return parameter;
}
auto size_number(int value) { return number<CUFileSizeTConfigParameter_t>(value); }
auto bool_number(int value) { return number<CUFileBoolConfigParameter_t>(value); }
auto string_number(int value) { return number<CUFileStringConfigParameter_t>(value); }

void tell_size(Fixture& w, const char* step, int parameter) {
  std::size_t value = 424242;
  const CUfileError_t outcome = w.cuFileGetParameterSizeT(size_number(parameter), &value);
  if (outcome.err == CU_FILE_SUCCESS) w.say("%s: %zu", step, value);
  else w.tell(step, outcome);
}
void tell_bool(Fixture& w, const char* step, int parameter) {
  bool value = false;
  const CUfileError_t outcome = w.cuFileGetParameterBool(bool_number(parameter), &value);
  if (outcome.err == CU_FILE_SUCCESS) w.say("%s: %d", step, value);
  else w.tell(step, outcome);
}
// The folder of the case, which differs from run to run, is not told.
std::string without_folder(const Fixture& w, std::string text) {
  const std::size_t at = text.find(w.folder());
  return at == std::string::npos ? text : text.replace(at, w.folder().size(), "$DIR");
}
void tell_string(Fixture& w, const char* step, int parameter, int length = 512) {
  char value[1024] = "unset";
  const CUfileError_t outcome = w.cuFileGetParameterString(string_number(parameter), value, length);
  if (outcome.err == CU_FILE_SUCCESS) w.say("%s: '%s'", step, without_folder(w, value).c_str());
  else w.tell(step, outcome);
}

// ---- Every parameter: default, staging, life -----------------------------------------------------------------------

TABLE() {
  for (int p = 0; p < kSizes; ++p) {
    const std::string name = "parameter.size." + std::to_string(p);
    add(name + ".default", [p](Fixture& w) {
      tell_size(w, "closed", p);
      w.must("open", w.cuFileDriverOpen());
      tell_size(w, "open", p);
      w.must("close", w.cuFileDriverClose_v2());
      tell_size(w, "closed again", p);
    });
    add(name + ".range", [p](Fixture& w) {
      std::size_t least = 42, most = 42;
      if (w.tell("range", w.cuFileGetParameterMinMaxValue(size_number(p), &least, &most)).err == CU_FILE_SUCCESS)
        w.say("least: %zu most: %zu", least, most);
      w.must("open", w.cuFileDriverOpen());
      if (w.tell("range", w.cuFileGetParameterMinMaxValue(size_number(p), &least, &most)).err == CU_FILE_SUCCESS)
        w.say("least: %zu most: %zu", least, most);
    });
    add(name + ".set", [p](Fixture& w) {
      for (const std::size_t value : {std::size_t{0}, std::size_t{2}, std::size_t{64}, std::size_t{100},
                                      std::size_t{4096}, std::size_t{1} << 40, ~std::size_t{0}}) {
        w.say("value %zu", value);
        w.tell("set", w.cuFileSetParameterSizeT(size_number(p), value));
        tell_size(w, "staged", p);
        if (w.tell("open", w.cuFileDriverOpen()).err != CU_FILE_SUCCESS) continue;
        tell_size(w, "open", p);
        w.tell("close", w.cuFileDriverClose_v2());
        tell_size(w, "closed again", p);
      }
      w.tell("open", w.cuFileDriverOpen());
      tell_size(w, "open again", p);
      w.tell("set when open", w.cuFileSetParameterSizeT(size_number(p), 8));
      tell_size(w, "open again", p);
    });
  }
  for (int p = 0; p < kBools; ++p) {
    add("parameter.bool." + std::to_string(p), [p](Fixture& w) {
      tell_bool(w, "closed", p);
      for (const bool value : {true, false}) {
        w.tell("set", w.cuFileSetParameterBool(bool_number(p), value));
        tell_bool(w, "staged", p);
      }
      w.tell("set", w.cuFileSetParameterBool(bool_number(p), true));
      w.tell("open", w.cuFileDriverOpen());
      tell_bool(w, "open", p);
      w.tell("set when open", w.cuFileSetParameterBool(bool_number(p), false));
      w.tell("close", w.cuFileDriverClose_v2());
      tell_bool(w, "closed again", p);
      w.tell("open", w.cuFileDriverOpen());
      tell_bool(w, "open again", p);
    });
    add(
        "parameter.bool." + std::to_string(p) + ".default",
        [p](Fixture& w) {
          w.must("open", w.cuFileDriverOpen());
          tell_bool(w, "open", p);
        },
        Setup{.no_json = true, .environment = {}});
    add("parameter.bool." + std::to_string(p) + ".set_false", [p](Fixture& w) {
      w.tell("set", w.cuFileSetParameterBool(bool_number(p), false));
      w.tell("open", w.cuFileDriverOpen());
      tell_bool(w, "open", p);
    });
  }
  return true;
}

TABLE() {
  for (int p = 0; p < kStrings; ++p) {
    const std::string name = "parameter.string." + std::to_string(p);
    add(name + ".default", [p](Fixture& w) {
      tell_string(w, "closed", p);
      w.must("open", w.cuFileDriverOpen());
      tell_string(w, "open", p);
    });
    add(
        name + ".default_without_json",
        [p](Fixture& w) {
          tell_string(w, "closed", p);
          w.must("open", w.cuFileDriverOpen());
          tell_string(w, "open", p);
        },
        Setup{.no_json = true});
    for (const char* value : {"", "INFO", "info", "bogus", "/tmp", "DEBUG", "TRACE"}) {
      add(name + ".set_" +
              (*value == '\0'  ? "empty"
               : *value == '/' ? "slash_tmp"
                               : value),
          [p, value](Fixture& w) {
            w.tell("set", w.cuFileSetParameterString(string_number(p), value));
            tell_string(w, "staged", p);
            w.tell("open", w.cuFileDriverOpen());
            tell_string(w, "open", p);
            w.tell("set when open", w.cuFileSetParameterString(string_number(p), "WARN"));
            w.tell("close", w.cuFileDriverClose_v2());
            tell_string(w, "closed again", p);
          });
    }
    add(name + ".set_null", [p](Fixture& w) { w.tell("set", w.cuFileSetParameterString(string_number(p), nullptr)); });
    add(name + ".set_very_long", [p](Fixture& w) {
      w.tell("set", w.cuFileSetParameterString(string_number(p), std::string(100000, 'x').c_str()));
      w.tell("open", w.cuFileDriverOpen());
    });
  }
  for (int length : {-1, 0, 1, 4, 5, 6, 7, 512}) {
    add("parameter.string.0.length_" + std::to_string(length), [length](Fixture& w) {
      w.must("set", w.cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "ERROR"));
      tell_string(w, "staged", 0, length);
      w.must("open", w.cuFileDriverOpen());
      tell_string(w, "open", 0, length);
    });
  }
  return true;
}

TABLE() {
  for (int p : {-1, 12, 13, 14, 100, 0x7FFFFFFF}) {
    add("parameter.unknown." + std::to_string(p), [p](Fixture& w) {
      std::size_t least = 0, most = 0;
      tell_size(w, "get size", p);
      tell_bool(w, "get bool", p);
      tell_string(w, "get string", p);
      w.tell("set size", w.cuFileSetParameterSizeT(size_number(p), 64));
      w.tell("set bool", w.cuFileSetParameterBool(bool_number(p), true));
      w.tell("set string", w.cuFileSetParameterString(string_number(p), "INFO"));
      w.tell("range", w.cuFileGetParameterMinMaxValue(size_number(p), &least, &most));
    });
  }
  return true;
}
CASE("parameter.unknown.string_3") {
  tell_string(w, "get", 3);
  w.tell("set", w.cuFileSetParameterString(string_number(3), "INFO"));
}
CASE("parameter.null") {
  std::size_t value = 0;
  w.tell("size", w.cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr));
  w.tell("bool", w.cuFileGetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, nullptr));
  w.tell("string", w.cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, nullptr, 10));
  w.tell("range, least", w.cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr, &value));
  w.tell("range, most", w.cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value, nullptr));
}
CASE("parameter.last_staged_wins") {
  w.tell("set", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16));
  w.tell("set", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 32));
  w.must("open", w.cuFileDriverOpen());
  tell_size(w, "open", 9);
}

// ---- What wins -----------------------------------------------------------------------------------------------------

CASE("precedence.json", Setup{.json = R"({"properties": {"io_batchsize": 16, "allow_compat_mode": true}})"}) {
  tell_size(w, "closed", 9);
  w.must("open", w.cuFileDriverOpen());
  tell_size(w, "open", 9);
}
CASE("precedence.call_over_json", Setup{.json = R"({"properties": {"io_batchsize": 16, "allow_compat_mode": true}})"}) {
  w.tell("set", w.cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 32));
  w.must("open", w.cuFileDriverOpen());
  tell_size(w, "open", 9);
}

TABLE() {
  struct Row {
    const char* name;
    const char* variable;
    const char* value;
    const char* json;
    int parameter;
  };
  static constexpr Row kRows[] = {
      {"force_compat", "CUFILE_FORCE_COMPAT_MODE", "true", R"({"properties": {"force_compat_mode": false}})", 2},
      {"allow_compat", "CUFILE_ALLOW_COMPAT_MODE", "true", R"({"properties": {"allow_compat_mode": false}})", 1},
      {"p2pdma", "CUFILE_USE_PCIP2PDMA", "true", R"({"properties": {"use_pci_p2pdma": false}})", 7},
      {"skip_topology", "CUFILE_SKIP_TOPOLOGY_DETECTION", "true",
       R"({"miscellaneous": {"skip_topology_detection": false}})", 10},
  };
  for (const Row& row : kRows) {
    for (const char* value : {"true", "false", "1", "0", "yes", "on", "TRUE", "bogus", ""}) {
      add(
          std::string("environment.") + row.name + "." + (*value == '\0' ? "empty" : value),
          [&row](Fixture& w) {
            w.tell("open", w.cuFileDriverOpen());
            tell_bool(w, "open", row.parameter);
          },
          Setup{.json = row.json, .environment = {{row.variable, value}}});
    }
    add(
        std::string("precedence.call_over_environment.") + row.name,
        [&row](Fixture& w) {
          w.tell("set", w.cuFileSetParameterBool(bool_number(row.parameter), false));
          w.tell("open", w.cuFileDriverOpen());
          tell_bool(w, "open", row.parameter);
        },
        Setup{.json = row.json, .environment = {{row.variable, row.value}}});
  }
  for (const char* level : {"INFO", "WARN", "TRACE", "bogus"}) {
    add(
        std::string("environment.logging_level.") + level,
        [](Fixture& w) {
          tell_string(w, "closed", 0);
          w.must("open", w.cuFileDriverOpen());
          tell_string(w, "open", 0);
        },
        Setup{.environment = {{"CUFILE_LOGGING_LEVEL", level}}});
  }
  return true;
}
CASE("environment.logfile_path", Setup{.environment = {{"CUFILE_LOGFILE_PATH", "$DIR/own.log"}}}) {
  tell_string(w, "closed", 1);
  w.must("open", w.cuFileDriverOpen());
  tell_string(w, "open", 1);
}

// ---- Slab arrays ---------------------------------------------------------------------------------------------------

using SetSlabs = CUfileError_t (*)(Fixture&, const std::size_t*, const std::size_t*, int);
using GetSlabs = CUfileError_t (*)(Fixture&, std::size_t*, std::size_t*, int);
struct Slabs {
  const char* name;
  SetSlabs set;
  GetSlabs get;
};
constexpr Slabs kSlabs[] = {
    {"posix_pool",
     [](Fixture& w, const std::size_t* s, const std::size_t* c, int n) {
       return w.cuFileSetParameterPosixPoolSlabArray(s, c, n);
     },
     [](Fixture& w, std::size_t* s, std::size_t* c, int n) { return w.cuFileGetParameterPosixPoolSlabArray(s, c, n); }},
    {"gpu_bounce",
     [](Fixture& w, const std::size_t* s, const std::size_t* c, int n) {
       return w.cuFileSetParameterGpuBounceBufferSlabArray(s, c, n);
     },
     [](Fixture& w, std::size_t* s, std::size_t* c, int n) {
       return w.cuFileGetParameterGpuBounceBufferSlabArray(s, c, n);
     }},
};

void tell_slabs(Fixture& w, const Slabs& slabs, const char* step, int length) {
  std::size_t sizes[16] = {}, counts[16] = {};
  if (w.tell(step, slabs.get(w, sizes, counts, length)).err != CU_FILE_SUCCESS) return;
  for (int i = 0; i < length; ++i) w.say("%d: %zu of %zu", i, counts[i], sizes[i]);
}

TABLE() {
  for (const Slabs& slabs : kSlabs) {
    const std::string name = std::string("slabs.") + slabs.name;
    for (int length : {-1, 0, 1, 2, 3, 4, 5, 16}) {
      add(name + ".default_of_" + std::to_string(length), [&slabs, length](Fixture& w) {
        tell_slabs(w, slabs, "closed", length);
        w.must("open", w.cuFileDriverOpen());
        tell_slabs(w, slabs, "open", length);
      });
    }
    add(name + ".set", [&slabs](Fixture& w) {
      const std::size_t sizes[] = {4, 1024, 16384}, counts[] = {64, 16, 4};
      w.tell("set", slabs.set(w, sizes, counts, 3));
      tell_slabs(w, slabs, "staged", 3);
      tell_slabs(w, slabs, "staged, fewer", 2);
      w.must("open", w.cuFileDriverOpen());
      tell_slabs(w, slabs, "open", 3);
      tell_slabs(w, slabs, "open, more", 4);
      w.tell("set when open", slabs.set(w, sizes, counts, 3));
      w.must("close", w.cuFileDriverClose_v2());
      tell_slabs(w, slabs, "closed again", 3);
    });
    add(name + ".set_odd_values", [&slabs](Fixture& w) {
      const std::size_t zeros[] = {0, 0}, sizes[] = {4, 8}, down[] = {16, 8}, uneven[] = {3, 5}, many[] = {8, 8};
      const std::size_t huge[] = {~std::size_t{0}, ~std::size_t{0}};
      w.tell("no sizes", slabs.set(w, zeros, many, 2));
      w.tell("no counts", slabs.set(w, sizes, zeros, 2));
      w.tell("falling", slabs.set(w, down, many, 2));
      w.tell("uneven", slabs.set(w, uneven, many, 2));
      w.tell("huge", slabs.set(w, huge, huge, 2));
      w.tell("null sizes", slabs.set(w, nullptr, many, 2));
      w.tell("null counts", slabs.set(w, sizes, nullptr, 2));
      w.tell("length 0", slabs.set(w, sizes, many, 0));
      w.tell("length -1", slabs.set(w, sizes, many, -1));
    });
    add(name + ".get_null", [&slabs](Fixture& w) {
      std::size_t values[16] = {};
      w.must("open", w.cuFileDriverOpen());
      w.tell("null sizes", slabs.get(w, nullptr, values, 3));
      w.tell("null counts", slabs.get(w, values, nullptr, 3));
    });
    add(name + ".io_with_own_slabs", [&slabs](Fixture& w) {
      const std::size_t sizes[] = {64, 256}, counts[] = {4, 2};
      w.tell("set", slabs.set(w, sizes, counts, 2));
      const CUfileHandle_t handle = w.handle(w.file("a", kMib));
      Memory memory(w, Kind::gpu, kMib);
      w.tell("read", w.cuFileRead(handle, memory.base(), kMib, 0, 0));
      w.say("memory: %s", compare_memory(memory, 0, kMib, 1, 0));
    });
  }
  return true;
}

}  // namespace
}  // namespace conformance
