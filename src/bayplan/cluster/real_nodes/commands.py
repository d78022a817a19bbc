"""Programs of the system, whose failures are those of real nodes."""

from __future__ import annotations

from bayplan.cluster.errors import RealNodeError
from bayplan.support.system import programs
from bayplan.support.system.programs import ProgramError


async def run(*command: str, stdin: bytes = b"") -> str:
    """What a program prints. Raises RealNodeError with what it says if it fails or is not there."""
    try:
        return await programs.run(*command, stdin=stdin)
    except ProgramError as error:
        raise RealNodeError(str(error)) from error
