"""Who is told to be at fault when the code of a plug-in fails while it asks? The plug-in, never the provider."""

import pytest

from tests.operate.command_line import CommandLine
from tests.sources.test_plugins import Installer
from tests.sources.test_plugins import install as install

FAILING = """
from remora import Capabilities, SourcePlugin
class Source:
    capabilities = Capabilities(list=True)
    def __init__(self, setup):
        self.name = setup.name
    async def fetch(self, discovery, permit):
        raise KeyError("secret-of-the-owner")
    def decode(self, discovery, reply): ...
PLUGIN = SourcePlugin(make=Source, capabilities=Source.capabilities, url="http://127.0.0.1:9", ceiling="1000/s")
"""


@pytest.fixture
def remora_with_plugin(remora: CommandLine, install: Installer) -> CommandLine:
    install(FAILING)
    (remora.folder / "remora.toml").write_text("[sources.weather]\n")
    return remora


def test_a_run_says_that_the_plugin_failed_and_not_that_the_list_does_not_answer(
    remora_with_plugin: CommandLine,
) -> None:
    ended = remora_with_plugin("run", "weather")
    assert ended.exit_code == 1
    told = ended.stdout + ended.stderr
    assert "the plug-in failed while it asked for the list" in told
    assert "does not answer" not in told
    assert "server_error" not in told
    assert "secret-of-the-owner" not in told


def test_a_trial_names_the_error_of_the_plugin(remora_with_plugin: CommandLine) -> None:
    tried = remora_with_plugin("try", "weather")
    assert tried.exit_code == 1
    assert "the plug-in failed with KeyError" in tried.stdout + tried.stderr
    assert "secret-of-the-owner" not in tried.stdout + tried.stderr
