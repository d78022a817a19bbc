// What keys send to a program in a terminal.

const ARROWS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const OTHERS = { Enter: "\r", Backspace: "\x7f", Escape: "\x1b", Tab: "\t", Delete: "\x1b[3~", Insert: "\x1b[2~", PageUp: "\x1b[5~", PageDown: "\x1b[6~", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS",
  F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~", F11: "\x1b[23~", F12: "\x1b[24~" };

/** What a key press sends; null if the browser keeps it: Shift+Tab leaves the terminal, Ctrl+Shift and the command key are the browser's. */
export function sent(event, modes) {
  const { key, ctrlKey: ctrl, altKey: alt, shiftKey: shift, metaKey: meta } = event;
  if (meta || (ctrl && shift) || (key === "Tab" && shift) || event.isComposing) return null;
  if (ARROWS[key]) return ctrl || alt || shift ? `\x1b[1;${1 + (shift ? 1 : 0) + (alt ? 2 : 0) + (ctrl ? 4 : 0)}${ARROWS[key]}` : `\x1b${modes.keys ? "O" : "["}${ARROWS[key]}`;
  if (OTHERS[key]) return (alt ? "\x1b" : "") + OTHERS[key];
  if (ctrl && !alt && key.length === 1) { const code = key === " " ? 0 : key.toUpperCase().charCodeAt(0) - 64; return code >= 0 && code < 32 ? String.fromCharCode(code) : null; }
  if (alt && !ctrl && key.length === 1) return `\x1b${key}`;
  return null; // plain characters come as input, which also knows of other scripts
}
