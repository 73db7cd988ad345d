"""Values from files and the environment: Kafka's `config.providers` (KIP-297, KIP-632, KIP-887).

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    ssl.key.password=${file:/run/secrets/broker.properties:key.password}

A variable is `${provider:path:key}`, or `${provider:key}`, anywhere in a value. The three providers
that come with Kafka are known, by the names of their classes:

    FileConfigProvider          a key of a properties file
    DirectoryConfigProvider     a file of a directory, whole
    EnvVarConfigProvider        a variable of the environment

`param.allowed.paths` and `param.allowlist.pattern` bound what they read, as in Kafka. Unlike with
Kafka's, a variable that names nothing is an error, since a listener would take its text for a
password; and the line end of a whole file is no part of the value. Variables are replaced when the
configuration is read, at the start and by SIGHUP. A value that is set while the broker runs has
none: a client must not choose which file the broker reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from config.errors import ConfigError
from config.properties import decode, parse_properties
from config.sources import Setting
from config.values import Kind, parse

PROVIDERS: Final = "config.providers"
_PREFIX: Final = PROVIDERS + "."
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")
_USUAL: Final = ("file", "dir", "env")  # as Kafka's pages name them
_PARAMETER = re.compile(r"config\.providers\.[^.]+\.(?:class|param\.[^.].*)\Z")

Read = Callable[[str, str], str | None]  # a path and a key; None: there is no such thing


def is_parameter(name: str) -> bool:
    """Whether a name is the class or a parameter of some provider."""
    return _PARAMETER.match(name) is not None


def refers(text: str, held: Mapping[str, Setting]) -> bool:
    """Whether a text has a variable of a provider that is configured."""
    named = _named(held)
    return any(found["provider"] in named for found in _VARIABLE.finditer(text))


def resolved(
    held: Mapping[str, Setting], environment: Mapping[str, str]
) -> tuple[dict[str, Setting], dict[str, str]]:
    """Return the settings with their variables replaced, and the texts of those that had some.

    Raises ConfigError, which names the variable and never a value.
    """
    read = {name: _provider(name, held, environment) for name in _named(held)}
    found = dict(held)
    texts = {}
    for name, setting in held.items():
        if name == PROVIDERS or is_parameter(name):
            continue
        text = _replaced(setting, read)
        if text != setting.text:
            found[name] = setting._replace(text=text)
            texts[name] = setting.text
    return found, texts


def unnamed(held: Mapping[str, Setting]) -> list[str]:
    """Warn of texts that look like variables of Kafka's providers, if none is configured."""
    if PROVIDERS in held:
        return []
    return [
        f"{setting.origin}: {name} has a variable, which is taken as text: {PROVIDERS} is not set"
        for name, setting in held.items()
        if any(one["provider"] in _USUAL for one in _VARIABLE.finditer(setting.text))
    ]


def _named(held: Mapping[str, Setting]) -> tuple[str, ...]:
    setting = held.get(PROVIDERS)
    if setting is None:
        return ()
    names = parse(Kind.LIST, setting.text)
    assert isinstance(names, tuple)
    return names


def _replaced(setting: Setting, read: Mapping[str, Read]) -> str:
    def value(found: re.Match[str]) -> str:
        look = read.get(found["provider"])
        if look is None:
            return found[0]
        text = look(found["path"] or "", found["key"])
        if text is None:
            raise ConfigError(
                f"the variable {found[0]} names nothing that there is",
                key=setting.name,
                value=found[0],
                source=str(setting.origin),
            )
        return text

    try:
        return _VARIABLE.sub(value, setting.text)
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be read: {error.strerror}",
            key=setting.name,
            value="(a variable)",
            source=str(setting.origin),
        ) from None


def _provider(name: str, held: Mapping[str, Setting], environment: Mapping[str, str]) -> Read:
    of_class = held.get(f"{_PREFIX}{name}.class")
    word = of_class.text.strip() if of_class else ""
    paths = held.get(f"{_PREFIX}{name}.param.allowed.paths")
    allowed = None if paths is None else _real_paths(paths)
    if word == _PACKAGE + "FileConfigProvider":
        return _Files(allowed).read
    if word == _PACKAGE + "DirectoryConfigProvider":
        return _Directories(allowed).read
    if word == _PACKAGE + "EnvVarConfigProvider":
        pattern = held.get(f"{_PREFIX}{name}.param.allowlist.pattern")
        return _Variables(environment, pattern).read
    known = ", ".join(_PACKAGE + one + "ConfigProvider" for one in ("File", "Directory", "EnvVar"))
    raise ConfigError(
        "this broker runs no Java class",
        key=f"{_PREFIX}{name}.class",
        value=word or "(not set)",
        source=str((of_class or held[PROVIDERS]).origin),
        allowed=known,
    )


def _real_paths(setting: Setting) -> tuple[Path, ...]:
    paths = parse(Kind.LIST, setting.text)
    assert isinstance(paths, tuple)
    for path in paths:
        if not Path(path).is_absolute():
            raise ConfigError(
                "this path is not absolute",
                key=setting.name,
                value=path,
                source=str(setting.origin),
                allowed="absolute paths",
            )
    return tuple(Path(path).resolve() for path in paths)


class _Files:
    """Keys of properties files, each of which is read once."""

    def __init__(self, allowed: tuple[Path, ...] | None) -> None:
        self._allowed = allowed
        self._read: dict[str, dict[str, str]] = {}

    def read(self, path: str, key: str) -> str | None:
        if not _is_allowed(path, self._allowed):
            return None
        if path not in self._read:
            entries = parse_properties(decode(contents(path)), path)
            self._read[path] = {entry.key: entry.value for entry in entries}
        return self._read[path].get(key)


class _Directories:
    """Files of directories, whole but for their last line end."""

    def __init__(self, allowed: tuple[Path, ...] | None) -> None:
        self._allowed = allowed

    def read(self, path: str, key: str) -> str | None:
        whole = Path(path, key)
        is_name = key not in ("", ".", "..") and "/" not in key
        if not is_name or not _is_allowed(str(whole), self._allowed) or not whole.is_file():
            return None
        return without_line_end(contents(str(whole)))


class _Variables:
    """Variables of the environment."""

    def __init__(self, environment: Mapping[str, str], pattern: Setting | None) -> None:
        self._environment = environment
        try:
            self._pattern = re.compile(pattern.text if pattern else ".*", re.DOTALL)
        except re.error as error:
            assert pattern is not None
            raise ConfigError(
                f"no regular expression: {error}",
                key=pattern.name,
                value=pattern.text,
                source=str(pattern.origin),
            ) from None

    def read(self, path: str, key: str) -> str | None:
        if path or not self._pattern.fullmatch(key):
            return None
        return self._environment.get(key)


def without_line_end(data: bytes) -> str:
    """Return a file's text without its last line end, which editors and `echo` put there."""
    text = decode(data)
    return text.removesuffix("\n").removesuffix("\r")


def _is_allowed(path: str, allowed: tuple[Path, ...] | None) -> bool:
    """Whether a path, links followed, is one of the allowed ones or below it."""
    if not path:
        return False
    real = Path(path).resolve()
    return allowed is None or any(real.is_relative_to(one) for one in allowed)


def contents(path: str) -> bytes:
    """Return a file's bytes. Raises OSError."""
    with open(path, "rb") as file:
        return file.read()
