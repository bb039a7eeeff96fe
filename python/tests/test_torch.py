# SPDX-License-Identifier: Apache-2.0

"""Tensors of torch, on the CPU; on a GPU as well where this machine has one."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def raw(tensor):
    return bytes(tensor.cpu().contiguous().view(torch.uint8).flatten().tolist())


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def any_session(device):
    import penstock
    with penstock.Session(device="auto" if device == "cuda" else "host") as session:
        yield session


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_come_bit_for_bit(any_session, device, path, content, tmp_path, dtype):
    size = 4096 // torch.empty(0, dtype=dtype).element_size()
    tensor = torch.zeros(size, dtype=dtype, device=device)
    with any_session.open(path) as file:
        assert file.read(tensor, 64).bytes == 4096
    assert raw(tensor) == content[64:64 + 4096]
    with any_session.create(tmp_path / "copy") as made:
        made.write(tensor)
    assert (tmp_path / "copy").read_bytes() == content[64:64 + 4096]


def test_views_count_as_what_they_are(any_session, device, path, content):
    tensor = torch.zeros(4, 16, dtype=torch.uint8, device=device)
    with any_session.open(path) as file:
        file.read(tensor[1])
        file.read(tensor[2:], 100)
        with pytest.raises(ValueError, match="contiguous"):
            file.read(tensor[:, ::2])
        with pytest.raises(ValueError, match="contiguous"):
            file.read(tensor.t())
    assert raw(tensor) == bytes(16) + content[:16] + content[100:132]


def test_what_torch_only_pretends_is_refused(any_session, device, tmp_path):
    with any_session.open(tmp_path / "new", "w") as file:
        for tensor in (torch.ones(4, dtype=torch.complex64, device=device).conj(),
                       torch._neg_view(torch.ones(4, device=device))):
            with pytest.raises(ValueError, match="resolve_conj"):
                file.write(tensor)


def test_parameters_and_empty_and_0d_tensors(any_session, device, path, content):
    parameter = torch.nn.Parameter(torch.zeros(8, device=device))
    scalar = torch.zeros((), dtype=torch.int64, device=device)
    with any_session.open(path) as file:
        assert file.read(parameter).bytes == 32
        assert file.read(torch.empty(0, device=device)).bytes == 0
        assert file.read(scalar, 8).bytes == 8
    assert raw(parameter.detach()) == content[:32]
    assert scalar.item() == int.from_bytes(content[8:16], "little", signed=True)


def test_a_tensor_that_is_nowhere_is_refused(any_session, path):
    with any_session.open(path) as file, pytest.raises(TypeError, match="neither in the memory of the CPU"):
        file.read(torch.empty(4, device="meta"))


def test_tensors_are_read_without_waiting(any_session, device, path, content):
    tensors = [torch.zeros(4096, dtype=torch.uint8, device=device) for _ in range(16)]
    with any_session.open(path) as file:
        futures = [file.read_async(tensor, i * 4096) for i, tensor in enumerate(tensors)]
        assert sum(future.result(30).bytes for future in futures) == 65536
    assert b"".join(raw(tensor) for tensor in tensors) == content[:65536]


@pytest.mark.skipif("cuda" not in DEVICES, reason="this machine has no GPU for torch")
def test_on_a_gpu_requests_take_their_turn_on_the_current_stream(path, content, tmp_path):
    import penstock
    with penstock.Session() as session:
        tensor = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            tensor.fill_(7)
            with session.open(tmp_path / "sevens", "w") as file:
                file.write(tensor)
            torch.cuda._sleep(200_000_000)
            seen_before = tensor.clone()
            with session.open(path) as file:
                future = file.read_async(tensor)
                seen_after = tensor.clone()
                stream.synchronize()
                future.result(30)
        assert (tmp_path / "sevens").read_bytes() == b"\x07" * (1 << 20)
        assert raw(seen_before) == b"\x07" * (1 << 20)
        assert raw(seen_after) == content
