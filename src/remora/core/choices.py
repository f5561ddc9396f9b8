"""Which of the known words is meant? A word that is none of them is refused, with all that can be written."""

from enum import StrEnum
from typing import TypeVar

from remora.core.errors import ConfigurationError

Choice = TypeVar("Choice", bound=StrEnum)


def choice_of(text: str, words: type[Choice], name: str) -> Choice:
    """The word. `name` says what is chosen, as "order"."""
    if text not in list(words):
        raise ConfigurationError(f"there is no {name} {text}", hint=f"write one of {', '.join(words)}")
    return words(text)
