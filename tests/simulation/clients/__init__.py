"""The clients of the simulator: actors that speak to the broker through the network in memory.

Read `wire` first. Each other module has a table `KINDS` of the clients that a plan may name.
"""
