"""What the words of the command line mean, and how it says how it is used."""

from __future__ import annotations

import pytest

from pyro_crowdclust import __version__
from pyro_crowdclust.interface.command_line import main


def test_the_parser_knows_the_commands():
    from pyro_crowdclust.interface.command_line import arguments
    from pyro_crowdclust.interface.command_line.commands import COMMANDS
    from pyro_crowdclust.interface.command_line.models import MODELS

    assert {*arguments.MODEL_NAMES} == {*MODELS}
    assert {*arguments._COMMANDS} == {*COMMANDS}
    for name, summary in arguments._COMMANDS.items():
        assert COMMANDS[name].__doc__.startswith(summary.rstrip("."))


@pytest.mark.parametrize("words", [[], ["fly"], ["fit"], ["fit", "--clusters", "0"]])
def test_a_command_that_is_not_understood_exits_with_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: pyro-crowdclust" in capsys.readouterr().err


def test_version_and_help(capsys):
    for words in (["--version"], ["fit", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
    assert f"pyro-crowdclust {__version__}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("fit --out out", "--trusted"),
        ("fit --out out", "--answers"),
        ("fit --out out", "--ignore"),
        ("fit --out out", "--counts"),
        ("ask folder --out out", "--workers"),
    ],
)
def test_what_is_named_by_the_same_word_again_is_named_too(command, word):
    from pyro_crowdclust.interface.command_line import arguments

    for _ in range(2):  # the first does not stay for the second
        options = arguments.parser().parse_args([*command.split(), word, "a", "b", word, "c"])
        found = getattr(options, word.removeprefix("--"))
        assert [*map(str, found)] == ["a", "b", "c"]
