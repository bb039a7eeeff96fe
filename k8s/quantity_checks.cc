// SPDX-License-Identifier: Apache-2.0

// Checks amounts in Kubernetes' own kinds like an API server: resources of containers, sizes of volumes and claims,
// quotas.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "k8s/checks.h"
#include "k8s/quantity.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

enum class Least : std::uint8_t { any, zero, above_zero };

bool is_extended(std::string_view resource) {
  return resource.find('/') != std::string_view::npos && !has_part(resource, "kubernetes.io/") &&
         !resource.starts_with("requests.");
}
bool is_huge_pages(std::string_view resource) { return resource.starts_with("hugepages-"); }
bool is_of_containers(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == "ephemeral-storage" || is_huge_pages(resource) ||
         resource.find('/') != std::string_view::npos;
}

// Reports a fault of one amount; returns the amount if it is valid.
std::optional<Quantity> judged(const Object& object, const std::string& name, const Member& member, Least least,
                               bool is_counted, Findings& findings) {
  const Value& value = *member.value;
  const std::optional<Quantity> quantity = quantity_of(value);
  if (!quantity) {
    const std::string given = value.is_list() || value.is_map() || value.kind == Kind::boolean
                                  ? kind_name(value.kind)
                                  : fmt::format("'{}'", core::shown(value.text));
    findings.add("wrong_value", object, member.place,
                 {fmt::format("{} must be a quantity such as 500m, 2 or 2Gi, not {}", name, given)});
  } else if (quantity->amount < 0 ? least != Least::any : least == Least::above_zero && quantity->amount == 0) {
    findings.add("out_of_range", object, member.place,
                 {fmt::format("{} must be {}, not {}", name, least == Least::zero ? "0 or more" : "more than 0",
                              core::shown(value.text))});
  } else if (is_counted && !quantity->is_whole) {
    findings.add("wrong_value", object, member.place,
                 {fmt::format("{} must be a whole number, not '{}'", name, core::shown(value.text))});
  } else {
    return quantity;
  }
  return {};
}

class Resources {
 public:
  Resources(const Object& object, const Value& resources, std::string title, Findings& findings)
      : object_(object), resources_(resources), title_(std::move(title)), findings_(findings) {}

  // is_whole: a complete container, not a patch of one.
  void judge(bool is_whole) {
    for (const Member& member : resources_["limits"].members) judge_one("limits", member);
    for (const Member& member : resources_["requests"].members) {
      const auto request = judge_one("requests", member);
      const Member* limit = resources_["limits"].member(member.key);
      if (limit != nullptr) {
        const auto most = quantity_of(*limit->value);
        if (request && most) compare(member, *request, *limit, *most);
      } else if (is_whole && request && request->amount > 0 && is_bound(member.key)) {
        tell(member, fmt::format("{} must be in limits, too, since the resource cannot be overcommitted",
                                 name("requests", member)));
      }
    }
    if (is_whole) judge_huge_pages();
  }

 private:
  std::string name(const char* list, const Member& member) const {
    return fmt::format("{}{}: {}", title_, list, core::shown(member.key));
  }
  static bool is_bound(std::string_view resource) { return is_extended(resource) || is_huge_pages(resource); }
  void tell(const Member& member, std::string sentence) {
    findings_.add("resource_limits", object_, member.place, {std::move(sentence)});
  }

  std::optional<Quantity> judge_one(const char* list, const Member& member) {
    if (!is_of_containers(member.key)) {
      findings_.add("wrong_value", object_, member.place,
                    {fmt::format("{} is no resource of containers", name(list, member)),
                     "cpu, memory, ephemeral-storage, hugepages-SIZE, or DOMAIN/NAME of a device plugin."});
    }
    return judged(object_, name(list, member), member, Least::zero, is_bound(member.key), findings_);
  }

  void compare(const Member& member, const Quantity& request, const Member& limit, const Quantity& most) {
    const std::string given = core::shown(limit.value->text);
    if (is_more(request, most)) {
      tell(member, fmt::format("{} is more than its limit, {}", name("requests", member), given));
    } else if (is_bound(member.key) && is_more(most, request)) {
      tell(member, fmt::format("{} must be as much as its limit, {}", name("requests", member), given));
    }
  }

  void judge_huge_pages() {
    const Member* huge = nullptr;
    for (const char* list : {"limits", "requests"}) {
      for (const Member& member : resources_[list].members) {
        if (member.key == "cpu" || member.key == "memory") return;
        if (is_huge_pages(member.key)) huge = &member;
      }
    }
    if (huge != nullptr) tell(*huge, title_ + "huge pages go with cpu or memory alone");
  }

  const Object& object_;
  const Value& resources_;
  const std::string title_;
  Findings& findings_;
};

// Judges all amounts of a map, or of a map within it.
void judge_map(const Object& object, const Value& map, const std::string& path, Least least, Findings& findings) {
  for (const Member& member : map.members) {
    judged(object, path + "." + core::shown(member.key), member, least, least == Least::zero && is_extended(member.key),
           findings);
  }
}

void judge_claim(const Object& object, const Value& spec, const std::string& path, Findings& findings) {
  judge_map(object, spec["resources.requests"], path + ".resources.requests", Least::above_zero, findings);
  judge_map(object, spec["resources.limits"], path + ".resources.limits", Least::above_zero, findings);
}

void judge_pod(const Pod& pod, Findings& findings) {
  const Object& object = *pod.object;
  for (const Value* container : pod.containers()) {
    const std::string title = fmt::format("container '{}', ", core::shown((*container)["name"].text));
    Resources(object, (*container)["resources"], title, findings).judge((*container)["image"].is_there());
    for (const Member& variable : (*container)["env"].members) {
      const Value& reference = (*variable.value)["valueFrom.resourceFieldRef"];
      const Member* divisor = reference.member("divisor");
      if (divisor != nullptr) judged(object, title + "divisor", *divisor, Least::zero, false, findings);
    }
  }
  Resources(object, (*pod.spec)["resources"], "the pod's ", findings).judge(false);
  judge_map(object, (*pod.spec)["overhead"], "overhead", Least::zero, findings);
  for (const Member& member : (*pod.spec)["volumes"].members) {
    const Value& volume = *member.value;
    const std::string title = fmt::format("volume '{}', ", core::shown(volume["name"].text));
    const Member* limit = volume["emptyDir"].member("sizeLimit");
    if (limit != nullptr) judged(object, title + "emptyDir.sizeLimit", *limit, Least::zero, false, findings);
    judge_claim(object, volume["ephemeral.volumeClaimTemplate.spec"], title + "its claim", findings);
  }
  for (const Member& claim : object["spec.volumeClaimTemplates"].members) {
    judge_claim(object, (*claim.value)["spec"], "a claim's", findings);
  }
}

void judge_object(const Object& object, Findings& findings) {
  if (object.api_version != "v1") return;
  if (object.kind == "PersistentVolumeClaim") judge_claim(object, object["spec"], "spec", findings);
  if (object.kind == "PersistentVolume") {
    judge_map(object, object["spec.capacity"], "spec.capacity", Least::above_zero, findings);
  }
  if (object.kind == "ResourceQuota") judge_map(object, object["spec.hard"], "spec.hard", Least::zero, findings);
  if (object.kind != "LimitRange") return;
  for (const Member& limit : object["spec.limits"].members) {
    for (const char* key : {"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"}) {
      judge_map(object, (*limit.value)[key], std::string("spec.limits.") + key, Least::any, findings);
    }
  }
}

}  // namespace

void check_quantities(const Cluster& cluster, Findings& findings) {
  for (const Pod& pod : cluster.pods) {
    if (is_of_kubernetes(*pod.object)) judge_pod(pod, findings);
  }
  for (const Object& object : cluster.objects) judge_object(object, findings);
}

}  // namespace penstock::tools::k8s
