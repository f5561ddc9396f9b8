"""What does `remora` say of a place that it cannot reach? Which place it is, with exit code 2; it is not called a bug."""

import errno
import os

import pytest

from remora.core.errors import Exit
from remora.operate.cli.failures import explain
from tests.operate.command_line import CommandLine, with_mirror

# No system lets a name be as long; unlike a folder that is closed, this stops root, too.
NOWHERE = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--store", "sqlite:///{}/remora.db"),
        ("catchup", "--store", "sqlite:///{}/remora.db"),
        ("check", "--store", "sqlite:///{}/remora.db"),
        ("status", "--store", "sqlite:///{}/remora.db"),
        ("init", "--config", "{}/remora.toml"),
        ("store", "backup", "{}/backup.db"),
        ("export", "--out", "{}/items.ndjson"),
        ("export", "--format", "parquet", "--out", "{}/items"),
        ("export", "--follow", "{}/items"),
        ("import", "{}/items.ndjson"),
    ],
    ids=" ".join,
)
def test_a_place_that_cannot_be_reached_is_named_and_is_no_bug(remora: CommandLine, words: tuple[str, ...]) -> None:
    result = with_mirror(remora)(*(word.format(NOWHERE) for word in words))
    assert result.exit_code == 2
    assert "bug" not in result.stderr
    assert NOWHERE in result.stderr
    assert "File name too long" in result.stderr


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP])
def test_an_error_of_a_place_says_which_and_what_to_do(code: int) -> None:
    words, ends_with = explain(OSError(code, os.strerror(code), "/closed/remora.db"))
    assert words.startswith(f"remora: /closed/remora.db cannot be used ({os.strerror(code)})\n  name another place")
    assert ends_with is Exit.USAGE
