"""Does the numbered source in the documentation work as it is written? Its declaration, its commands, a real server."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.operate.command_line import CommandLine, command_line_in

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding-a-source.md").read_text()
NEWEST = 40


class Standards(BaseHTTPRequestHandler):
    """An RFC-like provider on loopback; every seventh number was never issued."""

    def do_GET(self) -> None:
        number = re.fullmatch(r"/rfc/(\d+)\.json", self.path)
        if self.path == "/newest.json":
            self._answer(200, {"number": NEWEST})
        elif number is not None and int(number[1]) <= NEWEST and int(number[1]) % 7:
            self._answer(200, {"number": int(number[1]), "title": "T", "published": "2026-01-02T03:04:05Z"})
        else:
            self._answer(404, {"error": "not found"})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nobody reads it."""

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Standards) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.fixture
def remora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line_in(tmp_path, monkeypatch)


def declared(url: str) -> str:
    """The example of the page, at another address and faster."""
    block = re.search(r"```toml\n(\[sources\.rfcs\].*?)```", PAGE, re.DOTALL)
    assert block is not None
    return block[1].replace("https://rfcs.example", url).replace("30/min", "500/s")


def test_the_documented_example_is_checked_caught_up_shown_and_counted(remora: CommandLine, url: str) -> None:
    (remora.folder / "remora.toml").write_text(declared(url))
    checked = remora("check")
    assert "newest id 40" in checked.output, checked.output
    caught_up = remora("catchup", "--json")
    assert caught_up.exit_code == 0, caught_up.output
    summary = json.loads(caught_up.stdout.splitlines()[-1])
    assert (summary["first_id"], summary["last_id"], summary["frontier"]) == (1, NEWEST, NEWEST)
    exported = [json.loads(line)["number"] for line in remora("export").stdout.splitlines()]
    assert exported == [number for number in range(1, NEWEST + 1) if number % 7]
    shown = json.loads(remora("show", "40", "--json").stdout)
    assert shown["body"]["title"] == "T"
    status = json.loads(remora("status", "--json").stdout)["sources"]["rfcs"]
    assert (status["kind"], status["stream"]["declared"]) == ("numbered", False)
    assert status["stream"]["reason"] == "none declared; changes are found by the rescan"
    assert "none declared" in remora("status").output


def test_a_newest_id_that_is_not_where_it_is_declared_is_exit_code_2(remora: CommandLine, url: str) -> None:
    (remora.folder / "remora.toml").write_text(declared(url).replace('at = "number"', 'at = "nmber"'))
    refused = remora("catchup")
    assert refused.exit_code == 2, refused.output
    assert f"{url}/newest.json answers, but without a newest id" in refused.stderr
    assert '"nmber" in its body should be a whole number above zero' in refused.stderr
    up = remora("up", "--listen", "127.0.0.1:0")
    assert up.exit_code == 2, up.output
    assert "rfcs answers, but without a newest id\n  remora check --source rfcs says what to write" in up.stderr
    assert '"nmber" in its body' in remora("check").output
