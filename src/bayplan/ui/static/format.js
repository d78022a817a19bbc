// Numbers, amounts and times for people.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

export function bytes(amount) {
  let power = 0;
  while (amount >= 1024 && power < BINARY.length - 1) { amount /= 1024; power += 1; }
  return `${amount >= 100 || Number.isInteger(amount) ? Math.round(amount) : amount.toFixed(1)}${BINARY[power]}`;
}

export function cpu(milli) {
  return milli % 1000 && milli < 10000 ? `${milli}m` : String(Math.round(milli / 100) / 10);
}

export function amount(resource, value) {
  return resource === "cpu" ? cpu(value) : resource === "memory" ? bytes(value) : String(value);
}

export const percent = (part, all) => (all ? `${Math.round((100 * part) / all)}%` : "–");
export const count = (number) => number.toLocaleString("en");

/** How long ago, as kubectl writes ages. */
export function age(time, now = Date.now()) {
  if (!time) return "";
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

const BAD = new Set(["Error", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "OOMKilled", "Failed", "Evicted", "CreateContainerConfigError", "NodeLost"]);

/** "good", "warn", "bad" or "" for the status of a pod. */
export function tone(status) {
  if (status === "Running") return "good";
  if (BAD.has(status)) return "bad";
  return ["Pending", "Unknown", "SchedulingGated"].includes(status) ? "warn" : "";
}

const collator = new Intl.Collator("en", { numeric: true });
export const byName = collator.compare;
