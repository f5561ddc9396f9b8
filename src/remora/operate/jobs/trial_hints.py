"""What should an owner do after an answer that is no list, no document and no item?"""

from typing import Final

from remora.core.reasons import GapReason
from remora.core.verdict import Misfit
from remora.sources.json_shape import place_of_key, tells_an_error

# The hint for each reason why a source did not answer. For any other reason the address is probably wrong.
HINTS: Final = {
    GapReason.CONNECTION: "nothing answers there: check the network, and the host and port in the url",
    GapReason.TIMEOUT: "it takes longer than timeout: check the network, and try again later",
    GapReason.SERVER_ERROR: "it does not answer as it should: check the url, and try again later",
    GapReason.RATE_LIMITED: "it asks for less: try again later, and lower the ceiling if it says so again; if it bans whoever is refused too often, write a refusal_limit",
    GapReason.UNAUTHORIZED: "it wants a token: write token_env or token_file",
    GapReason.FORBIDDEN: "it does not let this machine or account in; try again later",
}

# Where something does answer, but not in the way that the address promises.
MISFIT_HINTS: Final = {
    Misfit.NO_TLS: "something answers there, but it does not speak TLS: write http:// instead of https://, or the port that speaks TLS",
    Misfit.ONLY_TLS: "it speaks TLS: write https:// instead of http://",
    Misfit.UNTRUSTED: "its certificate is not trusted: write the name that it is for, or name its authority with ca_file",
}
PROXY_HINT: Final = (
    "the proxy answers instead of it: name another one in proxy, or let this machine pass without a login"
)
FULL_PAGE: Final = (
    "the page is full and names none: a run asks for it one entry shorter, to see whether the list really ends here"
)
MAY_BE_ERROR: Final = (
    "it may be an error, and is kept as a document: write a rule that says what it means, or detail.key"
)
NO_KEY: Final = "names no key (detail.key is not declared)"
WITHOUT_KEY: Final = "without it, an error that comes with the status 200 is kept as a document"
REQUEST_HINT: Final = "check the path, the names of its parameters, and the method and body"
NO_FILES_HINT: Final = "this machine could not send: raise the limit of open files (ulimit -n)"
PLUGIN_HINT: Final = "check its options, or tell its author; the event plugin_failed says where it failed"
# How servers answer a request in plain text on a port of TLS, if they do not close the connection.
WANTS_TLS: Final = (b"plain HTTP request was sent to HTTPS port", b"HTTP request to an HTTPS server")


def without_key_hint(body: bytes, key: str) -> str | None:
    """What to write where no `detail.key` is declared; None for a document that nowhere names its key."""
    if (place := place_of_key(body, key)) is not None:
        return f"write detail.key = {place}: {WITHOUT_KEY}"
    return MAY_BE_ERROR if tells_an_error(body) else None
