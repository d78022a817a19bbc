// What a terminal shows: rows of cells, a cursor, and the lines that have left at the top. Cells are [character, look]; looks are shared and compared by identity.
import { Parser } from "./parser.js";
import { COLOURS, PLAIN, looked } from "./looks.js";

const KEPT = 1000, TAB = 8;
const LINES = Object.fromEntries([..."`afgjklmnopqrstuvwxyz{|}~"].map((char, at) => [char, [..."◆▒°±┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"][at]]));
const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const MARK = /\p{Mn}|\p{Me}|\u200d|\ufe0f/u;

export class Screen {
  /** reply: called with what the terminal answers by itself. */
  constructor(columns, rows, reply) {
    Object.assign(this, { columns, rows, reply, past: [], other: null, bells: 0 });
    this.parser = new Parser(this);
    this.reset();
  }

  reset() {
    this.look = PLAIN;
    this.lines = Array.from({ length: this.rows }, () => this.blank());
    this.dirty = new Set(this.lines.keys());
    this.modes = { wrap: true, cursor: true, keys: false, paste: false };
    Object.assign(this, { x: 0, y: 0, top: 0, bottom: this.rows - 1, full: false, drawn: false, last: " ", saved: { x: 0, y: 0, look: PLAIN } });
  }

  write(bytes) { this.parser.write(bytes); }

  blank() { return Array.from({ length: this.columns }, () => [" ", this.look.back ? looked(PLAIN, { back: this.look.back }) : PLAIN]); }

  touch(from, to = from) { for (let y = from; y <= to; y += 1) this.dirty.add(y); }

  resize(columns, rows) {
    if (columns === this.columns && rows === this.rows) return;
    for (const lines of [this.lines, this.other?.lines].filter(Boolean)) {
      while (lines.length > rows) { if (this.y < lines.length - 1 || lines !== this.lines) lines.pop(); else { this.keep(lines.shift()); this.y -= 1; } }
    }
    Object.assign(this, { columns, rows, top: 0, bottom: rows - 1, full: false });
    for (const lines of [this.lines, this.other?.lines].filter(Boolean)) {
      for (const line of lines) { line.length = Math.min(line.length, columns); while (line.length < columns) line.push([" ", PLAIN]); }
      while (lines.length < rows) lines.push(this.blank());
    }
    this.to(this.x, this.y);
    this.dirty = new Set(this.lines.keys());
  }

  keep(line) { if (!this.other) { this.past.push(line); if (this.past.length > KEPT) this.past.shift(); } }

  to(x, y) { this.x = Math.max(0, Math.min(this.columns - 1, x)); this.y = Math.max(0, Math.min(this.rows - 1, y)); this.full = false; }

  print(text) {
    for (const char of text) {
      if (MARK.test(char)) { const at = Math.max(0, this.x - (this.full ? 0 : 1)); this.lines[this.y][at] = [this.lines[this.y][at][0] + char, this.lines[this.y][at][1]]; continue; }
      this.put(this.drawn ? LINES[char] || char : char, WIDE.test(char) ? 2 : 1);
    }
  }

  put(char, width) {
    if (this.full || this.x + width > this.columns) { if (this.modes.wrap) { this.x = 0; this.down(); } else this.x = this.columns - width; this.full = false; }
    const line = this.lines[this.y];
    line[this.x] = [char, this.look];
    if (width === 2 && this.x + 1 < this.columns) line[this.x + 1] = ["", this.look];
    this.touch(this.y);
    this.last = char;
    if (this.x + width >= this.columns) { this.x = this.columns - 1; this.full = true; } else this.x += width;
  }

  down() { if (this.y === this.bottom) this.scroll(1); else if (this.y < this.rows - 1) this.y += 1; this.full = false; }

  up() { if (this.y === this.top) this.scroll(-1); else if (this.y > 0) this.y -= 1; }

  /** Move the lines of the region up (or down). */
  scroll(count, top = this.top, keeps = top === 0) {
    for (let done = 0; done < Math.min(Math.abs(count), this.bottom - top + 1); done += 1) {
      if (count > 0) { const [gone] = this.lines.splice(top, 1); if (keeps) this.keep(gone); this.lines.splice(this.bottom, 0, this.blank()); }
      else { this.lines.splice(this.bottom, 1); this.lines.splice(top, 0, this.blank()); }
    }
    this.touch(top, this.bottom);
  }

  control(code) {
    if (code === 8) this.to(this.x - 1, this.y);
    else if (code === 9) this.to((Math.floor(this.x / TAB) + 1) * TAB, this.y);
    else if (code >= 10 && code <= 12) this.down();
    else if (code === 13) this.to(0, this.y);
    else if (code === 7) this.bells += 1;
    else if (code === 14 || code === 15) this.drawn = code === 14;
  }

  escape(between, last) {
    if (between === "(") this.drawn = last === "0";
    else if (between) return;
    else if (last === "7") this.saved = { x: this.x, y: this.y, look: this.look };
    else if (last === "8") { this.to(this.saved.x, this.saved.y); this.look = this.saved.look; }
    else if (last === "D") this.down();
    else if (last === "E") { this.x = 0; this.down(); }
    else if (last === "M") this.up();
    else if (last === "c") { this.past = []; this.other = null; this.reset(); }
  }

  sequence(prefix, numbers, between, last) {
    if (between === "!" && last === "p") { this.reset(); return; }
    if (between) return;
    if (prefix === "?" && (last === "h" || last === "l")) { for (const one of numbers) this.mode(one, last === "h"); return; }
    if (prefix) return;
    const [one, two] = numbers, count = Math.max(1, one);
    const move = { A: [0, -count], B: [0, count], C: [count, 0], D: [-count, 0], a: [count, 0], e: [0, count] }[last];
    if (move) this.to(this.x + move[0], this.within(this.y + move[1]));
    else if (last === "E" || last === "F") this.to(0, this.within(this.y + (last === "E" ? count : -count)));
    else if (last === "G" || last === "`") this.to(count - 1, this.y);
    else if (last === "d") this.to(this.x, count - 1);
    else if (last === "H" || last === "f") this.to(Math.max(1, two || 0) - 1, count - 1);
    else if (last === "m") this.look = COLOURS.applied(this.look, numbers);
    else if (last === "r") { const bottom = (two || this.rows) - 1; if (count - 1 < bottom && bottom < this.rows) { this.top = count - 1; this.bottom = bottom; this.to(0, 0); } }
    else if (last === "s") this.escape("", "7");
    else if (last === "u") this.escape("", "8");
    else if (last === "n" && one === 6) this.reply(`\x1b[${this.y + 1};${this.x + 1}R`);
    else if (last === "n" && one === 5) this.reply("\x1b[0n");
    else if (last === "c") this.reply("\x1b[?1;2c");
    else this.edit(last, one, count);
  }

  within(y) { return this.y >= this.top && this.y <= this.bottom ? Math.max(this.top, Math.min(this.bottom, y)) : y; }

  /** Sequences that erase, insert and delete. */
  edit(last, one, count) {
    const line = this.lines[this.y], { x, y } = this, few = Math.min(count, this.columns - x);
    const inside = y >= this.top && y <= this.bottom;
    if (last === "K") this.erase(y, one === 0 ? x : 0, one === 1 ? x + 1 : this.columns);
    else if (last === "J") {
      if (one === 0) { this.erase(y, x, this.columns); for (let row = y + 1; row < this.rows; row += 1) this.erase(row, 0, this.columns); }
      else if (one === 1) { this.erase(y, 0, x + 1); for (let row = 0; row < y; row += 1) this.erase(row, 0, this.columns); }
      else { for (let row = 0; row < this.rows; row += 1) this.erase(row, 0, this.columns); if (one === 3) this.past = []; }
    } else if (last === "X") this.erase(y, x, x + few);
    else if (last === "P") { line.splice(x, few); line.push(...this.blank().slice(0, few)); }
    else if (last === "@") { line.splice(x, 0, ...this.blank().slice(0, few)); line.length = this.columns; }
    else if (last === "L" && inside) this.scroll(-count, y);
    else if (last === "M" && inside) this.scroll(count, y, false);
    else if (last === "S") this.scroll(count);
    else if (last === "T") this.scroll(-count);
    else if (last === "b") for (let done = 0; done < few; done += 1) this.put(this.last, 1);
    this.touch(y);
  }

  erase(y, from, to) { const blank = this.blank(); for (let x = from; x < to; x += 1) this.lines[y][x] = blank[x]; this.touch(y); }

  mode(number, on) {
    if (number === 1) this.modes.keys = on;
    else if (number === 7) this.modes.wrap = on;
    else if (number === 25) this.modes.cursor = on;
    else if (number === 2004) this.modes.paste = on;
    else if (number === 47 || number === 1047 || number === 1049) this.alternate(on);
    this.touch(this.y);
  }

  /** The other screen, which editors use: it has no past, and what was there before comes back. */
  alternate(on) {
    if (on === Boolean(this.other)) return;
    if (on) { this.other = { lines: this.lines, x: this.x, y: this.y, look: this.look }; this.lines = Array.from({ length: this.rows }, () => this.blank()); }
    else { const { lines, x, y, look } = this.other; this.other = null; this.lines = lines; this.look = look; this.to(x, y); }
    Object.assign(this, { top: 0, bottom: this.rows - 1 });
    this.dirty = new Set(this.lines.keys());
  }

  /** The text of all rows, for tests and for those who copy. */
  text() { return this.lines.map((line) => line.map(([char]) => char).join("").trimEnd()).join("\n").trimEnd(); }
}
