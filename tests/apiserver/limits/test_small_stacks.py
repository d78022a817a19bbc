"""Deep input cannot exhaust the stack of C code, also not a small one: such a crash ends the process, so another one is asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

STACK = 256 * 1024
PROGRAM = """
import sys, threading
import msgspec, yaml
from bayplan.api import protobuf
from bayplan.api.codec import DecodeError, decode_reporting, encode
from bayplan.api.json.syntax import repaired, syntax_problem
from bayplan.api.json.nesting import MAX_DEPTH, is_too_deep
from bayplan.api.patching.json_patches import apply_json_patch, apply_merge_patch, copy_tree
from bayplan.api.types import apps_v1
from bayplan.apiserver.yaml.documents import to_json, to_yaml

def deepest(opened, closed):
    data = opened * MAX_DEPTH + b"1" + closed * MAX_DEPTH
    assert not is_too_deep(data)
    tree = msgspec.json.decode(data)
    assert encode(copy_tree(tree)) == data == encode(msgspec.json.decode(to_json(to_yaml(data))))
    assert tree == copy_tree(tree)
    assert not syntax_problem(data) and repaired(data)
    assert apply_merge_patch({"a": tree}, {"a": tree}) and apply_json_patch({"a": tree}, [{"op": "test", "path": "/a", "value": tree}])
    body = b'{"data":' + data[: len(opened) * (MAX_DEPTH - 1)] + b"1" + closed * (MAX_DEPTH - 1) + b"}"
    assert decode_reporting(apps_v1.ControllerRevision, body)[0]

def too_deep(opened, closed):
    data = opened * 500_000
    assert is_too_deep(data) and syntax_problem(data) == "exceeded max depth"
    for text in (data, data + b"1" + closed * 500_000, data.replace(b'"', b"")):
        try:
            to_json(text)
        except yaml.YAMLError:
            continue
        raise AssertionError("it was read")

def run():
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        globals()[sys.argv[1]](opened, closed)
    print("done")

threading.stack_size(int(sys.argv[2]))
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("what", ["deepest", "too_deep"])
def test_deep_input_is_read_or_refused_on_a_small_stack(what: str) -> None:
    command = [sys.executable, "-c", PROGRAM, what, str(STACK)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]
