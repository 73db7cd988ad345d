"""Users are looked up in the image as it is now."""

from broker.metadata.scram_image import ScramImage
from broker.security.users.users import Users
from tests.unit.broker.metadata.test_scram_image import credential, removal


def test_a_credential_is_found_until_it_is_removed():
    image = ScramImage()
    users = Users(image)
    assert users.scram("SCRAM-SHA-512", "alice") is None
    image.upsert(credential("alice", 2))
    assert users.scram("SCRAM-SHA-512", "alice").iterations == 4096
    image.remove(removal("alice", 2))
    assert users.scram("SCRAM-SHA-512", "alice") is None
