"""Paths of the machine that containers do not see."""

from __future__ import annotations

from pathlib import Path

from bayplan.kubelet.node.machine import thermal_throttles


def test_processors_that_tell_their_heat_are_found(tmp_path: Path) -> None:
    for name in ("cpu0/thermal_throttle", "cpu1", "cpu10/thermal_throttle", "cpufreq/thermal_throttle"):
        (tmp_path / name).mkdir(parents=True)
    found = [f"{tmp_path}/cpu0/thermal_throttle", f"{tmp_path}/cpu10/thermal_throttle"]
    assert list(thermal_throttles(tmp_path)) == found
    assert thermal_throttles(tmp_path / "nowhere") == ()
