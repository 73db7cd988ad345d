"""Kafka's own wire encoding: readers and writers compiled from the message classes."""
