"""The settings of a transactional producer."""

from client.transactions.transaction_settings import ABORT_S, TransactionSettings


def test_a_commit_is_tried_for_longer_than_an_abort_and_the_timeout():
    settings = TransactionSettings()
    assert settings.retry_s > settings.timeout_ms / 1000 > ABORT_S
