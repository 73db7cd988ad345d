"""The keys of OAUTHBEARER are Kafka's, with its defaults."""

from config.keys import keys_of
from config.oauth_keys import OauthKeys


def test_defaults_are_kafkas():
    found = {
        name: described.default
        for name, described in keys_of(OauthKeys).items()
        if "oauthbearer" in name
    }
    assert found == {
        "sasl.oauthbearer.jwks.endpoint.url": None,
        "sasl.oauthbearer.expected.audience": (),
        "sasl.oauthbearer.expected.issuer": None,
        "sasl.oauthbearer.scope.claim.name": "scope",
        "sasl.oauthbearer.sub.claim.name": "sub",
        "sasl.oauthbearer.clock.skew.seconds": 30,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": 3_600_000,
        "barnabas.sasl.oauthbearer.unsecured": False,
    }
