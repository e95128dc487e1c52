"""Reading JSON records of other programs, with errors that name the record and the field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyro_crowdclust.errors import show

_KINDS = {
    Mapping: "an object",
    Sequence: "a list",
    str: "a text",
    bool: "true or false",
    (int, float): "a number",
    (str, int): "a text or an integer",
    (int, Mapping): "an integer or an object",
}


@dataclass(frozen=True)
class Record:
    """A JSON object with its place in the file, for error messages.

    Attributes
    ----------
    fields
        Its fields.
    place
        Its name in errors, such as ``task 3, annotation 1``.

    Examples
    --------
    >>> task = Record({"data": {"item": 7}}, "task 3")
    >>> task.record("data").get("item", int)
    7
    >>> task.record("data").get("left", str)
    Traceback (most recent call last):
    ValueError: task 3, data has no field 'left'; it has ['item']
    """

    fields: Mapping[str, Any]
    place: str

    @classmethod
    def of(cls, value: Any, place: str) -> Record:
        """A record from a value, which must be an object."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{place} is {_what(value)}, but must be an object")
        return cls(value, place)

    def get(self, name: str, kind: Any) -> Any:
        """A field, which must exist and have this type."""
        if name not in self.fields:
            raise ValueError(f"{self.place} has no field {name!r}; it has {list(self.fields)}")
        return self._checked(name, self.fields[name], kind)

    def maybe(self, name: str, kind: Any, default: Any = None) -> Any:
        """A field of this type, or the default if it is missing or null."""
        value = self.fields.get(name)
        return default if value is None else self._checked(name, value, kind)

    def record(self, name: str) -> Record:
        """A field that is an object."""
        return Record(self.get(name, Mapping), f"{self.place}, {name}")

    def records(self, name: str, noun: str) -> list[Record]:
        """A field that is a list of objects, or missing; ``noun`` names one object in errors."""
        return records(self.maybe(name, Sequence, ()), noun, f"{self.place}, ")

    def wrong(self, reason: object) -> ValueError:
        """An error about this record."""
        return ValueError(f"{self.place}: {reason}")

    def _checked(self, name: str, value: Any, kind: Any) -> Any:
        wrong_text = kind is Sequence and isinstance(value, str)
        wrong_flag = kind is not bool and isinstance(value, bool)
        if not isinstance(value, kind) or wrong_text or wrong_flag:
            raise ValueError(
                f"{self.place}: field {name!r} is {_what(value)}, but must be "
                f"{_KINDS.get(kind, kind)}"
            )
        return value


def records(values: Any, noun: str, prefix: str = "") -> list[Record]:
    """The objects of a list as records, numbered from 1 in errors."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError(f"{prefix}the file is {_what(values)}, but must be a list of {noun}s")
    return [Record.of(value, f"{prefix}{noun} {n}") for n, value in enumerate(values, 1)]


def parse_json(text: str) -> Any:
    """The content of a JSON file.

    Raises
    ------
    ValueError
        If it is not JSON; the message names the line.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not valid JSON: {error.msg}") from error


def parse_json_lines(text: str) -> list[Any]:
    """The content of a JSONL file: one value per line; empty lines are skipped.

    Raises
    ------
    ValueError
        If a line is not JSON; the message names the line.
    """
    values = []
    # Not splitlines, which also splits at characters that texts in JSON may contain.
    for number, line in enumerate(text.split("\n"), 1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} is not valid JSON: {error.msg}") from error
    return values


def dump_json(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def dump_json_lines(values: Sequence[Any]) -> str:
    """Values as the text of a JSONL file."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def _what(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    return show(value)
