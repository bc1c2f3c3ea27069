"""How the command line takes arguments and tells failures."""

import subprocess
import sys
from importlib import metadata

import pytest
from sqlalchemy.exc import DBAPIError

from chains.errors import NodeUnavailable, WrongChain
from reconciler import cli
from reconciler.kernel import InvariantBroken, Refusal
from reconciler.relay import AnotherRelay
from reconciler.storage.asking import DatabaseUnreachable
from reconciler.stream.promise import Fenced, StreamUnavailable, TopicsDiffer
from reconciler.watch.watcher import AnotherWatcher


@pytest.fixture
def failing(monkeypatch):
    """A command line whose only command fails with what the test wants."""

    def fail_with(error):
        def raise_it(_arguments):
            raise error

        monkeypatch.setattr(cli, "app", raise_it)

    return fail_with


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspekt"], ["inspekt", "inspect"]),
        (["inspect", "--chain", "eip155:1"], ["--block"]),
        (["inspect", "--chain", "eip155:1", "--block", "x", "--addr", "y"], ["--address"]),
        (["inspect", "--chain", "eip155:1"], ["see reconciler inspect --help"]),
        (["audit", "verif"], ["verif", "verify", "see reconciler audit --help"]),
        (["decide", "assign", "a"], ["ORDER", "see reconciler decide assign --help"]),
        (["doctor", "stray", "words"], ["nothing is expected", "'stray words'"]),
        (["intake", "--port", "65536"], ["--port", "65535"]),
        (["doctor", "--config", "nowhere.toml"], ["nowhere.toml", "no such file", "--config"]),
        (["nonsense"], ["nonsense", "see reconciler --help"]),
    ],
)
def test_what_cannot_be_meant_is_one_sentence_and_exit_code_2(arguments, words, capsys):
    assert cli.run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("reconciler: ")
    for word in words:
        assert word in said.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refusal("x"), 2),
        (TopicsDiffer("x"), 2),
        (WrongChain("x"), 2),
        (StreamUnavailable("x"), 1),
        (NodeUnavailable("x"), 1),
        (Fenced("x"), 3),
        (AnotherWatcher("x"), 3),
        (DatabaseUnreachable("x"), 1),
        (DBAPIError("select", None, Exception("x")), 1),
        (ConnectionRefusedError("x"), 1),
        (AnotherRelay("x"), 3),
        (ExceptionGroup("", [StreamUnavailable("x"), ExceptionGroup("", [Fenced("x")])]), 3),
        (InvariantBroken("x"), 70),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_every_failure_has_its_exit_code(error, code, failing, capsys):
    failing(error)
    assert cli.run([]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_what_nobody_foresaw_is_not_hidden(failing):
    failing(ExceptionGroup("", [StreamUnavailable("x"), ZeroDivisionError("bug")]))
    with pytest.raises(ZeroDivisionError):
        cli.run([])


def test_what_nobody_foresaw_ends_the_process_as_a_bug_with_all_that_is_known(
    failing, monkeypatch, capsys
):
    failing(ZeroDivisionError("unforeseen"))
    monkeypatch.setattr(sys, "argv", ["reconciler"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 70
    assert "ZeroDivisionError: unforeseen" in capsys.readouterr().err


def test_a_failure_of_several_lines_is_told_on_one(failing, capsys):
    failing(Refusal("first\n  second"))
    cli.run([])
    assert capsys.readouterr().err == "reconciler: first second\n"


def test_help_names_every_command_and_every_exit_code(capsys):
    assert cli.run(["--help"]) == 0
    shown = capsys.readouterr().out
    for command, (summary, _place) in cli.COMMANDS.items():
        assert f" {command} " in shown
        assert summary.split(maxsplit=1)[0] in shown
    for code in ("  0 ", "  1 ", "  2 ", "  3 ", "  70 ", "  130 "):
        assert code in shown


@pytest.mark.parametrize("arguments", [[], ["-h"], ["help"]])
def test_who_asks_for_nothing_or_for_help_is_shown_the_commands(arguments, capsys):
    assert cli.run(arguments) == 0
    assert "Usage: reconciler COMMAND" in capsys.readouterr().out


def test_the_version_is_that_of_the_installed_package(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == metadata.version("crypto-payment-reconciler")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("watch", "One watcher of a chain lives"),
        ("doctor", "Exits with 1 when something is not well"),
        ("export", "A new file never takes the place of one that is there"),
        ("decide", "both stand in the journal for ever"),
    ],
)
def test_a_command_explains_itself_at_length_and_the_list_keeps_its_line(command, words, capsys):
    for arguments in ([command, "--help"], ["help", command]):
        assert cli.run(arguments) == 0
        assert words in " ".join(capsys.readouterr().out.split())
    assert cli.run(["--help"]) == 0
    listed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert cli.COMMANDS[command][0] in listed


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_command_explains_itself_and_its_options(command, capsys):
    assert cli.run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: reconciler {command}" in shown
    assert "--empty-" not in shown
    assert "--no-" not in shown


def test_help_waits_for_no_database_and_no_node():
    script = (
        "import sys; from reconciler import cli; cli.run(['--help']);"
        "slow = {'sqlalchemy', 'web3', 'aiokafka', 'bitcoinlib'} & set(sys.modules); print(slow or '')"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.splitlines()[-1] == ""
