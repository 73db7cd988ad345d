"""JAAS strings: read as Kafka reads them; errors show no value."""

import pytest

from config.jaas import JaasError, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

READ = [
    (f"{MODULE} required;", {}),
    (f'{MODULE} required user_a="x";', {"user_a": "x"}),
    (f"{MODULE} required user_a='x' user_b=\"y\" ;", {"user_a": "x", "user_b": "y"}),
    (f'  {MODULE}\n REQUIRED\n user_a = "x"\n;\n', {"user_a": "x"}),
    (f'{MODULE} optional user_a="a;=\\"b\\\\";', {"user_a": 'a;="b\\'}),
    (f'{MODULE} required user_a="\\u\\101\\n" x=kafka;', {"user_a": "uA\n", "x": "kafka"}),
    (f'{MODULE} required /* "user_x" */ user_a="x"; // the end', {"user_a": "x"}),
    (f'{MODULE} required "user_a@b.c"="x";', {"user_a@b.c": "x"}),
    (f'{MODULE} required user_a="1" user_a="2";', {"user_a": "2"}),
    (f'{MODULE} required user_ä="ö";', {"user_ä": "ö"}),
]  # fmt: skip

REFUSED = [
    ("", "no login module"),
    ("=", "no login module"),
    (f'{MODULE} user_a="x";', "no control flag"),
    (f'{MODULE} required user_a="SECRET"', "no semicolon"),
    (f"{MODULE} required user_a;", "without a value"),
    (f"{MODULE} required user_a=;", "without a value"),
    (f'{MODULE} required user_a="SECRET" user_b;', "without a value behind option 1"),
    (f'{MODULE} required user_a="x" "SECRET"="y" b;', "without a value behind option 2"),
    (f"{MODULE} required user_a=my SECRET=word b;", "without a value"),
    (f'{MODULE} required user_a="SECRET;', "each quote its end"),
    (f"{MODULE} required user_a=123;", "values need quotes"),
    (f'{MODULE} required user_a="SECRET"; {MODULE} required;', "more than one login module"),
]


@pytest.mark.parametrize(("text", "options"), READ)
def test_a_string_is_read(text, options):
    entry = parse_jaas(text)
    assert (entry.module, entry.options) == (MODULE, options)
    assert "user_a" not in repr(entry)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_malformed_string_says_what_is_missing_and_shows_no_value(text, reason):
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert reason in str(caught.value)
    assert "SECRET" not in str(caught.value)
