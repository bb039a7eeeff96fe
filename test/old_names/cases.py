# SPDX-License-Identifier: Apache-2.0

"""What the old names are asked. A case is a list of words and how much of its answer is held:

text     stdout, line by line, with each number as N
first    the first line of it: the rest is judgement, which may become another
columns  the headings of its tables: the rest depends on the machine, or is measured
json     the keys of the object on stdout and the types of their values, at every depth
keys     the keys alone, two deep: what is below depends on the machine
metrics  the names in the file penstock.prom of the folder `full`, and how the program ends once it is there

Exit codes are held always, stdout of a failure too. {machines} are the captured machines, {fixtures} test/fixtures. The
work folder has `data` (5000 bytes), `sparse` (1 MiB without blocks), `garbage.json`, `other` (3 bytes), the folders
`full`, with a file in it, and `second`, the pipe `pipe`, and a name with control characters.
"""

HOSTILE = "new\nline\x1b[31m"


def on_machines(command, names):
    for name in names:
        yield "json", f"{command} --root {{machines}}/{name} --json"
        yield "first", f"{command} --root {{machines}}/{name}"


def wrong(command, *rests):
    return [("text", f"{command} {rest}".strip()) for rest in rests]


VALIDATE = [
    *on_machines("validate", ["dgx-ready", "dgx-h100", "laptop", "roce-faults", "cufile-broken", "h200-p2pdma"]),
    *(("json", f"validate --layer {layer} --root {{machines}}/nfs-rdma --json") for layer in (1, 2)),
    ("keys", "validate --layer 3 full --json"),
    ("first", "validate --layer 3 absent"),
    *wrong("validate", "--layer 4", "--root absent", "--root {machines}/laptop full", "--gpu x"),
]
TOPOLOGY = [
    *on_machines("topology", ["dgx-h100", "h200-vm", "md-good", "guest-rdma"]),
    *wrong("topology", "--root absent", "word", "--json --root absent"),
]
ODIRECT = [
    ("keys", "odirect full --json"),
    ("columns", "odirect full"),
    *(("json", f"odirect /mnt --root {{machines}}/{name} --json") for name in ("nfs", "md-raid5", "lustre")),
    ("first", "odirect /mnt --root {machines}/nfs"),
    *wrong("odirect", "", "absent", "data", "full full", "/mnt --root absent"),
]
DOCTOR = [
    ("keys", "doctor data --time 0.1 --json"),
    ("columns", "doctor data --time 0.1"),
    ("keys", "doctor other data --time 0.1 --json"),
    ("keys", "doctor full --save 1M --time 0.1 --json"),
    *wrong("doctor", "", "absent", "data --time 0", "data --time nan", "pipe", "data --save 1M", "data --gpu 99",
           "absent --json", "data --save 0"),
]
PREPARE = [
    ("keys", "prepare new --size 1M --json"),
    ("first", "prepare new --size 1M"),
    ("keys", "prepare new --size 1M --written --json"),
    ("keys", "prepare sparse --json"),
    ("first", "prepare data"),
    *wrong("prepare", "", "new", "new --size sideways", "absent/new --size 1M", "full --size 1M", "pipe",
           "new --size 4096P", "new --json"),
]
DEMO = [
    ("keys", "demo --size 100 --json"),
    ("columns", "demo --size 100"),
    *wrong("demo", "--size 0", "--size 1M --gpu 99", "--size 4096T --dir absent", "word", "--dir absent --json"),
]
SUITE = [
    ("keys", "suite full --only save-7b --turns 1 --scale 0.0001 --json"),
    ("columns", "suite full --only load-109b --turns 1 --scale 0.0001"),
    *wrong("suite", "", "absent", "full --scale 2", "full --turns 0", "full --only frobnicate", "data", "full --gpu 99",
           "full --price -1", "full --scale 0 --json"),
]
TOP = [
    ("keys", "top --json --interval 0.02"),
    ("columns", "top --once --interval 0.02"),
    *wrong("top", "--interval 0", "--interval nan", "1234"),
]
NODE = [
    *(("text", f"node --problem-detector p2pdma --host {{machines}}/{name}") for name in ("dgx-ready", "laptop")),
    ("text", "node --problem-detector bounce --host {machines}/dgx-ready"),
    *(("metrics", f"node --textfile full --listen none --host {{machines}}/{name}")
      for name in ("dgx-ready", "laptop")),
    *wrong("node", "--listen bogus", "--listen 127.0.0.1:99999", "--interval 0", "--problem-detector teleport",
           "--host absent", "word", "--listen none", "--textfile absent --listen none"),
]
CP = [
    ("text", "cp data copy"),
    ("json", "cp data copy --json"),
    ("json", "cp data copy --verify --direct --window 1M --json"),
    ("text", "cp data full"),
    ("json", "cp data copy --stripe full,second --stripe-size 4096 --json"),
    ("text", "cp {hostile} copy"),
    *wrong("cp", "", "data", "absent copy", "data other", "data copy --window 1", "pipe copy", "data copy --gpu 99",
           "data data --force", "absent copy --json", "data copy --stripe absent"),
    ("text", "cp data other --force"),
]
K8S = [
    ("json", "k8s lint {fixtures}/k8s/wrong --json"),
    ("json", "k8s lint {fixtures}/k8s/wrong/gds-driver-off.yaml --format sarif"),
    ("text", "k8s lint {fixtures}/k8s/wrong/gds-on-rocky.yaml --os rocky9"),
    ("text", "k8s lint {fixtures}/k8s/right"),
    ("text", "k8s lint --rules"),
    *(("keys", f"k8s verify --root {{machines}}/{name} --json") for name in ("dgx-ready", "laptop", "h200-p2pdma")),
    ("first", "k8s verify --root {machines}/dgx-ready"),
    ("text", "k8s render --path p2pdma --storage xfs --os ubuntu24.04"),
    ("first", "k8s choose --nodes garbage.json"),
    ("text", "k8s explain-log garbage.json"),
    *wrong("k8s", "", "frobnicate", "lint absent", "lint --format", "lint garbage.json", "verify --root absent",
           "choose --nodes absent", "explain-log absent", "lint absent --json"),
]
MODEL = [
    *((kind, f"model {leaf}{rest}") for leaf in ("registration", "contention", "checkpoint", "load", "cost", "latency",
                                                 "constants")
      for kind, rest in (("json", " --json"), ("columns", ""))),
    ("text", "model latency --size 1M --csv"),
    ("json", "model compare {fixtures}/bench/h200.json --json"),
    ("columns", "model compare {fixtures}/bench/host.json"),
    *wrong("model", "", "frobnicate", "load --example absent", "load --parameters -1", "compare absent",
           "compare garbage.json", "latency --size 0", "compare absent --json"),
]
VERSION = [("json", "--version --json"), ("first", "--version"), ("text", "version")]

CASES = [*VALIDATE, *TOPOLOGY, *ODIRECT, *DOCTOR, *PREPARE, *DEMO, *SUITE, *TOP, *NODE, *CP, *K8S, *MODEL, *VERSION]
