"""The users of this broker: those that a login can be checked against.

They are the SCRAM credentials of the metadata log (`broker.metadata.scram_image`). A change holds
from its answer on, and for new logins from the moment it is recorded: what is looked up here is
never remembered.
"""

from __future__ import annotations

from broker.metadata.scram_image import ScramCredential, ScramImage


class Users:
    """Finds credentials."""

    def __init__(self, image: ScramImage) -> None:
        self._image = image

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism such as "SCRAM-SHA-256", or None."""
        return self._image.credential(mechanism, user)
