// The session of this browser: the user, and the client that acts for them.

import { signal } from '@preact/signals';
import { versionHeader } from '../api/wire.ts';
import { JobmanError, messageOf } from '../app/errors.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import { version } from '../version.ts';
import { createPageClient, failureOf, fetchOf } from './client.ts';

/**
 * `starting`: not known yet. `none`: the page asks for a login; the contents for the former user stay below, so that typed text
 * is not lost. `failed`: the server did not answer.
 */
export type Session =
  | { readonly kind: 'starting' }
  | { readonly kind: 'none'; readonly former: Actor | null }
  | { readonly kind: 'open'; readonly actor: Actor }
  | { readonly kind: 'failed'; readonly message: string };

export const session = signal<Session>({ kind: 'starting' });

/** The user of the newest session; null before the first. */
let user: UserName | null = null;

export const client = createPageClient({
  isLoggedOut: () => session.peek().kind === 'none',
  onLoggedOut() {
    const current = session.peek();
    if (current.kind !== 'none') session.value = { kind: 'none', former: actorOf(current) };
  },
});

/** The user, also the former one below a login; null before the first session and after a log-out. */
export function actorOf(current: Session): Actor | null {
  return current.kind === 'open' ? current.actor : current.kind === 'none' ? current.former : null;
}

/** Reads the user from the server. Never rejects. */
export async function startSession(): Promise<void> {
  try {
    const actor = await client.whoAmI();
    // The page still shows what the previous user could see.
    if (user !== null && user !== actor.user) return location.reload();
    user = actor.user;
    session.value = { kind: 'open', actor };
    otherTabs.postMessage(user);
  } catch (error) {
    if (session.peek().kind !== 'none') session.value = { kind: 'failed', message: messageOf(error) };
  }
}

/** Throws JobmanError. */
export async function logIn(token: string): Promise<void> {
  const response = await fetchOf('/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json', [versionHeader]: version },
    body: JSON.stringify({ token }),
  });
  if (!response.ok) throw await failureOf(response);
  await startSession();
}

export interface LoginMethods {
  /** Null without an identity provider. Its address is that of the issuer. */
  readonly oidc: { readonly issuer: string } | null;
  /** No token logs in, but the one-time address that `jobman dashboard` prints. */
  readonly onlyByAddress?: true;
}

/** Never rejects: without an answer, a login with a token may be possible. */
export async function loginMethods(): Promise<LoginMethods> {
  try {
    const response = await fetchOf('/login/methods', {});
    if (response.ok) return (await response.json()) as LoginMethods;
  } catch {
    // The server does not answer.
  }
  return onlyTokens;
}

export const onlyTokens: LoginMethods = { oidc: null };

/** All tabs of a browser have one session. Gets the user of a new session, or null after a log-out. */
const otherTabs = new BroadcastChannel('session');
otherTabs.onmessage = ({ data }: MessageEvent<UserName | null>) => {
  const { kind } = session.peek();
  if (data === null) endSession();
  // Removes the data of the former user, or continues without a login in this tab.
  else if (kind === 'none' || (kind === 'open' && data !== user)) void startSession();
};

/** Logs out in all tabs. Throws JobmanError. */
export async function logOut(): Promise<void> {
  const response = await fetchOf('/session', { method: 'DELETE', headers: { [versionHeader]: version } });
  if (!response.ok) throw await failureOf(response);
  otherTabs.postMessage(null);
  endSession();
}

function endSession(): void {
  session.value = { kind: 'none', former: null };
}

/** The message of an error with its hints. */
export function errorLines(error: unknown): readonly string[] {
  return [messageOf(error), ...(error instanceof JobmanError ? error.lines : [])];
}
