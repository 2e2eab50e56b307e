// Preferences of the person at this browser, such as the colours. The browser stores them; without storage they last
// until the page is closed.

const prefix = 'jobman-';
const kept = new Map<string, string>();

export function readChoice(name: string): string | null {
  const own = kept.get(name);
  if (own !== undefined) return own;
  try {
    return localStorage.getItem(prefix + name);
  } catch {
    return null;
  }
}

export function storeChoice(name: string, value: string): void {
  kept.set(name, value);
  try {
    localStorage.setItem(prefix + name, value);
  } catch {
    // Storage is full or forbidden.
  }
}
