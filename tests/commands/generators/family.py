"""A family of commands: draws whole sequences from its table, by weight, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.commands.generators.template import Arguments, Template, mutate, parse
from tests.commands.generators.values import Values
from tests.commands.not_yet import is_not_yet

Step = list[Arguments]
Sequence_ = list[Step]

MUTATION_CHANCE = 0.05
NOISE_CHANCE = 0.12
SEQUENCE_LENGTH = (5, 45)


@dataclass
class Family:
    """What `generators/__init__.py` lists: a table, and what to mix into it."""

    name: str
    table: str
    noise: Sequence[str] = ()
    """Tables of other families, of which a few commands are mixed in."""
    nested: Sequence[str] = ()
    """Tables for ``any_command``."""
    wrap: Callable[[Random, Step], Step] | None = None
    """Applied to each step drawn."""
    pushes: bool = False
    """Commands may answer with any number of replies, so each is followed by a marker."""
    databases: int = 1
    """How many of the numbered databases the final comparison looks at."""
    templates: list[Template] = field(init=False)

    def __post_init__(self) -> None:
        self.templates = [template for template in parse(self.table) if not any(map(is_not_yet, template.names))]
        self._noise = [template for table in self.noise for template in parse(table)]
        self._nested = [t for table in self.nested for t in parse(table) if _fits_anywhere(t)]

    @property
    def names(self) -> set[str]:
        """Every command that the family's own table can draw."""
        return {name for template in self.templates for name in template.names}

    def sequence(self, seed: int, only: Collection[str] | None = None) -> Sequence_:
        """The sequence of this seed; with `only`, steps with other commands are left out."""
        random = Random(f"{self.name}/{seed}")
        values = Values(random, self.name)
        values.nested = self._draw_nested
        length = random.randint(*SEQUENCE_LENGTH)
        steps = [self._step(random, values) for _ in range(length)]
        if only is not None:
            steps = [step for step in steps if all(_name(command) in only for command in step)]
        return steps

    def _step(self, random: Random, values: Values) -> Step:
        noisy = self._noise and random.random() < NOISE_CHANCE
        template = _choose(random, self._noise if noisy else self.templates)
        step = template.draw(values)
        if template.safe_to_mutate and random.random() < MUTATION_CHANCE:
            place = random.randrange(len(step))
            wrong = mutate(random, step[place], template.words)
            if not _is_sql(wrong):
                step[place] = wrong
        if self.wrap:
            step = self.wrap(random, step)
        return step

    def _draw_nested(self, values: Values) -> Arguments:
        return _choose(values.random, self._nested).draw(values)[0]


def _is_sql(command: Arguments) -> bool:
    """Whether Peryton takes this for a statement, which Redis does not know."""
    return _name(command) == "select" and len(command) > 2


def _name(command: Arguments) -> str:
    return command[0].decode(errors="replace").lower()


def _choose(random: Random, templates: list[Template]) -> Template:
    return random.choices(templates, [template.weight for template in templates])[0]


def _fits_anywhere(template: Template) -> bool:
    """Whether a line is one command whose reply needs no other to be compared."""
    return len(template.commands) == 1 and not template.text.upper().startswith(("SCAN", "HSCAN", "SSCAN", "ZSCAN"))
