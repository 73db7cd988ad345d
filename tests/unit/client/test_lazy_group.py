"""A group that imports its subcommands when they are called."""

import sys

import click
import pytest
from click.testing import CliRunner

from client.lazy_group import LazyGroup


@pytest.fixture
def group():
    sys.modules.pop("client.commands.dump", None)
    made = LazyGroup("main", lazy={"dump": "client.commands.dump:dump"})
    made.add_command(click.Command("here"))
    return made


def test_a_subcommand_is_imported_when_it_is_called(group):
    assert "client.commands.dump" not in sys.modules
    assert group.list_commands(click.Context(group)) == ["dump", "here"]
    result = CliRunner().invoke(group, ["dump", "--help"])
    assert result.exit_code == 0
    assert "client.commands.dump" in sys.modules


def test_one_that_is_there_already_needs_no_import(group):
    assert CliRunner().invoke(group, ["here"]).exit_code == 0
    assert "client.commands.dump" not in sys.modules


@pytest.mark.parametrize(("typed", "words"), [("dmp", "dump"), ("heer", "here")])
def test_a_misspelt_one_is_answered_with_what_was_meant(group, typed, words):
    result = CliRunner().invoke(group, [typed])
    assert result.exit_code == 2
    assert words in result.output


def test_nothing_is_suggested_for_nothing_alike(group):
    result = CliRunner().invoke(group, ["qqqqqqq"])
    assert result.exit_code == 2
    assert "mean" not in result.output
