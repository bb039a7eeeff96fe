# SPDX-License-Identifier: Apache-2.0

"""Batches as tensors of torch, and by its DataLoader."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import penstock
from penstock import data
from penstock.data.torch import Dataset


@pytest.fixture
def prefetcher(tmp_path, session):
    np.arange(64 * 8, dtype=np.int32).tofile(tmp_path / "tokens.bin")
    index = data.RecordIndex.tokens([tmp_path / "tokens.bin"], 8, dtype="int32")
    with data.Prefetcher(index, 4, session=session, device="cpu") as made:
        yield made


def taken(batches):
    return [batch.clone() for batch in batches]


def test_the_loader_gives_the_prefetchers_batches(prefetcher):
    alone = taken(prefetcher)
    prefetcher.set_epoch(0)
    loader = torch.utils.data.DataLoader(Dataset(prefetcher), batch_size=None)
    loaded = taken(loader)
    assert len(loader) == len(loaded) == 16
    assert loaded[0].dtype == torch.int32 and loaded[0].shape == (4, 8)
    assert all(torch.equal(one, other) for one, other in zip(alone, loaded, strict=True))


def test_every_epoch_of_a_loader_has_all_of_its_batches(prefetcher):
    loader = torch.utils.data.DataLoader(Dataset(prefetcher), batch_size=None)
    epochs = [taken(loader) for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [16] * 3
    assert len({tuple(torch.cat(epoch)[:, 0].tolist()) for epoch in epochs}) == 3


def test_a_loader_resumes(prefetcher):
    dataset = Dataset(prefetcher)
    whole = taken(torch.utils.data.DataLoader(dataset, batch_size=None))
    prefetcher.set_epoch(0)
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=None))
    for _ in range(5):
        next(batches)
    state = dataset.state_dict()
    next(batches)
    dataset.load_state_dict(state)
    rest = taken(torch.utils.data.DataLoader(dataset, batch_size=None))
    assert all(torch.equal(one, other) for one, other in zip(whole[5:], rest, strict=True))


@pytest.mark.parametrize("start,workers", [("fork", 3), ("spawn", 1)])
def test_workers_give_the_same_batches_in_the_same_order(prefetcher, start, workers):
    dataset = Dataset(prefetcher)
    expected = [taken(dataset), taken(dataset)]
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=start,
                                         persistent_workers=True)
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        assert len(loader) == 16
        assert all(torch.equal(one, other) for one, other in zip(expected[epoch], loader, strict=True))


def test_workers_go_on_at_a_state(prefetcher):
    dataset = Dataset(prefetcher)
    whole = taken(dataset)
    dataset.set_epoch(1)
    dataset.load_state_dict({**dataset.state_dict(), "epoch": 0, "position": 5})
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
    assert all(torch.equal(one, other) for one, other in zip(whole[5:], loader, strict=True))


def test_a_worker_has_no_state(prefetcher):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    loader = stateful.StatefulDataLoader(Dataset(prefetcher), batch_size=None, num_workers=1)
    with pytest.raises(penstock.UnsupportedError, match="take the state of .* in a worker"):
        list(loader)


def test_pinned_batches_come_without_workers(prefetcher, monkeypatch):
    monkeypatch.setitem(prefetcher._options, "pin_memory", True)
    with pytest.raises(penstock.UnsupportedError, match="num_workers is not 0"):
        list(torch.utils.data.DataLoader(Dataset(prefetcher), batch_size=None, num_workers=1))


@pytest.mark.parametrize("stored,taken_as", [("uint16", torch.int32), ("uint32", torch.int64), ("int64", torch.int64)])
def test_tokens_come_in_a_dtype_that_an_embedding_takes(tmp_path, session, stored, taken_as):
    numbers = np.array([*range(60), 60000, 65535, 2, 3], stored)
    numbers.tofile(tmp_path / "tokens.bin")
    index = data.RecordIndex.tokens([tmp_path / "tokens.bin"], 8, dtype=stored)
    with data.Prefetcher(index, 4, session=session, device="cpu", shuffle=False) as batches:
        found = torch.cat(taken(batches))
    assert found.dtype == taken_as and found.flatten().tolist() == numbers.tolist()
    assert torch.nn.Embedding(65536, 2)(found).shape == (8, 8, 2)


@pytest.mark.parametrize("count", [0, 1, 5, 16])
def test_the_stateful_loader_goes_on_where_another_one_was(tmp_path, prefetcher, count):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")

    def loader():
        made = data.Prefetcher(prefetcher._index, 4, session=prefetcher._session, device="cpu", seed=9)
        return stateful.StatefulDataLoader(Dataset(made), batch_size=None)

    whole = taken(loader())
    first = loader()
    batches = iter(first)
    before = [next(batches).clone() for _ in range(count)]
    torch.save(first.state_dict(), tmp_path / "state.pt")
    later = loader()
    later.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=False))
    rest = taken(later)
    assert len(before) + len(rest) == 16
    assert all(torch.equal(one, other) for one, other in zip(whole, before + rest, strict=True))
