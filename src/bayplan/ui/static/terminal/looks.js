// How cells look: {bold, dim, italic, under, inverse, fore, back}, shared, so that equal looks are one object. Colours: 0 to 15 are those of the style sheet, others are CSS colours.

export const PLAIN = Object.freeze({});
const known = new Map([["{}", PLAIN]]);

/** A look with something else; undefined and false are left out. */
export function looked(look, change) {
  const made = Object.fromEntries(Object.entries({ ...look, ...change }).filter(([, value]) => value !== undefined && value !== false).sort());
  const key = JSON.stringify(made);
  if (!known.has(key)) { if (known.size > 4096) known.clear(); known.set(key, Object.freeze(made)); }
  return known.get(key);
}

const STEPS = [0, 95, 135, 175, 215, 255];

/** One of 256 colours. */
function indexed(number) {
  if (number < 16) return number;
  if (number >= 232) { const level = 8 + 10 * (number - 232); return `rgb(${level} ${level} ${level})`; }
  const at = number - 16;
  return `rgb(${STEPS[Math.floor(at / 36) % 6]} ${STEPS[Math.floor(at / 6) % 6]} ${STEPS[at % 6]})`;
}

const SWITCHES = { 1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { under: true }, 7: { inverse: true }, 22: { bold: false, dim: false }, 23: { italic: false }, 24: { under: false }, 27: { inverse: false },
  39: { fore: undefined }, 49: { back: undefined } };

export const COLOURS = {
  /** The look after the numbers of a sequence that ends with m. */
  applied(look, numbers) {
    const left = [...numbers];
    while (left.length) {
      const one = left.shift();
      if (one === 0) look = PLAIN;
      else if (SWITCHES[one]) look = looked(look, SWITCHES[one]);
      else if (one >= 30 && one <= 37) look = looked(look, { fore: one - 30 });
      else if (one >= 90 && one <= 97) look = looked(look, { fore: one - 82 });
      else if (one >= 40 && one <= 47) look = looked(look, { back: one - 40 });
      else if (one >= 100 && one <= 107) look = looked(look, { back: one - 92 });
      else if (one === 38 || one === 48) {
        const kind = left.shift(), [red, green, blue] = left, colour = kind === 5 ? indexed((left.shift() || 0) & 255) : `rgb(${red & 255} ${green & 255} ${blue & 255})`;
        if (kind === 2) left.splice(0, 3);
        if (kind === 5 || kind === 2) look = looked(look, { [one === 38 ? "fore" : "back"]: colour });
      }
    }
    return look;
  },
};
