"""Commands that stand for Kubernetes' binaries: they know every flag of theirs, and read command lines as those do."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, NoReturn

import click

from bayplan.cli.flags.feature_gates import gates_of, gates_without_effect
from bayplan.cli.flags.kube_flag_tables import LISTS, FlagTable

_GATES: Final = "feature-gates"
_TAKEN: Final = "bayplan.flags.taken"
"""Where a context keeps flags that were given and are no options."""
_EPILOG: Final = (
    "All other flags of the Kubernetes program are known too: those that mean nothing here are taken with a note, "
    "those that are not supported are refused with the reason. --feature-gates takes the gates of this version."
)


class KubeCommand(click.Command):
    """A command with the flags of a binary; those that are no options of it are in `table`."""

    def __init__(self, name: str | None, *, table: FlagTable, **others: Any) -> None:
        super().__init__(name, epilog=_EPILOG, **others)
        self.table = table

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._own_arguments(ctx, args))

    def flags(self) -> list[str]:
        """The names of all flags that the command takes, without dashes."""
        table = self.table
        return sorted({*self._options(), *table.without_effect, *table.refused, *table.fixed, _GATES, "version"})

    def switches(self) -> frozenset[str]:
        """The names of those that need no value."""
        own = (name for name, option in self._options().items() if _is_switch(option))
        return frozenset((*self.table.switches, *own, "help", "h", "version"))

    def _options(self) -> dict[str, click.Parameter]:
        return {name.removeprefix("--"): one for one in self.params for name in one.opts if name.startswith("--")}

    def _own_arguments(self, ctx: click.Context, words: list[str]) -> list[str]:
        """The arguments that are options of this command, written so that they are read as Go programs read them. Raises UsageError."""
        options, own, ignored = self._options(), [], {}
        taken: dict[str, str] = {}
        lists: dict[str, list[str]] = {}
        others = {*self.flags(), *self.table.former}
        rest = iter(words)
        for word in rest:
            if word == "--":
                own += [word, *rest]
                break
            word = f"--v={word[2:].lstrip('=') or next(rest, '')}" if word.startswith("-v") else word
            name, equals, value = word.removeprefix("--").partition("=")
            name = name if name in options else name.replace("_", "-")
            if not word.startswith("--") or name == "help":
                own.append(word)
            elif name in LISTS and name in options:
                given = [value] if equals else list(islice(rest, 1))
                if given:
                    lists[name] = [*filter(None, lists.get(name, ())), *given]
                else:
                    own.append(word)
            elif name in options:  # a truth value is never the next word
                bare = not equals and _is_switch(options[name])
                own.append(f"--{name}=true" if bare else f"--{name}{equals}{value}")
            elif name == "version" and value != "false":
                _show_version(ctx)
            elif name in others:
                if not equals:
                    value = "true" if name in self.table.switches else next(rest, "")
                if name in LISTS and name in taken:
                    value = f"{taken[name]},{value}"
                taken[name] = value
                if why := self._why_without_effect(ctx, name, value):
                    ignored[name] = why
            else:
                own.append(word)
        ctx.meta[_TAKEN] = taken
        for name, why in ignored.items():
            click.echo(f"bayplan: note: --{name} has no effect: {why}", err=True)
        return [*(f"--{name}={','.join(values)}" for name, values in lists.items()), *own]

    def _why_without_effect(self, ctx: click.Context, name: str, value: str) -> str:
        """Of a flag that is no option; "" if it says what Bayplan does. Raises UsageError if it is refused."""
        table = self.table
        if name in table.former:
            raise click.UsageError(f"--{name} is a flag of older versions; today: {table.former[name]}", ctx)
        if name in table.refused:
            raise click.UsageError(f"--{name} is not supported: {table.refused[name]}", ctx)
        if name == _GATES:
            gates = gates_without_effect(gates_of(value))
            return f"Bayplan behaves as with the default of {', '.join(gates)}" if gates else ""
        if name in table.fixed and value not in table.fixed[name]:
            values = " or ".join(repr(one) for one in table.fixed[name])
            raise click.UsageError(f"--{name}={value} is not supported: it can only be {values}", ctx)
        return table.without_effect.get(name, "")


def flag_values(ctx: click.Context) -> dict[str, str]:
    """What the flags of a command are set to, by name without dashes: its options with their defaults, and others that were given. Values as Go writes them."""
    options = {
        name.removeprefix("--"): ctx.params.get(one.name or "")
        for one in ctx.command.params
        for name in one.opts
        if name.startswith("--")
    }
    return {**{name: _go_text(value) for name, value in options.items()}, **ctx.meta.get(_TAKEN, {})}


def _go_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple | list) else str(value)


def _is_switch(option: click.Parameter) -> bool:
    """Whether it is a truth value with a text of its own."""
    return option.type is click.BOOL and not getattr(option, "is_flag", False)


def _show_version(ctx: click.Context) -> NoReturn:
    from bayplan import KUBERNETES_VERSION, __version__

    click.echo(f"Kubernetes v{KUBERNETES_VERSION.removeprefix('v')} (Bayplan {__version__})")
    ctx.exit()
