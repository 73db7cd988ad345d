"""Logins by SASL: what each mechanism makes of a client's tokens.

Read `mechanism`, then `plain` and `scram_server`, then `sasl_listeners`, which makes them for a
listener. No mechanism knows frames or connections (`broker.network.authentication`); to add one,
write a `Mechanism` and enter it in `sasl_listeners`.
"""
