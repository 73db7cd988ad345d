"""When a key set is read: first, when it is old, for an unknown key, and not more often."""

import asyncio

from broker.security.oauth.key_set import KeySetError, read_key_set
from broker.security.oauth.key_source import KeySource
from tests.unit.broker.security.oauth.tokens import jwk, key_set

SECOND_NS = 10**9


class Provider:
    def __init__(self):
        self.now_ns = 0
        self.names = ["rsa"]
        self.reads = 0
        self.fails = False
        self.source = KeySource("https://keys", 3_600_000, self.run, lambda: self.now_ns)

    async def run(self, _call):
        await asyncio.sleep(0)
        self.reads += 1
        if self.fails:
            raise KeySetError("down")
        named = key_set(*map(jwk, self.names))
        return read_key_set(named if self.names else b'{"keys": []}')

    async def find(self, kid, algorithm="RS256"):
        return [one.kid for one in await self.source.matching(kid, algorithm)]


async def test_the_first_logins_share_one_reading():
    provider = Provider()
    assert await asyncio.gather(*(provider.find("rsa") for _ in range(50))) == [["rsa"]] * 50
    assert provider.reads == 1


async def test_a_new_key_is_found_and_invented_ones_cost_a_reading_each_10_s():
    provider = Provider()
    await provider.find("rsa")
    provider.names = ["rsa", "p256"]
    assert await provider.find("p256", "ES256") == []
    provider.now_ns += 10 * SECOND_NS
    assert await provider.find("p256", "ES256") == ["p256"]
    assert provider.reads == 2
    for number in range(100):
        assert await provider.find(f"invented {number}") == []
    assert provider.reads == 2


async def test_an_old_set_is_read_again_beside_the_login():
    provider = Provider()
    await provider.find("rsa")
    provider.names = ["p256"]
    provider.now_ns += 3_600 * SECOND_NS
    assert await provider.find("rsa") == ["rsa"]
    await asyncio.sleep(0.01)
    assert provider.reads == 2
    assert await provider.find("rsa") == []


async def test_keys_stay_when_the_provider_is_down(caplog):
    provider = Provider()
    await provider.find("rsa")
    provider.fails = True
    provider.now_ns += 3_600 * SECOND_NS
    for _ in range(3):
        assert await provider.find("rsa") == ["rsa"]
        await asyncio.sleep(0.01)
    assert provider.reads == 2
    text = "the keys for tokens cannot be read from https://keys: down; the 1 keys read before stay"
    assert caplog.messages == [f"{text} in use"]
    provider.fails = False
    provider.now_ns += 10 * SECOND_NS
    assert await provider.find("rsa") == ["rsa"]


async def test_keys_that_the_provider_has_withdrawn_are_forgotten(caplog):
    """Such as after its private keys were stolen."""
    provider = Provider()
    await provider.find("rsa")
    provider.names = []
    provider.now_ns += 3_600 * SECOND_NS
    assert await provider.find("rsa") == ["rsa"]
    await asyncio.sleep(0.01)
    assert await provider.find("rsa") == []
    assert [one.endswith("; the 1 keys read before are withdrawn") for one in caplog.messages] == [
        True
    ]
    provider.names = ["p256"]
    provider.now_ns += 10 * SECOND_NS
    assert await provider.find("p256", "ES256") == ["p256"]


async def test_a_client_that_leaves_takes_no_other_along():
    provider = Provider()
    first = asyncio.create_task(provider.find("rsa"))
    second = asyncio.create_task(provider.find("rsa"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ["rsa"]
