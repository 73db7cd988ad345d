"""The command line, and what tests and tools use to speak to a broker."""
