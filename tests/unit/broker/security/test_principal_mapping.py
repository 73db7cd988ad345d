"""ssl.principal.mapping.rules: which rule decides, and what the name becomes."""

import pytest

from broker.security.principal_mapping import NoMatchingRule, PrincipalMapping, RuleError

ALICE = "CN=alice,OU=Sales,O=Acme,C=DE"
BOB = "C=DE,O=Acme,CN=Bob"
CN = r"RULE:^CN=([^,]+),OU=([^,]+).*$/$1/"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", ALICE, ALICE),
        ("", ALICE, ALICE),
        (f"{CN},DEFAULT", ALICE, "alice"),
        (f"{CN},DEFAULT", BOB, BOB),
        (f" {CN}U , DEFAULT ", ALICE, "ALICE"),
        (r"RULE:.*CN=([^,]+)$/$1/L", BOB, "bob"),
        (r"RULE:^.*,CN=(.*)$/$1@acme/,DEFAULT", BOB, "Bob@acme"),
        (r"RULE:^CN=([^,]+).*$/$1-$2/", ALICE, "alice-$2"),
        (r"RULE:^CN=([^,]+).*$/\$1/", ALICE, "$1"),
        (r"RULE:^CN=([^,]+).*$/$10/", ALICE, "alice0"),
        (r"RULE:^CN=(al(ic)e)\,.*$/$2\/x/", ALICE, "ic/x"),
        (r"RULE:CN=.*/x/,RULE:.*/y/", ALICE, "x"),
        # Kafka replaces every match, and this pattern also matches the empty end.
        (r"RULE:.*/x/", BOB, "xx"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules, name, principal):
    assert PrincipalMapping(rules).name_of(name) == principal


def test_a_name_that_no_rule_matches_has_no_principal():
    with pytest.raises(NoMatchingRule, match="no rule"):
        PrincipalMapping(CN).name_of(BOB)


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "RULE:abc",
        "RULE:a/b",
        "RULE:a/b/X",
        "RULE:a/b/L DEFAULT",
        "DEFAULT;DEFAULT",
        "RULE:(/b/",
        r"RULE:(?=a)/b/",
        "DEFAULT,,DEFAULT",
    ],
)
def test_a_malformed_list_is_refused(rules):
    with pytest.raises(RuleError):
        PrincipalMapping(rules)


def test_a_pattern_takes_linear_time():
    assert PrincipalMapping(r"RULE:(a+)+$/x/,DEFAULT").name_of("a" * 5000 + "!")[0] == "a"
