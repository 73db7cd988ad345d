"""Names that transactional clients of the simulator and their judges share."""

from typing import Final

ABORTED_CODE: Final = 1_000  # of an offset whose transaction was aborted: no code of the protocol
STABLE: Final = "last stable offset"
