"""What does `remora init` write? A configuration that explains the ceiling. Everything else has a default."""

import json
from typing import Final

HEAD: Final = """\
# The configuration of Remora. Everything that is not written here has a safe default.

[store]
url = {store}     # a file in the folder you start it from; or "postgresql://user@host/database"
"""

HACKERNEWS: Final = """
[sources.hackernews]
# The one number: never faster than this, whatever the provider would allow. Remora learns by itself how much less is
# polite. Hacker News publishes no limit; 250 a second reads its whole history in about two days.
ceiling = "{ceiling}"
# Who may the provider write to if your requests trouble it? It is sent with every request.
# contact = "you@example.org"
"""

LISTED: Final = """
[sources.{name}]
kind = "listed"
url = "https://archive.example/api"     # the address all paths below are added to
# The one number: never faster than this, whatever the provider would allow. For an account that may be flagged,
# write what a patient person would do.
ceiling = "{ceiling}"
# If it bans whoever is refused too often, say five times within a minute, allow one refusal less:
# refusal_limit = "4/min"
token_env = "{token}"     # the variable that holds the token; it is never written anywhere
list = {{ path = "/list", paging = "offset", page_size = 100, entries = "items", key = "id", updated = "update_time" }}
detail = {{ path = "/detail/{{key}}" }}
"""


def head_for(store: str) -> str:
    """The beginning of every file. The address of a store is one line, and may hold quotes and backslashes."""
    return HEAD.format(store=json.dumps(store, ensure_ascii=False))  # such a text reads the same in JSON and TOML


def configuration_for(
    name: str, *, listed: bool, ceiling: str | None = None, store: str = "sqlite:///remora.db"
) -> str:
    """The whole file for one source."""
    ceiling = ceiling or ("60/min" if listed else "250/s")
    token = f"{name.upper().replace('-', '_')}_TOKEN"
    source = LISTED.format(name=name, token=token, ceiling=ceiling) if listed else HACKERNEWS.format(ceiling=ceiling)
    return head_for(store) + source
