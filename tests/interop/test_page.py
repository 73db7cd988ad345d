"""The console's page in a real browser: Debian's Chromium, driven by playwright.

A broker runs as users start it. Every view is opened at 360 and 1,280 px, light and dark: it must
write no error, ask nobody else, not be wider than the window, and give axe-core nothing to find.
Every action is done by keyboard alone, and a Kafka client sees its effect. A broker that is killed
is missed, and found again. Screenshots of all views are left in build/page/.

playwright and axe-core are not among the development packages. BARNABAS_PLAYWRIGHT names a
directory with the former (`pip install --target DIR -r requirements-browser.lock`), BARNABAS_AXE
the file axe.min.js; `.ci/run` installs both. Where they, or chromium, are missing, nothing here
runs, and pytest says so.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.interop.page_browser import ROOT, Served, Watched, browser_parts, launched

pytestmark = [pytest.mark.interop]

SHOTS = ROOT / "build" / "page"
VIEWS = (
    "overview", "topics", "topics/orders", "topics/orders/partitions", "topics/orders/produce",
    "topics/orders/configs", "groups", "groups/billing", "configs", "disk", "log", "clients",
    "transactions", "users",
)  # fmt: skip
NASTY = "<script>window.hurt=1</script><img src=x onerror='window.hurt=1'>\"\u202e"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    browser_parts()
    served = Served(tmp_path_factory.mktemp("page") / "data")
    served.start()
    fill(served)
    yield served
    served.kill()


def fill(served: Served) -> None:
    """Topics, records, a group with lag, and names that would like to be more than text."""
    settings = {"bootstrap.servers": f"127.0.0.1:{served.kafka}"}
    producer = Producer({**settings, "client.id": "web-shop"})
    for number in range(2_000):
        value = json.dumps({"order": number, "customer": "Olga", "total": number / 7})
        producer.produce("orders", key=f"customer-{number % 40}", value=value)
    producer.produce("nasty", key=NASTY, value=NASTY, headers=[(NASTY, NASTY.encode())])
    producer.produce("nasty", key=b"\xff\x00", value=None)
    producer.produce("large", key="large", value=os.urandom(400_000))
    assert producer.flush(30) == 0
    for group in ("billing", NASTY):
        consumer = Consumer({**settings, "group.id": group})
        consumer.commit(offsets=[TopicPartition("orders", 0, 500)], asynchronous=False)
        consumer.close()


@pytest.fixture(scope="module")
def browser(broker: Served) -> Iterator[Any]:
    with launched() as found:
        yield found


AXE_RUN = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .map((found) => found.id + ': ' + found.nodes.map((one) => one.target.join(' ')).join(', '))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_view_is_sound(broker: Served, browser: Any, width: int, theme: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    axe = browser_parts()[2]
    watched = Watched(browser, broker, width, theme)
    found: dict[str, list[str]] = {}
    for view in VIEWS:
        watched.open(view)
        if view == "overview":
            watched.page.wait_for_selector(".chart canvas")
        if view == "topics/orders":
            watched.page.locator(".messages .row").first.click()
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        if watched.page.evaluate(wider) > 0:
            found.setdefault(view, []).append("wider than the window")
        name = f"{view.replace('/', '-')}-{width}-{theme}.png"
        watched.page.screenshot(path=str(SHOTS / name))
        watched.page.evaluate("(source) => { if (!window.axe) (0, eval)(source); }", axe)
        if violations := watched.page.evaluate(AXE_RUN):
            found.setdefault(view, []).extend(violations)
    watched.close()
    assert found == {}
    assert watched.problems == []


def test_names_and_records_are_only_text(broker: Served, browser: Any) -> None:
    watched = Watched(browser, broker, 1280, "light")
    watched.open("topics/nasty")
    rows = watched.page.locator(".messages .row")
    rows.first.wait_for()
    for at in range(rows.count()):
        rows.nth(at).click()
    watched.page.get_by_text("<script>window.hurt=1</script>").first.wait_for()
    watched.open("groups")
    watched.page.get_by_text("<script>window.hurt=1</script>").first.wait_for()
    watched.page.get_by_role("link", name="<script>").first.click()
    watched.page.wait_for_selector("main table")
    assert watched.page.evaluate("window.hurt") is None
    assert watched.problems == []
    watched.close()


def tab_to(page: Any, name: str, role: str = "") -> None:
    """Press Tab until the element of that name has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        told = page.evaluate(
            "() => { const at = document.activeElement; return [at.getAttribute('aria-label')"
            " || (at.labels && at.labels[0] && at.labels[0].textContent) || at.textContent || '',"
            " at.tagName]; }"
        )
        if told[0].strip().startswith(name) and role.upper() in ("", told[1]):
            return
    raise AssertionError(f"Tab never reaches {name!r}")


def test_topics_by_keyboard_alone(broker: Served, browser: Any) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.kafka}"})
    watched = Watched(browser, broker, 1280, "light")
    page, keys = watched.page, watched.page.keyboard
    watched.open("topics")
    tab_to(page, "Create a topic")
    keys.press("Enter")
    page.wait_for_selector("dialog input:focus")
    keys.type("by-keyboard")
    tab_to(page, "Partitions", "input")
    keys.type("2")
    tab_to(page, "Check only")
    keys.press("Enter")
    page.get_by_text("This would create by-keyboard with 2 partitions").wait_for()
    assert "by-keyboard" not in admin.list_topics(timeout=20).topics
    tab_to(page, "Create", "button")
    keys.press("Enter")
    page.wait_for_selector("h1:text('by-keyboard')")
    assert len(admin.list_topics(timeout=20).topics["by-keyboard"].partitions) == 2

    produce_by_keyboard(watched)
    message = first_message(broker, "by-keyboard")
    assert (message.key(), message.value()) == (b"k1", b"hello")

    tab_to(page, "Configuration", "a")
    while "/topics/by-keyboard" not in page.evaluate("document.activeElement.getAttribute('href')"):
        tab_to(page, "Configuration", "a")  # the first is that of the menu
    keys.press("Enter")
    tab_to(page, "Edit retention.ms")
    keys.press("Enter")
    page.wait_for_selector("dialog input:focus")
    keys.press("Control+a")
    keys.type("123456")
    keys.press("Enter")
    page.wait_for_selector("dialog", state="detached")
    resource = ConfigResource("topic", "by-keyboard")
    told = admin.describe_configs([resource])[resource].result(20)
    assert told["retention.ms"].value == "123456"

    tab_to(page, "Delete")
    keys.press("Enter")
    page.wait_for_selector("dialog input:focus")
    keys.type("by-keyboard")
    keys.press("Enter")
    page.wait_for_selector("h1:text('Topics')")
    assert "by-keyboard" not in admin.list_topics(timeout=20).topics
    assert watched.problems == []
    watched.close()


def produce_by_keyboard(watched: Watched) -> None:
    page, keys = watched.page, watched.page.keyboard
    tab_to(page, "Produce", "a")
    keys.press("Enter")
    page.wait_for_selector("textarea")
    tab_to(page, "Key")
    keys.type("k1")
    tab_to(page, "Value")
    keys.type("hello")
    tab_to(page, "Produce", "button")
    keys.press("Enter")
    page.get_by_text("Durable in partition").wait_for()


def first_message(broker: Served, topic: str) -> Any:
    """Read as a group does, and commit what was read."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.kafka}",
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(20)
    assert message is not None
    consumer.commit(message, asynchronous=False)
    consumer.close()
    return message


def test_groups_by_keyboard_alone(broker: Served, browser: Any) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{broker.kafka}"}
    first_message(broker, "orders")
    watched = Watched(browser, broker, 1280, "light")
    page, keys = watched.page, watched.page.keyboard
    watched.open("groups/of-orders")
    page.get_by_text("No members").wait_for()
    tab_to(page, "Reset offsets")
    keys.press("Enter")
    tab_to(page, "Show what would change")
    keys.press("Enter")
    page.get_by_role("region", name="What would change").wait_for()
    tab_to(page, "Reset 1 partition")
    keys.press("Enter")
    page.wait_for_selector("dialog", state="detached")
    consumer = Consumer({**settings, "group.id": "of-orders"})
    (committed,) = consumer.committed([TopicPartition("orders", 0)], timeout=20)
    consumer.close()
    assert committed.offset == 0
    tab_to(page, "Delete")
    keys.press("Enter")
    page.wait_for_selector("dialog input:focus")
    keys.type("of-orders")
    keys.press("Enter")
    page.wait_for_selector("h1:text('Groups')")
    listed = AdminClient(settings).list_consumer_groups().result(20).valid
    assert "of-orders" not in {one.group_id for one in listed}
    assert watched.problems == []
    watched.close()


def test_a_search_and_what_arrives(broker: Served, browser: Any) -> None:
    watched = Watched(browser, broker, 1280, "light")
    page = watched.page
    watched.open("topics/orders")
    page.get_by_label("Contains").fill('"order": 77,')
    page.keyboard.press("Enter")
    page.wait_for_selector(".messages li:first-child:last-child")
    page.get_by_label("Contains").fill("")
    page.get_by_role("button", name="Follow live").click()
    page.get_by_text("Following: records appear").wait_for()
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.kafka}"})
    deadline = time.monotonic() + 20
    while not page.get_by_text("just now").count():
        assert time.monotonic() < deadline
        producer.produce("orders", value="just now")
        producer.flush(10)
        page.wait_for_timeout(500)
    watched.open("topics/large")
    page.locator(".messages .row").first.click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the value").click()
    assert Path(download.value.path()).stat().st_size == 400_000
    assert watched.problems == []
    watched.close()


def test_an_import_and_the_newest_of_each_key(broker: Served, browser: Any, tmp_path: Path) -> None:
    lines = [{"key": f"k{n % 3}", "value": f"imported {n}", "headers": []} for n in range(1_200)]
    (tmp_path / "some.ndjson").write_text("\n".join(map(json.dumps, lines)))
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.kafka}"})
    admin.create_topics([NewTopic("imported", 1)])["imported"].result(20)
    watched = Watched(browser, broker, 1280, "light")
    page = watched.page
    watched.open("topics/imported/produce")
    page.get_by_label("A file with a record a line").set_input_files(tmp_path / "some.ndjson")
    page.get_by_text("1,200 records are durable").wait_for()
    assert first_message(broker, "imported").value() == b"imported 0"
    watched.open("topics/imported/messages")
    page.get_by_label("Newest of each key").check()
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".messages li:nth-child(3):last-child")
    for number in (1_197, 1_198, 1_199):
        page.get_by_text(f"imported {number}").wait_for()
    assert watched.problems == []
    watched.close()


def test_the_lag_of_a_group_and_what_clients_push_are_shown(broker: Served, browser: Any) -> None:
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{broker.kafka}", "client.id": "pushes-metrics"}
    )
    producer.produce("orders", value="x")
    producer.flush(10)
    watched = Watched(browser, broker, 360, "dark")
    watched.open("groups/billing")
    watched.page.get_by_text("Lag in the last").wait_for()
    watched.open("clients")
    del producer  # it pushes what it has when it ends
    watched.page.locator("summary", has_text="pushes-metrics").first.click(timeout=60_000)
    watched.page.get_by_role("region", name="Metrics of pushes-metrics").first.wait_for()
    assert watched.problems == []
    watched.close()


def test_a_killed_broker_is_missed_and_found_again(broker: Served, browser: Any) -> None:
    watched = Watched(browser, broker, 1280, "light")
    page = watched.page
    watched.open("overview")
    page.wait_for_selector(".chart canvas")
    broker.kill()
    page.get_by_text("The broker does not answer").first.wait_for()
    broker.start()
    page.wait_for_selector(".lost", state="detached")
    page.get_by_text("Running for").wait_for()
    watched.close()
    assert not [one for one in watched.problems if one.startswith(("foreign", "error: "))
                and "ERR_" not in one and "Failed to load" not in one]  # fmt: skip
