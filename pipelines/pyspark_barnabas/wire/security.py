"""How a connection is protected: TLS, a login, both or neither.

A `Security` travels pickled to Spark's executors, so it holds names of files, not contexts; the
files must be there on each of them. Secrets are never part of its text.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from pyspark_barnabas.wire.errors import BadOption


@dataclass(frozen=True)
class Security:
    """The options `kafka.security.protocol`, `kafka.ssl.*` and `kafka.sasl.*` together."""

    is_encrypted: bool = False
    trusted_file: str = ""  # PEM; without it and `trusted`, what the system trusts
    trusted: str = ""  # PEM itself
    own_file: str = ""  # PEM: key and certificate
    own_password: str = field(default="", repr=False)
    checks_host: bool = True
    mechanism: str = ""  # "": no login
    username: str = ""
    password: str = field(default="", repr=False)

    def context(self) -> ssl.SSLContext:
        """Return what TLS needs. Raises BadOption for files that cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host
        try:
            if self.trusted_file:
                context.load_verify_locations(cafile=self.trusted_file)
            elif self.trusted:
                context.load_verify_locations(cadata=self.trusted.replace("\\n", "\n"))
            else:
                context.load_default_certs()
            if self.own_file:
                context.load_cert_chain(self.own_file, password=lambda: self.own_password)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise BadOption(
                f"kafka.ssl.truststore.location={self.trusted_file} or kafka.ssl.keystore.location="
                f"{self.own_file} cannot be used on this machine: {error}. Both are PEM files, and "
                "must be on every executor"
            ) from None
        return context


PLAINTEXT = Security()
