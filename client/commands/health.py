"""`barnabas health`: whether a broker answers, for a container's HEALTHCHECK and for scripts."""

from __future__ import annotations

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import broker_options, connect, fail, refusing, show_json


@click.command(cls=CarefulCommand)
@broker_options
@refusing
def health(*, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    """Ask a broker for its versions and its cluster; exit with 0 if it answers.

    The requests pass through its listener, request queue and handlers, and need no topic.

    Exit code: 0 it answered; 1 it did not, or not in time.
    """
    from protocol.messages.metadata import MetadataRequest, MetadataResponse

    with connect(bootstrap, timeout_s) as connection:
        answer = connection.call(
            MetadataRequest(topics=[], allow_auto_topic_creation=False), MetadataResponse
        )
        api_count = len(connection.versions)
    if answer.error_code or not answer.brokers:
        fail(f"{bootstrap} answers, but knows no broker (error {answer.error_code}): not healthy")
    if as_json:
        show_json(
            {
                "healthy": True,
                "address": bootstrap,
                "cluster_id": answer.cluster_id,
                "controller_id": answer.controller_id,
                "brokers": [one.node_id for one in answer.brokers],
                "apis": api_count,
            }
        )
        return
    nodes = ", ".join(str(one.node_id) for one in answer.brokers)
    click.echo(
        f"Healthy: node {nodes} of cluster {answer.cluster_id} answers at {bootstrap} and serves "
        f"{api_count} APIs."
    )
