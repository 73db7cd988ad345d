"""What the seeds write: clients and faults that meet."""

from tests.simulation.plan import SEQUELS, WITH_SEQUEL, write_plan

PLANS = [write_plan(f"plan-{number}") for number in range(400)]


def test_unclean_ends_follow_faults_that_show_at_a_start():
    sequels = 0
    for plan in PLANS:
        causes = {
            number: fault
            for number, fault in enumerate(plan.faults, 1)
            if fault.kind in WITH_SEQUEL
        }
        for fault in plan.faults:
            if fault.name.startswith("sequel "):
                cause = causes[int(fault.name.removeprefix("sequel "))]
                assert cause.kind in WITH_SEQUEL
                assert fault.kind in SEQUELS
                assert 0 <= fault.at_ms - cause.at_ms < 1_500
                sequels += 1
    assert sequels > 10


def test_names_are_unique():
    for plan in PLANS:
        names = [one.name for one in (*plan.clients, *plan.faults)]
        assert len(set(names)) == len(names)


def test_some_clients_half_close_and_some_budgets_are_tight():
    kinds = [client.kind for plan in PLANS for client in plan.clients]
    assert kinds.count("parting producer") > 20
    tight = [plan for plan in PLANS if plan.settings.get("queued.max.request.bytes") == "5000"]
    assert len(tight) > 30
