"""Pods that share a bridge: their packets pass the rules only if the kernel gives bridged packets to them (`br_netfilter`)."""

from __future__ import annotations

import json
from pathlib import Path

from bayplan.network.policy.addresses import Family, family_of
from bayplan.support.system.programs import ProgramError, run

_SYSCTLS = Path("/proc/sys/net/bridge")
_NAMES = {Family.IPV4: "bridge-nf-call-iptables", Family.IPV6: "bridge-nf-call-ip6tables"}


async def judge_bridged(address: str) -> str:
    """Have what pods send over the bridge of this pod judged. Returns what has been changed, or what is missing; "" if all is well."""
    try:
        bridge = await _bridge_of(address)
    except ProgramError as error:
        return f"whether pods share a bridge is not known: {error}"
    name = _NAMES[family_of(address)]
    setting = f"net.bridge.{name}"
    if not bridge:
        return ""
    try:
        if (_SYSCTLS / name).read_text().strip() == "1":
            return ""
        (_SYSCTLS / name).write_text("1")
    except FileNotFoundError:
        return (
            f"pods at the bridge {bridge} reach each other whatever policies say, since the kernel has no {setting}: "
            "load the module br_netfilter, or attach pods by the plugin ptp"
        )
    except OSError as error:
        return f"pods at the bridge {bridge} reach each other whatever policies say: set {setting}=1 ({error.strerror})"
    return f"{setting} has been set to 1, so that policies apply between pods at the bridge {bridge}"


async def _bridge_of(address: str) -> str:
    """The bridge by which a pod is reached; "" if it is no bridge. Raises ProgramError."""
    family = "-6" if family_of(address) is Family.IPV6 else "-4"
    routes = json.loads(await run("ip", "-json", family, "route", "get", address) or "[]")
    device = str(routes[0].get("dev", "")) if routes else ""
    if not device:
        return ""
    links = json.loads(await run("ip", "-json", "-details", "link", "show", "dev", device) or "[]")
    return device if any(one.get("linkinfo", {}).get("info_kind") == "bridge" for one in links) else ""
