"""An answer is given once, whoever comes first."""

from broker.runtime.pending import Pending


def unexpected(error: Exception) -> None:
    raise AssertionError(error)


def test_subscriber_before_and_after_completion_hears_once() -> None:
    heard: list[str] = []
    early = Pending()
    early.then(heard.append, unexpected)
    early.complete("first")
    early.complete("second")
    assert heard == ["first"]
    late = Pending()
    late.complete("there")
    late.then(heard.append, unexpected)
    assert heard == ["first", "there"]


def test_who_waits_hears_that_there_is_no_answer() -> None:
    failures: list[Exception] = []
    error = KeyError("nobody thought of it")
    early = Pending()
    early.then(unexpected, failures.append)
    early.fail(error)
    early.complete("too late")
    late = Pending()
    late.fail(error)
    late.then(unexpected, failures.append)
    assert failures == [error, error]


def test_an_answer_that_was_given_stays() -> None:
    heard: list[str] = []
    pending = Pending()
    pending.then(heard.append, unexpected)
    pending.complete("there")
    pending.fail(KeyError("afterwards"))
    assert heard == ["there"]
