"""Secrets of the environment that are in files: `KAFKA_SSL_KEY_PASSWORD_FILE=/run/secrets/key`.

A variable of a secret key with `_FILE` behind its name holds the path of a file, as images use it
with Docker's and Kubernetes' secrets: the environment of a process is shown by more than its own
user's tools. The whole file is the value, but for its last line end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from config.errors import ConfigError
from config.providers import contents, without_line_end
from config.sources import OWN_PREFIX, PREFIXES, key_of_variable

SUFFIX: Final = "_FILE"


def with_secret_files(
    environment: Mapping[str, str], is_secret: Callable[[str], bool]
) -> dict[str, str]:
    """Return the environment with the secrets of files in place of the files' paths.

    Raises ConfigError for a file that cannot be read, and for a secret that is given twice.
    """
    found = dict(environment)
    for variable in sorted(environment):
        if not variable.startswith(PREFIXES) or not variable.endswith(SUFFIX):
            continue
        name = variable.removesuffix(SUFFIX)
        if not _is_of_secret(name, is_secret):
            continue
        found[name] = secret_of(environment, name) or ""
        del found[variable]
    return found


def secret_of(environment: Mapping[str, str], name: str) -> str | None:
    """Return the secret in a variable, or in the file that NAME_FILE names; None without either.

    Raises ConfigError for a file that cannot be read, and for a secret that is given twice.
    """
    variable = name + SUFFIX
    path = environment.get(variable)
    if path is None:
        return environment.get(name)
    if name in environment:
        raise ConfigError(f"{variable} and {name} are both set; expected one of them")
    try:
        return without_line_end(contents(path))
    except OSError as error:
        reason = f"{variable}: {path} cannot be read: {error.strerror}"
        raise ConfigError(reason) from error


def _is_of_secret(variable: str, is_secret: Callable[[str], bool]) -> bool:
    name = key_of_variable(variable)
    return is_secret(name) or (variable.startswith("BARNABAS_") and is_secret(OWN_PREFIX + name))
