"""What a user's history allows and demands at a time."""

from tests.simulation.clients.user_history import PLAIN, UserHistory

ONE, TWO = "SCRAM-SHA-256", "SCRAM-SHA-512"


def of(*changes: tuple[dict[str, str | None], int, int | None]) -> UserHistory:
    history = UserHistory("alice")
    for passwords, began_ns, ended_ns in changes:
        history.begin(passwords, began_ns).ended_ns = ended_ns
    return history


def test_nobody_logs_in_at_first() -> None:
    history = of()
    assert not history.may_log_in(ONE, "a", 0, 9)
    assert not history.may_log_in(PLAIN, "a", 0, 9)
    assert history.passwords == {}


def test_a_password_may_be_one_from_the_request_on_and_must_be_from_the_answer_on() -> None:
    history = of(({ONE: "a"}, 10, 20))
    assert not history.may_log_in(ONE, "a", 0, 9)
    assert history.may_log_in(ONE, "a", 0, 10)
    assert not history.must_log_in(ONE, "a", 19, 30)
    assert history.must_log_in(ONE, "a", 20, 30)
    assert not history.may_log_in(TWO, "a", 20, 30)
    assert history.may_log_in(PLAIN, "a", 20, 30)
    assert history.must_log_in(PLAIN, "a", 20, 30)
    assert not history.must_log_in(PLAIN, "b", 20, 30)


def test_the_next_password_takes_its_place_between_its_request_and_its_answer() -> None:
    history = of(({ONE: "a"}, 10, 20), ({ONE: "b"}, 30, 40))
    assert history.may_log_in(ONE, "a", 39, 50)
    assert not history.may_log_in(ONE, "a", 40, 50)
    assert history.must_log_in(ONE, "a", 20, 29)
    assert not history.must_log_in(ONE, "a", 20, 30)
    assert history.passwords == {ONE: "b"}


def test_plain_waits_for_no_credential_that_changes() -> None:
    history = of(({ONE: "a"}, 10, 20), ({TWO: "b"}, 30, 40))
    assert not history.must_log_in(PLAIN, "a", 20, 35)
    assert history.must_log_in(PLAIN, "a", 40, 50)
    assert history.must_log_in(PLAIN, "b", 40, 50)


def test_a_change_without_an_answer_leaves_both() -> None:
    history = of(({ONE: "a"}, 10, 20), ({ONE: None}, 30, None))
    assert history.may_log_in(ONE, "a", 90, 99)
    assert not history.must_log_in(ONE, "a", 90, 99)
    assert history.passwords == {}


def test_a_removal_takes_the_logins_before_it() -> None:
    history = of(({ONE: "a", TWO: "a"}, 10, 20), ({ONE: None}, 30, 40), ({ONE: "a"}, 50, 60))
    assert history.was_removed(ONE, 25, 40)
    assert not history.was_removed(ONE, 25, 39)
    assert not history.was_removed(ONE, 31, 99)  # the login may be of the next credential
    assert not history.was_removed(TWO, 25, 99)
    assert not history.was_removed(PLAIN, 25, 99)
    history.begin({ONE: None, TWO: None}, 70).ended_ns = 80
    assert history.was_removed(PLAIN, 25, 80)
