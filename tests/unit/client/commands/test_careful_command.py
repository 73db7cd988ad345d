"""Repeated options: they accumulate, or are refused."""

import click
import pytest
from click.testing import CliRunner

from client import cli
from client.commands.careful_command import CarefulCommand, CarefulGroup


@click.command(cls=CarefulCommand)
@click.option("--one", "-o", type=int)
@click.option("--many", multiple=True)
@click.option("--flag", is_flag=True)
def command(one, many, *, flag):
    click.echo(f"{one} {many} {flag}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--one", "1"), "1 () False"),
        (("--many", "a", "--many", "b"), "None ('a', 'b') False"),
        (("--flag", "--flag"), "None () True"),
    ],
)
def test_a_repeatable_option_accumulates(arguments, said):
    assert CliRunner().invoke(command, arguments).output.strip() == said


@pytest.mark.parametrize("second", ["--one", "-o"])
def test_a_single_option_given_twice_is_refused(second):
    result = CliRunner().invoke(command, ["--one", "1", second, "1"])
    assert result.exit_code == 2
    assert "--one was given 2 times, but takes one value." in result.output


def leaves(group, context):
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            assert isinstance(found, CarefulGroup), name
            yield from leaves(found, context)
        else:
            yield name, found


def test_every_command_refuses_repeated_options():
    careless = [
        name
        for name, found in leaves(cli.main, click.Context(cli.main))
        if not isinstance(found, CarefulCommand)
    ]
    assert careless == []
