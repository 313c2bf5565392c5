"""Completion in the shell: command names first, then SQL words, tables and columns."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from peryton import PerytonError, _calls
from peryton._links import Link
from peryton.cli.statement import SQL_VERBS, is_sql

_SQL_WORDS = """
FROM WHERE GROUP BY ORDER LIMIT OFFSET JOIN LEFT ON AND OR NOT NULL IN LIKE BETWEEN AS DISTINCT HAVING UNION
INTO VALUES SET TABLE INDEX PRIMARY KEY USING HASH BTREE UNIQUE INTEGER REAL TEXT BLOB COUNT SUM AVG MIN MAX
"""


class ShellCompleter(Completer):
    """Offers what can stand where the cursor is."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._commands: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The words that begin like the one before the cursor."""
        before = document.text_before_cursor
        word = document.get_word_before_cursor(WORD=True)
        first = before.lstrip() == word
        if first:
            words = [*self.commands(), *(verb.upper() for verb in sorted(SQL_VERBS))]
        elif is_sql(before) or before.startswith("\\d") or before.upper().startswith("TABLE."):
            words = [*self.tables(), *_SQL_WORDS.split()]
        elif before.lower().startswith("help "):
            words = self.commands()
        else:
            return
        for each in dict.fromkeys(words):
            if each.upper().startswith(word.upper()):
                yield Completion(each, start_position=-len(word))

    def commands(self) -> list[str]:
        """All command names, asked for once."""
        if self._commands is None:
            try:
                names = self._link.execute(("COMMAND", "LIST"))
                self._commands = sorted(_calls.text_of(name).upper() for name in names)
            except PerytonError:
                self._commands = []
        return self._commands

    def tables(self) -> list[str]:
        """All table names, as they are now."""
        from peryton.cli.shell import table_names

        try:
            return table_names(self._link)
        except PerytonError:
            return []
