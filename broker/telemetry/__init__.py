"""Metrics that clients push (KIP-714): who should push what, and the figures that they pushed.

Handlers ask `ClientTelemetry` alone. Read metric_subscriptions, client_instances, otlp,
pushed_figures, client_telemetry.
"""
