// The login to Google Cloud, from the first available source: the setting `tpu.tokenCommand`; application default
// credentials (file, `gcloud auth application-default login`, metadata server); gcloud's own login. Tokens stay in
// memory.

import { hostname } from 'node:os';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { withTimeout } from '../../app/concurrency.ts';
import { minute, parseInstant, second, type Duration, type Instant } from '../../core/model/time.ts';
import { parseShape, type Shape, type ShapeValue } from '../../app/json.ts';
import { googleLimits, isLoopback } from '../../http/client.ts';
import { NoLoginError, type Credentials, type Headers } from './api.ts';

const cloudPlatformScope = 'https://www.googleapis.com/auth/cloud-platform';

/** Runs a program for a bounded time and returns its output, including errors. */
export type RunProgram = (argv: readonly string[]) => Promise<{ readonly ok: boolean; readonly output: string }>;

/** For tokens without a known expiry; gcloud's last an hour. A refused one is replaced. */
const defaultTokenLifetime: Duration = 30 * minute;
/** Replace a token this long before its expiry, so that a running call still arrives with it. */
const expiryMargin: Duration = 1 * minute;
/** The library has several time-outs in a row. An observation waits no longer than this for a login. */
const loginTimeout: Duration = 20 * second;
/** A failed login is not retried for this long, because each try starts programs and searches for hosts. */
const failureCacheTime: Duration = 5 * second;

/** A network that fails says nothing about the login. */
function silentLogin(reason: string): JobmanError {
  return new JobmanError(`Google Cloud's login did not answer: ${reason}`, exitCode.unreachable);
}

function loginTimedOut(): never {
  throw silentLogin(`no answer within ${loginTimeout / second} s`);
}

/** Names the machine, because the user of a server may read it on another one. */
const noLoginMessage = `the machine ${hostname()} has no login that Google Cloud accepts; log in there with: gcloud auth application-default login`;
const noTokenMessage =
  'the command in the setting tpu.tokenCommand returned no token that Google Cloud accepts; run the command to see why';

/** One login for all of Google in this process; concurrent calls share one request for it. */
export function createLogin(options: {
  readonly run: RunProgram;
  readonly now: () => Instant;
  readonly tokenCommand?: string | null;
}): Credentials {
  const { run, now, tokenCommand = null } = options;
  const message = tokenCommand === null ? noLoginMessage : noTokenMessage;
  let adc: { headers(): Promise<Headers> } | undefined;
  let cached: { readonly headers: Headers; readonly until: Instant } | undefined;
  let failure: { readonly error: unknown; readonly until: Instant } | undefined;
  /** The headers that the cloud refused last. If the source returns them again, there is no login. */
  let rejected: { readonly headers: Headers; readonly until: Instant } | undefined;
  let pending: Promise<Headers> | undefined;

  function loginError(raw: string): NoLoginError {
    return new NoLoginError(message, exitCode.unreachable, raw === '' ? [] : [raw]);
  }

  async function headersFromCommand(argv: readonly string[]): Promise<Headers> {
    if (cached !== undefined && cached.until > now()) return cached.headers;
    cached = undefined;
    const printed = await run(argv);
    const token = printed.ok ? parseToken(printed.output, now()) : undefined;
    // The output of a successful program may contain a secret, so it is not shown.
    if (token === undefined) throw loginError(printed.ok ? 'it did not print a token' : printed.output.trim());
    const until = token.expiresAt === null ? now() + defaultTokenLifetime : token.expiresAt - expiryMargin;
    cached = { headers: { authorization: `Bearer ${token.value}` }, until };
    return cached.headers;
  }

  async function fetchHeaders(): Promise<Headers> {
    if (tokenCommand !== null) return headersFromCommand(['/bin/sh', '-c', tokenCommand]);
    try {
      adc ??= cached === undefined ? await applicationDefaultCredentials() : undefined;
    } catch (error) {
      throw loginError(refusalText(error));
    }
    if (adc === undefined) return headersFromCommand(['gcloud', 'auth', 'print-access-token', '--quiet']);
    try {
      return await adc.headers();
    } catch (error) {
      // Read the file again next time: a new login may replace it.
      adc = undefined;
      throw hasNoAnswer(error) ? silentLogin(messageOf(error)) : loginError(refusalText(error));
    }
  }

  async function freshHeaders(): Promise<Headers> {
    const headers = await fetchHeaders();
    if (rejected !== undefined && rejected.until > now() && hasSameToken(headers, rejected.headers)) {
      clearCache();
      throw loginError('the login returned the token that the cloud had refused');
    }
    return headers;
  }

  function clearCache(): void {
    adc = undefined;
    cached = undefined;
  }

  return {
    async headers() {
      if (failure !== undefined && failure.until > now()) throw failure.error;
      pending ??= withTimeout(loginTimeout, freshHeaders(), loginTimedOut)
        .catch((error: unknown) => {
          failure = { error, until: now() + failureCacheTime };
          throw error;
        })
        .finally(() => {
          pending = undefined;
        });
      return pending;
    },
    invalidate(headers) {
      // Of several calls refused together, the last must not discard the login that the first has renewed since.
      const isLogin = headers['authorization'] !== undefined;
      if (isLogin && (rejected === undefined || rejected.until <= now() || !hasSameToken(rejected.headers, headers))) {
        rejected = { headers, until: now() + failureCacheTime };
        clearCache();
      }
      return message;
    },
  };
}

/** The login for one endpoint: no headers for loopback, where servers need none, and otherwise https only. */
export function createCredentials(options: {
  readonly endpoint: () => Promise<string>;
  readonly login: Credentials;
}): Credentials {
  const { endpoint, login } = options;
  return {
    async headers() {
      const address = await endpoint();
      if (isLoopback(address)) return {};
      if (!address.startsWith('https://')) {
        throw new JobmanError(
          `${address} is not an https URL; jobman does not send the login there`,
          exitCode.unreachable,
        );
      }
      return login.headers();
    },
    invalidate: (headers) => login.invalidate(headers),
  };
}

function hasSameToken(one: Headers, other: Headers): boolean {
  return one['authorization'] === other['authorization'];
}

/** The library's message if there are none. */
const nothingFound = /^Could not load the default credentials/;

/** Undefined if there are none. Rejects for those that cannot be used: the login of gcloud may be another account. */
async function applicationDefaultCredentials(): Promise<{ headers(): Promise<Headers> } | undefined> {
  // Imported on demand: the library takes about 100 ms, which a read or a local job must not pay.
  const { GoogleAuth, gaxios } = await import('google-auth-library');
  // The library's requests to the metadata server use its shared client, which has no limits.
  Object.assign(gaxios.instance.defaults, googleLimits);
  let client: { getRequestHeaders(): Promise<globalThis.Headers> };
  try {
    client = await new GoogleAuth({
      scopes: [cloudPlatformScope],
      clientOptions: { transporterOptions: googleLimits },
    }).getClient();
  } catch (error) {
    if (nothingFound.test(messageOf(error))) return undefined;
    throw error;
  }
  // The headers include the quota project, if the login names one.
  return { headers: async () => Object.fromEntries((await client.getRequestHeaders()).entries()) };
}

/** An error of the library about a request: it has the request, and the answer if there was one. */
interface RequestError extends Error {
  readonly config: object;
  readonly response?: { readonly status: number; readonly data: unknown };
}

function isRequestError(error: unknown): error is RequestError {
  return error instanceof Error && 'config' in error;
}

function hasNoAnswer(error: unknown): boolean {
  return isRequestError(error) && (error.response === undefined || error.response.status >= 500);
}

function refusalText(error: unknown): string {
  // Its message contains text of the file, which has secrets.
  if (error instanceof SyntaxError) return 'the file of the login is not JSON';
  const answer = isRequestError(error)
    ? parseShape(JSON.stringify(error.response?.data ?? {}), refusalShape)
    : undefined;
  const message = messageOf(error);
  if (answer?.error === undefined) return /The file at .* is not a file/.exec(message)?.[0] ?? message;
  return answer.error_description === undefined ? answer.error : `${answer.error}: ${answer.error_description}`;
}

const refusalShape = { error: 'string', error_description: 'string' } as const satisfies Shape;

interface Token {
  readonly value: string;
  readonly expiresAt: Instant | null;
}

/**
 * Reads a bare token, an OAuth answer (`expires_in` in seconds), or `gcloud config config-helper --format=json`.
 * Undefined for anything else: an error message must never be sent as a token.
 */
export function parseToken(printed: string, at: Instant): Token | undefined {
  const text = printed.trim();
  if (!text.startsWith('{')) return isToken(text) ? { value: text, expiresAt: null } : undefined;
  const answer = parseShape(text, { ...tokenShape, credential: tokenShape }, true);
  const fields = answer?.credential ?? answer ?? {};
  const value = fields.access_token ?? fields.token ?? '';
  return isToken(value) ? { value, expiresAt: expiryOf(fields, at) } : undefined;
}

const tokenShape = {
  access_token: 'string',
  token: 'string',
  expires_in: 'number',
  token_expiry: 'string',
  expiry: 'string',
} as const satisfies Shape;

/** The characters of a bearer token (RFC 6750, 2.1). */
function isToken(value: string): boolean {
  return /^[\w.~+/-]+=*$/.test(value);
}

function expiryOf(fields: ShapeValue<typeof tokenShape>, at: Instant): Instant | null {
  const { expires_in: seconds, token_expiry: expiry = fields.expiry } = fields;
  return typeof seconds === 'number' ? at + seconds * second : parseInstant(expiry);
}
