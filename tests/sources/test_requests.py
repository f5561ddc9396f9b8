"""What is written for an address? The same whether or not one like it was written before."""

import pytest

from remora.sources.transport.origin import Origin
from remora.sources.transport.pool import Pool
from remora.sources.transport.requests import PLACES_KNOWN, Requests
from remora.sources.transport.settings import HttpSettings
from remora.sources.transport.way_out import Proxy

PROXIED = HttpSettings(proxy=Proxy("proxy.example", 3128))


def written(url: str, requests: Requests, headers: dict[str, str] | None = None) -> str:
    found = requests.get(url, headers)
    assert found is not None
    return found[1].decode("latin-1")


@pytest.mark.parametrize("settings", [HttpSettings(), PROXIED])
@pytest.mark.parametrize(
    "url",
    [
        "http://api.example/v0/item/2.json",
        "http://api.example/2",
        "https://api.example:8443/a/2",
        "http://api.example/list?page=1/2",
        "http://api.example/2#a/1",
        "http://api.example/1#a/2",
        "http://api.example/a b/2",
        "http://api.example/ü/2",
        "http://api.example",
        "http://api.example/",
        "http://api.example/x/..",
    ],
)
def test_an_address_like_one_before_is_written_as_if_it_were_the_first(url: str, settings: HttpSettings) -> None:
    used = Requests(settings, {})
    for before in (url.replace("2", "1"), url.replace("2", "3"), url):
        written(before, used)
    assert written(url, used) == written(url, Requests(settings, {}))


def test_addresses_of_one_origin_share_its_connections() -> None:
    pools: dict[Origin, Pool] = {}
    requests = Requests(HttpSettings(), pools)
    places = [requests.get(f"http://api.example/{place}/{number}") for place in "ab" for number in (1, 2)]
    assert len({id(found[0]) for found in places if found is not None}) == len(pools) == 1


def test_only_so_many_places_are_known_and_all_are_written() -> None:
    requests = Requests(HttpSettings(), {})
    for number in range(PLACES_KNOWN + 5):
        for name in ("x", "y"):
            assert written(f"http://api.example/{number}/{name}", requests).startswith(
                f"GET /{number}/{name} HTTP/1.1\r\n"
            )


def test_an_owners_header_takes_the_place_of_ours() -> None:
    requests = Requests(HttpSettings(), {})
    written("http://api.example/a/1", requests)
    said = written("http://api.example/a/2", requests, {"user-agent": "mine", "X-Key": "k"})
    assert (
        said
        == "GET /a/2 HTTP/1.1\r\nHost: api.example\r\nuser-agent: mine\r\nX-Key: k\r\nAccept: */*\r\nAccept-Encoding: identity\r\n\r\n"
    )


@pytest.mark.parametrize("url", ["ftp://api.example/a", "http://api.example:99999/a", "nonsense"])
def test_an_address_that_cannot_be_used_is_not_written(url: str) -> None:
    assert Requests(HttpSettings(), {}).get(url) is None
