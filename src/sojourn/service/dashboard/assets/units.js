// Numbers as people read them, each with its unit.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** `1,234,567`. */
export const count = (number) => whole.format(number);

/** `12.3 M` for tiles, where room is short; exact below a million. */
export function short(number) {
  if (number < 1e6) return count(number);
  return number < 1e9 ? `${oneDigit.format(number / 1e6)} M` : `${oneDigit.format(number / 1e9)} G`;
}

/** A rate: `0`, `0.4`, `12.3`, `1,204`. */
export function rate(number) {
  if (number === 0) return "0";
  if (number < 0.05) return "< 0.1";
  return number < 100 ? oneDigit.format(number) : count(number);
}

/** `0.4 ms`, `845 ms`, `12.3 s`, `3 min 12 s`, `9 h 4 min`, `2 d 3 h`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 10) return ms === 0 ? "0 ms" : `${tenths(Math.max(ms, 0.1))} ms`;
  if (Math.round(ms) < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE - 50) return `${tenths(ms / SECOND)} s`;
  if (ms < HOUR - 500) return two(Math.round(ms / SECOND), 60, "min", "s");
  if (ms < DAY - MINUTE / 2) return two(Math.round(ms / MINUTE), 60, "h", "min");
  if (ms < 100 * DAY) return two(Math.round(ms / HOUR), 24, "d", "h");
  return ms < 3650 * DAY ? `${count(ms / DAY)} d` : `${count(ms / (365 * DAY))} years`;
}

/** The same without tenths, for what is counted down. */
export function roughly(ms) {
  if (ms < 0) return `−${roughly(-ms)}`;
  return ms < MINUTE ? `${Math.floor(ms / SECOND)} s` : duration(Math.floor(ms / SECOND) * SECOND);
}

const tenths = (number) => oneDigit.format(number).replace(/\.0$/, "");

function two(number, base, large, small) {
  const rest = number % base;
  return rest ? `${Math.floor(number / base)} ${large} ${rest} ${small}` : `${number / base} ${large}`;
}

/** `3.4 %`; never `0 %` or `100 %` of what is only nearly so. */
export function share(part, of) {
  if (!of) return "–";
  const percent = (100 * part) / of;
  if (part > 0 && percent < 0.1) return "< 0.1 %";
  if (part < of && percent > 99.9) return "> 99.9 %";
  return percent === 0 || percent === 100 || percent >= 99.95
    ? `${count(percent)} %`
    : `${percent >= 10 ? Math.round(percent) : oneDigit.format(percent)} %`;
}

/** `12.3 MB`. */
export function bytes(number) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (number < 1000) return `${unit === "B" ? number : oneDigit.format(number)} ${unit}`;
    number /= 1000;
  }
  return `${oneDigit.format(number)} TB`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** `14:03:10`, with the day if it is another one; in the reader's time zone. */
export function moment(ms) {
  const at = new Date(Number(ms));
  if (Number.isNaN(at.getTime())) return `${ms} ms`;
  const time = clock.format(at);
  return day.format(at) === day.format(new Date()) ? time : `${day.format(at)}, ${time}`;
}

/** Text as a name: what is empty is said to be. */
export const className = (name) => (name === "" ? "(no class)" : name);
