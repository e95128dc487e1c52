"""Messages of the library in the words of the command line: options in place of arguments."""

from __future__ import annotations

import re

# Arguments in Python that an option of the same name takes.
_ARGUMENTS = (
    "cannot_link",
    "features",
    "grades",
    "known",
    "labels",
    "likeness",
    "must_link",
    "pairs",
    "placements",
    "trusted",
)
_OPTION = "|".join(_ARGUMENTS)
# An argument with its value, if it has one; one to leave out; and two that take something.
_GIVEN = re.compile(rf"\b({_OPTION})=(?:(\d+)|\[([^\]]*)\])?")
_LEFT_OUT = re.compile(rf"\bleave ({_OPTION}) out\b")
_NAMED = re.compile(rf"\bas ({_OPTION}) and ({_OPTION})\b")
# What the command line says in other words.
_PHRASES = {
    "pass None as features": "leave out --features",
    "num_clusters is": "--clusters is",
    "drop it, or make it the ids of the items": "--ignore it, or make it the --id-column",
    "pass no features, but": "leave out --features, and pass",
    "add one, or give the worker by PlainCsv(worker=)": "add it, and fill in who answered",
    "fill it in, or give PlainCsv(worker=)": "fill it in",
    " (the index of a series holds item ids: for labels in the order of the items pass "
    "known.to_numpy())": "",
    "pass its pairs, CrowdData(None, placements=table).as_pairs().pairs.drop(columns='page')": (
        "write a row of --pairs for every two items of the page"
    ),
    "exchange.read_answers": "--answers",
    "(form=)": "(--answers-format)",
}


def in_options(message: str) -> str:
    """A message with the options of ``fit`` in place of the arguments that it names.

    Examples
    --------
    >>> in_options("pass them as grades=, such as grades=[1, 2, 3], or leave likeness out")
    'pass them as --grades, such as --grades 1 2 3, or leave --likeness out'
    >>> in_options("pass pairs that are certain as must_link and cannot_link")
    'pass pairs that are certain as --must-link and --cannot-link'
    """
    for phrase, ours in _PHRASES.items():
        message = message.replace(phrase, ours)
    message = _LEFT_OUT.sub(lambda found: f"leave {_option(found[1])} out", message)
    message = _NAMED.sub(lambda found: f"as {_option(found[1])} and {_option(found[2])}", message)
    return _GIVEN.sub(_with_value, message)


def _with_value(found: re.Match[str]) -> str:
    value = found[2] or (found[3] or "").replace(",", "")
    return f"{_option(found[1])} {value}".rstrip()


def _option(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"
