"""`barnabas certificates`: an authority and a broker's certificate, in one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from client.commands.careful_command import CarefulGroup
from client.commands.output import show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

HOSTS = ("localhost", "127.0.0.1")
DAYS_MAX = 36_500


@click.group(cls=CarefulGroup)
def certificates() -> None:
    """Make certificates for listeners with TLS."""


def _hosts(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    from client.files.made_certificates import checked_host

    try:
        return tuple(dict.fromkeys(map(checked_host, values or HOSTS)))
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


@certificates.command()
@click.argument("hosts", metavar="[HOST]...", nargs=-1, callback=_hosts)
@click.option(
    "--directory",
    metavar="DIR",
    default=".",
    type=click.Path(),
    help="Where the files go; made if it is missing. The default is the current directory.",
)
@click.option(
    "--days",
    metavar="COUNT",
    type=click.IntRange(1, DAYS_MAX),
    default=365,
    show_default=True,
    help="How long the broker's certificate is valid.",
)
@click.option(
    "--authority-days",
    metavar="COUNT",
    type=click.IntRange(1, DAYS_MAX),
    default=3_650,
    show_default=True,
    help="How long the authority is valid.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(
    hosts: tuple[str, ...], *, directory: str, days: int, authority_days: int, as_json: bool
) -> None:
    """Make an authority, and a certificate that it issues to the broker on the HOSTs.

    HOSTs are the names and addresses by which clients connect; without them, localhost and
    127.0.0.1. Clients trust authority.pem. No file is overwritten. The keys are not encrypted: keep
    authority.key to yourself, since its owner can pass for your broker.
    """
    from client.files.made_certificates import NotMade, make_certificates

    try:
        paths = make_certificates(directory, hosts, days, authority_days)
    except NotMade as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from None
    authority_key, authority, key, certificate = paths
    if as_json:
        show_json(
            {
                "hosts": list(hosts),
                "certificate": certificate,
                "key": key,
                "authority": authority,
                "authority_key": authority_key,
            }
        )
        return
    click.echo(f"Made a certificate for {', '.join(hosts)}, valid for {days} days:")
    click.echo(f"  {certificate} and {key} for the broker:")
    click.echo(f"    --set ssl.certificate={certificate} --set ssl.key={key}")
    click.echo(f"  {authority} for its clients:")
    click.echo(f"    ssl.truststore.location={authority}")
    click.echo(f"  {authority_key}, which signs: keep it to yourself.")
