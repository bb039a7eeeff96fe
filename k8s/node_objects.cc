// SPDX-License-Identifier: Apache-2.0

#include "k8s/node_objects.h"

#include <algorithm>
#include <iterator>

#include "base/invariant.h"
#include "k8s/manifest.h"

namespace penstock::tools::k8s {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) {
  switch (value.kind) {
    case Kind::null: return {};
    case Kind::boolean: return value.is_true();
    case Kind::integer: return value.integer;
    case Kind::list: {
      Json list = Json::array();
      for (const Member& member : value.members) list.push_back(json_of(*member.value));
      return list;
    }
    case Kind::map: {
      Json map = Json::object();
      for (const Member& member : value.members) map[member.key] = json_of(*member.value);
      return map;
    }
    default: return value.text;
  }
}

struct Row {
  std::string_view kind;
  const char* name;  // Name of the file.
  const char* why;
};
constexpr Row kRows[] = {
    {"Namespace", "node-namespace", "Of the process on each node, which needs no right either."},
    {"DaemonSet", "node-daemonset",
     "Metrics of what each node with a GPU offers. The chart in deploy/helm has more of it: what each pod moved, "
     "labels, alerts."},
    {"ServiceAccount", "node-service-account", "It asks the API server nothing."},
};

const Row& row_of(std::string_view kind) {
  const auto* found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.kind == kind; });
  PENSTOCK_INVARIANT(found != std::end(kRows));
  return *found;
}

}  // namespace

void add_node_objects(const std::string& image, std::vector<Rendered>& objects) {
  const Manifest manifest = read_manifest("deploy/manifests/penstock.yaml", std::string(kNodeManifest));
  PENSTOCK_INVARIANT(manifest.is_whole);
  for (const Value* document : manifest.documents) {
    Json object = json_of(*document);
    const Row& row = row_of((*document)["kind"].text);
    if (row.kind == "DaemonSet") object["spec"]["template"]["spec"]["containers"][0]["image"] = image;
    objects.push_back({row.name, row.why, std::move(object)});
  }
}

}  // namespace penstock::tools::k8s
