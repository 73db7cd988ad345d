"""Which changes of levels are allowed: Kafka 4.3.0's answers to the same requests."""

import pytest

from broker.metadata.feature_updates import FeatureUpdateError, Update, changed_levels

LEVELS = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
SUPPORTED = {"metadata.version": (7, 30), "group.version": (0, 1), "transaction.version": (0, 2)}
NEEDS_TYPE = "Can't downgrade the version of this feature without setting the upgrade type"

REFUSED = [
    (("nope", 1, 1), "Invalid update version 1 for feature nope. Local controller 1 does not supp"),
    (("nope", 1, 2), "Local controller 1 does not support this feature."),
    (("nope", 0, 1), "Invalid update version 0 for feature nope. Feature nope not found."),
    (("group.version", -1, 1), "A feature version cannot be less than 0."),
    (("group.version", 2, 1), "Local controller 1 only supports versions 0-1"),
    (("group.version", 0, 1), NEEDS_TYPE),
    (("group.version", 1, 0), "The controller does not support the given upgrade type."),
    (("group.version", 1, 9), "The controller does not support the given upgrade type."),
    (("metadata.version", 31, 1), "Local controller 1 only supports versions 7-30"),
    (("metadata.version", 6, 2), "Local controller 1 only supports versions 7-30"),
    (("metadata.version", 7, 1), NEEDS_TYPE),
    (
        ("metadata.version", 29, 2),
        "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform",
    ),
    (
        ("metadata.version", 29, 3),
        "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade",
    ),
]


@pytest.mark.parametrize(("update", "text"), REFUSED)
def test_refusals(update, text):
    with pytest.raises(FeatureUpdateError) as raised:
        changed_levels([Update(*update)], LEVELS, SUPPORTED, node_id=1)
    assert text in str(raised.value)


def test_an_upgrade_must_be_requested_as_an_upgrade():
    with pytest.raises(FeatureUpdateError, match="Can't downgrade to a newer version"):
        changed_levels([Update("group.version", 1, 2)], {}, SUPPORTED, node_id=1)


@pytest.mark.parametrize(
    ("updates", "changed"),
    [
        ([], {}),
        ([("group.version", 1, 1)], {}),
        ([("group.version", 1, 2)], {}),
        ([("group.version", 0, 2)], {"group.version": 0}),
        ([("group.version", 0, 3), ("transaction.version", 1, 2)],
         {"group.version": 0, "transaction.version": 1}),
        ([("group.version", 0, 2), ("group.version", 1, 1)], {}),
    ],
)  # fmt: skip
def test_changes(updates, changed):
    given = [Update(*update) for update in updates]
    assert changed_levels(given, LEVELS, SUPPORTED, node_id=1) == changed


def test_the_last_of_two_updates_of_a_feature_counts():
    updates = [Update("group.version", 1, 1), Update("group.version", 2, 1)]
    with pytest.raises(FeatureUpdateError, match="Invalid update version 2"):
        changed_levels(updates, LEVELS, SUPPORTED, node_id=1)
