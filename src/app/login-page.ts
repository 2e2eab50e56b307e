// The pages of a login in a browser: that of the server, and that of the CLI after it. They have no script, and no text
// in them can become markup.

import { createHash } from 'node:crypto';

export interface LoginPage {
  readonly title: string;
  readonly lines: readonly string[];
  /** In large letters, to be compared. */
  readonly code?: string;
  readonly link?: { readonly text: string; readonly url: string };
}

const style =
  'body{font:18px/1.5 system-ui,sans-serif;max-width:34em;margin:12vh auto;padding:0 1em;color:#222;background:#fff}' +
  'h1{font-size:1.4em}code{font-size:1.6em;letter-spacing:.1em}' +
  'a{display:inline-block;padding:.5em 1.2em;border-radius:.4em;color:#fff;background:#0b57d0;text-decoration:none}' +
  '@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}}';

export const pageHeaders: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; ` +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  // The address has secrets.
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

export function renderPage({ title, lines, code, link }: LoginPage): string {
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    `<title>jobman: ${escapeHtml(title)}</title><style>${style}</style></head><body>`,
    `<h1>${escapeHtml(title)}</h1>`,
    ...lines.map((line) => `<p>${escapeHtml(line)}</p>`),
    ...(code === undefined ? [] : [`<p><code>${escapeHtml(code)}</code></p>`]),
    ...(link === undefined ? [] : [`<p><a href="${escapeHtml(link.url)}">${escapeHtml(link.text)}</a></p>`]),
    '</body></html>',
    '',
  ].join('\n');
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[\p{C}]/gu, '\uFFFD').replaceAll(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** The person compares it in the terminal and on the page. `challenge`: that of the CLI. */
export function comparisonCode(challenge: string): string {
  const digits = createHash('sha256').update(`code ${challenge}`).digest('hex').slice(0, 8).toUpperCase();
  return `${digits.slice(0, 4)}-${digits.slice(4)}`;
}
