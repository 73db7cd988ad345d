"""The console's page where something comes at the wrong time, or is more than it can show.

Debian's Chromium shows what a person would see; `page.route` holds answers back, refuses them or
lets them overtake each other, and `page.clock` passes the time. What is needed to run is that of
`test_page`.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.page_browser import Served, Watched, browser_parts, launched

pytestmark = [pytest.mark.interop]

API = "**/api/v1/"
NO_TIME = "\u2013"
LARGE_VALUE = json.dumps({"id": 9_007_199_254_740_993, "text": "x" * 3_000})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    browser_parts()
    served = Served(tmp_path_factory.mktemp("holds") / "data")
    served.start()
    settings = {"bootstrap.servers": f"127.0.0.1:{served.kafka}"}
    producer = Producer(settings)
    producer.produce("numbers", key="1", value='{"id":9007199254740993,"id":1.0,"e":{},"l":[1,[]]}')
    producer.produce("again", key="gone", value=None)
    producer.produce("again", key="large", value=LARGE_VALUE)
    producer.produce("again", key=b"\xff", value=b"\x00\xfe", headers=[("h", b"\xff"), ("t", b"x")])
    for _ in range(5):
        producer.produce("orders", value="x")
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    consumer.close()
    yield served
    served.kill()


@pytest.fixture(scope="module")
def browser(broker: Served) -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.fixture
def watched(broker: Served, browser: Any) -> Iterator[Watched]:
    found = Watched(browser, broker, 1280, "light")
    yield found
    found.close()


class Held:
    """Answers to a path that are held back until `let_go`."""

    def __init__(self, page: Any, path: str, wanted: Callable[[Any], bool] = lambda _: True):
        self._page, self._wanted = page, wanted
        self._held: list[Any] = []
        page.route(f"{API}{path}", self._take)

    def _take(self, route: Any) -> None:
        if self._wanted(route.request):
            self._held.append((route, route.fetch()))
        else:
            route.continue_()

    def wait(self) -> None:
        while not self._held:
            self._page.wait_for_timeout(20)

    def let_go(self) -> None:
        self._wanted = lambda _: False
        for route, answer in self._held:
            route.fulfill(response=answer)


def is_dry_run(request: Any) -> bool:
    return bool(request.post_data_json["dry_run"])


def test_a_plan_is_not_shown_for_a_form_that_has_changed(watched: Watched) -> None:
    """Its button would do something else than what it shows."""
    page = watched.page
    watched.open("groups/billing")
    page.get_by_role("button", name="Reset offsets").click()
    held = Held(page, "groups/reset", is_dry_run)
    page.get_by_role("button", name="Show what would change").click()
    held.wait()
    page.get_by_label("To", exact=True).select_option("latest")
    held.let_go()
    page.locator("dialog button.main:not([disabled])").wait_for()
    assert page.get_by_role("region", name="What would change").count() == 0
    page.get_by_role("button", name="Show what would change").click()
    region = page.get_by_role("region", name="What would change")
    assert region.locator("tbody tr").inner_text().split() == ["0", "2", "5"]
    assert watched.problems == []


def test_a_check_is_not_said_of_a_form_that_has_changed(watched: Watched) -> None:
    page = watched.page
    watched.open("topics")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("checked")
    held = Held(page, "topics/create", is_dry_run)
    page.get_by_role("button", name="Check only").click()
    held.wait()
    page.get_by_label("Name", exact=True).fill("not-checked")
    held.let_go()
    page.locator("dialog button.main:not([disabled])").wait_for()
    assert page.get_by_text("This would create").count() == 0


def test_json_is_shown_as_it_was_sent(watched: Watched) -> None:
    """Numbers of 64 bits would be rounded, and names given twice left out."""
    watched.open("topics/numbers")
    watched.page.locator(".messages .row").first.click()
    shown = watched.page.get_by_label("Value", exact=True).inner_text()
    assert shown == (
        '{\n  "id": 9007199254740993,\n  "id": 1.0,\n  "e": {},\n  "l": [\n    1,\n    []\n  ]\n}'
    )


def row_of(watched: Watched, text: str) -> Any:
    row = watched.page.locator(".messages li", has_text=text)
    row.locator(".row").click()
    return row


def last_record(broker: Served, offset: int) -> Any:
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{broker.kafka}", "group.id": "reads-back"}
    )
    consumer.assign([TopicPartition("again", 0, offset)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message


def test_what_is_produced_again_is_the_record(broker: Served, watched: Watched) -> None:
    """A tombstone is one again, and a long value whole; what the form cannot take is named."""
    page = watched.page
    for offset, text, key, value in (
        (3, "gone", b"gone", None), (4, "large", b"large", LARGE_VALUE.encode()),
    ):  # fmt: skip
        watched.open("topics/again/messages")
        row_of(watched, text).get_by_role("button", name="Produce again").click()
        page.get_by_role("button", name="Produce", exact=True).click()
        page.get_by_text("Durable in partition").wait_for()
        made = last_record(broker, offset)
        assert (made.key(), made.value()) == (key, value)
    watched.open("topics/again/messages")
    row_of(watched, "binary, 1 B").get_by_role("button", name="Produce again").click()
    page.get_by_text(
        "Left out: the key, which is no text; the value, which is no text; 1 of 2 headers."
    ).wait_for()
    assert watched.problems == []


def test_a_broker_that_is_away_is_asked_at_a_pace(broker: Served, watched: Watched) -> None:
    """However long it is away: not more often with each try."""
    page = watched.page
    page.clock.install()
    watched.open("disk")
    broker.kill()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    def pass_seconds(count: int) -> int:
        asked.clear()
        for _ in range(count):
            page.clock.run_for(1_000)
            page.wait_for_timeout(20)
        return sum(url.endswith("/session") for url in asked)

    pass_seconds(60)
    assert 5 <= pass_seconds(30) <= 20, "every 2 s"
    broker.start()
    pass_seconds(12)
    page.wait_for_selector(".lost", state="detached")


REFUSED = json.dumps({"error": {"code": "VIEWERS", "message": "16 viewers are watching"}})


def test_a_stream_that_is_refused_says_why(watched: Watched) -> None:
    page = watched.page

    def refuse(route: Any) -> None:
        route.fulfill(status=503, content_type="application/json", body=REFUSED)

    page.route(f"{API}tail*", refuse)
    watched.open("topics/orders")
    page.get_by_role("button", name="Follow live").click()
    page.get_by_text("16 viewers are watching").wait_for()
    page.get_by_role("button", name="Follow live").wait_for()
    page.route(f"{API}events", refuse)
    page.goto("about:blank")
    watched.open("overview")
    page.get_by_text("16 viewers are watching").wait_for()


def test_a_hidden_page_holds_no_stream(broker: Served, watched: Watched) -> None:
    """A browser has six connections for all its pages of one broker."""
    page = watched.page
    watched.open("overview")
    page.get_by_text("Running for").wait_for()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});"
            "document.dispatchEvent(new Event('visibilitychange'));"
        )
    with page.expect_request(lambda request: request.url.endswith("/events")):
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {configurable: true, get: () => false});"
            "document.dispatchEvent(new Event('visibilitychange'));"
        )
    assert page.locator(".lost").count() == 0


def test_times_that_no_calendar_has_are_shown_as_numbers(watched: Watched) -> None:
    """Clients stamp records in microseconds, and some with no time at all."""
    page = watched.page

    def stamped(route: Any) -> None:
        answer = route.fetch()
        found = answer.json()
        for at, one in enumerate(found["messages"]):
            one["timestamp"] = (-1, 1_764_286_000_000_000_0)[at % 2]
        route.fulfill(response=answer, json=found)

    page.route(f"{API}messages*", stamped)
    watched.open("topics/orders")
    rows = page.locator(".messages .row")
    rows.first.wait_for()
    assert rows.nth(0).locator("time").inner_text() == NO_TIME
    assert rows.nth(1).locator("time").inner_text() == "17642860000000000"
    rows.nth(0).click()
    assert page.locator(".facts dd").first.inner_text() == NO_TIME


def test_an_older_answer_does_not_replace_a_newer_one(watched: Watched) -> None:
    page = watched.page
    page.clock.install()
    watched.open("groups")
    held = Held(page, "groups?*")
    page.clock.run_for(3_100)
    held.wait()
    page.route(
        f"{API}groups?*",
        lambda route: route.fulfill(json={"total": 0, "offset": 0, "groups": []}),
    )
    page.clock.run_for(3_100)
    page.get_by_text("No groups yet").wait_for()
    held.let_go()
    page.wait_for_timeout(200)
    assert page.get_by_text("No groups yet").count() == 1


def test_the_last_page_of_a_list_may_go(broker: Served, watched: Watched) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.kafka}"})
    names = [f"one-of-many-{number:02d}" for number in range(51)]
    for made in admin.create_topics([NewTopic(name, 1) for name in names]).values():
        made.result(30)
    page = watched.page
    watched.open("topics")
    page.get_by_label("Name contains").fill("one-of-many")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("link", name=names[50]).wait_for()
    for gone in admin.delete_topics(names[50:]).values():
        gone.result(30)
    page.get_by_role("link", name=names[0]).wait_for()
    for gone in admin.delete_topics(names[:50]).values():
        gone.result(30)


def test_the_log_of_a_broker_that_has_started_again_is_shown_from_its_beginning(
    broker: Served, watched: Watched
) -> None:
    """Its numbers begin again, and the page may not have asked while it was away."""
    page = watched.page
    page.clock.install()
    watched.open("log")
    first = page.locator(".log li", has_text="listening on PLAINTEXT")
    first.first.wait_for()
    at = first.first.locator("time").inner_text()
    page.clock.pause_at(page.evaluate("Date.now()") + 1_000)
    broker.kill()
    broker.start()
    for _ in range(4):
        page.clock.run_for(2_000)
        page.wait_for_timeout(100)
    assert first.first.locator("time").inner_text() != at
    assert first.count() == 1
