"""What the proxy sets on its machine besides rules, and what it asks of it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from bayplan.proxy.configuration import KubeProxyConfiguration
from bayplan.proxy.node import wanted_sysctls
from bayplan.proxy.system.sysctls import set_sysctls

logger = logging.getLogger(__name__)
OOM_SCORE: Final = Path("/proc/self/oom_score_adj")


def prepare_machine(configuration: KubeProxyConfiguration) -> None:
    """Set connection tracking, and when the kernel kills this process. What cannot be set is told, and stays as it is."""
    for reason in set_sysctls(wanted_sysctls(configuration, os.cpu_count() or 1)):
        logger.warning("%s", reason)
    adjustment = configuration.oom_score_adj
    if adjustment is None:
        return
    try:
        OOM_SCORE.write_text(str(adjustment))
    except OSError as error:
        logger.info("%s cannot be set to %d: %s", OOM_SCORE, adjustment, error.strerror)
