// Takes apart what a terminal is sent: text, control characters and escape sequences, after Paul Williams' state machine for DEC terminals. Knows nothing of the screen.

const LONGEST_TEXT = 4096, MOST_NUMBERS = 32;

/** handler: print(text), control(code), escape(between, last), sequence(prefix, numbers, between, last). */
export class Parser {
  constructor(handler) {
    this.handler = handler;
    this.decoder = new TextDecoder();
    this.state = "text";
    this.reset();
  }

  reset() { this.prefix = ""; this.digits = ""; this.between = ""; }

  write(bytes) {
    let text = "";
    for (const char of this.decoder.decode(bytes, { stream: true })) {
      const code = char.codePointAt(0);
      if (this.state === "text" && code >= 0x20 && code !== 0x7f) {
        text += char;
        if (text.length >= LONGEST_TEXT) { this.handler.print(text); text = ""; }
        continue;
      }
      if (text) { this.handler.print(text); text = ""; }
      this.take(char, code);
    }
    if (text) this.handler.print(text);
  }

  take(char, code) {
    if (this.state === "string" || this.state === "string escape") this.inString(char, code);
    else if (code === 0x1b) { this.state = "escape"; this.reset(); }
    else if (code === 0x18 || code === 0x1a) this.state = "text";
    else if (code < 0x20) this.handler.control(code);
    else if (this.state === "escape") this.inEscape(char, code);
    else if (this.state === "sequence") this.inSequence(char, code);
  }

  inEscape(char, code) {
    if (char === "[" && !this.between) this.state = "sequence";
    else if ("]PX^_".includes(char) && !this.between) this.state = "string";
    else if (code < 0x30) this.between += char;
    else { this.state = "text"; this.handler.escape(this.between, char); }
  }

  inSequence(char, code) {
    if (code >= 0x30 && code <= 0x3b) { if (this.digits.length < 256) this.digits += char; }
    else if (code >= 0x3c && code <= 0x3f) this.prefix += char;
    else if (code < 0x30) this.between += char;
    else if (code <= 0x7e) {
      this.state = "text";
      this.handler.sequence(this.prefix, this.digits.split(/[;:]/).slice(0, MOST_NUMBERS).map((one) => Number(one) || 0), this.between, char);
    } else this.state = "text";
  }

  /** Titles and the like: left out up to their end. */
  inString(char, code) {
    if (code === 0x07 || code === 0x18 || code === 0x1a || (this.state === "string escape" && char === "\\")) this.state = "text";
    else this.state = code === 0x1b ? "string escape" : "string";
  }
}
