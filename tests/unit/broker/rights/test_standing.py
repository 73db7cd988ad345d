"""The rights of a producer that waits: asked again if an ACL has changed, and only then."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.error_mapping import BatchRefused
from broker.rights.standing import Standing, StandingCommit, describable
from broker.security.acl.acl_codes import ResourceType
from protocol.errors import ErrorCode

ANY: Any = SimpleNamespace()


class Authorizer:
    """Allows what is in `allowed`."""

    def __init__(self) -> None:
        self.version = 0
        self.allowed: set[tuple[ResourceType, str]] = set()
        self.asked = 0

    def allows(self, principal: str, host: str, _: Any, kind: ResourceType, name: str) -> bool:
        assert (principal, host) == ("User:a", "h")
        self.asked += 1
        return (kind, name) in self.allowed


def standing(authorizer: Any, name: str | None = None) -> Standing:
    info = SimpleNamespace(principal="User:a", peer_host="h")
    request: Any = SimpleNamespace(info=info)
    return Standing(request, authorizer, name)


TOPICS: Any = SimpleNamespace(by_id=lambda _: None)


def asked(*names: str) -> Any:
    return [SimpleNamespace(name=name, topic_id=b"") for name in names]


def test_without_a_change_nothing_is_asked() -> None:
    authorizer = Authorizer()
    made = standing(authorizer, "x")
    assert made.refusal(asked("t"), TOPICS) is ErrorCode.NONE
    assert made.checked("t", lambda *_: ANY)(memoryview(b""), 0) is ANY
    assert authorizer.asked == 0


def test_after_a_change_each_right_is_asked_for() -> None:
    authorizer = Authorizer()
    made = standing(authorizer, "x")
    authorizer.version += 1
    assert made.refusal(asked("t"), TOPICS) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    authorizer.allowed.add((ResourceType.TRANSACTIONAL_ID, "x"))
    assert made.refusal(asked("t"), TOPICS) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    authorizer.allowed.add((ResourceType.TOPIC, "t"))
    assert made.refusal(asked("t"), TOPICS) is ErrorCode.NONE
    assert made.refusal(asked("t", "u"), TOPICS) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_batch_is_not_appended_after_its_right() -> None:
    authorizer = Authorizer()
    append = standing(authorizer).checked("t", lambda *_: pytest.fail("appended"))
    authorizer.version += 1
    with pytest.raises(BatchRefused) as refused:
        append(memoryview(b""), 0)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("name", [None, "x"])
def test_a_commit_that_waits_is_asked_about_again(name: str | None) -> None:
    authorizer = Authorizer()
    info = SimpleNamespace(principal="User:a", peer_host="h")
    request: Any = SimpleNamespace(info=info)
    made = StandingCommit(request, authorizer, "g", name)  # type: ignore[arg-type]
    assert made.refusal(["t"]) is ErrorCode.NONE
    assert authorizer.asked == 0
    authorizer.version += 1
    for kind, one, code in (
        (ResourceType.TRANSACTIONAL_ID, name, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ResourceType.GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ResourceType.TOPIC, "t", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        if one is not None:
            assert made.refusal(["t"]) is code
            authorizer.allowed.add((kind, one))
    assert made.refusal(["t"]) is ErrorCode.NONE
    assert made.refusal(["t", "u"]) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_without_an_authorizer_all_may_be_described() -> None:
    assert describable(ANY, None) == (None, -1, -1)
