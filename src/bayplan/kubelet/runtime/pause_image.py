"""An image for pods' sandboxes, made of nothing: its only file is a program of some 200 bytes, assembled here.

A sandbox needs a process that holds the pod's namespaces. Kubernetes' own image for that comes from a registry; machines without one, and tests, have this.
The program blocks the signals it knows and waits for them. SIGTERM and SIGINT end it. SIGCHLD makes it reap what has ended: in a pod that shares its process
namespace it is the parent of all orphans.

    sigprocmask(SIG_BLOCK, {INT, TERM, CHLD})
    for (;;) switch (sigtimedwait({INT, TERM, CHLD}, NULL, forever)) {
        case CHLD: while (wait4(-1, NULL, WNOHANG, NULL) > 0); break
        case < 0: break                    // interrupted
        default: exit_group(0)
    }
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile

PAUSE_IMAGE = "bayplan.dev/pause:1"
"""The name under which it is imported."""

_LOAD_ADDRESS = 0x400000
_HEADERS = 64 + 56
"""Bytes of an ELF header with one program header."""
_MACHINES = {"amd64": 62, "arm64": 183}
"""Architecture, in Kubernetes' words -> e_machine."""

_AMD64 = bytes.fromhex(
    "68 02 40 01 00"  #       push 0x14002           the signal set: bits 1 (INT), 14 (TERM), 16 (CHLD)
    "48 89 e6"  #             mov rsi, rsp
    "31 ff"  #                xor edi, edi           SIG_BLOCK
    "31 d2"  #                xor edx, edx
    "41 ba 08 00 00 00"  #    mov r10d, 8            bytes of the set
    "b8 0e 00 00 00"  #       mov eax, 14            rt_sigprocmask
    "0f 05"  #                syscall
    "48 89 e7"  #       wait: mov rdi, rsp
    "31 f6"  #                xor esi, esi
    "31 d2"  #                xor edx, edx
    "41 ba 08 00 00 00"  #    mov r10d, 8
    "b8 80 00 00 00"  #       mov eax, 128           rt_sigtimedwait
    "0f 05"  #                syscall
    "83 f8 11"  #             cmp eax, 17            SIGCHLD
    "74 0d"  #                je reap
    "85 c0"  #                test eax, eax
    "78 e3"  #                js wait
    "31 ff"  #                xor edi, edi
    "b8 e7 00 00 00"  #       mov eax, 231           exit_group
    "0f 05"  #                syscall
    "bf ff ff ff ff"  # reap: mov edi, -1            any child
    "31 f6"  #                xor esi, esi
    "ba 01 00 00 00"  #       mov edx, 1             WNOHANG
    "45 31 d2"  #             xor r10d, r10d
    "b8 3d 00 00 00"  #       mov eax, 61            wait4
    "0f 05"  #                syscall
    "85 c0"  #                test eax, eax
    "7f e6"  #                jg reap
    "eb be"  #                jmp wait
)
_ARM64 = struct.pack(
    "<31I",
    0xD2880049,  #       movz x9, 0x4002
    0xF2A00029,  #       movk x9, 1, lsl 16          the signal set, as above
    0xF81F0FE9,  #       str x9, [sp, -16]!
    0xD2800000,  #       mov x0, 0                   SIG_BLOCK
    0x910003E1,  #       mov x1, sp
    0xD2800002,  #       mov x2, 0
    0xD2800103,  #       mov x3, 8
    0xD28010E8,  #       mov x8, 135                 rt_sigprocmask
    0xD4000001,  #       svc 0
    0x910003E0,  # wait: mov x0, sp
    0xD2800001,  #       mov x1, 0
    0xD2800002,  #       mov x2, 0
    0xD2800103,  #       mov x3, 8
    0xD2801128,  #       mov x8, 137                 rt_sigtimedwait
    0xD4000001,  #       svc 0
    0xF100441F,  #       cmp x0, 17                  SIGCHLD
    0x540000A0,  #       b.eq reap
    0xB7FFFF00,  #       tbnz x0, 63, wait
    0xD2800000,  #       mov x0, 0
    0xD2800BC8,  #       mov x8, 94                  exit_group
    0xD4000001,  #       svc 0
    0x92800000,  # reap: mov x0, -1                  any child
    0xD2800001,  #       mov x1, 0
    0xD2800022,  #       mov x2, 1                   WNOHANG
    0xD2800003,  #       mov x3, 0
    0xD2802088,  #       mov x8, 260                 wait4
    0xD4000001,  #       svc 0
    0xF100001F,  #       cmp x0, 0
    0x54FFFF2C,  #       b.gt reap
    0x17FFFFEC,  #       b wait
    0xD4200000,  #       brk 0                       never reached
)
_CODE = {"amd64": _AMD64, "arm64": _ARM64}


def pause_program(architecture: str) -> bytes:
    """A static ELF executable for `amd64` or `arm64`. Raises ValueError for others."""
    code = _CODE.get(architecture)
    if code is None:
        raise ValueError(f"there is no pause program for {architecture}: give the sandbox image of a registry")
    size = _HEADERS + len(code)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    entry = _LOAD_ADDRESS + _HEADERS
    header = struct.pack("<HHIQQQIHHHHHH", 2, _MACHINES[architecture], 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    program = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)
    return identity + header + program + code


def pause_image(architecture: str, name: str = PAUSE_IMAGE) -> bytes:
    """A tar that `ctr images import` and `docker load` read, with the image under `name`. The same bytes each time."""
    layer = _tar({"pause": (pause_program(architecture), 0o755)})
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535", "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
        }
    ).encode()
    config_name = f"{_digest(config)}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    return _tar({config_name: (config, 0o644), "layer.tar": (layer, 0o644), "manifest.json": (manifest, 0o644)})


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    """An archive of files with their modes, owned by root, of time 0."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
