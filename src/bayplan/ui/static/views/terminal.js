// A shell in a container: the page's socket to its own server, a screen, and what is typed into a hidden field.
import { html, useEffect, useRef, useState } from "../lib.js";
import { Screen } from "../terminal/screen.js";
import { sent } from "../terminal/keys.js";

const encoder = new TextEncoder(), PIECE = 32768;

export default function Terminal({ namespace, name }) {
  const [container, setContainer] = useState(""), [turn, setTurn] = useState(0), [ended, setEnded] = useState(null);
  const open = (event) => { setContainer(event.currentTarget.value.trim()); setEnded(null); setTurn(turn + 1); };
  return html`<p class="bar"><label>Container <input class="selector" value=${container} placeholder="the first" onChange=${open} /></label>
      <button class="button" onClick=${() => { setEnded(null); setTurn(turn + 1); }}>Open again</button><span class="quiet">Shift+Tab leaves the terminal. It ends when you leave this page.</span></p>
    ${ended !== null && html`<p class="notice" role="status">${ended ? `The terminal has ended: ${ended}` : "The shell has ended."}</p>`}
    <${Shell} key=${`${container} ${turn}`} path=${`/api/terminal?${new URLSearchParams({ namespace, name, container })}`} ended=${setEnded} />`;
}

function Shell({ path, ended }) {
  const box = useRef(), field = useRef();
  useEffect(() => {
    const shell = new Connection(path, box.current, field.current, ended);
    field.current.focus();
    return () => shell.close();
  }, []);
  return html`<div class="terminal" ref=${box} onClick=${() => { if (String(getSelection()) === "") field.current.focus(); }}><div class="screen" role="group" aria-label="Terminal screen" tabindex="0"></div>
    <textarea ref=${field} aria-label="Terminal input" autocapitalize="off" autocomplete="off" spellcheck="false"></textarea></div>`;
}

class Connection {
  constructor(path, box, field, ended) {
    Object.assign(this, { box, field, frame: 0, reason: "the connection broke" });
    this.view = box.querySelector(".screen");
    const [columns, rows] = this.size();
    this.screen = globalThis.bayplan.screen = new Screen(columns, rows, (text) => this.send(text));
    this.socket = new WebSocket(`ws://${location.host}${path}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.tell();
    this.socket.onmessage = ({ data }) => { if (typeof data === "string") this.reason = JSON.parse(data).ended; else { this.screen.write(new Uint8Array(data)); this.soon(); } };
    this.socket.onclose = () => { if (!this.closed) ended(this.reason); };
    this.sized = new ResizeObserver(() => this.tell());
    this.sized.observe(box);
    field.addEventListener("keydown", (event) => { const text = sent(event, this.screen.modes); if (text !== null) { event.preventDefault(); event.stopPropagation(); this.send(text); } });
    field.addEventListener("input", (event) => { if (!event.isComposing) { this.send(field.value); field.value = ""; } });
    field.addEventListener("compositionend", () => { this.send(field.value); field.value = ""; });
    field.addEventListener("paste", (event) => { event.preventDefault(); this.paste(event.clipboardData.getData("text")); });
    this.soon();
  }

  paste(text) {
    const plain = text.replaceAll("\x1b", "").replaceAll(/\r?\n/g, "\r");
    this.send(this.screen.modes.paste ? `\x1b[200~${plain}\x1b[201~` : plain);
  }

  send(text) {
    const bytes = encoder.encode(text), { socket } = this;
    if (socket.readyState === WebSocket.CONNECTING) socket.addEventListener("open", () => this.send(text), { once: true });
    else if (socket.readyState === WebSocket.OPEN) for (let at = 0; at < bytes.length; at += PIECE) socket.send(bytes.subarray(at, at + PIECE));
  }

  /** How many characters fit. */
  size() {
    const probe = document.createElement("span");
    probe.textContent = "M".repeat(40);
    this.view.append(probe);
    const { width, height } = probe.getBoundingClientRect();
    probe.remove();
    return [Math.max(20, Math.floor((this.view.clientWidth - 20) / (width / 40 || 8))), Math.max(5, Math.floor((this.box.clientHeight - 20) / (height || 17)))];
  }

  tell() {
    const [columns, rows] = this.size();
    this.screen.resize(columns, rows);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ resize: [columns, rows] }));
    this.soon();
  }

  soon() { this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  draw() {
    const { view, screen } = this, atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 30;
    this.past = this.past || [];
    if (screen.past.at(-1) !== this.past.at(-1)) { // lines that have left at the top go into the document once
      const known = new Set(this.past), fresh = screen.past.filter((line) => !known.has(line));
      for (const line of fresh) view.insertBefore(row(line), this.rows?.[0] || null);
      this.past = [...screen.past];
    }
    while (view.children.length - (this.rows?.length || 0) > screen.past.length) view.firstChild.remove();
    if (!this.rows || this.rows.length !== screen.rows) { for (const one of this.rows || []) one.remove(); this.rows = Array.from({ length: screen.rows }, () => view.appendChild(document.createElement("div"))); screen.touch(0, screen.rows - 1); }
    for (const y of new Set([...screen.dirty, this.cursor ?? 0, screen.y])) if (y < screen.rows) { const drawn = row(screen.lines[y], screen.modes.cursor && y === screen.y ? screen.x : -1); this.rows[y].replaceWith(drawn); this.rows[y] = drawn; }
    screen.dirty.clear();
    this.cursor = screen.y;
    if (atEnd) view.scrollTop = view.scrollHeight;
  }

  close() { this.closed = true; cancelAnimationFrame(this.frame); this.sized.disconnect(); this.socket.close(); }
}

/** A row as an element: one span per look. */
function row(line, cursor = -1) {
  const element = document.createElement("div");
  let text = "", look = null;
  const flush = () => { if (text) element.append(span(text, look)); text = ""; };
  line.forEach(([char, next], x) => {
    if (next !== look || x === cursor || x === cursor + 1) { flush(); look = next; }
    text += char;
    if (x === cursor) { const made = span(text, look); made.classList.add("cursor"); element.append(made); text = ""; }
  });
  flush();
  return element;
}

function span(text, look) {
  const made = document.createElement("span"), { fore, back, inverse } = look, [front, behind] = inverse ? [back ?? "page", fore ?? "ink"] : [fore, back];
  made.textContent = text;
  for (const name of ["bold", "dim", "italic", "under"]) if (look[name]) made.classList.add(name);
  if (front !== undefined) made.style.color = css(front);
  if (behind !== undefined) made.style.backgroundColor = css(behind);
  return made;
}

const css = (colour) => (typeof colour === "number" ? `var(--t${colour})` : colour === "page" ? "var(--t-page)" : colour === "ink" ? "var(--t-ink)" : colour);
