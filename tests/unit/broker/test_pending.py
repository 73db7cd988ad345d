"""An answer is given once, whoever comes first."""

from broker.pending import Pending


def test_subscriber_before_and_after_completion_hears_once() -> None:
    heard: list[str] = []
    early = Pending()
    early.then(heard.append)
    early.complete("first")
    early.complete("second")
    assert heard == ["first"]
    late = Pending()
    late.complete("there")
    late.then(heard.append)
    assert heard == ["first", "there"]
