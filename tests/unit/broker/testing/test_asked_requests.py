"""What is kept of the requests of clients: the latest, and not more than a test can be sent."""

from types import SimpleNamespace

from broker.testing import asked_requests
from broker.testing.asked_requests import AskedRequests
from protocol.api_keys import ApiKey


def noted(asked, partitions):
    header = SimpleNamespace(api_key=ApiKey.FETCH, api_version=4, client_id="c")
    info = SimpleNamespace(software_name="", peer_host="127.0.0.1", peer_port=1)
    request = SimpleNamespace(header=header, body=None, info=info)
    asked.note(request, {"t": list(range(partitions))}, [], 0)


def test_requests_that_name_many_partitions_push_out_earlier_ones(monkeypatch):
    monkeypatch.setattr(asked_requests, "PARTITIONS_MAX", 10)
    asked = AskedRequests({})
    for partitions in (4, 4, 4):
        noted(asked, partitions)
    assert [one["number"] for one in asked.state()["requests"]] == [2, 3]
    noted(asked, 100)
    assert [one["number"] for one in asked.state()["requests"]] == [4]
    again = AskedRequests(asked.state())
    noted(again, 1)
    assert (again.state()["count"], again.state()["dropped"]) == (5, 4)


def test_the_latest_are_kept(monkeypatch):
    monkeypatch.setattr(asked_requests, "KEPT_MAX", 2)
    asked = AskedRequests({})
    for _ in range(3):
        noted(asked, 1)
    assert [one["number"] for one in asked.state()["requests"]] == [2, 3]
