"""PEM: blocks of base64 with a label each. Text around them is allowed, as OpenSSL allows it."""

from __future__ import annotations

import binascii
import re
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----\s*(?P<body>.*?)-----END (?P=label)-----", re.DOTALL
)
CERTIFICATES: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")


class PemError(ValueError):
    """Text that is not PEM."""


class Block(NamedTuple):
    """One block: its label, its whole text, and its bytes."""

    label: str
    text: str
    data: bytes

    @property
    def is_certificate(self) -> bool:
        """Whether it is a certificate."""
        return self.label in CERTIFICATES

    @property
    def is_private_key(self) -> bool:
        """Whether it is a private key, in any format."""
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """Whether it is a private key that needs a password."""
        return self.label == "ENCRYPTED PRIVATE KEY" or "Proc-Type: 4,ENCRYPTED" in self.text


def blocks(text: str) -> list[Block]:
    r"""Return the blocks in `text`, in order. Raises PemError for one that is not base64.

    A `\n` that is written out counts as the end of a line: properties files keep PEM on one line.
    """
    found = []
    for match in _BLOCK.finditer(text.replace("\\n", "\n").replace("\\\n", "\n")):
        body = match["body"]
        if "\n\n" in body:  # behind the headers of an old encrypted key
            body = body.partition("\n\n")[2]
        try:
            data = binascii.a2b_base64("".join(body.split()), strict_mode=True)
        except binascii.Error:
            raise PemError(f"the {match['label']} in it is damaged: it is not base64") from None
        found.append(Block(match["label"], _lines(match), data))
    return found


def _lines(match: re.Match[str]) -> str:
    """Return a block as OpenSSL reads it: its base64 may have been on one line of any length."""
    label, body = match["label"], match["body"].strip()
    if "\n" not in body:
        packed = "".join(body.split())
        body = "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"
