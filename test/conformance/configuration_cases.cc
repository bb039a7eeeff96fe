// SPDX-License-Identifier: Apache-2.0

// The configuration file and the environment: what is accepted, what a broken one does, what the switches mean.
#include <cstring>

#include "fixture.h"

namespace conformance {
namespace {

void tell_bool(Fixture& w, const char* step, CUFileBoolConfigParameter_t parameter) {
  bool value = false;
  const CUfileError_t outcome = w.cuFileGetParameterBool(parameter, &value);
  if (outcome.err == CU_FILE_SUCCESS) w.say("%s: %d", step, value);
  else w.tell(step, outcome);
}
void tell_size(Fixture& w, const char* step, CUFileSizeTConfigParameter_t parameter) {
  std::size_t value = 0;
  const CUfileError_t outcome = w.cuFileGetParameterSizeT(parameter, &value);
  if (outcome.err == CU_FILE_SUCCESS) w.say("%s: %zu", step, value);
  else w.tell(step, outcome);
}

// What a program sees of a configuration.
void look(Fixture& w) {
  if (w.tell("open", w.cuFileDriverOpen()).err != CU_FILE_SUCCESS) return;
  tell_bool(w, "allow compat", CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
  tell_bool(w, "force compat", CUFILE_PARAM_FORCE_COMPAT_MODE);
  tell_bool(w, "poll mode", CUFILE_PARAM_PROPERTIES_USE_POLL_MODE);
  tell_size(w, "batch", CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
  tell_size(w, "direct", CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB);
  tell_size(w, "threads", CUFILE_PARAM_EXECUTION_MAX_IO_THREADS);
  tell_size(w, "stats", CUFILE_PARAM_PROFILE_STATS);
}

// Every kind of transfer under a configuration.
void transfer(Fixture& w) {
  if (w.tell("open", w.cuFileDriverOpen()).err != CU_FILE_SUCCESS) return;
  const int fd = w.file("a", 65536);
  CUfileHandle_t handle = nullptr;
  if (w.tell("register", w.register_fd(fd, &handle)).err != CU_FILE_SUCCESS) return;
  Memory host(w, Kind::host, 65536);
  w.tell("host buffer", w.cuFileBufRegister(host.base(), 65536, 0));
  w.tell("host read", w.cuFileRead(handle, host.base(), 65536, 0, 0));
  w.tell("host write", w.cuFileWrite(handle, host.base(), 65536, 0, 0));
  w.tell("host uneven write", w.cuFileWrite(handle, host.base(), 100, 7, 3));
  Memory device(w, Kind::gpu, 65536);
  w.tell("gpu buffer", w.cuFileBufRegister(device.base(), 65536, 0));
  w.tell("gpu read", w.cuFileRead(handle, device.base(), 65536, 0, 0));
  w.tell("gpu write", w.cuFileWrite(handle, device.base(), 65536, 0, 0));
  w.tell("gpu uneven write", w.cuFileWrite(handle, device.base(), 100, 7, 3));
  Memory loose(w, Kind::gpu, 65536);
  w.tell("gpu read unregistered", w.cuFileRead(handle, loose.base(), 65536, 0, 0));
  CUfileBatchHandle_t batch = nullptr;
  if (w.tell("set up", w.cuFileBatchIOSetUp(&batch, 4)).err != CU_FILE_SUCCESS) return;
  CUfileIOParams_t one = entry(CUFILE_READ, handle, device.base(), 4096);
  if (w.tell("submit", w.cuFileBatchIOSubmit(batch, 1, &one, 0)).err != CU_FILE_SUCCESS) return;
  tell_all(w, reap(w, batch, 1));
}

struct Row {
  const char* name;
  const char* json;
};

// ---- Texts ---------------------------------------------------------------------------------------------------------

constexpr Row kTexts[] = {
    {"empty_file", ""},
    {"only_space", " \n\n"},
    {"empty_object", "{}"},
    {"array", "[]"},
    {"number", "42"},
    {"null", "null"},
    {"truncated", R"({"properties": {"io_batchsize": 16)"},
    {"garbage", "this is no configuration"},
    {"garbage_after", R"({"properties": {"io_batchsize": 16}} and more)"},
    {"binary", "\x01\x02\xFF\xFE"},
    {"missing_comma", R"({"properties": {"io_batchsize": 16 "use_poll_mode": true}})"},
    {"trailing_comma", R"({"properties": {"io_batchsize": 16,}})"},
    {"single_quotes", "{'properties': {'io_batchsize': 16}}"},
    {"line_comments",
     "// first\n{ // second\n\"properties\": {\n// third\n\"io_batchsize\": 16 // fourth\n}}\n// last"},
    {"block_comments", "/* first */ {\"properties\": /* second\n more */ {\"io_batchsize\": 16 /* third */}}"},
    {"hash_comments", "# first\n{\"properties\": {\"io_batchsize\": 16}}"},
    {"byte_order_mark", "\xEF\xBB\xBF{\"properties\": {\"io_batchsize\": 16}}"},
    {"unknown_key", R"({"properties": {"io_batchsize": 16, "no_such_key": 1}})"},
    {"unknown_section", R"({"no_such_section": {"a": 1}, "properties": {"io_batchsize": 16}})"},
    {"duplicate_key", R"({"properties": {"io_batchsize": 16, "io_batchsize": 32}})"},
    {"duplicate_section", R"({"properties": {"io_batchsize": 16}, "properties": {"use_poll_mode": true}})"},
    {"partial", R"({"execution": {"max_io_threads": 2}})"},
    {"section_is_a_number", R"({"properties": 4})"},
    {"section_is_an_array", R"({"properties": [1, 2]})"},
    {"section_is_null", R"({"properties": null})"},
    {"batchsize_is_a_string", R"({"properties": {"io_batchsize": "16"}})"},
    {"batchsize_is_true", R"({"properties": {"io_batchsize": true}})"},
    {"batchsize_is_a_fraction", R"({"properties": {"io_batchsize": 16.5}})"},
    {"batchsize_is_null", R"({"properties": {"io_batchsize": null}})"},
    {"batchsize_0", R"({"properties": {"io_batchsize": 0}})"},
    {"batchsize_257", R"({"properties": {"io_batchsize": 257}})"},
    {"batchsize_minus_1", R"({"properties": {"io_batchsize": -1}})"},
    {"batchsize_huge", R"({"properties": {"io_batchsize": 99999999999999999999999}})"},
    {"bool_is_a_string", R"({"properties": {"use_poll_mode": "true", "io_batchsize": 16}})"},
    {"bool_is_1", R"({"properties": {"use_poll_mode": 1, "io_batchsize": 16}})"},
    {"direct_63", R"({"properties": {"max_direct_io_size_kb": 63}})"},
    {"direct_65", R"({"properties": {"max_direct_io_size_kb": 65}})"},
    {"direct_16385", R"({"properties": {"max_direct_io_size_kb": 16385}})"},
    {"direct_4096", R"({"properties": {"max_direct_io_size_kb": 4096}})"},
    {"threads_33", R"({"execution": {"max_io_threads": 33}})"},
    {"threads_0", R"({"execution": {"max_io_threads": 0}})"},
    {"queue_depth_0", R"({"execution": {"max_io_queue_depth": 0}})"},
    {"parallelism_9", R"({"execution": {"max_request_parallelism": 9}})"},
    {"stats_2", R"({"profile": {"cufile_stats": 2}})"},
    {"stats_9", R"({"profile": {"cufile_stats": 9}})"},
    {"logging_bogus", R"({"logging": {"level": "BOGUS"}})"},
    {"logging_directory_missing", R"({"logging": {"dir": "$DIR/nowhere", "level": "INFO"}})"},
    {"deny_ext4", R"({"denylist": {"filesystems": ["ext4"]}, "properties": {"allow_compat_mode": true}})"},
    {"compat_false_only", R"({"properties": {"allow_compat_mode": false}})"},
    {"posix_pool", R"({"properties": {"posix_pool_slab_size_kb": [4, 1024], "posix_pool_slab_count": [128, 64]}})"},
    {"posix_pool_uneven", R"({"properties": {"posix_pool_slab_size_kb": [4], "posix_pool_slab_count": [128, 64]}})"},
};

TABLE() {
  for (const Row& row : kTexts) add(std::string("json.") + row.name, look, Setup{.json = row.json});
  return true;
}

CASE("json.no_variable", Setup{.no_json = true}) { look(w); }
CASE("json.no_variable.transfers", Setup{.no_json = true}) { transfer(w); }
CASE("json.empty_object.transfers", Setup{.json = "{}"}) { transfer(w); }
CASE("json.truncated.transfers", Setup{.json = "{\"properties\": {"}) { transfer(w); }

TABLE() {
  struct Path {
    const char* name;
    const char* path;
  };
  for (const Path& row :
       {Path{"missing_file", "$DIR/nowhere.json"}, Path{"empty", ""}, Path{"directory", "$DIR"},
        Path{"unexpanded", "$PWD/local_cufile.json"}, Path{"device", "/dev/null"}, Path{"relative", "cufile.json"}}) {
    const Setup setup = {.environment = {{"CUFILE_ENV_PATH_JSON", row.path}}};
    add(std::string("json.path.") + row.name, look, setup);
    add(std::string("json.path.") + row.name + ".transfers", transfer, setup);
  }
  return true;
}

CASE("json.changed_between_opens", Setup{.json = R"({"properties": {"io_batchsize": 16}})"}) {
  look(w);
  w.write_text("cufile.json", R"({"properties": {"io_batchsize": 32}})");
  w.must("close", w.cuFileDriverClose_v2());
  look(w);
}

// ---- Switches and what transfers do --------------------------------------------------------------------------------

constexpr Row kSwitches[] = {
    {"compat_allowed", R"({"properties": {"allow_compat_mode": true}})"},
    {"compat_refused", R"({"properties": {"allow_compat_mode": false}})"},
    {"compat_forced", R"({"properties": {"force_compat_mode": true, "allow_compat_mode": true}})"},
    {"compat_forced_and_refused", R"({"properties": {"force_compat_mode": true, "allow_compat_mode": false}})"},
    {"posix_unaligned_writes",
     R"({"fs": {"generic": {"posix_unaligned_writes": true}}, "properties": {"allow_compat_mode": true}})"},
    {"odirect_forced", R"({"properties": {"force_odirect_mode": true, "allow_compat_mode": true}})"},
    {"system_memory_refused", R"({"properties": {"allow_system_memory": false, "allow_compat_mode": true}})"},
    {"denied_file_system", R"({"denylist": {"filesystems": ["ext4", "xfs", "overlay", "tmpfs"]},
       "properties": {"allow_compat_mode": true}})"},
    {"denied_file_system_compat_refused", R"({"denylist": {"filesystems": ["ext4", "xfs", "overlay", "tmpfs"]},
       "properties": {"allow_compat_mode": false}})"},
    {"denied_mount", R"({"denylist": {"mounts": ["/"]}, "properties": {"allow_compat_mode": true}})"},
    {"denied_mount_compat_refused", R"({"denylist": {"mounts": ["/"]}, "properties": {"allow_compat_mode": false}})"},
    {"blacklist_alias", R"({"blacklist": {"filesystems": ["ext4", "xfs", "overlay", "tmpfs"]},
       "properties": {"allow_compat_mode": true}})"},
    {"io_uring_preferred", R"({"properties": {"prefer_iouring": true, "allow_compat_mode": true}})"},
    {"p2pdma", R"({"properties": {"use_pci_p2pdma": true, "allow_compat_mode": true}})"},
    {"aggressive_checks", R"({"miscellaneous": {"api_check_aggressive": true},
       "properties": {"allow_compat_mode": true}})"},
    {"no_threads", R"({"execution": {"max_io_threads": 0, "parallel_io": false},
       "properties": {"allow_compat_mode": true}})"},
    {"one_thread", R"({"execution": {"max_io_threads": 1, "max_io_queue_depth": 1},
       "properties": {"allow_compat_mode": true}})"},
    {"small_direct", R"({"properties": {"max_direct_io_size_kb": 64, "per_buffer_cache_size_kb": 64,
       "allow_compat_mode": true}})"},
    {"no_cache", R"({"properties": {"max_device_cache_size_kb": 0, "allow_compat_mode": true}})"},
    {"tiny_pinned", R"({"properties": {"max_device_pinned_mem_size_kb": 64, "allow_compat_mode": true}})"},
    {"vanilla_posix_io", R"({"properties": {"vanilla_posix_io_mode": true, "allow_compat_mode": true}})"},
    {"vanilla_posix_io_compat_refused",
     R"({"properties": {"vanilla_posix_io_mode": true, "allow_compat_mode": false}})"},
    {"posix_io_mode", R"({"properties": {"posix_io_mode": true, "allow_compat_mode": true}})"},
    {"fallback_io", R"({"properties": {"gds_fallback_io": true, "allow_compat_mode": true}})"},
    {"fallback_io_compat_refused", R"({"properties": {"gds_fallback_io": true, "allow_compat_mode": false}})"},
    {"not_parallel", R"({"execution": {"parallel_io": false}, "properties": {"allow_compat_mode": true}})"},
    {"sparse_off", R"({"sparse": {"p2p_compat_enable": false, "min_p2pdma_threshold_kb": 64},
       "properties": {"allow_compat_mode": true}})"},
    {"static_config", R"({"miscellaneous": {"enable_static_config": true, "static_config_filepath": "$DIR/none.json"},
       "properties": {"allow_compat_mode": true}})"},
    {"block_p2pdma", R"({"block": {"nvme": {"use_pci_p2pdma": true}, "raid1": {"use_pci_p2pdma": true}},
       "properties": {"allow_compat_mode": true}})"},
    {"bounce_buffer_mode", R"({"properties": {"gpu_bounce_buffer_mode": true, "allow_compat_mode": true}})"},
    {"rdma_names", R"({"properties": {"rdma_transport_type": "DC_V1", "rdma_load_balancing_policy": "RoundRobin",
       "allow_compat_mode": true}})"},
    {"rdma_names_unknown", R"({"properties": {"rdma_transport_type": "bogus", "rdma_load_balancing_policy": "bogus",
       "allow_compat_mode": true}})"},
    {"rdma_write_refused", R"({"properties": {"gds_rdma_write_support": false, "allow_compat_mode": true}})"},
};

TABLE() {
  for (const Row& row : kSwitches) add(std::string("switch.") + row.name, transfer, Setup{.json = row.json});
  struct Variable {
    const char* name;
    const char* value;
  };
  for (const Variable& row :
       {Variable{"CUFILE_FORCE_COMPAT_MODE", "true"}, Variable{"CUFILE_ALLOW_COMPAT_MODE", "false"},
        Variable{"CUFILE_USE_PCIP2PDMA", "true"}, Variable{"CUFILE_VISIBLE_DEVICES", "0"},
        Variable{"CUFILE_SKIP_BUFFER_VALIDITY_CHECK", "1"}, Variable{"CUFILE_LOGFILE_MAX_SIZE_MB", "1"}}) {
    add(std::string("switch.environment.") + row.name, transfer, Setup{.environment = {{row.name, row.value}}});
  }
  return true;
}

// What the two switches of cuFile 1.19 tell of themselves.
void tell_newer_switches(Fixture& w) {
  w.must("open", w.cuFileDriverOpen());
  CUfileDrvProps_t p = {};
  w.tell("properties", w.cuFileDriverGetProperties(&p));
  w.say("dcontrolflags: 0x%x", p.nvfs.dcontrolflags);
  for (int number : {12, 13}) {
    bool value = false;
    CUFileBoolConfigParameter_t parameter;
    std::memcpy(&parameter, &number, sizeof(parameter));
    w.tell(("parameter " + std::to_string(number)).c_str(), w.cuFileGetParameterBool(parameter, &value));
    w.say("value: %d", value);
  }
}
constexpr Row kNewerSwitches[] = {
    {"vanilla_posix_io_mode", R"({"properties": {"allow_compat_mode": true, "vanilla_posix_io_mode": true}})"},
    {"posix_io_mode", R"({"properties": {"allow_compat_mode": true, "posix_io_mode": true}})"},
    {"gds_fallback_io", R"({"properties": {"allow_compat_mode": true, "gds_fallback_io": true}})"},
};

TABLE() {
  for (const Row& row : kNewerSwitches) {
    add(std::string("switch.properties.") + row.name, tell_newer_switches, Setup{.json = row.json});
  }
  for (const char* value : {"2", "3", "0", "7", "bogus"}) {
    add(
        std::string("environment.stats_level.") + value,
        [](Fixture& w) {
          int now = -77;
          w.tell("closed", w.cuFileGetStatsLevel(&now));
          w.say("now: %d", now);
          w.must("open", w.cuFileDriverOpen());
          w.tell("open", w.cuFileGetStatsLevel(&now));
          w.say("now: %d", now);
        },
        Setup{.environment = {{"CUFILE_STATS_LEVEL", value}}});
  }
  return true;
}

CASE("switch.compat_refused.by_call") {
  w.tell("set", w.cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, false));
  transfer(w);
}
CASE("switch.compat_forced.by_call") {
  w.tell("set", w.cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true));
  transfer(w);
}

}  // namespace
}  // namespace conformance
