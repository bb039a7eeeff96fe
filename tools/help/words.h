// SPDX-License-Identifier: Apache-2.0

// Words in tables and sentences of the tools that are explained nowhere else, and words with which people ask. For
// help.cc alone, which finds and prints them.
#pragma once

#include <array>

namespace penstock::tools {

struct Word {
  const char* word;
  const char* sentence;
  std::array<const char*, 5> more = {};  // Lines behind the sentence; null for fewer.
};
constexpr Word kWords[] = {
    {"binds",
     "to be the slowest part of the way, which sets the speed of the whole: making another part quicker gains nothing"},
    {"cold", "not in the page cache: the drive has to be read"},
    {"warm", "in the page cache: no drive takes part"},
    {"plain", "the way of a program that calls read(2) or write(2) itself, without this library"},
    {"turns",
     "things to be compared are measured one after another, again and again, so that whatever else the machine does "
     "affects all alike; the range is from the slowest turn to the fastest"},
    {"interval",
     "the rate lies within this range with a probability of 95 %, judged by how much the measured stretches of time "
     "differ"},
    {"blended", "some bytes came from the page cache and the others from the drive: the rate is that of neither"},
    {"link",
     "the PCIe connection of a GPU or a drive; its generation (GT/s for each lane) and its width (lanes) limit it"},
    {"direct",
     "of I/O: around the page cache, with O_DIRECT: the drive's DMA engine moves the bytes, where nothing stands in "
     "its way. Of a path (GPUDirect Storage): between a drive and a GPU's memory, past host memory: 'penstock check' "
     "says whether one serves here; how to prove that it did: 'penstock help prove'"},
    {"buffered", "through the page cache, with a copy by the CPU"},
    {"O_DIRECT",
     "the flag of open(2) for I/O around the page cache; a file system may accept it and copy all the same; 'penstock "
     "check --try FOLDER' tries that"},
    {"stand-in", "host memory in the place of a GPU's, where there is none: bytes travel, but over no link"},
    {"BAR1", "the window through which other PCIe devices reach a GPU's memory"},
    {"page cache", "the kernel's copy of files in memory"},
    {"switch", "both devices are below one PCIe switch: bytes between them pass no CPU"},
    {"host_bridge", "both devices are below one PCIe root of a CPU, and bytes between them pass through it"},
    {"node", "both devices are at one NUMA node, below different roots"},
    {"apart", "the devices are at different NUMA nodes: bytes between them cross the link of the CPUs"},
    {"registration",
     "having the GPU's driver map host memory, or GPU memory, for DMA; it takes longer than a small "
     "transfer, so what is registered is kept; 'penstock-model registration' says what it takes"},
    {"placement", "which memory and which CPUs a transfer uses: those near the GPU or the drive are quicker"},
    {"path", "a way to move bytes between a file and memory; 'penstock help paths' lists them"},
    {"reason",
     "the stable name of a cause for which a path is not taken, or is slower than it could be; 'penstock help reasons' "
     "lists them"},
    {"session", "one use of the library by a process, from opening it to closing it, with its settings and its memory"},
    {"self-test",
     "bytes that are written and read over a direct path before it is used, once for each pair of GPU and drive: on "
     "some machines such transfers end with success and move nothing. The library makes it by itself, before the first "
     "request; 'penstock check --try FOLDER' makes it now and says how it ended"},
    {"pair", "a GPU and a drive, between which bytes may go directly or not"},
    {"closed", "a path that this machine cannot take, whatever the settings; the reason says why"},
    {"off", "a path that the machine may be able to take, but that a setting leaves out; the reason names the setting"},
    {"peer page", "a page of a GPU's memory that the kernel knows as a target of P2PDMA"},
    {"ACS", "PCIe Access Control Services: where they redirect, bytes between two devices take the way by the CPU"},
    {"IOMMU",
     "the unit that can translate the addresses of DMA; if it does, some direct transfers are lost without an error"},
    // People ask with these words; each is answered with a command.
    {"fast",
     "'penstock bench --every-path --dir FOLDER' measures every path that this machine has, and ends with the fastest"},
    {"slow", "'penstock explain --measure FILE' says which part of the way limits a load, and what would help"},
    {"save",
     "'penstock explain --measure --save SIZE FOLDER' says what limits a checkpoint that is saved there, and what "
     "would help. On a captured machine nothing can be measured: there, 'penstock check --root DIR' says by which path "
     "a save goes, and 'penstock-model checkpoint --size-gb GB' what it takes by the model",
     {"Begin with penstock.checkpoint.Saver, behind which the trainer goes on, whatever limits the save. Then come, as "
      "the answer says: another drive; no page cache (PENSTOCK_DIRECT_IO=always, or direct=True of "
      "penstock.checkpoint); blocks that are there already (write over files in use)"}},
    {"prove",
     "'penstock run --report PROGRAM' says by which paths a program's bytes went, 'penstock stats PID' of one that "
     "runs. PENSTOCK_REQUIRE=p2pdma makes each request fail that would take another path. 'penstock check --try "
     "FOLDER' moves bytes in that folder, and compares them",
     {"These are this library's own words. share/penstock/prove-direct --dir FOLDER asks three that do not know it: "
      "the page cache, the kernel's counters, and the bytes, read back by the kernel.",
      "'penstock bench FILE --require p2pdma' ends with 0 if every read went so, with 1 if one did not, and with 77 if "
      "that is not applicable, as where there is no such GPU.",
      "PENSTOCK_REQUIRE binds requests through cuFile and Penstock alone: a program that reads by read(2) is not "
      "stopped by it; 'penstock run --report' says so."}},
    {"compat",
     "cuFile's word for a transfer through host memory: 'penstock settings compat' lists the settings that allow or "
     "force it"},
    {"cufile.json",
     "cuFile's configuration, which this library reads, too; 'penstock settings' shows the file in use, and what it "
     "sets, 'penstock settings FILE' what another sets, and what is wrong in it; 'penstock explain FILE cufile.log' "
     "holds a log against it",
     {"It is looked for in these places, in this order:",
      "1. the file that CUFILE_ENV_PATH_JSON names, as it is written there",
      "2. the same with $NAME and ${NAME} filled in, at last with the working directory for $PWD",
      "3. /etc/cufile.json, if CUFILE_ENV_PATH_JSON is not set",
      "If it is set, and names no file that is there, the driver does not open."}},
    {"metrics",
     "'penstock serve --once' prints those of this node, 'penstock serve' serves them to a scraper; 'penstock stats "
     "--prometheus' prints those of processes alone",
     {"Bytes: penstock_node_bytes_total{path, reason, op}; errors: penstock_node_failed_operations_total{path, op}; "
      "docs/reference/serve.md has all, and which of them alerts watch.",
      "No series is split by GPU. Most jobs have a process for each, so that its container or PID tells; a process "
      "with several GPUs counts each with CUFILE_STATS_LEVEL=3, and 'penstock stats --live' shows it."}},
    {"cost",
     "'penstock-model cost --size-gb GB --nodes N' says what a run and its checkpoints cost on rented machines, "
     "and a GB/s of each, with --file-system NAME also of drives against a file system that nodes share, with "
     "--offer-gb-per-s RATE against storage that somebody offers; "
     "'penstock-model checkpoint' what one takes and how often to save, 'penstock-model registration' what registering "
     "memory takes"},
    {"predict",
     "what a machine that is not there would do: 'penstock-model load --size-gb GB' says how long a model takes to "
     "load, "
     "'penstock-model checkpoint --size-gb GB' a save, with --window SECONDS how many drives a node needs for it, "
     "'penstock-model contention' what GPUs get that share drives and links"},
    {"stage",
     "'python -m penstock stage' copies a data set from an object store or a server to local drives, checks it and "
     "goes "
     "on after an interruption"},
    {"feed",
     "'penstock.data' reads the records of a data set ahead of training, into GPU memory; 'penstock bench' and "
     "'penstock "
     "explain --measure' say what the drive could give"},
    {"checkpoint",
     "the state of a job, saved to go on from: 'penstock explain --measure --save SIZE FOLDER' says what limits a save "
     "there; 'python -m penstock checkpoint --help' lists what looks at one, checks one and moves one"},
    {"manifest",
     "a text that lists parts. Of Kubernetes: 'penstock-k8s lint FILE...' judges those you have, 'penstock-k8s render' "
     "writes them. Of a striped object: 'penstock explain MANIFEST' says by which path each of its files goes. Of a "
     "checkpoint: 'python -m penstock checkpoint verify FOLDER' checks the files that it lists"},
    {"fallback",
     "a path that served because a better one could not; 'penstock run --report PROGRAM' says which paths a program's "
     "bytes took and why, and PENSTOCK_REQUIRE=PATH makes a request fail instead"},
    {"pod",
     "it needs no root or capability, but a GPU (nvidia.com/gpu), a volume of a real file system for the data, since "
     "an overlay hides the drive, and 256 MiB of memory for each GPU beside the program's own; for speed also a "
     "seccomp profile that allows io_uring; 'penstock check' in the pod names what is missing",
     {"'kubectl get nodes -o json | penstock-k8s choose' names the path that the nodes can take, and 'penstock-k8s "
      "render --path nvidia-fs --os ubuntu24.04 --kernel 6.8.0-1051-nvidia --out DIR' writes the pod, and the "
      "operator's values that its nodes need.",
      "'penstock-k8s verify' says on a node or in a pod which paths it has; 'penstock-k8s lint' judges manifests.",
      "NVIDIA's library (the path vendor) also needs the host's /run/udev and /dev/nvidia-fs* in the pod."}},
    {"kubernetes", "'penstock-k8s' answers for a cluster: choose, render, lint, verify"},
    {"pytorch",
     "'python -m penstock' and the module penstock read files into tensors on a GPU, and save checkpoints from them; "
     "integrations/README.md tells of the programs that run on it unmodified. 'penstock run --report PROGRAM' says by "
     "which paths a program's bytes went"},
    {"container",
     "it needs no root or capability, but a volume of a real file system for the data, since its own overlay hides the "
     "drive, and the GPU (--gpus all, which brings its nodes in /dev); where speed matters, a seccomp profile that "
     "allows io_uring (--security-opt seccomp=penstock.json, of deploy/seccomp) and --ulimit memlock=-1:-1; 'penstock "
     "check' inside names what is missing",
     {"NVIDIA's library (the path vendor) also needs -v /run/udev:/run/udev:ro and a --device for each "
      "/dev/nvidia-fs*; nvfs needs these nodes alone; dmabuf the drive's node, which root alone may read."}},
    {"root",
     "no root, capability or udev is needed: 'penstock check' says as the user who asks what is missing. Steps that it "
     "puts outside a container, and modules and kernels, are an administrator's"},
    {"monitor",
     "'penstock stats --watch' shows the processes of this user as they run; 'penstock serve' gives Prometheus those "
     "of a node, and deploy/ has a dashboard and alerts for it"},
    {"torch.save",
     "in its place 'penstock.checkpoint.save(state, FOLDER)', which writes from the GPU by many threads, and "
     "'penstock.checkpoint.load(FOLDER)'; penstock.weights.load_torch reads the files that it made. How long that "
     "takes "
     "here: 'penstock explain --measure --save SIZE FOLDER'"},
    {"bottleneck",
     "the part of the way that sets the speed of the whole: 'penstock explain --measure FILE' measures each part and "
     "names it"},
    {"bandwidth",
     "bytes in a second: 'penstock bench --every-path --dir FOLDER' measures what each path has here, 'penstock check "
     "--topology' says what the links between drives and GPUs allow"},
    {"cufile calls",
     "cuFileRead, cuFileWrite and the others of NVIDIA's cuFile: libcufile.so.0 of this project answers them, by the "
     "best path that serves; 'penstock run PROGRAM' puts it in front of a program, and 'penstock run --report PROGRAM' "
     "says what they moved. docs/reference/compatibility.md lists every difference"},
    {"nvidia-fs",
     "NVIDIA's kernel module for GPUDirect Storage. Two paths use it: vendor, by NVIDIA's library, and nvfs, without "
     "it; 'penstock help vendor' and 'penstock help nvfs' say what each needs, 'penstock check' what is missing here. "
     "Its package is nvidia-gds, of NVIDIA's repository for the system: 'apt install nvidia-gds' on Ubuntu, 'dnf "
     "install nvidia-gds' on RHEL 9 and its kin; then 'modprobe nvidia-fs'"},
    {"compare",
     "two machines: 'penstock check --root A --beside B' says where they differ, and what that does to the paths. Two "
     "settings: 'penstock bench FILE --compare A B' measures them in turns, --versus another libcufile, --every-path "
     "the paths; 'penstock-model compare' holds predictions against such results"},
    {"machines",
     "'penstock check --root DIR' judges a machine that was captured (share/penstock/capture-machine), with --beside "
     "OTHER where it differs from another, 'penstock-k8s verify --root DIR' several of them"},
    {"bounce buffer",
     "pinned host memory that bytes pass on their way between storage and a GPU; PENSTOCK_BOUNCE_MIB limits it"},
    {"threads",
     "those that move bytes beside the caller's: PENSTOCK_WORKERS sets how many, 'penstock help PENSTOCK_WORKERS' says "
     "what it takes"},
    {"nvme",
     "a drive that moves bytes by its own DMA engine, as all paths that are direct need: 'penstock check --topology' "
     "says which there are and how near a GPU they are, 'penstock help p2pdma' what a path needs of them"},
    {"errors",
     "'penstock help 5008' and 'penstock help EIO' explain one, by its number or its name; 'penstock explain "
     "cufile.log' says what the lines of a log mean; 'penstock stats' counts the requests that failed"},
    {"goodput",
     "the share of a run's time that is useful training: what saves, redone work and recoveries leave of it"},
    {"Young/Daly",
     "the classic interval between two checkpoints, the root of 2 x the time of a save x the time between failures; "
     "'best' beside it in 'penstock-model checkpoint' also counts what a recovery takes"},
    {"stalled", "of a run, the time that training stands still for its checkpoints"},
    {"redone", "of a run, training from a checkpoint up to the failure after it, which has to be done again"},
    {"recovering", "of a run, from a failure until training goes on: the restart and the load of the checkpoint"},
    {"cufile.log",
     "cuFile's log, in the working directory or where logging.dir of cufile.json says; CUFILE_LOGFILE_PATH names "
     "another file. 'penstock explain cufile.log' says what the lines mean that are known, and counts the others"},
};

// The most likely cause of an error of cuFile's, and its remedy. The sentence of each is NVIDIA's, and names neither.
struct ErrorCause {
  int number;
  const char* cause;
  const char* remedy;
};
constexpr ErrorCause kErrorCauses[] = {
    {5001, "cuFileDriverOpen was not called, failed, or the driver was closed; with this library no module is needed.",
     "Look at what cuFileDriverOpen returned; 'penstock check' tells of a cufile.json that makes no sense."},
    {5002, "cufile.json or a CUFILE_ variable has a value that is not accepted.",
     "'penstock settings' names it, with its line."},
    {5007, "No path may serve here as the settings are.", "'penstock check' names what each path lacks."},
    {5008, "No path may serve this file, or its memory is refused by the settings.",
     "'penstock explain FILE' says why each path is refused."},
    {5011, "CUDA refused a call; the error that came with it (cu_err) says which.",
     "Look at cu_err. Mostly memory was freed too early, the device is another, or its memory is used up."},
    {5012, "The pointer is no device memory that CUDA knows: freed, or of another process.",
     "Register memory that lives as long as its requests."},
    {5013, "The memory is of a kind that is not served, such as managed memory.", "Use cudaMalloc or cuMemCreate."},
    {5018, "The descriptor is no regular file and no block device.", "Open the file itself."},
    {5019,
     "The descriptor does not allow the request: a write to one that is open for reading, or flags that are "
     "refused.",
     "Open it with O_RDWR, without O_APPEND."},
    {5020, "The descriptor was opened without O_DIRECT, and cufile.json allows no other.",
     "Open it with O_DIRECT, or set properties.allow_compat_mode to true."},
    {5022, "An argument makes no sense: a size, an offset, or a handle.", "The log names the argument and its value."},
    {5023, "The memory is registered already.", "Deregister it first, or leave the second call out."},
    {5024, "The memory was not registered, or no longer is.", "Call cuFileBufRegister before."},
    {5027, "The handle was never registered, or was deregistered.", "Call cuFileHandleRegister before."},
    {5034, "A denylist, or a setting of cufile.json, keeps the file from direct paths.",
     "'penstock explain FILE' names the setting."}};

// Words that others have for the same, in small letters.
struct OtherWord {
  const char* word;
  const char* meant;
};
constexpr OtherWord kOtherWords[] = {
    {"compatibility", "compat"},
    {"page-cache", "page cache"},
    {"gds", "direct"},
    {"gpudirect", "direct"},
    {"gpudirect storage", "direct"},
    {"p2pdma", "p2pdma"},  // The kernel writes P2PDMA.
    {"cufile_env_path_json", "cufile.json"},
    {"torch", "pytorch"},
    {"rootless", "root"},
    {"capability", "root"},
    {"capabilities", "root"},
    {"python", "pytorch"},
    {"seccomp", "container"},
    {"memlock", "locked_memory"},
    {"thread", "threads"},
    {"error", "errors"},
    {"sudo", "root"},
    {"monitoring", "monitor"},
    {"alert", "monitor"},
    {"alerts", "monitor"},
    {"docker", "container"},
    {"price", "cost"},
    {"young-daly", "Young/Daly"},
    {"cufileread", "cufile calls"},
    {"cufilewrite", "cufile calls"},
    {"nvidia_fs.ko", "nvidia-fs"},
    {"nvidia-gds", "nvidia-fs"},
    {"nvidia-fs-dkms", "nvidia-fs"},
    {"throughput", "bandwidth"},
    {"bounce-buffer", "bounce buffer"},
    {"proof", "prove"},
    {"prove-direct", "prove"},
    {"difference", "compare"},
    {"two machines", "compare"},
    {"beside", "compare"},
    {"tune", "fast"},
    {"tuning", "fast"},
    {"buffer", "bounce buffer"},
    {"buffers", "bounce buffer"},
    {"devices", "container"},
    {"buy", "cost"},
    {"buyer", "cost"},
    {"gain", "cost"},
    {"offer", "cost"},
    {"buy storage", "cost"},
    {"moves now", "monitor"},
    {"running now", "monitor"},
    {"cloud", "cost"},
    {"metric", "metrics"},
    {"pod spec", "pod"},
    {"no root", "root"},
    {"without root", "root"},
    {"fallen back", "fallback"},
    {"gpu drive", "nvme"},
    {"machine right", "check"},
    {"nodes gds", "kubernetes"},
    {"drives", "predict"},
    {"many drives", "predict"},
    {"long", "predict"},
    {"slower than", "compare"},
    {"trust", "prove"},
    {"corrupt", "prove"},
    {"program direct", "prove"},
    {"raid", "p2pdma"},
    {"drive fails", "errors"},
    {"without gpu", "stand-in"},
    {"s3", "stage"},
    {"object store", "stage"},
    {"dataset", "feed"},
    {"log", "cufile.log"},
    {"save faster", "save"},
    {"save checkpoint", "save"},
    {"i/o threads", "threads"},
    {"bigger bounce buffers", "bounce buffer"},
    {"network file system", "network_file_system"},
    {"podman", "container"},
    {"privileged", "container"},
    {"grafana", "monitor"},
    {"speed", "fast"},
    {"diff", "compare"},
    {"bounce buffers", "bounce buffer"},
    {"io threads", "threads"},
    {"slow save", "save"},
    {"slow saves", "save"},
    {"slow checkpoint", "save"},
    {"slow checkpoints", "save"},
    {"prometheus", "metrics"},
};

}  // namespace penstock::tools
