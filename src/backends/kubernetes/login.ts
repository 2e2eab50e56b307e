// Login: what proves to a cluster who we are, for each request anew. A token in a file is read again, since Kubernetes renews
// it there; a program that logs in is run again once what it gave has expired or was refused.

import { X509Certificate } from 'node:crypto';
import { given } from '../../core/given.ts';
import { type Instant, minute, second } from '../../core/time.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { momentText } from '../../app/figures.ts';
import type { KubeContext, KubeExec } from './kubeconfig.ts';
import { readRegularFile } from '../../app/files.ts';
import { runLoginProgram } from '../../http/login-program.ts';
import {
  createHttpClient,
  type Environment,
  type HttpClient,
  type HttpRequest,
  isLoopback,
} from '../../http/client.ts';
import { NoReply } from '../../http/reply.ts';

/** The login of a request: headers, and a certificate for the connection. */
export interface Proof {
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

/** The login at one cluster. */
export type Login = ReturnType<typeof createLogin>;

/** The surroundings of programs that log in. */
export interface LoginPlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => Instant;
}

/** A proof this near its end is not used any more: the request has to get there. */
const sparedBefore = 10 * second;

/** The login of that context. Nothing is read or run before it is asked. */
export function createLogin(context: KubeContext, place: LoginPlace) {
  const { user } = context;
  const common = impersonation(context);
  let kept: { readonly proof: Proof; readonly until: Instant | null } | undefined;
  /** Providers may give another one with each id token. */
  let refreshToken: string | undefined;
  let isRefused = false;

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
    /** As whom the cluster knows us, as far as the login itself tells; for people. */
    user: userText(context),
    /** Rejects with JobmanError when there is no way to log in. */
    async prove(): Promise<Proof> {
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
    /** The last proof was refused with 401. True when the next one may be another. */
    refused() {
      const mayDiffer = kept !== undefined;
      isRefused = true;
      kept = undefined;
      return mayDiffer;
    },
    /** When a token or certificate of the kubeconfig has expired, for people; null for one that has not, or does not say. */
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

// ------------------------------------------------------------------------------------------ login programs

// The protocol: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

/** The program's answer. `until` is null if it does not say how long the credential is valid. */
interface ExecCredential {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly until: Instant | null;
}

/** Longer than that no program takes that asks nobody; one that does ask has nobody to ask here. */
const patience = 2 * minute;

async function runExecLogin(exec: KubeExec, context: KubeContext, env: Environment): Promise<ExecCredential> {
  const { stdout, stderr, failed } = await runLoginProgram([exec.command, ...(exec.args ?? [])], {
    env: {
      ...env,
      ...Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value])),
      KUBERNETES_EXEC_INFO: JSON.stringify(execInfo(exec, context)),
    },
    input: '',
    within: patience,
  });
  const lost = (why: string): JobmanError =>
    new JobmanError(
      `The context ${context.name} logs in with the program ${exec.command}, which ${why}.`,
      exitCode.unreachable,
      [...stderr.trim().split('\n'), ...(exec.installHint ?? '').trim().split('\n')].filter((line) => line !== ''),
    );
  if (failed !== undefined) throw lost(failed);
  let answer: unknown;
  try {
    answer = JSON.parse(stdout);
  } catch {
    throw lost('printed something that is no credential');
  }
  const { status } = (answer ?? {}) as { readonly status?: Readonly<Record<string, unknown>> };
  const text = (key: string): string | undefined => {
    const value = status?.[key];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const [token, cert, key] = [text('token'), text('clientCertificateData'), text('clientKeyData')];
  if (token === undefined && cert === undefined) throw lost('gave neither a token nor a certificate');
  const until = Date.parse(text('expirationTimestamp') ?? '');
  return { ...given({ token, cert, key }), until: Number.isNaN(until) ? null : until };
}

/** The program's input. It has no terminal, so it may not ask anything. */
function execInfo(exec: KubeExec, { cluster }: KubeContext): object {
  return {
    apiVersion: exec.apiVersion ?? 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    spec: { interactive: false, ...(exec.provideClusterInfo === true ? { cluster } : {}) },
  };
}

// ------------------------------------------------------------------------------------------ OpenID Connect

// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens

type Config = Readonly<Record<string, unknown>>;

async function renewIdToken(
  context: KubeContext,
  refreshToken: string | undefined,
  env: Environment,
): Promise<{ readonly idToken: string; readonly refreshToken: string }> {
  const { config = {} } = context.user['auth-provider'] ?? {};
  let client: HttpClient | undefined;
  try {
    const token = refreshToken ?? needed(config, 'refresh-token');
    const ca = authorityOf(config);
    client = createHttpClient({
      env,
      trust: ca === undefined ? {} : { ca },
      limits: { answer: 20 * second, whole: 20 * second, bytes: 1 << 20 },
    });
    const issuer = secure(needed(config, 'idp-issuer-url')).replace(/\/+$/, '');
    const provider = await ask(client, { url: `${issuer}/.well-known/openid-configuration` });
    const id = needed(config, 'client-id');
    const password = typeof config['client-secret'] === 'string' ? config['client-secret'] : '';
    // A client with a secret proves itself by HTTP Basic (RFC 6749, 2.3.1).
    const pair = Buffer.from([id, password].map(encodeURIComponent).join(':')).toString('base64');
    const form = { grant_type: 'refresh_token', refresh_token: token, ...(password === '' ? { client_id: id } : {}) };
    const given = await ask(client, {
      url: secure(needed(provider, 'token_endpoint')),
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        ...(password === '' ? {} : { authorization: `Basic ${pair}` }),
      },
      body: new URLSearchParams(form).toString(),
    });
    const { refresh_token: next } = given;
    return { idToken: needed(given, 'id_token'), refreshToken: typeof next === 'string' ? next : token };
  } catch (error) {
    throw new JobmanError(
      `The context ${context.name} logs in through oidc, which did not work.`,
      exitCode.unreachable,
      [error instanceof Error ? error.message : String(error)],
      { cause: error },
    );
  } finally {
    client?.close();
  }
}

async function ask(client: HttpClient, request: HttpRequest): Promise<Config> {
  const { host } = new URL(request.url);
  const reply = await client.request({ ...request, headers: { accept: 'application/json', ...request.headers } });
  if (reply instanceof NoReply) throw new Error(`${host} did not answer: ${reply.message}`);
  let answer: unknown;
  try {
    answer = JSON.parse(reply.bytes.toString('utf8'));
  } catch {
    // Reported below.
  }
  const value = (typeof answer === 'object' && answer !== null ? answer : {}) as Config;
  if (reply.status < 300) return value;
  const words = [value['error'], value['error_description']].filter((one) => typeof one === 'string');
  throw new Error(`${host} refused it (${[`HTTP ${reply.status}`, ...words].join(', ')})`);
}

function authorityOf({
  'idp-certificate-authority': file,
  'idp-certificate-authority-data': data,
}: Config): Buffer | undefined {
  if (typeof data === 'string' && data !== '') return Buffer.from(data, 'base64');
  return typeof file === 'string' && file !== '' ? readRegularFile(file) : undefined;
}

function needed(config: Config, key: string): string {
  const value = config[key];
  if (typeof value === 'string' && value !== '') return value;
  throw new Error(`there is no ${key}`);
}

/** Throws for an address to which a secret would go unencrypted. */
function secure(url: string): string {
  if (url.startsWith('https://') || isLoopback(url)) return url;
  throw new Error(`${url} is no https address`);
}
