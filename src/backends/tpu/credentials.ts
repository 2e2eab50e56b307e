// Who jobman is to Google Cloud: application default credentials, or gcloud's own login where there are none.
// Tokens live in memory only.

import { JobmanError, exitCode } from '../../app/errors.ts';

const scope = 'https://www.googleapis.com/auth/cloud-platform';

/** What runs a program and gives its output; `remote/process.ts` in earnest. */
export type RunProgram = (argv: readonly string[]) => Promise<{ readonly ok: boolean; readonly output: string }>;

/**
 * Gives bearer tokens for the endpoint, null on loopback, where a server of our own or the user's asks for none.
 * Throws one sentence that says how to log in again; the caller treats it as "the cloud did not answer".
 */
export function tokenSource(
  endpoint: () => Promise<string>,
  run: RunProgram,
  now: () => number,
): () => Promise<string | null> {
  let client: { getAccessToken(): Promise<string | null | undefined> } | undefined;
  let fromGcloud: { readonly token: string; readonly until: number } | undefined;
  return async () => {
    if (isLoopback(await endpoint())) return null;
    // Loaded here because the library costs about 100 ms, which a read or a local job never has to pay.
    if (client === undefined && fromGcloud === undefined) {
      try {
        const { GoogleAuth } = await import('google-auth-library');
        const auth = new GoogleAuth({ scopes: [scope] });
        const found = await auth.getClient();
        client = { getAccessToken: async () => (await found.getAccessToken()).token };
      } catch {
        client = undefined;
      }
    }
    if (client !== undefined) {
      try {
        return (await client.getAccessToken()) ?? null;
      } catch (error) {
        client = undefined;
        throw loginExpired(error instanceof Error ? error.message : String(error));
      }
    }
    if (fromGcloud !== undefined && fromGcloud.until > now()) return fromGcloud.token;
    const printed = await run(['gcloud', 'auth', 'print-access-token', '--quiet']);
    const token = printed.output.trim();
    if (!printed.ok || token === '') throw loginExpired(printed.output.trim());
    // gcloud gives no lifetime; its tokens last an hour, and it refreshes them itself when asked again.
    fromGcloud = { token, until: now() + 10 * 60_000 };
    return token;
  };
}

function loginExpired(raw: string): JobmanError {
  return new JobmanError(
    'Google Cloud does not accept the login of this machine; log in again with: gcloud auth application-default login',
    exitCode.unreachable,
    raw === '' ? [] : [raw],
  );
}

/** True for servers on this machine. */
export function isLoopback(endpoint: string): boolean {
  try {
    const { hostname } = new URL(endpoint);
    return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
  } catch {
    return false;
  }
}
