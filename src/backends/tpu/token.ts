// Token: what a program that logs in for us prints, and how long it is good for.

import { second } from '../../core/time.ts';
import type { Instant } from '../../core/time.ts';

/** An access token. `until` is null where nobody said when it ends. */
export interface Token {
  readonly word: string;
  readonly until: Instant | null;
}

/**
 * Reads a token as programs print it: the bare word; or a JSON object as OAuth's token endpoint answers it (`access_token`
 * with `expires_in` in seconds), or as `gcloud config config-helper --format=json` does (`credential.access_token` with
 * `token_expiry`). Undefined when it is neither: half a sentence must never be sent as a login. `at` is when it was printed.
 */
export function tokenIn(printed: string, at: Instant): Token | undefined {
  const text = printed.trim();
  if (!text.startsWith('{')) return isToken(text) ? { word: text, until: null } : undefined;
  const answer = objectIn(text);
  const { credential } = answer;
  const fields = typeof credential === 'object' && credential !== null ? (credential as typeof answer) : answer;
  const word = fields['access_token'] ?? fields['token'];
  if (!isToken(word)) return undefined;
  return { word, until: endOf(fields, at) };
}

/** The characters of a bearer token (RFC 6750, 2.1): anything else in a header would be an error or worse. */
function isToken(word: unknown): word is string {
  return typeof word === 'string' && /^[\w.~+/-]+=*$/.test(word);
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

function endOf(fields: Readonly<Record<string, unknown>>, at: Instant): Instant | null {
  const seconds = fields['expires_in'];
  if (typeof seconds === 'number' && Number.isFinite(seconds)) return at + seconds * second;
  const moment = fields['token_expiry'] ?? fields['expiry'];
  const end = typeof moment === 'string' ? Date.parse(moment) : Number.NaN;
  return Number.isNaN(end) ? null : end;
}
