# SPDX-License-Identifier: Apache-2.0

"""penstock.weights, bit for bit what safetensors gives, on the CPU; on a GPU as well where this machine has one."""

import ctypes
import json
import mmap
import os
import struct

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
rival = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

import penstock
from penstock import weights
from penstock.weights import arrays, files, plan as plans, runs, tensors as described
from tensors import DEVICES, random_tensor, raw

DTYPES = [getattr(torch, name) for name in arrays.DTYPES.values() if hasattr(torch, name) and "float4" not in name]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def same(left, right):
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].shape == right[name].shape
        and raw(left[name]) == raw(right[name]) for name in right)


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture
def model(tmp_path):
    """Every dtype, empty and 0-d tensors, odd sizes, in a file of the stock writer's."""
    tensors = {f"{dtype}".removeprefix("torch."): random_tensor(dtype, 3, 5) for dtype in DTYPES}
    tensors |= {"empty": torch.zeros(0, 4), "0d": torch.tensor(1.5), "large": random_tensor(torch.bfloat16, 333, 257)}
    rival.save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    return tmp_path / "model.safetensors", tensors


def test_a_file_comes_as_the_stock_loader_gives_it(model, device):
    path, tensors = model
    loaded = weights.load_file(path, device=device)
    assert same(loaded, rival.load_file(path)) and same(loaded, tensors)
    assert {tensor.device.type for tensor in loaded.values()} == {device}


def test_the_stock_loader_reads_what_we_save(model, device, tmp_path):
    tensors = {name: tensor.to(device) for name, tensor in model[1].items()}
    weights.save_file(tensors, tmp_path / "ours", {"format": "pt", "note": "ä\n\""})
    assert same(rival.load_file(tmp_path / "ours"), model[1])
    assert same(weights.load_file(tmp_path / "ours"), model[1])
    with weights.safe_open(tmp_path / "ours") as opened:
        assert opened.metadata() == {"format": "pt", "note": "ä\n\""}
    begin = weights.Weights(tmp_path / "ours").tensors["large"]
    assert min(tensor.offset for tensor in weights.Weights(tmp_path / "ours").tensors.values()) % 4096 == 0
    assert begin.nbytes == 333 * 257 * 2


def test_many_tensors_are_saved_and_loaded(tmp_path):
    tensors = {f"layer.{i}.weight": random_tensor(torch.float16, 7, i % 5) for i in range(2000)}
    weights.save_file(tensors, tmp_path / "many")
    assert same(weights.load_file(tmp_path / "many"), tensors)
    assert same(rival.load_file(tmp_path / "many"), tensors)


def test_saving_replaces_whole_files_only(tmp_path):
    path = tmp_path / "model"
    weights.save_file({"a": torch.ones(3)}, path)
    with pytest.raises(weights.WeightsError, match="not contiguous"):
        weights.save_file({"a": torch.ones(4, 4).t()}, path)
    with pytest.raises(weights.WeightsError, match="no dtype torch.complex128"):
        weights.save_file({"a": torch.ones(4, dtype=torch.complex128)}, path)
    assert same(weights.load_file(path), {"a": torch.ones(3)})
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def sharded(tmp_path):
    tensors = {f"{i}.weight": random_tensor(torch.float32, 8, 16) for i in range(10)}
    names = list(tensors)
    placed = {}
    for shard, chosen in enumerate((names[:4], names[4:9], names[9:])):
        file = f"model-{shard + 1:05}-of-00003.safetensors"
        rival.save_file({name: tensors[name] for name in chosen}, tmp_path / file)
        placed.update(dict.fromkeys(chosen, file))
    (tmp_path / weights.INDEX).write_text(json.dumps({"metadata": {"total_size": 5120}, "weight_map": placed}))
    return tmp_path, tensors


def test_a_sharded_model_is_loaded_by_its_folder_or_index(sharded, device):
    folder, tensors = sharded
    for paths in (folder, folder / weights.INDEX, sorted(folder.glob("*.safetensors"))):
        found = weights.Weights(paths)
        assert found.nbytes == 5120 and len(found.files) == 3
        assert same(found.plan(device=device).load(), tensors)


def test_names_and_globs_choose_and_nothing_else_is_read(sharded):
    folder, tensors = sharded
    plan = weights.Weights(folder).plan(["3.weight", "[78].*"])
    assert plan.names == ["3.weight", "7.weight", "8.weight"] and len(plan) == 3
    assert plan.bytes_from_storage == 3 * 512
    assert same(plan.load(), {name: tensors[name] for name in plan.names})
    with pytest.raises(weights.WeightsError, match="'nothing.\\*'"):
        weights.Weights(folder).plan("nothing.*")


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_ranks_take_their_parts(sharded, device, dim):
    folder, tensors = sharded
    found = weights.Weights(folder)
    size = 8 if dim == 0 else 16
    parts = [weights.Part.of_rank(size, dim, rank, 4) for rank in range(4)]
    shares = [found.plan(parts={"*.weight": part}, device=device) for part in parts]
    loaded = [share.load() for share in shares]
    for name, tensor in tensors.items():
        assert raw(torch.cat([part[name] for part in loaded], dim)) == raw(tensor)


def test_the_parts_of_all_ranks_are_read_once(tmp_path):
    """Of the first dimension; along others rows are read whole."""
    saved = {f"{i}": torch.zeros(64, 8192) for i in range(5)}
    weights.save_file(saved, tmp_path / "model")
    found = weights.Weights(tmp_path / "model")
    parts = [weights.Part.of_rank(64, 0, rank, 8) for rank in range(8)]
    shares = [found.plan(parts={"*": part}).bytes_from_storage for part in parts]
    assert sum(shares) == found.nbytes and max(shares) == min(shares)


def test_impossible_parts_are_refused(sharded):
    found = weights.Weights(sharded[0])
    for part in (weights.Part(2, 0, 1), weights.Part(0, 0, 9), weights.Part(0, 3, 2), weights.Part(1, -1, 2)):
        with pytest.raises(weights.WeightsError, match="0.weight"):
            found.plan(parts={"0.weight": part})
    with pytest.raises(weights.WeightsError, match="evenly by 3"):
        weights.Part.of_rank(8, 0, 0, 3)
    with pytest.raises(weights.WeightsError, match="rank 4 of 4"):
        weights.Part.of_rank(8, 0, 4, 4)


def test_floating_point_is_converted_on_the_way_as_torch_does(model, device):
    path, tensors = model
    names = ["float32", "large", "int64", "float16"]
    loaded = weights.Weights(path).plan(names, device=device, dtype=torch.bfloat16).load()
    for name, tensor in loaded.items():
        expected = tensors[name].to(device).to(torch.bfloat16) if name != "int64" else tensors[name]
        assert tensor.dtype == expected.dtype and raw(tensor) == raw(expected)


def test_what_the_format_aligns_nowhere_is_right_all_the_same(tmp_path, device):
    data = bytes(range(1, 14))
    path = write(tmp_path / "odd", {"b": {"dtype": "U8", "shape": [5], "data_offsets": [0, 5]},
                                    "f": {"dtype": "F32", "shape": [2], "data_offsets": [5, 13]}}, data)
    loaded = weights.load_file(path, device=device)
    assert raw(loaded["b"]) == data[:5] and raw(loaded["f"]) == data[5:]


def test_long_files_are_read_in_several_requests(tmp_path, monkeypatch, device):
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 16)
    tensors = {f"{i:03}": random_tensor(torch.uint8, 10_000 + i) for i in range(100)}
    tensors["zz"] = random_tensor(torch.uint8, 200_000)
    weights.save_file(tensors, tmp_path / "model")
    seen = []
    plan = weights.Weights(tmp_path / "model").plan(device=device)
    assert same(plan.load(lambda progress: seen.append((progress.bytes_done, dict(progress.bytes_by_path)))), tensors)
    assert len(seen) > 10 and [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == plan.bytes_from_storage == sum(seen[-1][1].values())
    assert plan.progress.gb_per_s > 0


def test_an_iteration_that_is_left_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 14)
    weights.save_file({f"{i:03}": random_tensor(torch.uint8, 10_000) for i in range(50)}, tmp_path / "model")
    for name, tensor in weights.Weights(tmp_path / "model").plan():
        assert (name, tensor.numel()) == ("000", 10_000)
        break


@pytest.fixture
def pieces(tmp_path):
    """A tensor that lies in six pieces, two by three, in a file in which nothing else tells so."""
    whole = random_tensor(torch.int16, 10, 12)
    rows, columns = [(0, 4), (4, 10)], [(0, 3), (3, 4), (4, 12)]
    content, chunks, path = b"-", [], tmp_path / "pieces"
    for top, bottom in reversed(rows):
        for left, right in columns:
            data = raw(whole[top:bottom, left:right])
            piece = weights.Tensor("?", path, "I16", (bottom - top, right - left), len(content), len(data))
            chunks.append(described.Chunk((top, left), piece))
            content += data
    path.write_bytes(content)
    with open(path, "rb") as opened:
        identities = {path: files.identity_of(opened.fileno())}
    return weights.Tensor("whole", path, "I16", (10, 12), 0, 240, chunks=tuple(chunks)), whole, identities


@pytest.mark.parametrize("part", [None, (0, 0, 10), (0, 3, 5), (1, 3, 4), (-1, 2, 11), (1, 5, 5), (0, 0, 0)])
def test_a_tensor_in_pieces_is_put_together(pieces, device, part):
    tensor, whole, identities = pieces
    wanted = None if part is None else weights.Part(*part)
    plan = weights.Plan([(tensor, wanted)], device, None, None, identities)
    expected = whole if part is None else whole.narrow(part[0], part[1], part[2] - part[1])
    assert plan.names == ["whole"]
    assert same(plan.load(), {"whole": expected}) and same(plan.load(), {"whole": expected})


def test_pieces_of_four_bits_are_put_together(tmp_path):
    data = bytes(range(24))  # Two pieces, side by side: 4 rows of 4 and of 8 elements, two a byte.
    (tmp_path / "pieces").write_bytes(data)
    with open(tmp_path / "pieces", "rb") as opened:
        identities = {tmp_path / "pieces": files.identity_of(opened.fileno())}
    chunks = tuple(described.Chunk((0, at),
                                   weights.Tensor("?", tmp_path / "pieces", "F4", (4, columns), offset, nbytes))
                   for at, columns, offset, nbytes in ((0, 4, 0, 8), (4, 8, 8, 16)))
    tensor = weights.Tensor("a", tmp_path / "pieces", "F4", (4, 12), 0, 24, chunks=chunks)
    whole = torch.cat([torch.tensor(list(data[:8])).view(4, 2), torch.tensor(list(data[8:])).view(4, 4)], 1)
    for part in (None, weights.Part(0, 1, 3), weights.Part(1, 2, 10), weights.Part(1, 6, 8)):
        loaded = weights.Plan([(tensor, part)], "cpu", None, None, identities).load()["a"]
        expected = whole
        if part is not None:
            unit = 1 if part.dim == 0 else 2
            expected = whole.narrow(part.dim, part.start // unit, (part.stop - part.start) // unit)
        assert loaded.shape == expected.shape
        assert loaded.view(torch.uint8).tolist() == expected.tolist()


def test_of_a_tensor_in_pieces_only_those_are_read_that_are_wanted(pieces, monkeypatch):
    monkeypatch.setattr(runs, "PAGE", 1)
    tensor, _, identities = pieces
    assert weights.Plan([(tensor, weights.Part(0, 0, 2))], "cpu", None, None, identities).bytes_from_storage == 2 * 24
    assert weights.Plan([(tensor, weights.Part(1, 3, 4))], "cpu", None, None, identities).bytes_from_storage == 2 * 10


def test_a_tensor_that_lies_column_by_column_is_given_so(tmp_path, device):
    whole = random_tensor(torch.int32, 6, 4)
    (tmp_path / "columns").write_bytes(b"---" + raw(whole.t()))
    with open(tmp_path / "columns", "rb") as opened:
        identities = {tmp_path / "columns": files.identity_of(opened.fileno())}
    tensor = weights.Tensor("a", tmp_path / "columns", "I32", (6, 4), 3, 96, strides=(1, 6))
    for part in (None, weights.Part(0, 2, 5), weights.Part(1, 1, 3)):
        loaded = weights.Plan([(tensor, part)], device, None, None, identities).load()["a"]
        expected = whole if part is None else whole.narrow(part.dim, part.start, part.stop - part.start)
        assert raw(loaded) == raw(expected)
        assert part is not None or loaded.stride() == (1, 6)


def test_a_budget_bounds_what_one_request_reads(tmp_path):
    weights.save_file({f"{i}": torch.zeros(1000, 100) for i in range(20)}, tmp_path / "model")
    found = weights.Weights(tmp_path / "model")
    assert len(found.plan().runs) == 1
    assert all(run.end - run.begin <= 1_000_000 for run in found.plan(budget=4_000_000).runs)
    assert len(found.plan(budget=4_000_000).load()) == 20


def cached_bytes(path):
    """How much of a file is in the page cache."""
    size, page = path.stat().st_size, mmap.PAGESIZE
    present = (ctypes.c_ubyte * -(-size // page))()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        address = ctypes.addressof(begin := ctypes.c_char.from_buffer(mapped))
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), present) == 0
        del begin
    return page * sum(each & 1 for each in present)


def test_what_is_not_in_the_page_cache_is_read_around_it(tmp_path):
    path, piece = tmp_path / "model", 4 << 20
    weights.save_file({f"{i}": random_tensor(torch.uint8, piece) for i in range(12)}, path)
    with penstock.open(path) as file:
        if file.info()["direct_memory_align"] == 0:
            pytest.skip(f"{tmp_path} is on a file system without direct I/O")
    read = path.read_bytes()
    with open(path, "rb") as file:
        for i in range(1, 12, 2):
            os.posix_fadvise(file.fileno(), i * piece, piece, os.POSIX_FADV_DONTNEED)
    cached = cached_bytes(path)
    if cached > 0.6 * len(read):
        pytest.skip(f"{tmp_path} keeps what it was told to drop")
    with penstock.Session(device="host") as session:
        plan = weights.Weights(path).plan(session=session)
        loaded = plan.load()
    page = 1 << 16
    assert abs(plan.progress.bytes_direct - (len(read) - cached)) <= 12 * page, "each part by its better way"
    assert cached_bytes(path) <= cached + 12 * page
    assert b"".join(raw(tensor) for tensor in loaded.values()) == read[-12 * piece:]


def test_what_a_plan_takes_on_the_device_counts_copies(tmp_path):
    weights.save_file({"a": torch.zeros(1000, 1000)}, tmp_path / "model")
    found = weights.Weights(tmp_path / "model")
    plain, half = found.plan().bytes_on_device, found.plan(dtype=torch.float64).bytes_on_device
    assert 4_000_000 <= plain <= 4_000_000 + 3 * 4096
    assert half >= 8_000_000 + 4_000_000


def test_what_a_rank_keeps_of_a_file_does_not_keep_the_rest(tmp_path):
    whole = {"a": torch.rand(64, 1024), "norm": torch.rand(16)}
    weights.save_file(whole, tmp_path / "model")
    plan = weights.Weights(tmp_path / "model").plan(parts={"a": weights.Part(1, 0, 16)})
    loaded = plan.load()
    assert same(loaded, {"a": whole["a"][:, :16], "norm": whole["norm"]})
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in loaded.values())
    under_way = plan.bytes_on_device - sum(tensor.nbytes for tensor in loaded.values())
    assert 4 * (1 << 18) <= under_way <= 4 * ((1 << 18) + 3 * 4096)


@pytest.mark.parametrize("dtype", [None, torch.float64])
@pytest.mark.parametrize("part", [None, (0, 3, 50), (0, 20, 20), (1, 5, 90), (-2, 0, 7)])
def test_a_tensor_that_is_copied_is_read_in_windows(tmp_path, device, part, dtype):
    whole = {"a": torch.rand(100, 250), "b": torch.rand(3)}
    weights.save_file(whole, tmp_path / "model")
    found = weights.Weights(tmp_path / "model")
    parts = {} if part is None else {"a": weights.Part(*part)}
    plan = found.plan(parts=parts, dtype=dtype, device=device, budget=64_000)
    assert plan.names == ["b", "a"] or plan.names == ["a", "b"]
    is_view = dtype is None and (part is None or part[0] == 0)
    assert is_view or all(run.end - run.begin <= 16_000 for run in plan.runs)
    expected = {"a": whole["a"] if part is None else whole["a"].narrow(part[0], part[1], part[2] - part[1]),
                "b": whole["b"]}
    assert same(plan.load(), {name: tensor.to(dtype or tensor.dtype) for name, tensor in expected.items()})


def test_a_window_takes_no_more_memory_than_a_run_may(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "RUN_BYTES", 1 << 20)
    weights.save_file({"a": torch.zeros(4096, 256)}, tmp_path / "model")
    plan = weights.Weights(tmp_path / "model").plan(parts={"a": weights.Part(1, 0, 16)})
    assert len(plan.runs) == 5 and all(runs.memory_of(run, None)[1] + runs.PAGE <= 1 << 20 for run in plan.runs)
    assert plan.bytes_on_device <= 4096 * 16 * 4 + (4 << 20)


def test_what_will_not_fit_is_refused_before_the_first_byte(model, monkeypatch):
    with penstock.Session(device="host") as session:
        plan = weights.Weights(model[0]).plan(session=session)
        monkeypatch.setattr(arrays.TorchArrays, "free_bytes", lambda self: 1000)
        with pytest.raises(MemoryError, match="1000 are free: nothing was read"):
            plan.load()
        assert session.counters() == []


def test_a_module_is_filled_in_place(tmp_path, device):
    written = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).to(torch.float32)
    weights.save_file(written.state_dict(), tmp_path / "model")
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).to(device)
    places = [parameter.data_ptr() for parameter in module.parameters()]
    assert weights.load_model(module, tmp_path / "model") == ([], [])
    assert same(module.state_dict(), written.state_dict())
    assert places == [parameter.data_ptr() for parameter in module.parameters()]
    half = module.to(torch.float16)
    weights.load_model(half, tmp_path / "model")
    assert raw(half[0].weight) == raw(written[0].weight.to(torch.float16))


def test_a_module_and_files_that_disagree_are_told(tmp_path):
    weights.save_file({"weight": torch.ones(4, 8), "more": torch.ones(1)}, tmp_path / "model")
    module = torch.nn.Linear(8, 4)
    before = raw(module.weight)
    with pytest.raises(weights.WeightsError, match="model and the module disagree. Missing.*bias.*Unexp.*more"):
        weights.load_model(module, tmp_path / "model")
    assert raw(module.weight) == before
    assert weights.load_model(module, tmp_path / "model", strict=False) == (["bias"], ["more"])
    assert raw(module.weight) == raw(torch.ones(4, 8))
    with pytest.raises(weights.WeightsError, match=r"\[4, 8\] in .* and \[5, 8\]"):
        weights.load_model(torch.nn.Linear(8, 5), tmp_path / "model", strict=False)
    with pytest.raises(weights.WeightsError, match="to_empty"):
        weights.load_model(torch.nn.Linear(8, 4, device="meta"), tmp_path / "model", strict=False)


def test_safe_open_has_the_calls_of_the_one_it_replaces(model, device):
    path, tensors = model
    from safetensors import safe_open

    with weights.safe_open(path, framework="pt", device=device) as ours, safe_open(path, "pt") as theirs:
        assert set(ours.keys()) == set(theirs.keys()) and ours.metadata() == theirs.metadata()
        for name in theirs.keys():
            assert raw(ours.get_tensor(name)) == raw(theirs.get_tensor(name))
        part, expected = ours.get_slice("large"), tensors["large"]
        assert part.get_shape() == [333, 257] and part.get_dtype() == "BF16"
        for index in (slice(3, 9), slice(None), slice(5, 5), slice(-4, None), (slice(1, 3), slice(0, 7)), 4, (2, 3),
                      (slice(0, 100, 3), slice(None, None, 2)), (slice(None), 5), ...):
            assert raw(part[index]) == raw(expected[index]), index
        with pytest.raises(weights.WeightsError, match="'nowhere'"):
            ours.get_tensor("nowhere")


@pytest.mark.parametrize("header, data, sentence", [
    (b"", b"", "header"),
    (b"not json", b"", "JSON|begin"),
    (b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', b"1234", '"a"'),
    (b'{"a": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}}', b"1234", "F33"),
    (b'{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', b"12345", "5"),
    (b'{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "a": {}}', b"1234", '"a"'),
    (b'{"a": {"dtype": "U8", "shape": [18446744073709551615, 2], "data_offsets": [0, 4]}}', b"1234", '"a"'),
    (b'{"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 4]}}', b"1234", '"a"'),
])
def test_files_that_are_not_what_the_format_says_are_refused_by_name(tmp_path, header, data, sentence):
    path = write(tmp_path / "hostile", header, data)
    with pytest.raises(weights.WeightsError, match=sentence) as caught:
        weights.load_file(path)
    assert str(path) in str(caught.value)


def test_files_that_end_early_or_are_none_are_refused(tmp_path, model):
    path = tmp_path / "short"
    content = model[0].read_bytes()
    for size in (0, 7, 8, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(weights.WeightsError, match="short"):
            weights.Weights(path)
    path.write_bytes(struct.pack("<Q", 1 << 60))
    with pytest.raises(weights.WeightsError):
        weights.Weights(path)
    with pytest.raises(FileNotFoundError):
        weights.Weights(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(weights.WeightsError, match="no safetensors file"):
        weights.Weights(tmp_path / "folder")


def test_a_file_that_is_cut_after_its_header_was_read_is_told(model):
    path, _ = model
    plan = weights.Weights(path).plan()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(weights.WeightsError, match="it was cut, changed or replaced"):
        plan.load()


def test_a_file_that_is_replaced_after_its_header_was_read_is_told(tmp_path):
    path = tmp_path / "model"
    weights.save_file({"a": torch.ones(4), "b": torch.ones(4)}, path)
    plan, opened = weights.Weights(path).plan(), weights.safe_open(path)
    weights.save_file({"b": torch.zeros(4), "c": torch.zeros(4)}, path)
    with pytest.raises(weights.WeightsError, match="replaced"):
        plan.load()
    assert raw(opened.get_tensor("b")) == raw(torch.ones(4))  # Of the file that it has open.


def test_parts_that_are_nobodys_are_told(sharded):
    with pytest.raises(weights.WeightsError, match="'0.wieght'"):
        weights.Weights(sharded[0]).plan(parts={"0.wieght": weights.Part(0, 0, 1)})


def test_tied_parameters_need_be_in_the_files_once(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
    module[1].weight = module[0].weight
    weights.save_file({"0.weight": torch.full((4, 4), 7.0)}, tmp_path / "model")
    assert weights.load_model(module, tmp_path / "model") == ([], [])
    assert raw(module[1].weight) == raw(torch.full((4, 4), 7.0))


@pytest.mark.parametrize("index", [
    "[]", "{}", "nonsense", '{"weight_map": []}', '{"weight_map": {"0.weight": 7}}',
    '{"weight_map": {"0.weight": "../elsewhere.safetensors"}}', '{"weight_map": {"0.weight": "/etc/passwd"}}',
    '{"weight_map": {"0.weight": ".."}}', '{"weight_map": {"0.weight": "a\\u0000b"}}',
    '{"weight_map": {"no such": "model-00001-of-00003.safetensors"}}', "[" * 100_000,
])
def test_an_index_that_makes_no_sense_is_refused(sharded, index):
    (sharded[0] / weights.INDEX).write_text(index)
    with pytest.raises(weights.WeightsError):
        weights.Weights(sharded[0])
