"""The arguments that pipelines share, and the options of format("barnabas") made from them.

Each pipeline adds its own arguments to these.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Final

from pyspark_barnabas.wire.errors import BadOption

MASTER: Final = "local[*]"
BOOTSTRAP: Final = "127.0.0.1:9092"


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every pipeline."""
    group = parser.add_argument_group("every pipeline")
    group.add_argument("--master", metavar="URL", help=f"Spark's master; default: {MASTER}")
    group.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", default=[], type=assignment,
        help="a Spark setting, such as spark.driver.memory=4g; may be repeated",
    )  # fmt: skip
    group.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    group.add_argument("--quiet", action="store_true", help="show no progress")
    group.add_argument("--trace", action="store_true", help="show the full trace of an error")


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which topics to read, and from where."""
    group = parser.add_argument_group("source")
    add_bootstrap(group)
    which = group.add_mutually_exclusive_group()
    which.add_argument("--topic", metavar="NAME[,NAME]", help="topics to read")
    which.add_argument("--pattern", metavar="REGEX", help="read topics whose names match")
    group.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], type=assignment,
        help='any option of format("barnabas"), such as startingOffsets; may be repeated',
    )  # fmt: skip


def add_bootstrap(arguments: argparse._ActionsContainer) -> None:
    """Add --bootstrap to a parser or an argument group."""
    arguments.add_argument(
        "--bootstrap", metavar="HOST:PORT",
        help=f"a listener of the broker; default: $BARNABAS_BOOTSTRAP, else {BOOTSTRAP}",
    )  # fmt: skip


def bootstrap(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """Return the HOST:PORT of --bootstrap, else of the environment, else BOOTSTRAP."""
    return arguments.bootstrap or environment.get("BARNABAS_BOOTSTRAP") or BOOTSTRAP


def assignment(text: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE, for argparse."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return name, value


def source_options(
    arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the options of format("barnabas") for these arguments. Raises BadOption."""
    options = dict(arguments.option)
    if "kafka.bootstrap.servers" not in options:
        options["kafka.bootstrap.servers"] = bootstrap(arguments, environment)
    if arguments.topic:
        options["subscribe"] = arguments.topic
    elif arguments.pattern:
        options["subscribePattern"] = arguments.pattern
    elif not {"subscribe", "subscribepattern", "assign"} & {name.lower() for name in options}:
        raise BadOption("no topic is named: give --topic NAME, or --pattern REGEX for several")
    return options
