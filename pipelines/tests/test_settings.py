"""Options read as values, and refusals that name them."""

from __future__ import annotations

import pytest

from pyspark_barnabas.settings import Settings
from pyspark_barnabas.wire.errors import BadOption


def test_names_are_compared_without_case():
    settings = Settings({"MinPartitions": "3", "b": "x"})
    assert settings.integer("minpartitions", None) == settings.number("minPartitions", 1) == 3
    assert (settings.get("B"), settings.get("c", "d"), settings.names()) == (
        "x", "d", ["b", "minpartitions"],
    )  # fmt: skip


def test_what_is_not_given_is_the_default():
    settings = Settings({})
    assert (settings.integer("n", None), settings.number("n", 7)) == (None, 7)
    assert settings.boolean("b", default=True)
    assert settings.choice("c", ("x", "y"), "y") == "y"
    assert settings.duration_ms("d", "2m") == 120_000


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda settings: settings.integer("o", None, 0), "expected a whole number of at least 0"),
        (lambda settings: settings.boolean("o", default=True), "expected one of true, false"),
        (lambda settings: settings.choice("o", ("x", "y"), "x"), "expected one of x, y"),
        (lambda settings: settings.duration_ms("o", "1s"), "expected a duration such as 500ms"),
        (lambda settings: settings.json("o"), "which is not JSON"),
    ],
)
def test_a_value_of_another_form_is_refused_by_name(read, words):
    with pytest.raises(BadOption, match=f"^o is '-1 x', {words}"):
        read(Settings({"O": "-1 X".lower()}))


def test_an_option_that_cannot_be_used_here_is_refused_with_the_reason():
    with pytest.raises(BadOption, match=r"^a cannot be used here: because"):
        Settings({"A": "1"}).refuse("b", "a", reason="because")
