"""The sources of values, and which of them wins.

The strongest source wins: default < file < environment < command line < dynamic. Within one source
the first name in Kafka's order of synonyms wins (`log.retention.ms` before `log.retention.minutes`
before `log.retention.hours`). Every value keeps its origin, so that an error can say where to
correct it.

Environment variables follow the rule of the apache/kafka image: `KAFKA_LOG_RETENTION_HOURS` is
`log.retention.hours` (`_` for a dot, `__` for an underscore, `___` for a dash), and `BARNABAS_…` is
the same key and beats it; Barnabas's own keys may leave out their first word
(`BARNABAS_LOG_FORMAT`). Many variables are no keys of the broker (`KAFKA_HEAP_OPTS`, Kubernetes'
service links), so only one that looks like a misspelt key causes a warning. The environment is an
argument: this module reads one file and no other global state.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from config.errors import ConfigError
from config.properties import decode, parse_properties

PREFIXES = ("KAFKA_", "BARNABAS_")  # weaker first
OWN_PREFIX = "barnabas."
# What the commands that ask a broker read: no key, and set on the same machine as the broker's.
COMMAND_VARIABLES = frozenset(
    {"BARNABAS_BOOTSTRAP", "BARNABAS_MSGPACK_BOOTSTRAP", "BARNABAS_COMMAND_CONFIG"}
)
LIKE_A_KEY = 0.9  # difflib ratio; KAFKA_HEAP_OPTS stays below for every key


class Source(enum.IntEnum):
    """Where a value came from; a greater one holds."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    COMMAND_LINE = 3
    DYNAMIC = 4


class Origin(NamedTuple):
    """A source and the place in it: a file with its line, a variable's name, an option."""

    source: Source
    where: str

    def __str__(self) -> str:
        """Return the place, as errors and logs show it."""
        return self.where


class Setting(NamedTuple):
    """A key as it was given, with its text and its origin."""

    name: str
    text: str
    origin: Origin


def from_file(path: str) -> tuple[list[Setting], list[str]]:
    """Return the settings of a properties file, and warnings for keys that stand in it twice.

    Raises ConfigError if the file cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        reason = f"the configuration file {path} cannot be read: {error.strerror}"
        raise ConfigError(reason) from error
    settings: dict[str, Setting] = {}
    warnings = []
    for entry in parse_properties(decode(data), path):
        if entry.key in settings:
            first = settings[entry.key].origin
            warnings.append(f"{path}:{entry.line}: {entry.key} replaces its value from {first}")
        origin = Origin(Source.FILE, f"{path}:{entry.line}")
        settings[entry.key] = Setting(entry.key, entry.value, origin)
    return list(settings.values()), warnings


def key_of_variable(name: str) -> str:
    """Return the key that an environment variable's name means, without its prefix."""
    spelt = name.partition("_")[2].lower()
    return spelt.replace("_", ".").replace("...", "-").replace("..", "_")


def variable_of_key(name: str, prefix: str) -> str:
    """Return the environment variable that means the key `name`."""
    spelt = name.replace("_", "__").replace("-", "___").replace(".", "_")
    return prefix + spelt.upper()


def from_environment(
    environment: Mapping[str, str], is_known: Callable[[str], bool], known: Collection[str]
) -> tuple[list[Setting], list[str]]:
    """Return the settings in `environment`, and warnings for variables that are nearly one."""
    settings = []
    warnings = []
    for prefix in PREFIXES:
        for variable in sorted(environment):
            if not variable.startswith(prefix) or variable in COMMAND_VARIABLES:
                continue
            name = key_of_variable(variable)
            if prefix == "BARNABAS_" and not is_known(name) and is_known(OWN_PREFIX + name):
                name = OWN_PREFIX + name
            if is_known(name):
                origin = Origin(Source.ENVIRONMENT, variable)
                settings.append(Setting(name, environment[variable], origin))
                continue
            if prefix == "KAFKA_":
                near = closest(name, known, LIKE_A_KEY)
            else:
                near = closest(name, [key.removeprefix(OWN_PREFIX) for key in known])
            if near or prefix == "BARNABAS_":
                meant = f"; did you mean {variable_of_key(near, prefix)}?" if near else ""
                warnings.append(f"{variable} is no key of the broker ({name}){meant}")
    return settings, warnings


def from_command_line(assignments: Sequence[str], data_dir: str | None) -> list[Setting]:
    """Return the settings of `--set KEY=VALUE` options and of `--data`; the last one holds."""
    settings = []
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            reason = f"--set {assignment}: not KEY=VALUE, such as --set num.partitions=3"
            raise ConfigError(reason)
        settings.append(Setting(name.strip(), text, Origin(Source.COMMAND_LINE, "--set")))
    if data_dir is not None:
        origin = Origin(Source.COMMAND_LINE, "--data")
        settings.append(Setting("log.dirs", data_dir, origin))
    return settings


def strongest(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Return the setting that holds for each name; among equals the later one."""
    held: dict[str, Setting] = {}
    for setting in settings:
        before = held.get(setting.name)
        if before is None or setting.origin.source >= before.origin.source:
            held[setting.name] = setting
    return held


def pick(held: Mapping[str, Setting], names: Sequence[str]) -> Setting | None:
    """Return the setting that holds among several names of one key, given best name first."""
    given = [held[name] for name in names if name in held]
    return max(given, key=lambda setting: setting.origin.source, default=None)


def closest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return the name in `known` that `name` most resembles, "" if none does."""
    import difflib  # only mistakes pay for it, not every start

    found = difflib.get_close_matches(name, known, 1, likeness)
    return found[0] if found else ""
