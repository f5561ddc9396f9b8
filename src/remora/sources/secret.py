"""How is a token carried without being shown? Wrapped, so that no log line, error or repr gives it away."""

from typing import Final

MASK: Final = "***"


class Secret:
    """A text that only `reveal` gives away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one header that needs it."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        return MASK

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written anywhere")
