"""The default subscription: prefixes that clients know, and none where the operator wants none."""

from config.load import load
from config.telemetry_keys import DEFAULT_METRICS


def test_the_default_names_metrics_of_both_kinds_of_clients():
    assert len(set(DEFAULT_METRICS)) == 10
    kinds = {name.split(".")[3] for name in DEFAULT_METRICS}
    assert kinds == {"consumer", "producer"}
    assert all(name.startswith("org.apache.kafka.") for name in DEFAULT_METRICS)


def test_an_empty_value_asks_for_none():
    loaded = load(
        file=None, environment={}, set_values=["barnabas.client.metrics.default="], data_dir="x"
    )
    assert loaded.config.barnabas_client_metrics_default == ()
