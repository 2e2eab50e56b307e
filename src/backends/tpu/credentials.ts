// Who jobman is to Google Cloud: application default credentials, or gcloud's own login where there are none.
// Tokens live in memory only.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { minute, second } from '../../core/time.ts';
import type { Duration, Instant } from '../../core/time.ts';
import type { Credentials } from './call.ts';

const scope = 'https://www.googleapis.com/auth/cloud-platform';

/** What runs a program and gives what it printed, errors included; `remote/process.ts` in earnest. It ends in bounded time. */
export type RunProgram = (argv: readonly string[]) => Promise<{ readonly ok: boolean; readonly output: string }>;

type Headers = Readonly<Record<string, string>>;

/** gcloud does not tell how long its token lives (an hour at first); asked again it gives a fresh one when it has to. */
const gcloudTokenFor: Duration = 5 * minute;
/** The library has its own time-outs, several in a row. A look waits no longer than this for a login. */
const loginWithin: Duration = 20 * second;

/** A login that failed is not tried again for this long: with every try programs are started and hosts looked for. */
const failureFor: Duration = 5 * second;

const sentence =
  'this machine has no login that Google Cloud accepts; log in with: gcloud auth application-default login';

/**
 * Credentials for the endpoint: none on loopback, where a server of our own or the user's asks for none. A token is sent
 * over https only. Many calls at once ask for one login together.
 */
export function createCredentials(options: {
  readonly endpoint: () => Promise<string>;
  readonly run: RunProgram;
  readonly now: () => Instant;
}): Credentials {
  const { endpoint, run, now } = options;
  let adc: { headers(): Promise<Headers> } | undefined;
  let gcloud: { readonly headers: Headers; readonly until: Instant } | undefined;
  let failure: { readonly error: unknown; readonly until: Instant } | undefined;
  let underWay: Promise<Headers> | undefined;

  async function login(): Promise<Headers> {
    adc ??= gcloud === undefined ? await applicationDefault() : undefined;
    if (adc !== undefined) {
      try {
        return await adc.headers();
      } catch (error) {
        // The file may be replaced by a new login: it is read again next time.
        adc = undefined;
        throw expired(error instanceof Error ? error.message : String(error));
      }
    }
    if (gcloud !== undefined && gcloud.until > now()) return gcloud.headers;
    gcloud = undefined;
    const printed = await run(['gcloud', 'auth', 'print-access-token', '--quiet']);
    const token = printed.output.trim();
    if (!printed.ok || !/^\S+$/.test(token)) throw expired(printed.output.trim());
    gcloud = { headers: { authorization: `Bearer ${token}` }, until: now() + gcloudTokenFor };
    return gcloud.headers;
  }

  return {
    async headers() {
      const address = await endpoint();
      if (isLoopback(address)) return {};
      if (!address.startsWith('https://')) {
        throw new JobmanError(`${address} is no https address; the login is not sent there`, exitCode.unreachable);
      }
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
    refused() {
      adc = undefined;
      gcloud = undefined;
      return sentence;
    },
  };
}

/** Application default credentials, as Google's own clients send them; undefined when this machine has none. */
async function applicationDefault(): Promise<{ headers(): Promise<Headers> } | undefined> {
  // Loaded here because the library costs about 100 ms, which a read or a local job never has to pay.
  const { GoogleAuth } = await import('google-auth-library');
  let client: { getRequestHeaders(): Promise<globalThis.Headers> };
  try {
    client = await new GoogleAuth({ scopes: [scope] }).getClient();
  } catch {
    return undefined;
  }
  // With the token comes the project that a person's calls are counted to, where the login names one.
  return { headers: async () => Object.fromEntries((await client.getRequestHeaders()).entries()) };
}

function expired(raw: string): JobmanError {
  return new JobmanError(sentence, exitCode.unreachable, raw === '' ? [] : [raw]);
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

/** True for servers on this machine. */
export function isLoopback(endpoint: string): boolean {
  const hostname = URL.parse(endpoint)?.hostname ?? '';
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}
