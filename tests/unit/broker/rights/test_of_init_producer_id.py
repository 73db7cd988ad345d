"""InitProducerId: an idempotent producer may write to some topic, whichever that is."""

from tests.support.rights_cases import DENY, PREFIXED, TOPIC, WRITE, grant
from tests.support.rights_rig import RightsRig

ASK = {"transactional_id": None, "transaction_timeout_ms": 1000}


async def test_write_on_some_topic_is_enough(rights: RightsRig) -> None:
    for allowed in (
        grant(TOPIC, WRITE, "nowhere"),
        grant(TOPIC, WRITE, "no", pattern=PREFIXED),
    ):
        rights.allow(allowed)
        assert (await rights.ask("INIT_PRODUCER_ID", 4, **ASK)).error_code == 0


async def test_a_deny_that_covers_it_is_not(rights: RightsRig) -> None:
    one = grant(TOPIC, WRITE, "nowhere")
    for denied in (
        one._replace(permission=DENY),
        grant(TOPIC, WRITE, "no", pattern=PREFIXED, permission=DENY),
        grant(TOPIC, WRITE, permission=DENY),
    ):
        rights.allow(one, denied)
        answer = await rights.ask("INIT_PRODUCER_ID", 4, **ASK)
        assert (answer.error_code, answer.producer_id) == (31, -1)
