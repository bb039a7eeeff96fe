# SPDX-License-Identifier: Apache-2.0

"""penstock.weights without torch: in a Python that cannot import it."""

import sys

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

import penstock
from penstock import weights
from penstock.weights import numpy as numpy_weights


@pytest.fixture(autouse=True)
def no_torch(monkeypatch):
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError):
        import torch  # noqa: F401


DTYPES = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
          "float64", "complex64"]


def some(dtype, *shape):
    generator = np.random.default_rng(7)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return generator.integers(0, 256, nbytes, np.uint8).view(dtype).reshape(shape)


@pytest.fixture
def model(tmp_path):
    arrays = {dtype: some(dtype, 3, 5) for dtype in DTYPES}
    arrays |= {"empty": np.zeros((0, 4), np.float32), "0d": np.array(1.5), "large": some("float32", 333, 257)}
    numpy_weights.save_file(arrays, tmp_path / "model", {"format": "np"})
    return tmp_path / "model", arrays


def same(left, right):
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes() for name in right)


def test_arrays_come_back_as_they_were_saved(model):
    assert same(numpy_weights.load_file(model[0]), model[1])


def test_the_stock_package_reads_what_we_save_and_we_what_it_saves(model, tmp_path):
    rival = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    path, arrays = model
    assert same(rival.load_file(path), arrays)
    rival.save_file(arrays, tmp_path / "theirs")
    assert same(numpy_weights.load_file(tmp_path / "theirs"), arrays)


def test_parts_slices_and_conversion(model):
    path, arrays = model
    plan = weights.Weights(path).plan(["large", "int32"], parts={"large": weights.Part(1, 3, 200)}, framework="np",
                                      dtype=np.dtype("float16"))
    with np.errstate(all="ignore"):
        loaded = plan.load()
        assert same(loaded, {"large": arrays["large"][:, 3:200].astype(np.float16), "int32": arrays["int32"]})
    with weights.safe_open(path, framework="np") as opened:
        assert same({"x": opened.get_tensor("float64")}, {"x": arrays["float64"]})
        assert same({"x": opened.get_slice("large")[5:9, ::2]}, {"x": arrays["large"][5:9, ::2]})


def test_what_numpy_has_no_type_for_is_told_or_comes_by_ml_dtypes(tmp_path):
    header = b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    (tmp_path / "model").write_bytes(len(header).to_bytes(8, "little") + header + b"\x80\x3f\x00\x40")
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(weights.WeightsError, match="install ml_dtypes"):
            numpy_weights.load_file(tmp_path / "model")
    else:
        loaded = numpy_weights.load_file(tmp_path / "model")["a"]
        assert loaded.dtype == ml_dtypes.bfloat16 and loaded.tolist() == [1.0, 2.0]
        numpy_weights.save_file({"a": loaded}, tmp_path / "ours")
        assert same(numpy_weights.load_file(tmp_path / "ours"), {"a": loaded})


def test_big_endian_arrays_are_saved_as_the_format_has_them(tmp_path):
    given = {"a": np.arange(6, dtype=">f4").reshape(2, 3), "b": np.arange(5, dtype=">i2"), "c": np.zeros(0, ">u8")}

    numpy_weights.save_file(given, tmp_path / "model")

    loaded = numpy_weights.load_file(tmp_path / "model")
    assert all(array.dtype.isnative and (array == given[name]).all() for name, array in loaded.items())
    assert given["a"].dtype == ">f4" and loaded["a"].shape == (2, 3)


def test_what_cannot_be_saved_or_loaded_is_refused_by_name(tmp_path, model):
    for array, sentence in ((np.zeros((4, 4)).T[1:], "not contiguous"),
                            (np.zeros(3, "complex128"), "no dtype complex128"), (np.array(["a"]), "no dtype")):
        with pytest.raises(weights.WeightsError, match=f"'a'.*{sentence}"):
            numpy_weights.save_file({"a": array}, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    with pytest.raises(weights.WeightsError, match="'tf': expected 'pt' or 'np'"):
        weights.safe_open(model[0], framework="tf")
    with pytest.raises(weights.WeightsError, match="'cuda'.*on 'cpu'"):
        weights.Weights(model[0]).plan(framework="np", device="cuda")


def test_what_does_not_fit_is_refused_before_the_first_byte(model, monkeypatch):
    monkeypatch.setattr(weights.arrays.NumpyArrays, "free_bytes", lambda self: 1000)
    with penstock.Session(device="host") as session:
        with pytest.raises(MemoryError, match="1000 are free: nothing was read"):
            weights.Weights(model[0]).plan(framework="np", session=session).load()
        assert session.counters() == []
