"""From the sources to one valid BrokerConfig: read, choose, parse and check the values.

A bad value is an error: ConfigError names the key, the value, its origin and the allowed values. An
unknown key in a file or the environment is a warning that names the closest known key, because a
Kafka's server.properties may hold the keys of plugins. On the command line it is an error, since
this broker loads no plugins. Keys without effect are reported by name. Those that promise security
(TLS, an authorizer) are reported as warnings, because an operator relies on them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from config.broker import BrokerConfig, broker_keys
from config.errors import ConfigError
from config.keys import Key, Synonym, Update, read_value
from config.known_keys import declared, is_known, is_secret, known_names, update_mode
from config.listener_keys import LISTENER_PREFIX, key_behind, split_prefix
from config.providers import refers, resolved, unnamed
from config.secret_files import with_secret_files
from config.sources import (
    Origin,
    Setting,
    Source,
    closest,
    from_command_line,
    from_environment,
    from_file,
    pick,
    strongest,
)
from config.topic import TopicConfig, topic_keys
from config.values import Parsed
from config.without_effect import group_of

JAAS_KEY = "sasl.jaas.config"
# Who may log in: a recorded change of these that cannot be used is no reason to go back.
_ONLY_AS_RECORDED = (".sasl.jaas.config", ".sasl.enabled.mechanisms")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and its origins.

    `static` and `dynamic` hold the given settings by the name they were given under, each from its
    strongest source. `warnings` are sentences for the operator. `without_effect` names the given
    keys that have no effect.
    """

    config: BrokerConfig
    static: Mapping[str, Setting]
    dynamic: Mapping[str, Setting] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings in effect, by the name they were given under."""
        return {**self.static, **self.dynamic}

    def origin(self, name: str) -> Origin:
        """Return the origin of a broker key's value; `name` is any of its names."""
        settings = self.settings
        for described, names in declared():
            if name == described.name or name in names:
                setting = pick(settings, names)
                if setting is not None:
                    return setting.origin
        return Origin(Source.DEFAULT, "default")

    def with_dynamic(self, values: Mapping[str, str]) -> Loaded:
        """Return the configuration with values that were set while the broker ran (KIP-226).

        `values` holds all of them by the broker's key names, and replaces earlier dynamic ones.
        Raises ConfigError for an unknown key, a read-only key and a bad value.
        """
        dynamic = {}
        for name, text in values.items():
            update = update_mode(name)
            if update is None:
                # It may be a secret of whatever it was meant for.
                raise ConfigError("unknown broker config name", key=name, value="(hidden)")
            if update is Update.READ_ONLY:
                reason = "this key cannot be changed while the broker runs"
                raise ConfigError(reason, key=name, value=text)
            if refers(text, self.static):
                reason = "variables of config.providers hold only in values that are set at start"
                raise ConfigError(reason, key=name, value="(a variable)")
            dynamic[name] = Setting(name, text, Origin(Source.DYNAMIC, "dynamic"))
        config = _build({**self.static, **dynamic})
        return dataclasses.replace(self, config=config, dynamic=dynamic)

    def changed(self, other: Loaded) -> tuple[list[str], list[str]]:
        """Return the static settings that differ in `other`: those that can change now, and others.

        Names that this broker does not know, or that have no effect, are in neither.
        """
        now: list[str] = []
        later: list[str] = []
        for name in sorted({*self.static, *other.static}):
            before, after = self.static.get(name), other.static.get(name)
            update = update_mode(name)
            if update is None or (before and before.text) == (after and after.text):
                continue
            (later if update is Update.READ_ONLY else now).append(name)
        return now, later

    def with_static(self, other: Loaded, names: Iterable[str]) -> Loaded:
        """Return the configuration with those static settings of `other`. Raises ConfigError."""
        changed = set(names)
        static = {
            name: other.static[name]
            if name in other.static and other.static[name].text == setting.text
            else setting  # or only its line in the file is another
            for name, setting in self.static.items()
            if name not in changed
        }
        static |= {name: other.static[name] for name in sorted(changed) if name in other.static}
        config = _build({**static, **self.dynamic})
        return dataclasses.replace(self, static=static, config=config)

    def with_usable_dynamic(self, values: Mapping[str, str]) -> tuple[Loaded, list[str]]:
        """Return the configuration with those of `values` that can be used, and why others cannot.

        For values that are recorded already: Kafka, or another version of this broker, may have
        accepted what this one does not know. Keys without effect are left out in silence. Raises
        ConfigError if a listener would take clients that it was told to refuse.
        """
        held = {name: text for name, text in values.items() if group_of(name) is None}
        try:
            return self.with_dynamic(held), []
        except ConfigError:
            pass
        usable, refused = self._usable(held)
        for name, reason in refused.items():
            if (name.endswith("ssl.client.auth") and held[name] != "none") or name.endswith(
                _ONLY_AS_RECORDED
            ):  # never open a listener by an older value
                raise ConfigError(f"{name} was set while the broker ran, but: {reason}")
        return self.with_dynamic(usable), list(refused.values())

    def _usable(self, values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the values that can be used together, and by name why others cannot."""
        usable: dict[str, str] = {}
        waiting = dict(values)
        while True:  # one may need another that comes later
            refused: dict[str, str] = {}
            for name, text in waiting.items():
                try:
                    self.with_dynamic({**usable, name: text})
                except ConfigError as error:
                    refused[name] = str(error)
                else:
                    usable[name] = text
            if len(refused) == len(waiting):
                return usable, refused
            waiting = {name: values[name] for name in refused}


def load(
    *,
    file: str | None = None,
    environment: Mapping[str, str] | None = None,
    set_values: Sequence[str] = (),
    data_dir: str | None = None,
) -> Loaded:
    """Return the configuration from a properties file, the environment and the command line.

    `set_values` are KEY=VALUE texts, `data_dir` stands for `log.dirs` on the command line.
    Raises ConfigError.
    """
    settings: list[Setting] = []
    warnings: list[str] = []
    if file is not None:
        found, odd = from_file(file)
        settings += found
        warnings += odd
    if environment:
        environment = with_secret_files(environment, is_secret)
        found, odd = from_environment(environment, is_known, known_names())
        settings += found
        warnings += odd
    settings += from_command_line(set_values, data_dir)
    held = strongest(settings)
    warnings += unnamed(held)
    _refuse_typing_mistakes(held)
    held, texts = resolved(held, environment or {})
    warnings += [_unknown(setting) for setting in held.values() if not is_known(setting.name)]
    warnings += [_unsafe(setting) for setting in held.values() if _promises_safety(setting)]
    try:
        config = _build(held)
    except ConfigError as error:
        raise _without_secret(error, held, texts) from None
    warnings += _of_no_listener(held, config)
    warnings += [_of_no_mechanism(setting) for setting in held.values() if _lacks_one(setting)]
    return Loaded(
        config=config,
        static=held,
        warnings=tuple(warnings),
        without_effect=_without_effect(held),
    )


def _build(held: Mapping[str, Setting]) -> BrokerConfig:
    _refuse_two_ids(held)
    try:
        topic_defaults = TopicConfig(**_values(held, topic_keys(), own_names=False))
        values = _values(held, broker_keys(), own_names=True)
        listeners = _listener_values(held)
        return BrokerConfig(**values, topic_defaults=topic_defaults, listener_values=listeners)
    except ConfigError as error:
        raise _with_source(error, held) from None


def _values(
    held: Mapping[str, Setting], keys: Mapping[str, Key], *, own_names: bool
) -> dict[str, Any]:
    """Parse what was given for `keys`, by attribute; a topic's own names are not the broker's."""
    values: dict[str, Any] = {}
    for name, described in keys.items():
        by_name: dict[str, Synonym | None] = {name: None} if own_names else {}
        by_name.update({synonym.name: synonym for synonym in described.synonyms})
        setting = pick(held, tuple(by_name))
        if setting is not None:
            synonym = by_name[setting.name]
            values[described.attribute] = read_value(
                described, setting.text, str(setting.origin), synonym
            )
    return values


def _listener_values(held: Mapping[str, Setting]) -> dict[str, dict[str, Parsed]]:
    """Parse the values that listeners have for themselves, by listener and key."""
    found: dict[str, dict[str, Parsed]] = {}
    for name, setting in held.items():
        parts, described = split_prefix(name), key_behind(name)
        if parts is None or described is None:
            continue
        try:
            value = read_value(described, setting.text, str(setting.origin))
        except ConfigError as error:
            raise ConfigError(
                error.reason,
                key=name,
                value=error.value,
                source=error.source,
                allowed=error.allowed,
            ) from None
        found.setdefault(parts.listener, {})[parts.key] = value
    return found


def _refuse_two_ids(held: Mapping[str, Setting]) -> None:
    node, broker = held.get("node.id"), held.get("broker.id")
    if node and broker and node.text.strip() != broker.text.strip():
        raise ConfigError(
            f"differs from node.id={node.text.strip()}",
            key="broker.id",
            value=broker.text.strip(),
            source=str(broker.origin),
            allowed="the same number as node.id, or only one of them",
        )


def _with_source(error: ConfigError, held: Mapping[str, Setting]) -> ConfigError:
    """Add to a cross-key refusal the name and the origin that its key was given with."""
    if error.source or not error.key:
        return error
    names: tuple[str, ...] = (error.key,)
    if key_behind(error.key) is None:
        found = (names for described, names in declared() if described.name == error.key)
        names = next((names for names in found if pick(held, names)), ())
    setting = pick(held, names)
    if setting is not None:
        return ConfigError(
            error.reason,
            key=setting.name,
            value=error.value,
            source=str(setting.origin),
            allowed=error.allowed,
        )
    return error


def _without_secret(
    error: ConfigError, held: Mapping[str, Setting], texts: Mapping[str, str]
) -> ConfigError:
    """Return an error that shows a variable where its value is shown; `texts` have variables."""
    if error.key not in texts or not error.value or error.value == "(hidden)":
        return error
    return ConfigError(
        "the value of this variable is not allowed",
        key=error.key,
        value=texts[error.key],
        source=error.source or str(held[error.key].origin),
        allowed=error.allowed,
    )


def _refuse_typing_mistakes(held: Mapping[str, Setting]) -> None:
    for setting in held.values():
        if setting.origin.source is Source.COMMAND_LINE and not is_known(setting.name):
            raise ConfigError(
                f"this broker has no such key{_meant(setting.name)}",
                key=setting.name,
                value=setting.text,
                source=str(setting.origin),
            )


def _of_no_listener(held: Mapping[str, Setting], config: BrokerConfig) -> list[str]:
    """Warn of keys for listeners that do not exist: a misspelt name would go unnoticed."""
    names = {listener.name for listener in config.served_listeners}
    names |= {name.upper() for name in config.controller_listener_names}
    parts = ((setting, split_prefix(setting.name)) for setting in held.values())
    return [
        f"{setting.origin}: {setting.name} has no effect: there is no listener {one.listener}"
        for setting, one in parts
        if one is not None and one.listener not in names
    ]


def _lacks_one(setting: Setting) -> bool:
    """Whether a JAAS string is given for no mechanism."""
    parts = split_prefix(setting.name)
    return JAAS_KEY in (setting.name, parts.key if parts else "")


def _of_no_mechanism(setting: Setting) -> str:
    return (
        f"{setting.origin}: {setting.name} has no effect: name the listener and the mechanism, as"
        f" in {LISTENER_PREFIX}sasl_ssl.plain.{JAAS_KEY}"
    )


def _unknown(setting: Setting) -> str:
    return f"{setting.origin}: {setting.name} is unknown and ignored{_meant(setting.name)}"


def _meant(name: str) -> str:
    """Say what an unknown name was probably meant to be, as the end of a sentence."""
    topic_key = topic_keys().get(name)
    if topic_key is not None and topic_key.synonyms:
        return f": it is a topic's key; the broker's is {topic_key.synonyms[0].name}"
    if topic_key is not None:
        return ": it is a topic's key, and no key of the broker gives its default"
    near = closest(name, known_names())
    return f"; did you mean {near}?" if near else ""


def _promises_safety(setting: Setting) -> bool:
    group = group_of(setting.name)
    return group is not None and group.promises_safety and bool(setting.text.strip())


def _unsafe(setting: Setting) -> str:
    group = group_of(setting.name)
    reason = group.reason if group else ""
    return f"{setting.origin}: {setting.name} has no effect: {reason}"


def _without_effect(held: Mapping[str, Setting]) -> tuple[str, ...]:
    idle = {
        synonym.name
        for described in topic_keys().values()
        if described.no_effect
        for synonym in described.synonyms
    }
    return tuple(sorted(name for name in held if name in idle or group_of(name)))
