"""Arguments of the command line, and the source options made from them."""

from __future__ import annotations

import argparse

import pytest

from pyspark_barnabas.jobs.arguments import (
    BOOTSTRAP,
    add_common_arguments,
    add_source_arguments,
    assignment,
    source_options,
)
from pyspark_barnabas.wire.errors import BadOption


def parse(*words):
    parser = argparse.ArgumentParser()
    add_source_arguments(parser)
    add_common_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "environment", "options"),
    [
        (["--topic", "a,b"], {},
         {"kafka.bootstrap.servers": BOOTSTRAP, "subscribe": "a,b"}),
        (["--pattern", "a.*"], {"BARNABAS_BOOTSTRAP": "h:1"},
         {"kafka.bootstrap.servers": "h:1", "subscribePattern": "a.*"}),
        (["--topic", "a", "--bootstrap", "g:2"], {"BARNABAS_BOOTSTRAP": "h:1"},
         {"kafka.bootstrap.servers": "g:2", "subscribe": "a"}),
        (["--topic", "a", "--option", "startingOffsets=earliest"], {"BARNABAS_BOOTSTRAP": "h:1"},
         {"kafka.bootstrap.servers": "h:1", "subscribe": "a", "startingOffsets": "earliest"}),
        (["--option", 'assign={"a":[0]}'], {},
         {"kafka.bootstrap.servers": BOOTSTRAP, "assign": '{"a":[0]}'}),
    ],
)  # fmt: skip
def test_arguments_become_options_of_the_format(words, environment, options):
    assert source_options(parse(*words), environment) == options


def test_a_topic_must_be_named_and_only_one_way():
    with pytest.raises(BadOption, match="no topic is named: give --topic NAME"):
        source_options(parse(), {})
    with pytest.raises(SystemExit):
        parse("--topic", "x", "--pattern", "y")
    with pytest.raises(argparse.ArgumentTypeError, match="'x' is not of the form KEY=VALUE"):
        assignment("x")
