"""`bayplan record`: write down which pods come to a cluster and go."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import signal
import sys
import zlib
from pathlib import Path
from typing import IO

import click

from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure, Unanswerable

_FLUSH_EVERY = 5.0


@click.command()
@connection_options
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write; - is standard output.",
)
@click.option("--for", "duration", metavar="TIME", help="Record for so long, such as 24h; else until Ctrl-C.")
def command(kubeconfig: Path | None, context: str, file: Path, duration: str | None) -> None:
    """Write down which pods come to a live cluster and go, its nodes, and what else bears on placement (claims, volumes, classes,
    priorities), for `bayplan replay` and `bayplan compare`.

    Ends at Ctrl-C or after --for; what was written is good at any time.
    """
    from bayplan.cli.questions.simulate import seconds_in

    seconds = seconds_in(duration) if duration else None
    streams = str(file) == "-"
    if file.exists() and not streams:
        raise Failure(f"{file} exists; name another file with --output")
    try:
        with gzip.open(sys.stdout.buffer if streams else file, "wb") as output:
            pods = asyncio.run(_record(kubeconfig, context, output, seconds))
    except OSError as error:
        raise Failure(f"the recording cannot be written to {file}: {error.strerror or error}") from error
    if streams:
        click.echo(f"{pods} pods recorded", err=True)
    else:
        click.echo(f"{pods} pods recorded in {file}; play it with: bayplan replay {file}")


async def _record(
    kubeconfig: Path | None, context: str, output: gzip.GzipFile | IO[bytes], seconds: float | None
) -> int:
    from bayplan.api.errors import ApiError
    from bayplan.api.types.core_v1 import Node
    from bayplan.simulation.snapshots.recording import Recorder, recorded_kinds
    from bayplan.support.clock import SystemClock
    from bayplan.support.randomness import SystemRandomness

    client = connect(kubeconfig, context)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    try:
        await client.list(Node)
        recorder = Recorder(
            client,
            output.write,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            kinds=await recorded_kinds(client),
        )
        running = asyncio.create_task(recorder.run())
        flushing = asyncio.create_task(_flush(output))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
        for task in (running, flushing):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return recorder.pods
    except ApiError as error:
        raise Unanswerable(f"the cluster cannot be recorded: {error}") from error
    finally:
        await client.close()


async def _flush(output: gzip.GzipFile | IO[bytes]) -> None:
    """Bring to the disk what was written, so that a crash costs seconds only."""
    while True:
        await asyncio.sleep(_FLUSH_EVERY)
        if isinstance(output, gzip.GzipFile):
            output.flush(zlib.Z_SYNC_FLUSH)
