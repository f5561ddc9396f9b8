"""What is written for an address? The same whether or not one like it was written before."""

import pytest

from remora.sources.transport.origin import Origin
from remora.sources.transport.pool import Pool
from remora.sources.transport.requests import ANY_NAME, PLACES_KNOWN, Requests
from remora.sources.transport.settings import HttpSettings
from remora.sources.transport.way_out import Proxy

PROXIED = HttpSettings(proxy=Proxy("proxy.example", 3128))


@pytest.mark.parametrize("settings", [HttpSettings(), PROXIED])
@pytest.mark.parametrize(
    "around",
    [
        ("http://api.example/v0/item/", ".json"),
        ("http://api.example/", ""),
        ("https://api.example:8443/a/", "?full=1"),
        ("http://api.example/list?page=", "&of=", ""),
        ("http://api.example/2#", ""),
        ("http://api.example/", "#a/2"),
        ("http://api.example/a b/", "/ü"),
        ("http://api.example?", ""),
        ("http://api", ".example/"),
        ("http://", ".example/a"),
        ("http://api.example/", "/2", "/.."),
        ("http://api.example/2",),
        (f"http://api.example/{ANY_NAME}/", ""),
        (f"http://api.example/{ANY_NAME[:-1]}", f"{ANY_NAME[1:]}"),
        (f"http://api.example/{ANY_NAME[:1]}", ""),
    ],
)
@pytest.mark.parametrize(
    "name", ["2", ANY_NAME, ANY_NAME[-1], ANY_NAME[1:], "a.b", "a b", "ü", "²", "/", "#", "x\r\ny", ""]
)
def test_an_address_like_one_before_is_written_as_if_it_were_the_first(
    around: tuple[str, ...], name: str, settings: HttpSettings
) -> None:
    used, pools = Requests(settings, {}), dict[Origin, Pool]()
    for before in ("1", "3"):
        used.named(around, before)
    for _ in range(2):
        found, first = used.named(around, name), Requests(settings, pools).get(name.join(around))
        assert (found and (found[0].origin, found[1])) == (first and (first[0].origin, first[1]))


def test_what_is_written_around_a_name_is_found_once() -> None:
    requests = Requests(HttpSettings(), {})
    around = ("http://api.example/v0/item/", ".json")
    requests.named(around, "1")
    requests.get = lambda *_: pytest.fail("the whole request was written again")  # type: ignore[method-assign]
    found = requests.named(around, "27")
    assert found is not None
    assert found[1].startswith(b"GET /v0/item/27.json HTTP/1.1\r\n")


def test_addresses_of_one_origin_share_its_connections() -> None:
    pools: dict[Origin, Pool] = {}
    requests = Requests(HttpSettings(), pools)
    places = [requests.get(f"http://api.example/{place}/{number}") for place in "ab" for number in (1, 2)]
    assert len({id(found[0]) for found in places if found is not None}) == len(pools) == 1


def test_only_so_many_places_are_known_and_all_are_written() -> None:
    requests = Requests(HttpSettings(), {})
    for number in range(PLACES_KNOWN + 5):
        for name in ("x", "y"):
            found = requests.named((f"http://api.example/{number}/", ""), name)
            assert found is not None
            assert found[1].startswith(f"GET /{number}/{name} HTTP/1.1\r\n".encode())


def test_an_owners_header_takes_the_place_of_ours() -> None:
    requests = Requests(HttpSettings(), {})
    requests.named(("http://api.example/a/", ""), "1")
    found = requests.named(("http://api.example/a/", ""), "2", {"user-agent": "mine", "X-Key": "k"})
    assert found is not None
    assert (
        found[1]
        == b"GET /a/2 HTTP/1.1\r\nHost: api.example\r\nuser-agent: mine\r\nX-Key: k\r\nAccept: */*\r\nAccept-Encoding: identity\r\n\r\n"
    )


@pytest.mark.parametrize("url", ["ftp://api.example/a", "http://api.example:99999/a", "nonsense"])
def test_an_address_that_cannot_be_used_is_not_written(url: str) -> None:
    assert Requests(HttpSettings(), {}).get(url) is None
