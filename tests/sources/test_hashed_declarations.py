"""Is a declaration that was not changed still the same one for a later version?"""

import msgspec

from remora.sources.parts import PartSettings


def test_a_part_is_hashed_without_what_was_not_declared_so_that_a_new_setting_changes_no_hash() -> None:
    declared = msgspec.convert({"name": "comments", "path": "/c", "page_size": 50}, PartSettings)
    assert msgspec.to_builtins(declared) == {"name": "comments", "path": "/c", "page_size": 50}
