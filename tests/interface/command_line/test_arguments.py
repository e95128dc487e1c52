"""What the words of the command line mean, and how it says how it is used."""

from __future__ import annotations

import pytest

from pyro_crowdclust import __version__
from pyro_crowdclust.interface.command_line import main


def test_the_parser_knows_the_commands():
    from pyro_crowdclust.interface.command_line import arguments, commands

    assert {*arguments.MODELS} == {*commands.MODELS}
    for name, summary in arguments._COMMANDS.items():
        assert getattr(commands, name).__doc__.startswith(summary.rstrip("."))


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
