"""Does `remora verify` say what it found out, and only that?"""

import pytest

from remora.operate.jobs.verify import Verified


@pytest.mark.parametrize(
    "population, told",
    [
        (0, "the mirror of chats has no documents yet, so there is nothing to verify"),
        (1_200, "of 1,200 documents nothing is known: no request was answered"),
    ],
)
def test_a_sample_without_an_answer_is_told_apart_from_one_of_nothing(population: int, told: str) -> None:
    nothing = Verified(
        source="chats", what="documents", population=population, sample=0, findings={}, at_most=1.0, seconds=0.1
    )
    assert nothing.sentence() == told
