"""Quotas: what a client may use, how much it has used, and how long it is throttled for that.

Rates are private to the sensors, and only `client_quotas` decides on a request; connection rates
are in `broker.network`. Read `windowed_rate`, `quota_table`, `sensors`, then `client_quotas`.
"""
