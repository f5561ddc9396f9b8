"""Does the plug-in mirror a weather service? A fake one that changes, refuses and breaks while it is read."""

import asyncio
from collections.abc import Mapping

import pytest
from remora_weather import PLUGIN, Weather

from remora import ConfigurationError, SourceSetup
from remora.testing import (
    Answer,
    Fake,
    FakeTransport,
    Request,
    Thing,
    World,
    after,
    check_source,
    iso,
    mirror_plugin,
    not_found,
)


class WeatherService(Fake):
    """Ten stations to a page, the last written report first; 20 requests a minute."""

    limit = (20, 60)

    def is_signed(self, request: Request) -> bool:
        return True

    def answer(self, request: Request) -> Answer:
        things = self.world.newest_change_first()
        if request.path == "/stations.txt":
            page, _ = after(things, lambda thing: key(thing) == request.query["after"], 10)
            return Answer(200, "".join(f"{key(thing)} {iso(thing.updated_s)}\n" for thing in page).encode() + b"END\n")
        found = [thing for thing in things if request.path == f"/reports/{key(thing)}.txt"]
        return Answer(200, report(found[0])) if found else not_found()

    def truth(self) -> Mapping[str, object]:
        return {key(thing): report(thing) for thing in self.world.things()}


def key(thing: Thing) -> str:
    return f"st-{thing.number}"


def report(thing: Thing) -> bytes:
    return f"{thing.text}\nEND\n".encode()


def test_it_mirrors_a_moving_service_through_faults_and_kills() -> None:
    service = WeatherService(World(things=25, events=20), faults=0.05)
    mirrored = mirror_plugin(PLUGIN, service, options={"country": "ch"})
    assert mirrored.documents == service.truth()
    assert mirrored.kills > 0


def test_it_keeps_the_contract_of_a_source() -> None:
    source = Weather(SourceSetup("weather", "https://weather.example", FakeTransport(WeatherService(World(things=3)))))
    asyncio.run(check_source(source, keys=["st-1", "st-3", "st-9"]))


def test_a_country_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="country is 7"):
        Weather(SourceSetup("weather", "", FakeTransport(WeatherService(World())), options={"country": 7}))
