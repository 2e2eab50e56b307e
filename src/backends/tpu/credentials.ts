// The login to Google Cloud. The first of these that exists is used: the command of the setting `tpu.tokenCommand`;
// application default credentials (the file that the environment names, the one of `gcloud auth application-default login`, the
// metadata server of a machine at Google); gcloud's own login. Tokens live in memory only.

import { exitCode, JobmanError, textOf } from '../../app/errors.ts';
import { minute, second, type Duration, type Instant } from '../../core/time.ts';
import { googleLimits, isLoopback } from '../../http/client.ts';
import { NoLogin, type Credentials, type Headers } from './api.ts';

const scope = 'https://www.googleapis.com/auth/cloud-platform';

/** Runs a program and returns its output, errors included, in bounded time; `remote/process.ts` in production. */
export type RunProgram = (argv: readonly string[]) => Promise<{ readonly ok: boolean; readonly output: string }>;

/**
 * gcloud does not tell when its token ends (an hour after it was made), and a token command need not. Asked again it gives
 * a fresh one when it has to; one that ended before is refused by the cloud, and fetched anew at once.
 */
const unknownLife: Duration = 30 * minute;
/** A token is exchanged so long before its end that a call which is under way still arrives with it. */
const endsSoon: Duration = 1 * minute;
/** The library has its own time-outs, several in a row. A look waits no longer than this for a login. */
const loginWithin: Duration = 20 * second;
/** A login that failed is not tried again for this long: with every try programs are started and hosts looked for. */
const failureFor: Duration = 5 * second;

const noLogin =
  'this machine has no login that Google Cloud accepts; log in with: gcloud auth application-default login';
const noToken =
  'the command of the setting tpu.tokenCommand gave no token that Google Cloud accepts; run it by hand, and mend what it says';

/** One login for all that this process asks of Google: many calls at once wait for it together. */
export function createLogin(options: {
  readonly run: RunProgram;
  readonly now: () => Instant;
  readonly tokenCommand?: string | null;
}): Credentials {
  const { run, now, tokenCommand = null } = options;
  const sentence = tokenCommand === null ? noLogin : noToken;
  let adc: { headers(): Promise<Headers> } | undefined;
  let held: { readonly headers: Headers; readonly until: Instant } | undefined;
  let failure: { readonly error: unknown; readonly until: Instant } | undefined;
  /** The headers that the cloud refused last. If the same ones are produced again, there is no login. */
  let bad: { readonly headers: Headers; readonly until: Instant } | undefined;
  let underWay: Promise<Headers> | undefined;

  function unaccepted(raw: string): NoLogin {
    return new NoLogin(sentence, exitCode.unreachable, raw === '' ? [] : [raw]);
  }

  async function printedBy(argv: readonly string[]): Promise<Headers> {
    if (held !== undefined && held.until > now()) return held.headers;
    held = undefined;
    const printed = await run(argv);
    const token = printed.ok ? tokenIn(printed.output, now()) : undefined;
    // The output may hold a secret unless the program itself says that it failed.
    if (token === undefined)
      throw unaccepted(printed.ok ? 'it printed something else than a token' : printed.output.trim());
    const until = token.until === null ? now() + unknownLife : token.until - endsSoon;
    held = { headers: { authorization: `Bearer ${token.word}` }, until };
    return held.headers;
  }

  async function fetched(): Promise<Headers> {
    if (tokenCommand !== null) return printedBy(['/bin/sh', '-c', tokenCommand]);
    adc ??= held === undefined ? await applicationDefault() : undefined;
    if (adc === undefined) return printedBy(['gcloud', 'auth', 'print-access-token', '--quiet']);
    try {
      // The library keeps its token, and exchanges it some minutes before its end.
      return await adc.headers();
    } catch (error) {
      // The file may be replaced by a new login: it is read again next time.
      adc = undefined;
      throw unaccepted(textOf(error));
    }
  }

  async function login(): Promise<Headers> {
    const headers = await fetched();
    if (bad !== undefined && bad.until > now() && isSame(headers, bad.headers)) {
      forget();
      throw unaccepted('the same token was given again after the cloud had refused it');
    }
    return headers;
  }

  function forget(): void {
    adc = undefined;
    held = undefined;
  }

  return {
    async headers() {
      if (failure !== undefined && failure.until > now()) throw failure.error;
      underWay ??= within(loginWithin, login())
        .catch((error: unknown) => {
          failure = { error, until: now() + failureFor };
          throw error;
        })
        .finally(() => {
          underWay = undefined;
        });
      return underWay;
    },
    refused(shown) {
      // Of many calls that were refused together, the last must not throw away what the first has fetched since.
      const isLogin = shown['authorization'] !== undefined;
      if (isLogin && (bad === undefined || bad.until <= now() || !isSame(bad.headers, shown))) {
        bad = { headers: shown, until: now() + failureFor };
        forget();
      }
      return sentence;
    },
  };
}

/**
 * The login as it is shown to one endpoint: not at all on loopback, where a server of our own or the user's asks for none,
 * and otherwise over https only.
 */
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
        throw new JobmanError(`${address} is no https address; the login is not sent there`, exitCode.unreachable);
      }
      return login.headers();
    },
    refused: (shown) => login.refused(shown),
  };
}

function isSame(one: Headers, other: Headers): boolean {
  return one['authorization'] === other['authorization'];
}

async function applicationDefault(): Promise<{ headers(): Promise<Headers> } | undefined> {
  // Loaded here because the library costs about 100 ms, which a read or a local job never has to pay.
  const { GoogleAuth, gaxios } = await import('google-auth-library');
  // The metadata server is asked through the library's common client, which has no limits of its own.
  Object.assign(gaxios.instance.defaults, googleLimits);
  let client: { getRequestHeaders(): Promise<globalThis.Headers> };
  try {
    client = await new GoogleAuth({ scopes: [scope], clientOptions: { transporterOptions: googleLimits } }).getClient();
  } catch {
    return undefined;
  }
  // With the token comes the project that a person's calls are counted to, where the login names one.
  return { headers: async () => Object.fromEntries((await client.getRequestHeaders()).entries()) };
}

async function within<T>(length: Duration, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new JobmanError(`Google Cloud's login did not answer within ${length / second} s`, exitCode.unreachable));
    }, length);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

interface Token {
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
