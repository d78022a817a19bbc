"""What the machine must have: the program `nft`, the capability CAP_NET_ADMIN, a kernel that is new enough."""

from __future__ import annotations

import os
import platform
import re
import shutil
from typing import Final

from bayplan.proxy.errors import RequirementError
from bayplan.support.system.machine import has_net_admin
from bayplan.support.system.programs import ProgramError, run

_OLDEST_NFT: Final = (1, 0, 1)
"""Older ones read all tables of the machine first, and may fail at those of others."""
_OLDEST_KERNEL: Final = (5, 13)
_SKIP_KERNEL: Final = "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"
"""kube-proxy's environment variable."""


async def check_requirements() -> None:
    """Raises RequirementError with what to install, or to grant."""
    if not has_net_admin():
        raise RequirementError(
            "bayplan proxy needs CAP_NET_ADMIN to change rules of the kernel: run it as root, or grant it that capability"
        )
    if shutil.which("nft") is None:
        raise RequirementError("nft is not there: install the package nftables")
    try:
        version = numbers(await run("nft", "--version"))
    except ProgramError as error:
        raise RequirementError(str(error)) from error
    if version < _OLDEST_NFT:
        raise RequirementError(f"nft {_dotted(version)} is too old: install nftables {_dotted(_OLDEST_NFT)} or later")
    kernel = numbers(platform.release())
    if kernel < _OLDEST_KERNEL and not os.environ.get(_SKIP_KERNEL):
        raise RequirementError(
            f"kernel {_dotted(kernel)} is too old: {_dotted(_OLDEST_KERNEL)} or later is needed; set {_SKIP_KERNEL} to try it nevertheless"
        )


def numbers(text: str) -> tuple[int, ...]:
    """The first version in a text: `nftables v1.0.6 (Lester Gooch)` -> (1, 0, 6); () without one."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(one) for one in found[0].split(".")) if found is not None else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
