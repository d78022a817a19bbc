"""`bayplan envtest-assets`: programs for test suites of Go operators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from bayplan.cli.output import Failure

_PROGRAMS: Final = {"etcd": "etcd", "kube-apiserver": "apiserver", "kubectl": "kubectl"}
"""Name of each program -> module of `bayplan.envtest` that is it."""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def command(directory: Path) -> None:
    """Write etcd, kube-apiserver and kubectl for controller-runtime's envtest into DIRECTORY.

    Test suites of operators run unchanged with them, and start in a second: KUBEBUILDER_ASSETS=DIRECTORY go test ./...
    """
    import shlex

    from bayplan.envtest.kubectl import MARK

    mark = MARK.decode()

    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _PROGRAMS:
            path = directory / name
            if path.is_symlink() or (path.exists() and mark not in path.read_text(errors="replace")):
                raise Failure(f"{path} was not written by Bayplan, so it is not overwritten; choose another directory")
        for name, module in _PROGRAMS.items():
            path = directory / name
            path.write_text(
                f"#!/bin/sh\n{mark}\nexec {shlex.quote(sys.executable)} -c "
                f"'import sys; from bayplan.envtest.{module} import main; sys.exit(main())' \"$@\"\n"
            )
            path.chmod(0o755)
    except OSError as error:
        raise Failure(f"{directory}: {error.strerror or error}") from error
    click.echo(
        f"wrote {', '.join(_PROGRAMS)}; run your tests with\n\n  export KUBEBUILDER_ASSETS={shlex.quote(str(directory.absolute()))}"
    )
