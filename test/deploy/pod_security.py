# SPDX-License-Identifier: Apache-2.0

"""Which level of the Pod Security Standards a pod needs, by https://kubernetes.io/docs/concepts/security/
pod-security-standards/ (v1.34), for what Penstock's manifests contain."""

BASELINE_CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
                         "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
                      "secret"}


def _containers(spec):
    return [each for kind in ("containers", "initContainers", "ephemeralContainers") for each in spec.get(kind, [])]


def _beyond_baseline(spec):
    for key in ("hostPID", "hostNetwork", "hostIPC"):
        if spec.get(key):
            yield key
    for volume in spec.get("volumes", []):
        if "hostPath" in volume:
            yield f"volume {volume['name']}: hostPath"
    for context in [spec.get("securityContext", {})] + [each.get("securityContext", {}) for each in _containers(spec)]:
        if context.get("privileged"):
            yield "privileged"
        if context.get("seccompProfile", {}).get("type") == "Unconfined":
            yield "seccomp Unconfined"
        if context.get("procMount", "Default") != "Default":
            yield "procMount"
        if context.get("sysctls"):
            yield "sysctls"
        for capability in context.get("capabilities", {}).get("add", []):
            if capability not in BASELINE_CAPABILITIES:
                yield f"capability {capability}"
    for container in _containers(spec):
        for port in container.get("ports", []):
            if port.get("hostPort"):
                yield "hostPort"


def _beyond_restricted(spec):
    pod = spec.get("securityContext", {})
    for volume in spec.get("volumes", []):
        if not RESTRICTED_VOLUMES & set(volume):
            yield f"volume {volume['name']}"
    for container in _containers(spec):
        own = container.get("securityContext", {})
        name = container["name"]
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if not own.get("runAsNonRoot", pod.get("runAsNonRoot")):
            yield f"{name}: runAsNonRoot"
        if own.get("runAsUser", pod.get("runAsUser")) == 0:
            yield f"{name}: runAsUser 0"
        if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: seccompProfile"
        if "ALL" not in own.get("capabilities", {}).get("drop", []):
            yield f"{name}: capabilities are not dropped"
        if set(own.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities"


def level(spec):
    """("restricted" | "baseline" | "privileged", why no stricter one)."""
    beyond = list(_beyond_baseline(spec))
    if beyond:
        return "privileged", beyond
    beyond = list(_beyond_restricted(spec))
    return ("baseline", beyond) if beyond else ("restricted", [])
