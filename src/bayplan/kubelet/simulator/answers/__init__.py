"""What simulated pods answer to `logs`, `exec`, `attach` and `port-forward`, as kwok's objects say."""

from bayplan.kubelet.simulator.answers.pod_answers import PodAnswers

__all__ = ["PodAnswers"]
