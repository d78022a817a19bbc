"""What a KubeletConfiguration may say, and how files are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.kubelet.configuration import API_VERSION, KIND, from_tree, load
from bayplan.kubelet.errors import ConfigurationError

HEAD = {"apiVersion": API_VERSION, "kind": KIND}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eventBurst": -1}, "eventBurst -1 must not be a negative number"),
        ({"registryPullQPS": -1}, "registryPullQPS -1 must not be a negative number"),
        ({"nodeStatusMaxImages": -2}, "nodeStatusMaxImages -2 must not be less than -1"),
        ({"nodeLeaseDurationSeconds": 0}, "nodeLeaseDurationSeconds 0 must not be less than 1"),
        ({"oomScoreAdj": 1001}, "oomScoreAdj 1001 must be between -1000 and 1000, inclusive"),
        ({"cpuCFSQuotaPeriod": "2s"}, "cpuCFSQuotaPeriod 2s must be between 1ms and 1s, inclusive"),
        ({"crashLoopBackOff": {"maxContainerRestartPeriod": "10m"}}, "10m0s must be between 1s and 5m0s, inclusive"),
        ({"imageMaximumGCAge": "1m"}, "imageMaximumGCAge 1m0s must be greater than imageMinimumGCAge 2m0s"),
        ({"containerLogMonitorInterval": "1s"}, "containerLogMonitorInterval must be a positive time duration"),
        ({"memoryThrottlingFactor": 1.5}, "memoryThrottlingFactor 1.5 must be greater than 0"),
        ({"maxParallelImagePulls": 0}, "maxParallelImagePulls 0 must be a positive number"),
        ({"memorySwap": {"swapBehavior": "Much"}}, 'swapBehavior "Much" must be one of: "", "LimitedSwap", "NoSwap"'),
        ({"hairpinMode": "yes"}, 'hairpinMode "yes" must be one of'),
        ({"imagePullCredentialsVerificationPolicy": "Never"}, 'VerificationPolicy "Never" must be one of'),
        ({"preloadedImagesVerificationAllowlist": ["a"]}, "can't set preloadedImagesVerificationAllowlist"),
        ({"systemCgroups": "/s"}, "systemCgroups was specified and cgroupRoot was not specified"),
        ({"containerRuntimeEndpoint": ""}, "the containerRuntimeEndpoint was not specified or empty"),
        ({"enableSystemLogQuery": True, "enableSystemLogHandler": False}, "enableSystemLogHandler is required"),
        ({"runOnce": True}, "runOnce mode has been deprecated and should not be set"),
        ({"enforceNodeAllocatable": ["nodes"]}, 'option "nodes" specified for enforceNodeAllocatable'),
        ({"enforceNodeAllocatable": ["pods", "pods"]}, 'duplicated enforcements "pods"'),
        ({"enforceNodeAllocatable": ["none", "pods"]}, 'additional enforcements when "none" is specified'),
        ({"enforceNodeAllocatable": ["kube-reserved"]}, 'kubeReservedCgroup must be specified when "kube-reserved"'),
        ({"cgroupsPerQOS": False}, 'cgroupsPerQOS must be set to true when "pods" contained'),
        (
            {"enforceNodeAllocatable": ["system-reserved", "system-reserved-compressible"], "systemReservedCgroup": "/s"},
            'both "system-reserved" and "system-reserved-compressible" cannot be specified together',
        ),
        ({"podLogsDir": "logs"}, 'pod logs path "logs" must be absolute path'),
        ({"podLogsDir": "/var//log"}, 'pod logs path "/var//log" must be normalized'),
        ({"podLogsDir": "/lög"}, "must contain ASCII characters only"),
        ({"podLogsDir": ""}, "podLogsDir was not specified"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_tree({**HEAD, **fields}, "kubelet.yaml")
    assert str(caught.value).startswith("kubelet.yaml: invalid configuration: ")
    assert message in str(caught.value)


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"eventBurst -1 .*; kubeAPIQPS -2 .*; runOnce mode"):
        from_tree({**HEAD, "eventBurst": -1, "kubeAPIQPS": -2, "runOnce": True}, "kubelet.yaml")


@pytest.mark.parametrize(
    "fields",
    [
        {"enforceNodeAllocatable": ["none"], "cgroupsPerQOS": False},
        {"enforceNodeAllocatable": ["pods", "kube-reserved"], "kubeReservedCgroup": "/kube"},
        {"systemCgroups": "/s", "cgroupRoot": "/"},
        {"nodeStatusMaxImages": -1, "imageMaximumGCAge": "3m", "maxParallelImagePulls": 1},
    ],
)
def test_values_that_fit_are_taken(fields: dict[str, Any]) -> None:
    from_tree({**HEAD, **fields}, "kubelet.yaml")


def test_values_have_to_fit_when_all_files_are_merged(tmp_path: Path) -> None:
    head = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    main, more = tmp_path / "kubelet.yaml", tmp_path / "10-more.conf"
    main.write_text(f"{head}imageGCHighThresholdPercent: 95\n")
    more.write_text(f"{head}imageGCLowThresholdPercent: 90\n")
    assert load(main, tmp_path).image_gc_low_threshold_percent == 90
    main.write_text(head)
    with pytest.raises(ConfigurationError, match="imageGCLowThresholdPercent 90 must be below"):
        load(main, tmp_path)
