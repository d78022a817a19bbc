import asyncio

import pytest

from bayplan.support.system.programs import ProgramError, run, succeeds


def test_output_of_a_program_that_reads_its_input() -> None:
    assert asyncio.run(run("cat", stdin="grüße\n".encode())) == "grüße\n"


def test_a_program_that_ends_before_it_has_read_its_input() -> None:
    assert asyncio.run(run("true", stdin=b"x" * 1_000_000)) == ""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("sh", "-c", "echo no way >&2; exit 3"), "sh -c 'echo no way >&2; exit 3' failed: no way"),
        (("sh", "-c", "echo printed; exit 3"), "sh -c 'echo printed; exit 3' failed: printed"),
        (("sh", "-c", "exit 3"), "sh -c 'exit 3' failed: exit code 3"),
        (("/nowhere/program",), "/nowhere/program cannot be run: No such file or directory"),
    ],
)
def test_a_program_that_fails_says_why(command: tuple[str, ...], message: str) -> None:
    with pytest.raises(ProgramError) as raised:
        asyncio.run(run(*command))
    assert str(raised.value) == message


def test_success_is_the_exit_code() -> None:
    assert asyncio.run(succeeds("true"))
    assert not asyncio.run(succeeds("false"))
