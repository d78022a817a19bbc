"""The page's terminal: what the screen shows after what it was sent, run by node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

TERMINAL = Path(__file__).parents[2] / "src" / "bayplan" / "ui" / "static" / "terminal"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")
_PROGRAM = """
const { Screen } = await import(process.argv[1] + "/screen.js");
const { sent } = await import(process.argv[1] + "/keys.js");
const cases = JSON.parse(await new Promise((done) => { let text = ""; process.stdin.on("data", (piece) => { text += piece; }).on("end", () => done(text)); }));
const answers = cases.map(({ key, modes, size, pieces, resized }) => {
  if (key) return sent(key, modes || {});
  const said = [], screen = new Screen(size[0], size[1], (text) => said.push(text));
  for (const piece of pieces) screen.write(Buffer.from(piece, "latin1"));
  if (resized) screen.resize(...resized);
  const looks = screen.lines.map((line) => line.map(([, look]) => look));
  const past = screen.past.map((line) => line.map(([char]) => char).join("").trimEnd());
  return { text: screen.text(), x: screen.x, y: screen.y, said, past, looks, modes: screen.modes };
});
console.log(JSON.stringify(answers));
"""


def in_node(cases: list[dict[str, Any]]) -> list[Any]:
    command = [str(NODE), "--input-type=module", "-e", _PROGRAM, f"file://{TERMINAL}"]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(autouse=True, scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Node takes files as modules where their package says so."""
    global TERMINAL
    directory = tmp_path_factory.mktemp("terminal")
    for file in TERMINAL.glob("*.js"):
        (directory / file.name).write_bytes(file.read_bytes())
    (directory / "package.json").write_text('{"type": "module"}')
    TERMINAL = directory


def shown(*pieces: str, size: tuple[int, int] = (10, 4), resized: tuple[int, int] | None = None) -> Any:
    coded = [piece.encode().decode("latin1") for piece in pieces]
    (answer,) = in_node([{"size": size, "pieces": coded, "resized": resized}])
    return answer


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("hello", "hello"),
        ("a\r\nb\r\nc", "a\nb\nc"),
        ("0123456789ab", "0123456789\nab"),
        ("0123456789\r\nx", "0123456789\nx"),
        ("abc\bX", "abX"),
        ("a\tb", "a       b"),
        ("abc\x1b[1;2HX", "aXc"),
        ("abc\x1b[2DX", "aXc"),
        ("abcdef\x1b[3G\x1b[K", "ab"),
        ("abcdef\x1b[3G\x1b[1K", "   def"),
        ("ab\r\ncd\x1b[2J\x1b[HX", "X"),
        ("ab\r\ncd\x1b[1;2H\x1b[J", "a"),
        ("abcdef\x1b[2G\x1b[2P", "adef"),
        ("abc\x1b[2G\x1b[2@", "a  bc"),
        ("abcd\x1b[2G\x1b[2X", "a  d"),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[L", "a\n\nb\nc"),
        ("a\r\nb\r\nc\x1b[1;1H\x1b[M", "b\nc"),
        ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n", "1\n3\n\n4"),
        ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bM", "1\n\n2\n4"),
        ("before\x1b[?1049h\x1b[Hvim\x1b[?1049l", "before"),
        ("\x1b7abc\x1b8X", "Xbc"),
        ("\x1b]0;a title\x07x", "x"),
        ("\x1b]0;a title\x1b\\x", "x"),
        ("\x1bPqsome data\x1b\\x", "x"),
        ("\x1b(0lqk\x1b(B!", "┌─┐!"),
        ("a\x1b[3bX", "aaaaX"),
        ("\x1b[?7l0123456789ab", "012345678b"),
        ("x\x1bc", ""),
        ("日本", "日本"),
        ("e\u0301", "e\u0301"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[\x18ok", "ok"),
    ],
)
def test_the_screen_shows_what_was_sent(sent: str, text: str) -> None:
    assert shown(sent)["text"] == text


def test_pieces_may_end_within_characters_and_sequences() -> None:
    whole = "é\x1b[1;31mü".encode().decode("latin1")
    (answer,) = in_node([{"size": (10, 4), "pieces": list(whole)}])
    assert answer["text"] == "éü"
    assert answer["looks"][0][1] == {"bold": True, "fore": 1}


def test_lines_that_leave_at_the_top_are_kept_but_not_those_of_an_editor() -> None:
    assert shown("1\r\n2\r\n3\r\n4\r\n5\r\n6")["past"] == ["1", "2"]
    assert shown("\x1b[?1049h1\r\n2\r\n3\r\n4\r\n5\r\n6")["past"] == []
    assert shown("1\r\n2\x1b[1;1H\x1b[M")["past"] == []


@pytest.mark.parametrize(
    ("sequence", "look"),
    [
        ("1", {"bold": True}),
        ("1;4;7", {"bold": True, "under": True, "inverse": True}),
        ("1;22", {}),
        ("92", {"fore": 10}),
        ("44;37", {"back": 4, "fore": 7}),
        ("38;5;1", {"fore": 1}),
        ("38;5;196", {"fore": "rgb(255 0 0)"}),
        ("48;5;232", {"back": "rgb(8 8 8)"}),
        ("38;2;1;2;3;1", {"fore": "rgb(1 2 3)", "bold": True}),
        ("31;39", {}),
    ],
)
def test_looks_follow_sequences(sequence: str, look: dict[str, Any]) -> None:
    assert shown(f"\x1b[{sequence}mx")["looks"][0][0] == look


def test_programs_that_ask_are_answered() -> None:
    assert shown("ab\x1b[6n\x1b[c\x1b[5n")["said"] == ["\x1b[1;3R", "\x1b[?1;2c", "\x1b[0n"]


def test_another_size_keeps_what_is_near_the_cursor() -> None:
    smaller = shown("1\r\n2\r\n3\r\n4", resized=(5, 2))
    assert (smaller["text"], smaller["past"], smaller["y"]) == ("3\n4", ["1", "2"], 1)
    larger = shown("12", resized=(20, 6))
    assert (larger["text"], len(larger["looks"]), len(larger["looks"][0])) == ("12", 6, 20)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (80, 24)])
def test_nothing_that_is_sent_breaks_the_screen(size: tuple[int, int]) -> None:
    odd = "".join(
        f"\x1b[{number};{99999}{last}x日" for last in map(chr, range(64, 127)) for number in ("", 0, 3, 99999)
    )
    answer = shown(odd, "\x1b[" + "9;" * 5000 + "m", "\x1b[?1049h\x1b[?1049h" + odd, size=size)
    assert len(answer["looks"]) == size[1]
    assert all(len(line) == size[0] for line in answer["looks"])


def key(name: str, **held: bool) -> dict[str, Any]:
    return {"key": name, **{f"{one}Key": value for one, value in held.items()}}


@pytest.mark.parametrize(
    ("pressed", "modes", "text"),
    [
        (key("Enter"), {}, "\r"),
        (key("Backspace"), {}, "\x7f"),
        (key("Tab"), {}, "\t"),
        (key("Tab", shift=True), {}, None),
        (key("c", ctrl=True), {}, "\x03"),
        (key("c", ctrl=True, shift=True), {}, None),
        (key(" ", ctrl=True), {}, "\x00"),
        (key("v", meta=True), {}, None),
        (key("ArrowUp"), {}, "\x1b[A"),
        (key("ArrowUp"), {"keys": True}, "\x1bOA"),
        (key("ArrowLeft", ctrl=True), {}, "\x1b[1;5D"),
        (key("b", alt=True), {}, "\x1bb"),
        (key("a"), {}, None),
        (key("F5"), {}, "\x1b[15~"),
    ],
)
def test_keys_send_what_programs_expect(pressed: dict[str, Any], modes: dict[str, bool], text: str | None) -> None:
    assert in_node([{"key": pressed, "modes": modes}]) == [text]
