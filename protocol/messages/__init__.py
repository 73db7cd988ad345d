"""One module per API: its request and response, each one dataclass for all versions."""
