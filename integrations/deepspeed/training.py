# SPDX-License-Identifier: Apache-2.0

"""One run of train.py: a small model under DeepSpeed, which prints what it found. Not to be called by people."""

import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

RESULT = "RESULT "  # What a run prints before its findings.
VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, BATCH = 4096, 512, 2, 8, 128, 4


def make_model(torch):
    """A GPT of the plainest kind, without dropout and with no kernel whose sums come in another order each time."""
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attend, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.attend(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = (query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).masked_fill(future, float("-inf"))
            seen = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, WIDTH)
            x = x + self.mix(seen)
            return x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids):
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
            for layer in self.layers:
                x = layer(x)
            logits = self.head(x)[:, :-1].float()
            return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))

    return Model()


def batch_of(torch, step, device):
    """The same for a step whoever trains it, and with something to learn: the next token follows from the last."""
    random = torch.Generator().manual_seed(1000 + step)
    starts = torch.randint(VOCABULARY, (BATCH, 1), generator=random)
    return ((starts + 7 * torch.arange(LENGTH)) % VOCABULARY).to(device)


def digest_of(engine, with_moments):
    """Of what training goes on from: the weights in full precision, and both moments of each."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    whole = hashlib.sha256()
    for _, parameter in sorted(engine.module.named_parameters()):
        tensors = [safe_get_full_fp32_param(parameter)]
        if with_moments:
            tensors += [safe_get_full_optimizer_state(parameter, name) for name in ("exp_avg", "exp_avg_sq")]
        for tensor in tensors:
            whole.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return whole.hexdigest()


def start_engine(torch, deepspeed, spec):
    one = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    # What the fast writer asks for besides, and only DeepSpeed's launcher sets.
    os.environ.update(one, CROSS_RANK="0", CROSS_SIZE="1", LOCAL_SIZE="1")
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = make_model(torch)
    with open(spec["configuration"], encoding="utf-8") as file:
        config = json.load(file)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


class Meter:
    """Bytes that came to our library, phase by phase."""

    def __init__(self, library, directory):
        self._smoke = harness.Smoke("deepspeed", library, directory) if library else None
        self._before = (0, 0)
        if self._smoke:
            self._smoke.keep_open()  # DeepSpeed closes the driver with its last handle, and the counters go with it.

    def phase(self):
        if not self._smoke:
            return {"read": 0, "written": 0, "paths": []}
        read, written, paths = self._smoke.moved()
        moved = {"read": read - self._before[0], "written": written - self._before[1], "paths": sorted(paths)}
        self._before = (read, written)
        return moved


def run(spec):
    """Trains steps first..last; saves after step `save_after`, or takes up the checkpoint first."""
    import setuptools  # noqa: F401  # Brings the distutils that DeepSpeed imports, which Python 3.12 has no more.
    import torch

    import deepspeed

    os.chdir(spec["directory"])  # The GDS operator writes a local_cufile.json where it stands.
    if spec["mended"]:
        mend_gds_operator(spec["mended"])
    meter = Meter(spec["library"], spec["directory"])
    engine = start_engine(torch, deepspeed, spec)
    found = {"version": deepspeed.__version__, "torch": torch.__version__, "losses": [], "started": meter.phase()}
    if spec["load"]:
        engine.load_checkpoint(spec["checkpoint"], tag="middle")
        found["state"] = digest_of(engine, spec["keeps_moments"])
        meter.phase()
    for step in range(spec["first"], spec["last"] + 1):
        loss = engine(batch_of(torch, step, engine.device))
        engine.backward(loss)
        engine.step()
        found["losses"].append(float(loss.detach()).hex())
        if step == spec["save_after"]:
            found["trained"] = meter.phase()
            engine.save_checkpoint(spec["checkpoint"], tag="middle")
            found["saved"] = meter.phase()
            found["state"] = digest_of(engine, spec["keeps_moments"])
            meter.phase()
    found["end"] = digest_of(engine, True)
    print(RESULT + json.dumps(found), flush=True)
    engine.destroy()


def mend_gds_operator(directory):
    """DeepSpeed 0.19.8's gds_handle waits while it holds Python's lock (the GIL), which the thread that it waits for
    may need to let go of a tensor: then both wait for ever. Its aio_handle gives the lock up meanwhile (DeepSpeed's
    pull requests 7727 and 8196). So does this one, which is compiled from a changed copy of the source.
    """
    from deepspeed.ops.op_builder import GDSBuilder

    published = GDSBuilder().deepspeed_src_path("csrc/gds/py_lib/py_ds_gds.cpp")
    with open(published, encoding="utf-8") as file:
        source = file.read()
    guard = ",\n             py::call_guard<py::gil_scoped_release>())"
    if "gil_scoped_release" in source:
        return
    for ending in ('"Wait for (ongoing) asynchronous operations to complete")', '"file_offset"_a = 0)'):
        source = source.replace(ending, ending[:-1] + guard)
    header = "deepspeed_py_gds_handle.h"
    source = source.replace(f'"{header}"', f'"{os.path.join(os.path.dirname(published), header)}"')
    mended = os.path.join(directory, "py_ds_gds.cpp")
    if not os.path.exists(mended):  # Written once, it is compiled once.
        with open(mended, "w", encoding="utf-8") as file:
            file.write(source)
    GDSBuilder.sources = lambda self: [*self.lib_sources(), mended]


def compile_operator(name, directory):
    """What a run would do when it first needs the operator, and then waits for without a word."""
    import setuptools  # noqa: F401
    from deepspeed.ops import op_builder

    if name == "GDSBuilder" and directory:
        mend_gds_operator(directory)
    getattr(op_builder, name)().load(verbose=False)


if __name__ == "__main__":
    what = json.loads(sys.argv[1])
    compile_operator(what["compile"], what["mended"]) if "compile" in what else run(what)
