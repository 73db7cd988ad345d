"""What goes wrong, for the author of a test."""


class BarnabasError(Exception):
    """A broker did not do what a test has asked for; the text says why."""


class BrokerError(BarnabasError):
    """The broker has answered an error of Kafka's; `code` is its number."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: the broker answered error {code}")
        self.code = code
