/** US dollars of `50 USD`: more than 0, at most 9 digits and 2 decimals. Undefined for another text. */
export function parseDollars(text: string): number | undefined {
  const [, amount] = /^(\d{1,9}(?:\.\d{1,2})?) ?(?:USD|usd)$/.exec(text.trim()) ?? [];
  return Number(amount) > 0 ? Number(amount) : undefined;
}

/** `50 USD` for another notation of the same amount. In `1,250` and `1e3` the amount itself is unclear. */
export function suggestDollars(text: string): string | undefined {
  const [, amount] = /^(?:US)?\$? ?(\d{1,9}(?:\.\d{1,2})?) ?(?:USD|US\$|\$|dollars?)?$/i.exec(text.trim()) ?? [];
  return Number(amount) > 0 ? `${Number(amount)} USD` : undefined;
}
