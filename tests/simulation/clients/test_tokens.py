"""The tokens of the simulator's users, and the file with the key by which they are believed."""

import json

import pytest

from broker.security.oauth.key_set import read_key_set
from broker.security.oauth.token_validator import _is_signed
from tests.simulation.clients import tokens


def test_the_file_holds_the_key() -> None:
    assert json.loads(tokens.KEY_SET.read_text(encoding="utf-8")) == tokens.key_set()


@pytest.mark.parametrize("kind", tokens.KINDS)
def test_all_tokens_but_those_of_another_key_are_signed(kind: str) -> None:
    (one,) = read_key_set(tokens.KEY_SET.read_bytes()).matching(tokens.KEY_ID, "EdDSA")
    token = tokens.token(kind, "alice", 1_700_000_000_000, 1_000)
    assert _is_signed(token, "EdDSA", one.key) == (kind != tokens.STRANGE)
