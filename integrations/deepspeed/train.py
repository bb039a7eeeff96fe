# SPDX-License-Identifier: Apache-2.0

"""Trains a small model under DeepSpeed's ZeRO-3 with NVMe offload, on our libcufile.so.0, and asks three things of it:

- Which parts of DeepSpeed honour `use_gds`? Our counters tell how many bytes each moved by cuFile.
- Does a run that a fresh process takes up from a checkpoint go on exactly as the one that was never interrupted?
- Do the losses differ from those of a run without GPUDirect Storage?

Each run is a process of its own. Before the first one DeepSpeed compiles its operators, which takes minutes.
"""

import argparse
import concurrent.futures
import contextlib
import copy
import dataclasses
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import harness
from training import BATCH, RESULT, VOCABULARY, WIDTH

RUN_SECONDS = 120
COMPILE_SECONDS = 600

# As many texts on GPUDirect Storage have it, less `thread_count`, which is no key of DeepSpeed's.
BASE = {
    "train_micro_batch_size_per_gpu": BATCH,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "nvme"},
    },
    "aio": {
        "use_gds": True,
        "block_size": 1048576,
        "queue_depth": 8,
        "single_submit": False,
        "overlap_events": True,
    },
}
# max_in_cpu: parameters go to the drive from the first element on. buffer_size: elements of the largest parameter.
OFFLOAD_PARAM = {"device": "nvme", "buffer_count": 8, "buffer_size": VOCABULARY * WIDTH, "max_in_cpu": 0}


@dataclasses.dataclass
class Scenario:
    """A configuration, and whether training and saving must move bytes by cuFile."""

    name: str
    swaps_parameters: bool = False
    writes_fast: bool = False  # With optimizer states in host memory, which it then has to write.

    @property
    def keeps_moments(self):
        """Over a restart. From the drive DeepSpeed 0.19.8 takes back the weights, not what Adam keeps of each."""
        return self.writes_fast

    def configuration(self, directory, use_gds, writer):
        config = copy.deepcopy(BASE)
        config["aio"]["use_gds"] = use_gds
        zero = config["zero_optimization"]
        if self.swaps_parameters:
            zero["offload_param"] = dict(OFFLOAD_PARAM)
        for block in ("offload_optimizer", "offload_param"):
            if block in zero:
                zero[block]["nvme_path"] = os.path.join(directory, "swap")
        if self.writes_fast:
            zero["offload_optimizer"] = {"device": "cpu"}
            config["checkpoint"] = {"writer": {"type": writer, "io_buffer_size": 16 << 20}}
        return config


SCENARIOS = [
    Scenario("optimizer swap"),
    Scenario("parameter swap", swaps_parameters=True),
    Scenario("fast writer", writes_fast=True),
]


OPERATORS = ["AsyncIOBuilder", "CPUAdamBuilder"]  # DeepSpeed's names of what the scenarios need,
GPU_OPERATORS = ["GDSBuilder", "UtilsBuilder"]  # and of what they need besides with a GPU.


def skip(why):
    print(f"SKIPPED deepspeed training: {why}")
    sys.exit(77)


def check_needs(options):
    """What DeepSpeed cannot do without, told before it compiles for minutes and fails in a page of g++."""
    for module in ("torch", "deepspeed", "setuptools"):
        if importlib.util.find_spec(module) is None:
            skip(f"there is no Python module {module}")
    missing = [name for name in ("g++", "ninja") if shutil.which(name) is None]
    if not options.without_gds and shutil.which("nvcc") is None:
        missing.append("nvcc (add the CUDA toolkit's bin to PATH)")
    if missing:
        skip("DeepSpeed compiles its operators here, and this is not on PATH: " + ", ".join(missing))
    program = "#include <libaio.h>\nint main(void) { io_context_t context = 0; return io_queue_init(1, &context); }\n"
    built = subprocess.run(["g++", "-x", "c", "-", "-laio", "-o", os.devnull], input=program.encode(),
                           stderr=subprocess.DEVNULL)
    if built.returncode != 0:
        skip("no program with libaio can be compiled: install libaio-dev, or name one's folders in CPATH, LIBRARY_PATH")
    probe = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    if not options.without_gds and subprocess.run([sys.executable, "-c", probe]).returncode != 0:
        skip("PyTorch sees no GPU here")


def environment(options, directory):
    # The second, since DeepSpeed's loader for its writer asks torch.load for weights only, and its files have more.
    wanted = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
    # A lock that a killed compilation left in the usual place would be waited for without end.
    wanted.setdefault("TORCH_EXTENSIONS_DIR", os.path.join(directory, "operators"))
    if options.without_gds:
        wanted.update(DS_ACCELERATOR="cpu", DS_PIN_MEMORY_BACKEND="native")
    if options.library:
        wanted["LIBRARY_PATH"] = harness.prepend("LIBRARY_PATH", os.path.dirname(options.library))
        wanted["LD_PRELOAD"] = options.library
    if "TORCH_CUDA_ARCH_LIST" in os.environ:
        wanted["TORCH_CUDA_ARCH_LIST"] = re.sub(r"(\d)[a-z]+", r"\1", os.environ["TORCH_CUDA_ARCH_LIST"])
    return wanted


class Trainer:
    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.findings = 0

    def mended(self):
        """Where the repaired source of the GDS operator goes; nothing where it is taken as DeepSpeed published it."""
        return "" if self.options.as_published or self.options.without_gds else self.directory

    def check(self, what, truth):
        self.findings += not truth
        print(f"{'ok    ' if truth else 'WRONG '} {what}", flush=True)

    def child(self, what, seconds):
        """Runs training.py: its lines, and None or what went wrong. One that does not end tells where it stood."""
        log = tempfile.TemporaryFile(dir=self.directory)
        started = time.monotonic()
        child = subprocess.Popen([sys.executable, "-X", "faulthandler", os.path.join(HERE, "training.py"),
                                  json.dumps(what)], env=environment(self.options, self.directory),
                                 stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = child.wait(timeout=seconds)
            wrong = f"it ended with {status} after {time.monotonic() - started:.0f} s" if status else None
        except subprocess.TimeoutExpired:
            wrong = f"it did not end in {seconds} s, and was stopped there"
            child.send_signal(signal.SIGABRT)  # The interpreter prints where each of its threads is.
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                wrong += ", by SIGKILL"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # Compilers, too.
            child.wait()
        log.seek(0)
        return log.read().decode(errors="replace").splitlines(), wrong

    def compile_operators(self):
        """All at once and ahead of the runs, which would compile one after another within their time."""
        names = OPERATORS + ([] if self.options.without_gds else GPU_OPERATORS)
        print(f"       compiling DeepSpeed's operators: {', '.join(names)}", flush=True)
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            built = list(pool.map(lambda name: self.child({"compile": name, "mended": self.mended()},
                                                              COMPILE_SECONDS), names))
        for name, (lines, wrong) in zip(names, built):
            if wrong:
                print_tail(lines)
            self.check(f"{name}: {wrong or 'compiled'}", not wrong)
        print(f"       after {time.monotonic() - started:.0f} s", flush=True)
        return not any(wrong for _, wrong in built)

    def run(self, scenario, name, use_gds, load=False):
        """None where the run failed, which is a finding."""
        directory = os.path.join(self.directory, scenario.name.replace(" ", "_"), "gds" if use_gds else "plain")
        os.makedirs(os.path.join(directory, "swap"), exist_ok=True)
        middle, steps = self.options.steps // 2, self.options.steps
        spec = {"directory": directory, "library": self.options.library, "load": load,
                "mended": self.mended(),
                "keeps_moments": scenario.keeps_moments, "last": steps,
                "first": middle + 1 if load else 1, "save_after": 0 if load else middle,
                "checkpoint": os.path.join(directory, "checkpoint"),
                "configuration": os.path.join(directory, "ds_config.json")}
        with open(spec["configuration"], "w", encoding="utf-8") as file:
            # DeepSpeed has no fast writer for the CPU; the plain one takes the same way otherwise.
            writer = "python" if self.options.without_gds else "fast"
            json.dump(scenario.configuration(directory, use_gds, writer), file, indent=2)
        lines, wrong = self.child(spec, RUN_SECONDS)
        found = next((json.loads(line[len(RESULT):]) for line in lines if line.startswith(RESULT)), None)
        if wrong or not found:
            print_tail(lines)
            self.check(f"{scenario.name}, {name}, {'with' if use_gds else 'without'} GDS: "
                       f"{wrong or 'it printed no findings'}", False)
            return None
        return found

    def compare(self, scenario, whole, resumed, use_gds):
        first, last = (float.fromhex(whole["losses"][at]) for at in (0, -1))
        self.check(f"{scenario.name}: the loss falls, from {first:.4f} to {last:.4f}", last < first)
        if resumed:
            what = "weights and moments" if scenario.keeps_moments else "weights"
            self.check(f"{scenario.name}: restored {what} equal those saved", resumed["state"] == whole["state"])
            again = whole["losses"][-len(resumed["losses"]):]
            goes_on = resumed["losses"] == again and resumed["end"] == whole["end"]
            if scenario.keeps_moments:
                self.check(f"{scenario.name}: the {len(again)} losses after it, and the end, are the same", goes_on)
            else:
                self.check(f"{scenario.name}: the first loss after it is the same", resumed["losses"][0] == again[0])
                print(f"       {scenario.name}: the losses after that are {'the same' if goes_on else 'others'}: "
                      "DeepSpeed starts its optimizer anew")
        self.check_bytes(scenario, whole, use_gds)

    def check_bytes(self, scenario, whole, use_gds):
        training = [whole[phase][way] for phase in ("started", "trained") for way in ("read", "written")]
        wants_training, wants_saving = use_gds and scenario.swaps_parameters, use_gds and scenario.writes_fast
        ok = all((training[0] + training[2], training[1] + training[3])) if wants_training else sum(training) == 0
        how = "with" if use_gds else "without"
        self.check(f"{scenario.name}, {how} GDS: training moves {'bytes' if wants_training else 'none'} by cuFile", ok)
        saved = whole["saved"]["written"]
        self.check(f"{scenario.name}, {how} GDS: saving writes {'bytes' if wants_saving else 'none'} by cuFile",
                   saved > 0 if wants_saving else saved == 0)

    def scenario(self, scenario):
        """Its rows of the table."""
        rows, losses = [], {}
        for use_gds in ([False] if self.options.without_gds else [True, False]):
            whole = self.run(scenario, "uninterrupted", use_gds)
            if not whole:
                continue
            resumed = self.run(scenario, "restored", use_gds, load=True)
            self.compare(scenario, whole, resumed, use_gds)
            losses[use_gds] = whole["losses"]
            rows.append((scenario.name, "yes" if use_gds else "no", whole))
        if len(losses) == 2:
            self.check(f"{scenario.name}: losses with and without GDS are equal", losses[True] == losses[False])
        return rows


def print_tail(lines):
    print("\n".join("       | " + line for line in lines[-60:]), flush=True)


def print_table(rows):
    line = "{:<15} {:<4} {:>14} {:>14} {:>14} {:>9} {:>9}  {}"
    print(line.format("part", "GDS", "init+train r", "init+train w", "save w", "loss 1", "loss end", "paths"))
    for name, gds, run in rows:
        read, written = (sum(run[phase][way] for phase in ("started", "trained")) for way in ("read", "written"))
        first, last = (f"{float.fromhex(run['losses'][at]):.4f}" for at in (0, -1))
        print(line.format(name, gds, read, written, run["saved"]["written"], first, last,
                          ",".join(run["saved"]["paths"]) or "-"))


def main():
    parser = argparse.ArgumentParser(description="Trains under DeepSpeed's NVMe offload on our libcufile.so.0.")
    parser.add_argument("--library", help="our libcufile.so.0")
    parser.add_argument("--directory", help="on the file system to test (default: a temporary directory)")
    parser.add_argument("--steps", type=int, default=20, help="20 to 50 (default: 20); half of them before the save")
    parser.add_argument("--only", choices=[one.name for one in SCENARIOS], help="one of the configurations")
    parser.add_argument("--as-published", action="store_true",
                        help="DeepSpeed's GDS operator without the repair of its wait(), which may never return")
    parser.add_argument("--without-gds", action="store_true", help="only what needs no GPU, on the CPU")
    options = parser.parse_args()
    if not options.without_gds and not (options.library and os.path.isfile(options.library)):
        parser.error("--library must name our libcufile.so.0, or --without-gds be given")
    if options.library:
        options.library = os.path.realpath(options.library)
    check_needs(options)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        trainer = Trainer(options, directory)
        if not trainer.compile_operators():
            print("FAILED deepspeed training: its operators cannot be compiled")
            return 1
        rows = [row for scenario in SCENARIOS if options.only in (None, scenario.name)
                for row in trainer.scenario(scenario)]
    print_table(rows)
    print(f"FAILED deepspeed training: {trainer.findings} checks" if trainer.findings else "OK deepspeed training")
    return 1 if trainer.findings else 0


if __name__ == "__main__":
    sys.exit(main())
