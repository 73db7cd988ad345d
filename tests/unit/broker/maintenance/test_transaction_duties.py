"""The periodic duties for transactions."""

from broker.maintenance.transaction_duties import TransactionDuties
from broker.transactions.transaction_states import TransactionState
from tests.support.broker_rig import Rig
from tests.support.rig_client import create
from tests.support.transaction_client import SETTINGS, begin


async def test_each_duty_has_its_interval_and_does_its_work(tmp_path):
    interval = "transaction_abort_timed_out_transaction_cleanup_interval_ms"
    rig = Rig(tmp_path, **SETTINGS, **{interval: "250"})
    duties = {
        duty.__name__: (seconds, duty) for seconds, duty in TransactionDuties(rig.services).all()
    }
    assert {name: seconds for name, (seconds, _) in duties.items()} == {
        "_late_transactions": 0.25,
        "_transactional_ids": 3600,
        "_owed_markers": 1,
    }
    for _, duty in duties.values():
        await duty()
    assert not rig.services.has_transactions  # and none was made for this
    producer = await begin(rig)
    await create(rig, "a")
    assert not (await producer.produce()).error_code
    one = rig.services.transactions.store.by_id["t"]
    one.started_ms = 0
    await duties["_late_transactions"][1]()
    assert one.state is TransactionState.COMPLETE_ABORT
    one.updated_ms = 0
    await duties["_owed_markers"][1]()
    await duties["_transactional_ids"][1]()
    assert not rig.services.transactions.store.by_id
    assert await rig.close()
