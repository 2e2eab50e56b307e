// Sizes in bytes as text.

const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** `12.3 MB`. */
export function sizeText(bytes: number): string {
  let unit = 0;
  let value = bytes;
  for (; value >= 1_000 && unit < units.length - 1; unit += 1) value /= 1_000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
