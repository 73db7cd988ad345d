"""SCRAM's messages and arithmetic, against the examples of RFC 5802's successors."""

import pytest

from protocol.scram import (
    ScramError,
    client_key,
    combined,
    encoded,
    escaped,
    keyed,
    read_client_final,
    read_client_first,
    read_server_final,
    read_server_first,
    salted_password,
    server_key,
    signed_text,
    stored_key,
)

# RFC 7677, section 3.
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_the_rfc_is_computed():
    first, server = read_client_first(FIRST), read_server_first(SERVER_FIRST)
    final = read_client_final(FINAL)
    name = "SCRAM-SHA-256"
    salted = salted_password(name, "pencil", server.salt, server.iterations)
    text = signed_text(first.bare, SERVER_FIRST.decode(), final.unproven)
    key = client_key(name, salted)
    assert combined(key, keyed(name, stored_key(name, key), text)) == final.proof
    signature = keyed(name, server_key(name, salted), text)
    assert encoded(signature) == SERVER_FINAL.decode().removeprefix("v=")
    assert read_server_final(SERVER_FINAL) == signature


def test_a_first_message_is_taken_apart():
    found = read_client_first(b"n,a=a=2Cb,n=a=2Cb,r=x!y,tokenauth=true,foo=bar")
    assert (found.authzid, found.user, found.nonce) == ("a,b", "a,b", "x!y")
    assert found.header == "n,a=a=2Cb,"
    assert found.bare == "n=a=2Cb,r=x!y,tokenauth=true,foo=bar"
    assert found.is_token
    assert escaped("a,b=") == "a=2Cb=3D"


@pytest.mark.parametrize(
    "message",
    [
        b"", b"y,,n=u,r=x", b"p=tls-unique,,n=u,r=x", b"n,n=u,r=x", b"n,,n=,r=x", b"n,,n=u,r=",
        b"n,,n=u,r=a b", b"n,,r=x,n=u", b"n,,m=1,n=u,r=x", b"n,,n=u=4,r=x", b"n,,n=\xff,r=x",
        b"n,,n=u,r=x,", b"n,,n=u,r=x,1=2", b"n,a=,n=u,r=x", b"n,,n=u,r=x\n",
    ],
)  # fmt: skip
def test_other_first_messages_are_refused(message):
    with pytest.raises(ScramError):
        read_client_first(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"c=biws,r=x", b"c=biws,r=x,p=", b"c=biws,r=x,p=!", b"r=x,c=biws,p=AAAA",
     b"c=b,r=x,p=AAAA", b"c=biws,r=x,p=AAAA,e=1"],
)  # fmt: skip
def test_other_final_messages_are_refused(message):
    with pytest.raises(ScramError):
        read_client_final(message)


@pytest.mark.parametrize(
    "message", [b"", b"r=x,s=AAAA,i=0", b"r=x,s=AAAA,i=1000001", b"r=x,s=,i=5", b"e=no"]
)
def test_other_messages_of_a_server_are_refused(message):
    with pytest.raises(ScramError):
        read_server_first(message)


@pytest.mark.parametrize(("message", "words"), [(b"e=other-error", "other-error"), (b"x", "v=")])
def test_a_server_may_say_that_it_refuses(message, words):
    with pytest.raises(ScramError, match=words):
        read_server_final(message)
