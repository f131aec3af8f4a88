// Figures as words.

export const NONE = "–";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const whole = (figure) => (figure === null || figure === undefined ? NONE : WHOLE.format(figure));
/** An upper bound, never below itself. */
export const most = (bound) => whole(bound === null || bound === undefined ? bound : Math.ceil(bound));
export const tenths = (figure) => (figure === null || figure === undefined ? NONE : TENTHS.format(figure));

/** "3 jobs"; "1 job". */
export const count = (number, one, more = `${one}s`) => `${whole(number)} ${number === 1 ? one : more}`;

/** The two largest units, as kubectl says it. */
export function span(seconds) {
  const parts = [];
  let left = Math.max(Math.floor(seconds), 0);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    if (left >= size) parts.push(`${Math.floor(left / size)}${unit}`);
    left %= size;
  }
  return parts.slice(0, 2).join("") || "0s";
}

/** How long ago, or nothing. */
export function age(since) {
  const then = Date.parse(since);
  return Number.isNaN(then) ? "" : span((Date.now() - then) / 1000);
}

/** GiB of MiB. */
export const gibibytes = (mebibytes) => (mebibytes === null || mebibytes === undefined ? NONE : TENTHS.format(mebibytes / 1024));

const TINTS = 10;
const tints = new Map();

/** One of ten tints for a name: by its letters, and while there are free ones not that of another. */
export function tint(name) {
  let found = tints.get(name);
  if (found === undefined) {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    const taken = new Set(tints.values());
    const turns = Array.from({ length: TINTS }, (_, turn) => String((hash + turn) % TINTS));
    found = turns.find((one) => !taken.has(one)) ?? turns[0];
    tints.set(name, found);
  }
  return found;
}
