"""Users are looked up in the image as it is now, and changes are recorded as planned."""

from broker.security.sasl.scram_users import CredentialSource
from tests.support.broker_rig import Rig
from tests.unit.broker.metadata.test_scram_image import credential, removal
from tests.unit.broker.metadata.test_scram_plans import remove, upsert


async def test_a_credential_is_found_until_it_is_removed(rig: Rig) -> None:
    users = rig.services.users
    assert users.scram("SCRAM-SHA-512", "alice") is None
    users.image.upsert(credential("alice", 2))
    found = users.scram("SCRAM-SHA-512", "alice")
    assert found is not None
    assert found.iterations == 4096
    users.image.remove(removal("alice", 2))
    assert users.scram("SCRAM-SHA-512", "alice") is None


async def test_a_change_holds_before_it_is_durable(rig: Rig) -> None:
    """A login that begins after the answer finds it; so does one that begins a little earlier."""
    users = rig.services.users
    changing = users.alter([], [upsert("alice")], by="User:admin")
    changing.send(None)
    assert users.scram("SCRAM-SHA-256", "alice") is not None
    changing.close()
    assert await users.alter([remove("alice")], [], by="User:admin") == {"alice": None}
    assert users.scram("SCRAM-SHA-256", "alice") is None


async def test_a_user_who_is_added_again_is_another(rig: Rig) -> None:
    users = rig.services.users
    source = CredentialSource(users, b"secret")
    await users.alter([], [upsert("alice")], by="User:admin")
    holds = [source.still_holds("alice"), source.still_holds("alice", "SCRAM-SHA-256")]
    await users.alter([], [upsert("alice", salted=b"new password")], by="User:admin")
    assert [one() for one in holds] == [True, True]
    removing = users.alter([remove("alice")], [], by="User:admin")
    removing.send(None)  # applied, and not durable
    await users.alter([], [upsert("alice")], by="User:admin")
    assert [one() for one in holds] == [False, False]
    removing.close()
