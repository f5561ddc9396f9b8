"""Which bugs are planted? All of them, in one table."""

from tests.mutants.in_actions import IN_ACTIONS
from tests.mutants.in_decisions import IN_DECISIONS
from tests.mutants.in_forms import IN_FORMS
from tests.mutants.in_uses import IN_USES
from tests.mutants.mutant import Mutant as Mutant

MUTANTS: tuple[Mutant, ...] = IN_DECISIONS + IN_ACTIONS + IN_FORMS + IN_USES
