// Login: what proves to a cluster who we are, for each request anew. A token in a file is read again, since Kubernetes renews
// it there; a program that logs in is run again once what it gave has expired or was refused.

import { X509Certificate } from 'node:crypto';
import { given } from '../../core/given.ts';
import { second, type Instant } from '../../core/time.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { momentText } from '../../app/figures.ts';
import { runExecLogin, type ExecCredential } from './exec-login.ts';
import type { KubeContext } from './kubeconfig.ts';
import { renewIdToken } from './oidc-login.ts';
import { readRegularFile } from '../../app/regular-file.ts';

/** The login of a request: headers, and a certificate for the connection. */
export interface Proof {
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

/** The login at one cluster. */
export interface Login {
  /** As whom the cluster knows us, as far as the login itself tells; for people. */
  readonly user: string;
  /** Rejects with JobmanError when there is no way to log in. */
  prove(): Promise<Proof>;
  /** The last proof was refused with 401. True when the next one may be another. */
  refused(): boolean;
  /** When a token or certificate of the kubeconfig has expired, for people; null for one that has not, or does not say. */
  expiredOn(): string | null;
}

/** The surroundings of programs that log in. */
export interface LoginPlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => Instant;
}

/** A proof this near its end is not used any more: the request has to get there. */
const sparedBefore = 10 * second;

/** The login of that context. Nothing is read or run before it is asked. */
export function createLogin(context: KubeContext, place: LoginPlace): Login {
  const { user } = context;
  const common = impersonation(context);
  let kept: { readonly proof: Proof; readonly until: Instant | null } | undefined;
  /** Providers may give another one with each id token. */
  let refreshToken: string | undefined;
  let isRefused = false;

  /** From a program or a provider: kept as long as it holds. */
  async function keptProof(): Promise<Proof> {
    const isValid = kept !== undefined && (kept.until === null || kept.until - sparedBefore > place.now());
    if (kept === undefined || !isValid) {
      const { token, cert, key, until } =
        user.exec === undefined ? await idToken() : await runExecLogin(user.exec, context, place.env);
      const headers = token === undefined ? common : { ...common, authorization: `Bearer ${token}` };
      kept = { proof: { headers, ...given({ cert, key }) }, until };
    }
    return kept.proof;
  }

  /** That of the kubeconfig while it holds, then one that the identity provider gives. */
  async function idToken(): Promise<ExecCredential> {
    const { name, config = {} } = user['auth-provider'] ?? { name: '' };
    if (name !== 'oidc') throw unknownProvider(context, name);
    const first = config['id-token'];
    const isFirst =
      refreshToken === undefined && typeof first === 'string' && (expiryOf(first) ?? 0) - sparedBefore > place.now();
    if (isFirst && !isRefused) return { token: first, until: expiryOf(first) };
    const renewed = await renewIdToken(context, refreshToken, place.env);
    ({ refreshToken } = renewed);
    return { token: renewed.idToken, until: expiryOf(renewed.idToken) };
  }

  return {
    user: userText(context),
    async prove() {
      const cert = fileOrData(context, user['client-certificate'], user['client-certificate-data']);
      const key = fileOrData(context, user['client-key'], user['client-key-data']);
      const certificate = given({ cert, key });
      const token = tokenOf(context);
      if (token !== undefined) return { headers: { ...common, authorization: `Bearer ${token}` }, ...certificate };
      if (user.username !== undefined) {
        const pair = Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64');
        return { headers: { ...common, authorization: `Basic ${pair}` }, ...certificate };
      }
      if (user.exec !== undefined || user['auth-provider'] !== undefined) {
        const { headers, ...own } = await keptProof();
        return { headers, ...certificate, ...own };
      }
      return { headers: common, ...certificate };
    },
    refused() {
      const mayDiffer = kept !== undefined;
      isRefused = true;
      kept = undefined;
      return mayDiffer;
    },
    expiredOn() {
      const ends = endOf(context);
      const now = place.now();
      return ends !== null && ends <= now ? momentText(ends, now) : null;
    },
  };
}

/** The file goes before the text, as for kubectl. */
function tokenOf(context: KubeContext): string | undefined {
  const { token, tokenFile } = context.user;
  if (tokenFile !== undefined && tokenFile !== '') return read(context, tokenFile).toString('utf8').trim();
  return token === undefined || token === '' ? undefined : token;
}

function fileOrData(context: KubeContext, file: string | undefined, data: string | undefined): Buffer | undefined {
  if (data !== undefined && data !== '') return Buffer.from(data, 'base64');
  return file === undefined || file === '' ? undefined : read(context, file);
}

function read({ name }: KubeContext, file: string): Buffer {
  try {
    return readRegularFile(file);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`The login of the context ${name} cannot be read: ${why}.`, exitCode.unreachable);
  }
}

function impersonation({ user }: KubeContext): Proof['headers'] {
  const { as, 'as-uid': uid, 'as-groups': groups } = user;
  return given({
    'impersonate-user': as,
    'impersonate-uid': uid,
    'impersonate-group': groups?.length === 0 ? undefined : groups,
  }) as Proof['headers'];
}

/** The name in the certificate or in the token, else what the kubeconfig calls it. A login that cannot be read has none. */
function userText(context: KubeContext): string {
  const { user, userName } = context;
  if (user.as !== undefined) return user.as;
  try {
    const token = tokenOf(context);
    if (token !== undefined) return subjectOf(token) ?? userName;
    if (user.username !== undefined) return user.username;
    const cert = fileOrData(context, user['client-certificate'], user['client-certificate-data']);
    const [, name] = cert === undefined ? [] : (/^CN=(.+)$/m.exec(new X509Certificate(cert).subject) ?? []);
    return name ?? userName;
  } catch {
    return userName;
  }
}

/** Until when the token or the certificate holds, as it says itself. */
function endOf(context: KubeContext): Instant | null {
  const { user } = context;
  try {
    const token = tokenOf(context);
    if (token !== undefined) {
      return expiryOf(token);
    }
    const cert = fileOrData(context, user['client-certificate'], user['client-certificate-data']);
    return cert === undefined ? null : Date.parse(new X509Certificate(cert).validTo);
  } catch {
    return null;
  }
}

/** When a JSON web token expires; null for a token that does not say. */
function expiryOf(token: string): Instant | null {
  try {
    const { exp } = claimsOf(token) ?? {};
    return typeof exp === 'number' ? exp * second : null;
  } catch {
    return null;
  }
}

/** Providers other than oidc were removed from Kubernetes 1.26, in favour of programs that log in. */
function unknownProvider({ name, userName }: KubeContext, provider: string): JobmanError {
  return new JobmanError(
    `The context ${name} logs in through ${provider}, which Kubernetes does not support any more.`,
    exitCode.unreachable,
    [
      `The user ${userName} of the kubeconfig needs the login program of your cloud (exec) instead of an auth-provider.`,
    ],
  );
}

/** The subject of a JSON web token; undefined for a token of another kind. */
function subjectOf(token: string): string | undefined {
  const { sub } = claimsOf(token) ?? {};
  return typeof sub === 'string' ? sub : undefined;
}

/** The claims of a JSON web token; undefined for a token of another kind. Throws SyntaxError for a token that only looks like one. */
function claimsOf(token: string): { readonly sub?: unknown; readonly exp?: unknown } | undefined {
  const [, payload, signature] = token.split('.');
  if (payload === undefined || signature === undefined) return undefined;
  return JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as object;
}
