"""What is wrong with the keys of a page? Counted by kind, for the owner; a key itself is never shown."""

from collections import Counter
from collections.abc import Sequence

from remora.sources.json_path import KEY_MAX_CHARACTERS, NOT_THERE, as_key, find


def unusable_keys(lines: Sequence[object], key_at: str) -> str:
    """How many entries cannot be named by what is at `key_at`, and why; empty if all can."""
    found = (find(line, key_at) for line in lines)
    faults = Counter(_fault(value) for value in found if as_key(value) is None)
    count = faults.total()
    if not count:
        return ""
    of = f"{count:,} of {len(lines):,} entries {'has' if count == 1 else 'have'}"
    if faults["missing"] == count:
        return f'{of} no key at "{key_at}"'
    kinds = ", ".join(f"{times:,} {fault}" for fault, times in faults.items())
    return f'{of} no usable key at "{key_at}": {kinds}'


def _fault(value: object) -> str:
    if value is NOT_THERE or value is None:
        return "missing"
    if not isinstance(value, str):
        return "neither text nor whole number"
    if not value:
        return "empty"
    if len(value) > KEY_MAX_CHARACTERS:
        return f"longer than {KEY_MAX_CHARACTERS} characters"
    return "with a line break or another character that cannot be printed"
