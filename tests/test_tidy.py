"""The house rules that no linter checks. Each test is one rule; its exceptions only shrink.

A rule fails if one of its exceptions is no longer needed, so the lists stay accurate.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.support.syntax_trees import text_of, tree_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "protocol", "storage", "config", "client")
SOURCES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
# The second distribution: the one that Spark's executors install.
PIPELINES = ROOT / "pipelines"
PIPELINE_SOURCES = sorted((PIPELINES / "pyspark_barnabas").rglob("*.py"))
PIPELINE_TESTS = sorted((PIPELINES / "tests").rglob("*.py"))
# The third: what tests of other programs import.
KIT_SOURCES = sorted((ROOT / "testing" / "pytest_barnabas").rglob("*.py"))
CODE = [*SOURCES, *TESTS, *BENCHMARKS, *PIPELINE_SOURCES, *PIPELINE_TESTS, *KIT_SOURCES]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "testing" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
OTHERS = [
    ROOT / "Makefile",
    ROOT / ".ci" / "run",
    ROOT / "pyproject.toml",
    ROOT / "pipelines" / "pyproject.toml",
    ROOT / "testing" / "pyproject.toml",
]
LOCKS = sorted([*ROOT.glob("requirements*.lock"), *(ROOT / "pipelines").glob("*.lock")])

LINE_MAX = 100
FUNCTION_MAX = 70
FILE_MAX = 500
DECISION_MAX = 60

# Sources without a test file of their own. Do not add to it.
UNTESTED: set[str] = set()
# Sources of pipelines/ that Spark or a broker calls, tested in another module's test file.
TESTED_THROUGH = {
    "clock": "test_outbox",
    "brokers": "test_wire",
    "connection": "test_wire",
    "datasource": "test_spark",
    "errors": "test_wire",
    "fetcher": "test_wire",
    "reader": "test_wire",
    "security": "test_security_options",
    "writer": "test_spark",
}
# Functions and files above the general limit, with their own limit. Do not add to them.
LONG_FUNCTIONS: dict[str, int] = {}
LONG_FILES: dict[str, int] = {}
# Keys that are declared with an effect but not read yet. Do not add to them.
UNREAD_KEYS: set[str] = set()
# Keys that config reads itself: their meaning reaches the broker under another name.
READ_AS = {
    "config.providers": "static",
    "internal.segment.bytes": "segment_bytes_max",
    "segment.bytes": "segment_bytes_max",
    "advertised.listeners": "advertised",
    "controller.listener.names": "served_listeners",
    "listener.security.protocol.map": "served_listeners",
    "listeners": "served_listeners",
    "log.dirs": "data_directory",
    "max.connections.per.ip.overrides": "connection_limits",
    "process.roles": "served_listeners",
    "inter.broker.listener.name": "served_listeners",
    "super.users": "super_principals",
    "barnabas.http.listener": "http",
    "sasl.enabled.mechanisms": "sasl",
    "sasl.jaas.config": "sasl",
    "connections.max.reauth.ms": "max_reauth_ms",
    "connection.failed.authentication.delay.ms": "failed_delay_ms",
    "barnabas.sasl.plain.users": "sasl",
    "barnabas.sasl.oauthbearer.unsecured": "url",
    "sasl.oauthbearer.jwks.endpoint.url": "url",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "refresh_ms",
    "sasl.oauthbearer.expected.audience": "audiences",
    "sasl.oauthbearer.expected.issuer": "issuer",
    "sasl.oauthbearer.scope.claim.name": "scope_claim",
    "sasl.oauthbearer.sub.claim.name": "sub_claim",
    "sasl.oauthbearer.clock.skew.seconds": "skew_seconds",
    "ssl.certificate": "tls",
    "ssl.key": "tls",
    "ssl.keystore.type": "tls",
    "ssl.keystore.location": "tls",
    "ssl.keystore.password": "tls",
    "ssl.keystore.key": "tls",
    "ssl.keystore.certificate.chain": "tls",
    "ssl.key.password": "tls",
    "ssl.truststore.type": "tls",
    "ssl.truststore.location": "tls",
    "ssl.truststore.password": "tls",
    "ssl.truststore.certificates": "tls",
    "ssl.client.auth": "tls",
    "ssl.principal.mapping.rules": "tls",
    "ssl.enabled.protocols": "tls",
    "ssl.cipher.suites": "tls",
    "ssl.allow.dn.changes": "tls",
    "ssl.allow.san.changes": "tls",
}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def matches(pattern, paths):
    """Return every match as file:line: text."""
    found = []
    for path in paths:
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    return found


def calls(paths):
    """Return every call as (file:line, dotted name of the function)."""
    for path in paths:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                yield f"{name_of(path)}:{node.lineno}", ast.unparse(node.func)


# -- size ------------------------------------------------------------------------------------------


def test_no_line_of_code_is_longer_than_100_columns():
    """A pragma at the end of a line does not count, as in the formatter."""
    mark = re.compile(r"\s+# (noqa|type: ignore|pragma:).*$")
    long = [
        f"{name_of(path)}:{number}"
        for path in [*CODE, *OTHERS]
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if len(mark.sub("", line)) > LINE_MAX
    ]
    assert long == []


def functions(paths):
    for path in paths:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{name_of(path)}:{node.name}", node.end_lineno - node.lineno + 1


def test_no_function_is_longer_than_70_lines():
    long = {name: count for name, count in functions(CODE) if count > FUNCTION_MAX}
    assert {name: n for name, n in long.items() if n > LONG_FUNCTIONS.get(name, 0)} == {}
    assert set(LONG_FUNCTIONS) - set(long) == set()


def test_no_file_is_longer_than_500_lines():
    counts = {name_of(path): len(text_of(path).splitlines()) for path in CODE}
    long = {name: count for name, count in counts.items() if count > FILE_MAX}
    assert {name: n for name, n in long.items() if n > LONG_FILES.get(name, 0)} == {}
    assert set(LONG_FILES) - set(long) == set()


# -- every file ------------------------------------------------------------------------------------


def test_every_module_opens_with_its_theory():
    assert [name_of(path) for path in CODE if not ast.get_docstring(tree_of(path))] == []


def has_test(path):
    """Whether it has its own test file, or shares its directory's (`test_messages.py`)."""
    relative = path.relative_to(ROOT)
    own = ROOT / "tests" / "unit" / relative.parent / f"test_{path.stem}.py"
    shared = ROOT / "tests" / "unit" / relative.parent.parent / f"test_{relative.parent.name}.py"
    return own.exists() or (len(relative.parts) > 2 and shared.exists())


def test_every_source_file_has_its_test_file():
    untested = {
        name_of(path) for path in SOURCES if path.name != "__init__.py" and not has_test(path)
    }
    assert untested - UNTESTED == set()
    assert UNTESTED - untested == set()


def test_every_source_file_of_pipelines_has_its_test_file():
    stems = {path.stem for path in PIPELINE_SOURCES} - {"__init__"}
    tests = {path.stem for path in PIPELINE_TESTS}
    assert {stem for stem in stems if f"test_{stem}" not in tests} == set(TESTED_THROUGH)
    assert set(TESTED_THROUGH.values()) <= tests


def test_every_test_file_is_collected():
    """pytest collects only test_*.py, so other files must not contain tests."""
    missed = [
        name_of(path)
        for path in [*TESTS, *PIPELINE_TESTS]
        if not path.name.startswith("test_")
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert missed == []


# -- words and calls -------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["FIX" + "ME", "TO" + "DO", "XX" + "X"])
def test_no_note_to_self_is_left(word):
    assert matches(rf"\b{word}\b", [*CODE, *PAGES, *OTHERS]) == []


def test_nothing_is_printed():
    sources = [*SOURCES, *PIPELINE_SOURCES, *KIT_SOURCES]
    assert [place for place, name in calls(sources) if name in ("print", "breakpoint")] == []


def test_no_except_silently_catches_everything():
    bare = [
        f"{name_of(path)}:{node.lineno}"
        for path in CODE
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def test_time_is_read_in_one_place():
    """All other code takes the time as an argument, and is tested without waiting."""
    clocks = re.compile(r"^(time\.\w+|(datetime\.)?datetime\.(now|utcnow|today))$")
    read = {"broker/runtime/clock.py", "pipelines/pyspark_barnabas/clock.py"}
    elsewhere = [path for path in [*SOURCES, *PIPELINE_SOURCES] if name_of(path) not in read]
    assert [place for place, name in calls(elsewhere) if clocks.match(name)] == []


def test_the_inner_packages_never_wait():
    """storage, protocol and config are synchronous; only broker has tasks."""
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    inner = [path for path in SOURCES if name_of(path).startswith(("storage", "protocol", "conf"))]
    assert [
        f"{name_of(path)}:{node.lineno}"
        for path in inner
        for node in ast.walk(tree_of(path))
        if isinstance(node, waiting)
    ] == []


def test_all_tasks_and_timers_of_the_broker_have_an_owner():
    """Only broker.runtime.owners starts tasks, timers and callbacks; it reports their failures."""
    doors = {"create_task", "ensure_future", "call_later", "call_at", "call_soon",
             "call_soon_threadsafe", "add_done_callback", "run_in_executor", "TaskGroup",
             "to_thread"}  # fmt: skip
    allowed = {
        "broker/runtime/owners.py",
        "broker/runtime/blocking_pool.py",
        "broker/testing/elastic_loop.py",  # is a loop
    }
    sources = [path for path in SOURCES if name_of(path).startswith("broker/")]
    elsewhere = [path for path in sources if name_of(path) not in allowed]
    found = [place for place, name in calls(elsewhere) if name.rpartition(".")[2] in doors]
    assert found == []


def test_every_module_logs_through_the_brokers_handler():
    """A logger with another name has no handler: no time, no JSON, and INFO is dropped."""
    packages = ("broker", "protocol", "storage", "config")
    sources = [path for path in SOURCES if name_of(path).startswith(packages)]
    others = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("getLogger")
        and not re.match(r"'barnabas(\.\w+)?'$", ", ".join(map(ast.unparse, node.args)))
    ]
    assert others == []


def test_lines_of_the_log_name_their_values():
    """JSON has them as fields: `"%(topic)s failed", {"topic": …}`, not `"%s failed", topic`."""
    packages = ("broker", "protocol", "storage", "config")
    levels = {"debug", "info", "warning", "error", "exception", "critical"}
    unnamed = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if name_of(path).startswith(packages)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in levels
        and ast.unparse(node.func.value) in ("logger", "_log", "log", "_logger")
        and re.search(r"%[^%(]|\bf['\"]", "".join(map(ast.unparse, node.args[:1])))
    ]
    assert unnamed == []


def test_handlers_do_not_change_requests():
    changed = []
    for path in SOURCES:
        if not name_of(path).startswith("broker/handlers/"):
            continue
        for node in ast.walk(tree_of(path)):
            targets = node.targets if isinstance(node, ast.Assign) else []
            changed += [
                f"{name_of(path)}:{node.lineno}"
                for target in targets
                if isinstance(target, ast.Attribute)
                and ast.unparse(target).startswith(("request.", "body."))
            ]
    assert changed == []


def test_integration_tests_do_not_import_the_product():
    imports = matches(rf"^\s*(from|import) ({'|'.join(PACKAGES)})\b", TESTS)
    assert [line for line in imports if line.startswith("tests/integration/")] == []


def test_pipelines_do_not_import_the_broker():
    """Executors install only this distribution; its tests start the broker as a process."""
    imported = rf"^\s*(from|import) ({'|'.join(PACKAGES)})\b"
    assert matches(imported, [*PIPELINE_SOURCES, *PIPELINE_TESTS]) == []


def test_the_kit_does_not_import_the_broker():
    """It starts the broker as a process: a user's own `config` or `client` stays his."""
    imported = rf"^\s*(from|import) ({'|'.join(PACKAGES)}|barnabas)\b"
    kit_tests = [path for path in TESTS if name_of(path).startswith("tests/kit/")]
    assert matches(imported, [*KIT_SOURCES, *kit_tests]) == []


# -- the one list of APIs --------------------------------------------------------------------------


def test_handlers_messages_and_the_unsupported_page_list_the_same_apis():
    from broker.handlers import HANDLERS

    modules = {handler.handle.__module__.rpartition(".")[2] for handler in HANDLERS}
    files = {path.stem for path in (ROOT / "broker" / "handlers").glob("*.py")} - {"__init__"}
    messages = {path.stem for path in (ROOT / "protocol" / "messages").glob("*.py")} - {"__init__"}
    sections = re.findall(r"^### \w+ \((\d+)\)$", text_of(ROOT / "docs/unsupported.md"), re.M)
    assert files == modules
    assert modules <= messages
    assert sorted(int(key) for key in sections) == [handler.api_key for handler in HANDLERS]


def test_each_handler_is_registered_with_the_name_and_versions_of_its_messages():
    from broker.handlers import HANDLERS

    for handler in HANDLERS:
        name = handler.api_key.name.lower()
        assert handler.handle.__module__ == f"broker.handlers.{name}"
        for side, message in (("request", handler.request), ("response", handler.response)):
            spec = message.MESSAGE
            assert message.__module__ == f"protocol.messages.{name}"
            assert (spec.api_key, spec.kind) == (handler.api_key, side)
            assert spec.version_min <= handler.min_version <= handler.max_version
            assert handler.max_version == spec.version_max


def test_the_advertised_apis_are_the_served_ones():
    """Produce is advertised from version 0, as in Kafka (for librdkafka); the rest as served."""
    from broker.assembly import _api_versions
    from broker.handlers import HANDLERS

    advertised = {api.api_key: (api.min_version, api.max_version) for api in _api_versions()}
    served = {row.api_key: (row.min_version, row.max_version) for row in HANDLERS}
    assert advertised == {**served, 0: (0, served[0][1])}


# -- the one table of keys -------------------------------------------------------------------------


def test_a_key_is_read_or_declares_why_it_has_no_effect():
    from config.broker import broker_keys
    from config.topic import topic_keys

    readers = [path for path in SOURCES if not name_of(path).startswith("config/")]
    read = {
        node.attr
        for path in readers
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
    }
    effective = {
        key.name: READ_AS.get(key.name, key.attribute)
        for key in (*broker_keys().values(), *topic_keys().values())
        if not key.no_effect
    }
    unread = {name for name, attribute in effective.items() if attribute not in read}
    assert unread - UNREAD_KEYS == set()
    assert UNREAD_KEYS - unread == set()


# -- pages -----------------------------------------------------------------------------------------


def test_generated_pages_are_up_to_date():
    from config.render import page, sample

    assert text_of(ROOT / "docs/configuration.md") == page(), "run: make docs"
    assert text_of(ROOT / "docs/server.properties") == sample(), "run: make docs"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_has_one_title_and_no_broken_links(path):
    prose = re.sub(r"^```.*?^```", "", text_of(path), flags=re.M | re.S)
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose)
    assert len(re.findall(r"^# ", prose, re.M)) == 1
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_names_files_that_exist(path):
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|md|tsv))`", text_of(path))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_decision_numbers_are_unique():
    numbers = [path.name[:4] for path in DECISIONS]
    assert all(number.isdigit() for number in numbers)
    assert len(numbers) == len(set(numbers)) > 0


@pytest.mark.parametrize("path", DECISIONS, ids=name_of)
def test_a_decision_is_short_and_states_its_number(path):
    lines = text_of(path).splitlines()
    assert lines[0].startswith(f"# {path.name[:4]} ")
    assert len(lines) <= DECISION_MAX


def test_the_list_of_pages_is_complete():
    docs = ROOT / "docs"
    listed = re.findall(r"\]\(([^)]+\.md)\)", text_of(docs / "README.md"))
    there = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert sorted([*listed, "README.md"]) == sorted(there)


def test_nothing_names_one_machine_or_one_package_index():
    """The locks pin by hash, so any index will do; a path on one machine is useless elsewhere."""
    places = "|".join(f"/{name}/[a-z]" for name in ("work", "home", "root", "Users", "opt"))
    hosts = "|".join(["pypi" + r"\.org", "python" + "hosted", r"repo1?\.maven"])
    texts = [*CODE, *PAGES, *OTHERS, *LOCKS]
    assert matches(rf"(?<![\w./])({places})|{hosts}|--(extra-)?index-url", texts) == []


@pytest.mark.parametrize("lock", LOCKS, ids=name_of)
def test_every_pinned_package_has_hashes(lock):
    entries = re.split(r"^(?=\S)", text_of(lock), flags=re.M)
    pins = [entry for entry in entries if "==" in entry.partition("\n")[0]]
    assert len(pins) > 0
    assert [entry.split()[0] for entry in pins if "--hash=sha256:" not in entry] == []
