"""The entry point: `bayplan VERB`."""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bayplan import KUBERNETES_VERSION, __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = {
    "up": "Run a whole cluster until Ctrl-C",
    "create": "Create a cluster that runs in the background",
    "list": "List the clusters in the background",
    "start": "Start clusters in the background that were stopped",
    "stop": "Stop clusters in the background",
    "delete": "Stop clusters in the background and delete them",
    "kubeconfig": "Print the kubeconfig of a cluster in the background",
    "logs": "Print what a cluster in the background has said",
    "demo": "Show scheduling live on a throw-away cluster",
    "ui": "Show a cluster on a web page",
    "learn": "Play a small scenario that shows how Kubernetes works",
    "explain": "Say why a pod, workload, claim or node is as it is",
    "snapshot": "Copy a cluster into one file",
    "simulate": "Say what happens to a cluster if something is done to it",
    "what-if": "Ask a running scheduler where new pods would go",
    "capacity": "Say how many more of a pod fit, and what limits them",
    "consolidate": "Say which nodes can go, and where everything moves",
    "faults": "Let a workload live through faults, and check that all holds",
    "compare": "Compare two scheduler configurations on one workload",
    "rehearse": "Say what an upgrade changes for each pod of a workload",
    "replay": "Place a workload over time: waits, utilisation, fragmentation",
    "record": "Write down which pods come to a cluster and go",
    "trace": "Print every write of a cluster in virtual time",
    "store": "Check, back up, restore and compact the store of a cluster",
    "forward": "Let your programs answer for services of a cluster",
    "apiserver": "Run the API server alone",
    "scheduler": "Run the scheduler against any cluster",
    "controller-manager": "Run the controllers against any cluster",
    "descheduler": "Evict pods that should not stay where they are",
    "kubelet": "Run a node of any cluster on this machine",
    "network": "Connect the pods of this machine's node with all others",
    "proxy": "Bring traffic of services to their endpoints",
    "dns": "Answer DNS questions about any cluster",
    "csi-controller": "Do what a cluster asks of a storage driver",
    "csi-local": "Offer the disk of this node as volumes, over CSI",
    "node-simulator": "Play simulated nodes in any cluster",
    "envtest-assets": "Write programs that test suites of Go operators start",
    "annotations": "List what can be said by annotations",
    "doctor": "Say what this machine has for clusters, and what it lacks",
    "completion": "Print a script that makes your shell complete",
    "version": "Print versions",
}
"""Every verb and its one line of help."""
_PACKAGES = {
    "clusters": "up create list start stop delete kubeconfig logs demo ui store forward",
    "questions": "learn explain snapshot simulate what-if capacity consolidate faults compare rehearse replay record trace",
    "components": "apiserver scheduler controller-manager descheduler kubelet network proxy dns csi-controller csi-local node-simulator",
}
"""Package of `bayplan.cli` -> the verbs whose modules lie in it; the others' lie beside this one."""
_PACKAGE_OF = {verb: f"bayplan.cli.{package}" for package, verbs in _PACKAGES.items() for verb in verbs.split()}


def module_of(verb: str) -> str:
    """The module of a verb, which is named after it."""
    return f"{_PACKAGE_OF.get(verb, 'bayplan.cli')}.{verb.replace('-', '_')}"


_BELOW = {("scheduler", "plugin"): "bayplan.cli.components.scheduler_plugin"}
"""Verbs below a verb that takes a Kubernetes program's flags -> their module."""
COMPLETE_VARIABLE = "_BAYPLAN_COMPLETE"
"""Environment variable by which shells ask for completions."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What an output that takes no more answers, besides a pipe that was closed (click knows that)."""


class VerbGroup(click.Group):
    """Imports a verb's module when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(module_of(cmd_name))
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        if tuple(args[:2]) in _BELOW:
            module = importlib.import_module(_BELOW[args[0], args[1]])
            return " ".join(args[:2]), module.command, args[2:]
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, 1)
            raise click.UsageError(
                f"no such command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""), ctx
            )
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=text) for verb, text in VERBS.items() if verb.startswith(incomplete)]
        return verbs if verbs else super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. Errors that say that a question makes no sense, or that something failed, become exit codes."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from bayplan.cli.exit_codes import failure_of

            failure = failure_of(error)
            if failure is None:
                raise
            raise failure from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    help="Whether to print colours: on terminals, unless $NO_COLOR is set; always; never.",
)
@click.version_option(__version__, message=f"bayplan %(version)s (Kubernetes {KUBERNETES_VERSION})")
def main(color: str) -> None:
    """The Kubernetes control plane in Python."""
    if color != "auto":  # what prints asks the environment, as do programs that are started
        for name in ("NO_COLOR", "FORCE_COLOR"):
            os.environ.pop(name, None)
        os.environ["FORCE_COLOR" if color == "always" else "NO_COLOR"] = "1"


def run(name: str = "bayplan") -> NoReturn:
    """The program: `main`, and then the process ends as it is. To take a large cluster apart, object by object, takes long.

    name: what it is called in messages, also where it is started by `python -c`.
    """
    code: object = 0
    try:
        main(prog_name=name, complete_var=COMPLETE_VARIABLE)
    except SystemExit as end:
        code = end.code
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        print(f"bayplan: {error.filename or 'the output cannot be written'}: {error.strerror}", file=sys.stderr)
        _end(1)
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or 1
        if error.errno in _NO_ROOM:  # else whoever read it has gone
            print(f"bayplan: the output cannot be written: {error.strerror}", file=sys.stderr)
    _end(code or 0)


def _end(code: int) -> NoReturn:
    """End the process as it is."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # whoever read it has gone, or it was said before
            stream.flush()
    os._exit(code)
