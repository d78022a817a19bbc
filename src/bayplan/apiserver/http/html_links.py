"""Links of HTML pages that come through a proxy: those to the same host get the proxy's path in front, so that browsers find their way back.

Source: apimachinery's `util/proxy/transport.go`. Pure. Works in time linear in the page: what follows a tag that does not end stays as it is, and so do comments.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final

_ATTRIBUTES: Final = {
    "a": ("href",),
    "applet": ("codebase",),
    "area": ("href",),
    "audio": ("src",),
    "base": ("href",),
    "blockquote": ("cite",),
    "body": ("background",),
    "button": ("formaction",),
    "command": ("icon",),
    "del": ("cite",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("longdesc", "src"),
    "head": ("profile",),
    "html": ("manifest",),
    "iframe": ("longdesc", "src"),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "ins": ("cite",),
    "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"),
    "q": ("cite",),
    "script": ("src",),
    "source": ("src",),
    "video": ("poster", "src"),
}
"""Tag -> its attributes that are links."""
_RAW: Final = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript")
"""Tags between which there is text and no tags."""
_comment = re.compile(r"<!--.*?-->", re.DOTALL)
_tag = re.compile(r"<([a-zA-Z][^\s/>]*+)((?:[^>\"']|\"[^\"]*\"|'[^']*')*+)>")
_attribute = re.compile(r"([^\s=/>\"']++)(\s*+=\s*+)(\"[^\"]*\"|'[^']*'|[^\s\"'>]++)")


def rewrite_links(page: bytes, rewrite: Callable[[str], str]) -> bytes:
    """The page with other links. rewrite: from a link to what takes its place."""
    text = page.decode(errors="surrogateescape")
    pieces: list[str] = []
    position = 0
    while (start := text.find("<", position)) >= 0:
        pieces.append(text[position:start])
        comment = _comment.match(text, start) if text.startswith("<!--", start) else None
        tag = _tag.match(text, start)
        if comment is not None:
            pieces.append(comment[0])
            position = comment.end()
        elif tag is not None:
            name = tag[1].lower()
            pieces.append(_rewritten(tag, _ATTRIBUTES.get(name, ()), rewrite))
            position = _end_of_raw(text, name, tag.end())
            pieces.append(text[tag.end() : position])
        elif text.startswith("<!--", start) or text[start + 1 : start + 2].isalpha():
            position = start  # it does not end
            break
        else:
            pieces.append("<")
            position = start + 1
    return "".join([*pieces, text[position:]]).encode(errors="surrogateescape")


def _rewritten(tag: re.Match[str], names: tuple[str, ...], rewrite: Callable[[str], str]) -> str:
    if not names:
        return tag[0]

    def replaced(attribute: re.Match[str]) -> str:
        if attribute[1].lower() not in names:
            return attribute[0]
        value = attribute[3].strip("\"'")
        link = html.unescape(value)
        changed = rewrite(link)
        return attribute[0] if changed == link else f'{attribute[1]}{attribute[2]}"{html.escape(changed)}"'

    return f"<{tag[1]}{_attribute.sub(replaced, tag[2])}>"


def _end_of_raw(text: str, name: str, start: int) -> int:
    """Where the text after a tag ends that has no tags in it; `start` for tags with contents of the usual kind."""
    if name not in _RAW:
        return start
    end = re.compile(f"</{name}", re.IGNORECASE).search(text, start)
    return len(text) if end is None else end.start()
