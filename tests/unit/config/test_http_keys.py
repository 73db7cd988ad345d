"""The keys of the HTTP listener in a server.properties."""

from config.broker import BrokerConfig
from config.keys import keys_of
from config.load import load


def test_by_default_http_is_on_loopback_and_open():
    config = BrokerConfig()
    assert str(config.http) == "HTTP://127.0.0.1:9095"
    assert config.http is not None
    assert config.http.is_loopback
    assert (config.barnabas_http_hosts, config.barnabas_http_password) == ((), None)


def test_the_keys_are_read_and_the_password_is_never_shown():
    config = load(
        environment={"BARNABAS_HTTP_LISTENER": "", "BARNABAS_HTTP_PASSWORD": "secret"},
        set_values=["barnabas.http.hosts=broker.example,other"],
    ).config
    assert config.http is None
    assert config.barnabas_http_hosts == ("broker.example", "other")
    assert config.barnabas_http_password == "secret"
    assert keys_of(BrokerConfig)["barnabas.http.password"].kind.name == "PASSWORD"
