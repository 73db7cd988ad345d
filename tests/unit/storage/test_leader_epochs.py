"""Leader epochs: assignment, lookups and cuts, as Kafka's LeaderEpochFileCache answers."""

import pytest

from storage.leader_epochs import LeaderEpochs

THREE = [(2, 10), (4, 30), (7, 60)]


@pytest.mark.parametrize(
    ("name", "epoch", "start", "after"),
    [
        ("a newer one", 8, 90, [*THREE, (8, 90)]),
        ("the latest again", 7, 95, THREE),
        ("a known one again", 4, 30, THREE),
        ("a newer one at the same start", 8, 60, [(2, 10), (4, 30), (8, 60)]),
        ("a newer one further back", 8, 30, [(2, 10), (8, 30)]),
        ("an older one", 3, 70, [(2, 10), (3, 70)]),
        ("before all", 1, 5, [(1, 5)]),
    ],
)
def test_assign(name, epoch, start, after):
    epochs = LeaderEpochs(THREE)
    changed = epochs.assign(epoch, start)
    assert epochs.entries() == after, name
    assert changed is (after != THREE)
    assert epochs.is_dirty is changed


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_assign_refuses_impossible_epochs(epoch, start):
    with pytest.raises(ValueError, match="expected both >= 0"):
        LeaderEpochs().assign(epoch, start)


@pytest.mark.parametrize(
    ("name", "entries", "epoch", "answer"),
    [
        ("the latest ends with the log", THREE, 7, (7, 100)),
        ("an older one ends where the next begins", THREE, 4, (4, 60)),
        ("one between is answered under the one below", THREE, 5, (4, 60)),
        ("the first", THREE, 2, (2, 30)),
        ("one below all", THREE, 1, (1, 10)),
        ("one above all", THREE, 8, (-1, -1)),
        ("none asked", THREE, -1, (-1, -1)),
        ("none known", [], 0, (-1, -1)),
    ],
)
def test_end_offset_for(name, entries, epoch, answer):
    assert LeaderEpochs(entries).end_offset_for(epoch, 100) == answer, name


@pytest.mark.parametrize(
    ("offset", "epoch"), [(9, -1), (10, 2), (29, 2), (30, 4), (60, 7), (10_000, 7)]
)
def test_epoch_of(offset, epoch):
    assert LeaderEpochs(THREE).epoch_of(offset) == epoch


@pytest.mark.parametrize(
    ("start", "after"),
    [
        (5, THREE),
        (10, THREE),
        (11, [(2, 11), (4, 30), (7, 60)]),
        (30, [(4, 30), (7, 60)]),
        (45, [(4, 45), (7, 60)]),
        (900, [(7, 900)]),
    ],
)
def test_drop_before(start, after):
    epochs = LeaderEpochs(THREE)
    epochs.drop_before(start)
    assert epochs.entries() == after
    assert epochs.is_dirty is (after != THREE)


@pytest.mark.parametrize(
    ("end", "after"), [(61, THREE), (60, THREE[:2]), (31, THREE[:2]), (30, THREE[:1]), (0, [])]
)
def test_drop_from(end, after):
    epochs = LeaderEpochs(THREE)
    epochs.drop_from(end)
    assert epochs.entries() == after
    assert epochs.latest == (after[-1][0] if after else -1)
