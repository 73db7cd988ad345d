"""Key sets from files and from a server on loopback: bounds, and whom it asks."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from broker.security.oauth.key_download import BYTES_MAX, download, is_file
from broker.security.oauth.key_set import KeySetError


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", f"file://{__file__}")
            self.end_headers()
            return
        if self.path == "/moved":
            self.send_response(301)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        if self.path != "/keys" and self.path != "/large":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"keys" if self.path == "/keys" else bytes(BYTES_MAX + 1))

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def still():
    return 0


def test_over_http(server):
    assert download(f"{server}/keys", still) == b"keys"
    assert download(f"{server}/moved", still) == b"keys"


@pytest.mark.parametrize(
    ("path", "text"),
    [("/no", "answered 404"), ("/large", "larger than"), ("/away", "answered 302|not allowed")],
)
def test_refused_answers(server, path, text):
    with pytest.raises(KeySetError, match=text):
        download(f"{server}{path}", still)


def test_a_slow_server_is_left(server):
    times = iter([0, 11 * 10**9])
    with pytest.raises(KeySetError, match="longer than 10 s"):
        download(f"{server}/keys", lambda: next(times))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "data:,x", "http://[", "gopher://x"]
)
def test_what_cannot_be_asked(url):
    with pytest.raises(KeySetError):
        download(url, still)


def test_from_a_file(tmp_path):
    path = tmp_path / "key set.json"
    path.write_bytes(b"keys")
    assert download(str(path), still) == download(path.as_uri(), still) == b"keys"
    with pytest.raises(KeySetError, match="No such file"):
        download(str(tmp_path / "no"), still)
    path.write_bytes(bytes(BYTES_MAX + 1))
    with pytest.raises(KeySetError, match="larger"):
        download(str(path), still)
    assert [is_file(one) for one in ("/a", "a.json", "file:///a", "https://a/b")] == [
        True, True, True, False,
    ]  # fmt: skip
