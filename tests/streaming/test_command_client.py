"""What the error stream of a command says to its client, in Kubernetes' words."""

from __future__ import annotations

import pytest

from bayplan.streaming.command_client import exit_code
from bayplan.streaming.interface import StreamError

V4, V3 = "v4.channel.k8s.io", "v3.channel.k8s.io"
FAILURE = '{"status": "Failure", "reason": "NonZeroExitCode"'


@pytest.mark.parametrize(
    ("outcome", "protocol", "code"),
    [
        ("", V3, 0),
        ("", V4, 0),
        ('{"status": "Success"}', V4, 0),
        (
            f'{FAILURE}, "details": {{"causes": [{{"reason": "x"}}, {{"reason": "ExitCode", "message": "137"}}]}}}}',
            V4,
            137,
        ),
    ],
)
def test_codes(outcome: str, protocol: str, code: int) -> None:
    assert exit_code(outcome.encode(), protocol) == code


@pytest.mark.parametrize(
    ("outcome", "protocol", "text"),
    [
        ("it failed", V3, "error executing remote command: it failed"),
        ("it failed", V4, 'in "it failed"'),
        ('{"status": "Failure", "reason": "InternalError", "message": "it failed"}', V4, "^it failed$"),
        ('{"status": "?"}', V4, "unknown error"),
        (f"{FAILURE}}}", V4, "details must be set"),
        (f'{FAILURE}, "details": {{}}}}', V4, "no ExitCode cause given"),
        (f'{FAILURE}, "details": {{"causes": [{{"reason": "ExitCode", "message": "256"}}]}}}}', V4, 'value "256"'),
        (f'{FAILURE}, "details": {{"causes": [{{"reason": "ExitCode", "message": "-1"}}]}}}}', V4, 'value "-1"'),
    ],
)
def test_what_is_no_code_is_said(outcome: str, protocol: str, text: str) -> None:
    with pytest.raises(StreamError, match=text):
        exit_code(outcome.encode(), protocol)
