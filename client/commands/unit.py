"""`barnabas unit`: units of systemd, hardened, watched, and restarted without refusals."""

from __future__ import annotations

import os
import sys

import click

from client.commands.careful_command import CarefulCommand

SERVICE = """\
[Unit]
Description=Barnabas, a log broker that speaks Kafka's protocol
After=network-online.target
Wants=network-online.target
{requires}
[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
User={user}
Group={user}
Restart=on-failure
RestartSec=1
# The event loop says that it turns; a broker that hangs is killed and recovers.
WatchdogSec=60
# Recovery after a crash reads what was written last; it takes as long as it takes.
TimeoutStartSec=infinity
TimeoutStopSec={stop_s}
LimitNOFILE=1048576
OOMScoreAdjust=-500

NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={data}
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0027

[Install]
WantedBy=multi-user.target
"""
SOCKET = """\
[Unit]
Description=The sockets of Barnabas: connections wait here while the broker is replaced

[Socket]
{streams}
Backlog=4096
NoDelay=yes

[Install]
WantedBy=sockets.target
"""

STOP_SPARE_S = 60  # after the deadline for requests: what is left is written and closed


@click.command(cls=CarefulCommand)
@click.option("--config", "file", metavar="FILE", help="The broker's properties file.")
@click.option("--data", "data_dir", metavar="DIR", help="The data directory; sets log.dirs.")
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Set one key; repeatable."
)
@click.option("--user", default="barnabas", show_default=True, help="The user that it runs as.")
@click.option(
    "--socket", "with_socket", is_flag=True, help="systemd binds the listeners (a second unit)."
)
@click.option(
    "--write", "directory", metavar="DIR", type=click.Path(file_okay=False, exists=True),
    help="Write barnabas.service and barnabas.socket there, such as /etc/systemd/system.",
)  # fmt: skip
def unit(
    file: str | None,
    data_dir: str | None,
    assignments: tuple[str, ...],
    user: str,
    *,
    with_socket: bool,
    directory: str | None,
) -> None:
    """Print a systemd service for the broker that these options of `barnabas serve` describe.

    With --socket, systemd binds the listeners and keeps them while the broker is stopped: during
    `systemctl restart` connections wait, and none is refused.
    """
    from config.errors import ConfigError
    from config.listeners import WILDCARDS
    from config.load import load

    try:
        config = load(file=file, set_values=assignments, data_dir=data_dir).config
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    words = [*_program(), "serve"]
    if file is not None:
        words += ["--config", os.path.abspath(file)]
    data = os.path.abspath(config.data_directory)
    if data_dir is not None or not config_names_data(file):
        words += ["--data", data]
    for assignment in assignments:
        words += ["--set", assignment]
    requires = "Requires=barnabas.socket\nAfter=barnabas.socket\n" if with_socket else ""
    paths = [data]
    if config.barnabas_log_file:
        paths.append(os.path.dirname(os.path.abspath(config.barnabas_log_file)))
    units = {
        "barnabas.service": SERVICE.format(
            command=" ".join(map(quoted, words)),
            user=user,
            data=" ".join(quoted(path, is_command=False) for path in paths),
            requires=requires,
            stop_s=config.barnabas_shutdown_deadline_ms // 1_000 + STOP_SPARE_S,
            home="read-only" if any(map(_is_at_home, [*words, *paths])) else "yes",
        )
    }
    if with_socket:
        listeners = [one for one in (*config.served_listeners, config.http) if one and one.port]
        streams = "\n".join(
            f"ListenStream={_address('' if one.host in WILDCARDS else one.host, one.port)}"
            for one in listeners
        )
        units["barnabas.socket"] = SOCKET.format(streams=streams)
    for name, text in units.items():
        if directory is None:
            click.echo(f"# {name}\n{text}")
            continue
        path = os.path.join(directory, name)
        with open(path, "w", encoding="utf-8") as made:
            made.write(text)
        click.echo(f"Wrote {path}.")


def config_names_data(file: str | None) -> bool:
    """Whether the properties file names the data directory itself."""
    from config.load import load
    from config.sources import Source

    return file is not None and load(file=file).origin("log.dirs").source is Source.FILE


def _is_at_home(path: str) -> bool:
    """Whether a path is below what ProtectHome=yes hides. What is written there is still named."""
    return os.path.realpath(path).startswith(("/home/", "/root/", "/run/user/"))


def _program() -> list[str]:
    """Return how this command was started, by an absolute path."""
    path = os.path.abspath(sys.argv[0])
    if os.path.basename(path) == "barnabas" and os.access(path, os.X_OK):
        return [path]
    return [sys.executable, "-m", "barnabas"]


def quoted(word: str, *, is_command: bool = True) -> str:
    """Return a word as a unit has it: specifiers and variables are escaped, blanks quoted.

    Only command lines have variables.
    """
    written = word.replace("\\", "\\\\").replace("%", "%%")
    if is_command:
        written = written.replace("$", "$$")
    if not word or any(char.isspace() or char in "\"';" for char in word):
        for char, escape in (('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            written = written.replace(char, escape)
        return f'"{written}"'
    return written


def _address(host: str, port: int) -> str:
    """Return what ListenStream= takes. Raises click.UsageError: systemd looks up no names."""
    from broker.lifecycle.service_manager import addresses_of
    from config.listeners import address_text

    if not host:
        return str(port)
    found = sorted(addresses_of(host), key=lambda one: ":" in one)
    if not found:
        raise click.UsageError(f"{host} has no address, and systemd needs one: change `listeners`.")
    return address_text(found[0], port)
