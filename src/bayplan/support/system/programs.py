"""Programs of the system that are run to their end, such as `ip` and `nft`."""

from __future__ import annotations

import asyncio
import shlex
import tempfile


class ProgramError(Exception):
    """A program has failed, or is not there. The message has the command and what the program said."""


async def run(*command: str, stdin: bytes = b"") -> str:
    """What a program prints. Raises ProgramError with what it says if it fails or is not there."""
    # Input from a file: a pipe breaks, in uvloop with an exception, where the program ends before it has read it.
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=file, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise ProgramError(f"{command[0]} cannot be run: {error.strerror}") from error
    output, errors = await process.communicate()
    if process.returncode:
        said = (errors or output).decode(errors="replace").strip()
        raise ProgramError(f"{shlex.join(command)} failed: {said or f'exit code {process.returncode}'}")
    return output.decode(errors="replace")


async def output_of(process: asyncio.subprocess.Process, seconds: float) -> tuple[bytes, bytes]:
    """What a program prints on standard output and error until it ends. It is killed if it takes longer, or if nobody waits for it any more. Raises TimeoutError."""
    try:
        async with asyncio.timeout(seconds):
            return await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def succeeds(*command: str) -> bool:
    """Whether a program ends with success; what it prints is not read."""
    try:
        await run(*command)
    except ProgramError:
        return False
    return True
