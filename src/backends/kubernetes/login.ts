// Credentials for each request to a cluster. A token file is read again for each request, because Kubernetes renews it.
// A login program runs again after its credential has expired or was refused.

import { X509Certificate } from 'node:crypto';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { type Instant, minute, parseInstant, second } from '../../core/model/time.ts';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { formatTime } from '../../app/format.ts';
import type { KubeContext, KubeExec } from './kubeconfig.ts';
import { readRegularFile } from '../../files/files.ts';
import { parseShape, type Shape } from '../../app/json.ts';
import { runLoginProgram } from '../../http/login-program.ts';
import {
  createHttpClient,
  type Environment,
  type HttpClient,
  type HttpRequest,
  isLoopback,
} from '../../http/client.ts';
import { NoReply } from '../../http/reply.ts';

export interface LoginCredentials {
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

export type Login = ReturnType<typeof createLogin>;

export interface LoginContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => Instant;
}

/** A credential this close to its expiry is not used: the request needs time to arrive. */
const expiryMargin = 10 * second;

/** The login of a context. It reads and runs nothing before the first call of `credentials`. */
export function createLogin(context: KubeContext, loginContext: LoginContext) {
  const { user } = context;
  const common = impersonationHeaders(context);
  let cached: { readonly credentials: LoginCredentials; readonly expiresAt: Instant | null } | undefined;
  /** The identity provider may replace it with each id token. */
  let refreshToken: string | undefined;
  let isRefused = false;

  async function cachedCredentials(): Promise<LoginCredentials> {
    const isValid =
      cached !== undefined && (cached.expiresAt === null || cached.expiresAt - expiryMargin > loginContext.now());
    if (cached === undefined || !isValid) {
      const { token, cert, key, expiresAt } =
        user.exec === undefined ? await idToken() : await runExecLogin(user.exec, context, loginContext.env);
      const headers = token === undefined ? common : { ...common, authorization: `Bearer ${token}` };
      cached = { credentials: { headers, ...omitUndefined({ cert, key }) }, expiresAt };
    }
    return cached.credentials;
  }

  async function idToken(): Promise<ExecCredential> {
    const { name, config = {} } = user['auth-provider'] ?? { name: '' };
    if (name !== 'oidc') throw unknownProviderError(context, name);
    const first = config['id-token'];
    const isFirst =
      refreshToken === undefined &&
      typeof first === 'string' &&
      (expiryOf(first) ?? 0) - expiryMargin > loginContext.now();
    if (isFirst && !isRefused) return { token: first, expiresAt: expiryOf(first) };
    const renewed = await renewIdToken(context, refreshToken, loginContext.env);
    ({ refreshToken } = renewed);
    return { token: renewed.idToken, expiresAt: expiryOf(renewed.idToken) };
  }

  return {
    /** The name of the user in the cluster, as far as the login shows it; for messages. */
    user: formatUser(context),
    /** Rejects with JobmanError when no login is possible. */
    async credentials(): Promise<LoginCredentials> {
      const cert = fileOrData(context, user['client-certificate'], user['client-certificate-data']);
      const key = fileOrData(context, user['client-key'], user['client-key-data']);
      const certificate = omitUndefined({ cert, key });
      const token = tokenOf(context);
      if (token !== undefined) return { headers: { ...common, authorization: `Bearer ${token}` }, ...certificate };
      if (user.username !== undefined) {
        const pair = Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64');
        return { headers: { ...common, authorization: `Basic ${pair}` }, ...certificate };
      }
      if (user.exec !== undefined || user['auth-provider'] !== undefined) {
        const { headers, ...own } = await cachedCredentials();
        return { headers, ...certificate, ...own };
      }
      return { headers: common, ...certificate };
    },
    /** Call it after a 401. Returns true if the next credential may differ. */
    invalidate() {
      const mayDiffer = cached !== undefined;
      isRefused = true;
      cached = undefined;
      return mayDiffer;
    },
    /** Expiry time of an expired token or certificate, for messages; null if it is still valid or has none. */
    expiredOn() {
      const expiresAt = loginExpiry(context);
      const now = loginContext.now();
      return expiresAt !== null && expiresAt <= now ? formatTime(expiresAt, now) : null;
    },
  };
}

/** `tokenFile` takes precedence over `token`, as for kubectl. */
function tokenOf(context: KubeContext): string | undefined {
  const { token, tokenFile } = context.user;
  if (tokenFile !== undefined && tokenFile !== '') return readLoginFile(context, tokenFile).toString('utf8').trim();
  return token === undefined || token === '' ? undefined : token;
}

function fileOrData(context: KubeContext, file: string | undefined, data: string | undefined): Buffer | undefined {
  if (data !== undefined && data !== '') return Buffer.from(data, 'base64');
  return file === undefined || file === '' ? undefined : readLoginFile(context, file);
}

function readLoginFile({ name }: KubeContext, file: string): Buffer {
  try {
    return readRegularFile(file);
  } catch (error) {
    throw new JobmanError(
      `The credentials of the context ${name} cannot be read: ${messageOf(error)}.`,
      exitCode.unreachable,
    );
  }
}

function impersonationHeaders({ user }: KubeContext): LoginCredentials['headers'] {
  const { as, 'as-uid': uid, 'as-groups': groups } = user;
  return omitUndefined({
    'impersonate-user': as,
    'impersonate-uid': uid,
    'impersonate-group': groups?.length === 0 ? undefined : groups,
  }) as LoginCredentials['headers'];
}

/** The name in the certificate or token, otherwise the user's name in the kubeconfig. */
function formatUser(context: KubeContext): string {
  const { user, userName } = context;
  if (user.as !== undefined) return user.as;
  try {
    const token = tokenOf(context);
    if (token !== undefined) return claimsOf(token).sub ?? userName;
    if (user.username !== undefined) return user.username;
    const cert = fileOrData(context, user['client-certificate'], user['client-certificate-data']);
    const [, name] = cert === undefined ? [] : (/^CN=(.+)$/m.exec(new X509Certificate(cert).subject) ?? []);
    return name ?? userName;
  } catch {
    return userName;
  }
}

function loginExpiry(context: KubeContext): Instant | null {
  const { user } = context;
  try {
    const token = tokenOf(context);
    if (token !== undefined) return expiryOf(token);
    const cert = fileOrData(context, user['client-certificate'], user['client-certificate-data']);
    return cert === undefined ? null : Date.parse(new X509Certificate(cert).validTo);
  } catch {
    return null;
  }
}

function expiryOf(token: string): Instant | null {
  const { exp } = claimsOf(token);
  return typeof exp === 'number' ? exp * second : null;
}

/** Kubernetes 1.26 removed the auth providers other than oidc in favour of login programs. */
function unknownProviderError({ name, userName }: KubeContext, provider: string): JobmanError {
  return new JobmanError(
    `The context ${name} uses the auth provider ${provider}, which Kubernetes no longer supports.`,
    exitCode.unreachable,
    [`Configure the login program of your cloud (exec) for the user ${userName} of the kubeconfig instead.`],
  );
}

/** The claims of a JSON web token; none for another kind of token. */
function claimsOf(token: string): { readonly sub?: string; readonly exp?: number } {
  const [, payload = ''] = token.split('.');
  return parseShape(Buffer.from(payload, 'base64url').toString('utf8'), { sub: 'string', exp: 'number' }, true) ?? {};
}

// ------------------------------------------------------------------------------------------ login programs

// The protocol: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

/** The answer of a login program. `expiresAt` is null if the answer has no expiry. */
interface ExecCredential {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly expiresAt: Instant | null;
}

const credentialShape = {
  status: { token: 'string', clientCertificateData: 'string', clientKeyData: 'string', expirationTimestamp: 'string' },
} as const satisfies Shape;

/** A program that does not ask the user needs less time than this. A program that does ask has no terminal here. */
const loginProgramTimeout = 2 * minute;

async function runExecLogin(exec: KubeExec, context: KubeContext, env: Environment): Promise<ExecCredential> {
  const { stdout, stderr, failure } = await runLoginProgram([exec.command ?? '', ...(exec.args ?? [])], {
    env: {
      ...env,
      ...Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value])),
      KUBERNETES_EXEC_INFO: JSON.stringify(execInfo(exec, context)),
    },
    input: '',
    timeout: loginProgramTimeout,
  });
  const loginError = (why: string): JobmanError =>
    new JobmanError(
      `The login program ${exec.command} of the context ${context.name} ${why}.`,
      exitCode.unreachable,
      [...stderr.trim().split('\n'), ...(exec.installHint ?? '').trim().split('\n')].filter((line) => line !== ''),
    );
  if (failure !== undefined) throw loginError(failure);
  const answer = parseShape(stdout, credentialShape, true);
  if (answer === undefined) throw loginError('did not print a credential');
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = answer.status ?? {};
  if (!token && !cert) throw loginError('returned neither a token nor a certificate');
  // An empty text is not a value.
  const given = omitUndefined({ token: token || undefined, cert: cert || undefined, key: key || undefined });
  return { ...given, expiresAt: parseInstant(expirationTimestamp) };
}

function execInfo(exec: KubeExec, { cluster }: KubeContext): object {
  return {
    apiVersion: exec.apiVersion ?? 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    spec: { interactive: false, ...(exec.provideClusterInfo === true ? { cluster } : {}) },
  };
}

// ------------------------------------------------------------------------------------------ OpenID Connect

// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens

type OidcConfig = Readonly<Record<string, unknown>>;

async function renewIdToken(
  context: KubeContext,
  refreshToken: string | undefined,
  env: Environment,
): Promise<{ readonly idToken: string; readonly refreshToken: string }> {
  const { config = {} } = context.user['auth-provider'] ?? {};
  let client: HttpClient | undefined;
  try {
    const token = refreshToken ?? requiredField(config, 'refresh-token');
    const ca = fileOrData(context, config['idp-certificate-authority'], config['idp-certificate-authority-data']);
    client = createHttpClient({
      env,
      trust: omitUndefined({ ca }),
      limits: { answer: 20 * second, total: 20 * second, bytes: 1 << 20 },
    });
    const issuer = requireHttps(requiredField(config, 'idp-issuer-url')).replace(/\/+$/, '');
    const provider = await requestJson(client, { url: `${issuer}/.well-known/openid-configuration` });
    const id = requiredField(config, 'client-id');
    const password = config['client-secret'] ?? '';
    // A client with a secret authenticates by HTTP Basic (RFC 6749, 2.3.1).
    const pair = Buffer.from([id, password].map(encodeURIComponent).join(':')).toString('base64');
    const form = { grant_type: 'refresh_token', refresh_token: token, ...(password === '' ? { client_id: id } : {}) };
    const given = await requestJson(client, {
      url: requireHttps(requiredField(provider, 'token_endpoint')),
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        ...(password === '' ? {} : { authorization: `Basic ${pair}` }),
      },
      body: new URLSearchParams(form).toString(),
    });
    const { refresh_token: next } = given;
    return { idToken: requiredField(given, 'id_token'), refreshToken: typeof next === 'string' ? next : token };
  } catch (error) {
    throw new JobmanError(
      `The OpenID Connect login of the context ${context.name} failed.`,
      exitCode.unreachable,
      [messageOf(error)],
      { cause: error },
    );
  } finally {
    client?.close();
  }
}

async function requestJson(client: HttpClient, request: HttpRequest): Promise<OidcConfig> {
  const { host } = new URL(request.url);
  const reply = await client.request({ ...request, headers: { accept: 'application/json', ...request.headers } });
  if (reply instanceof NoReply) throw new Error(`${host} did not answer: ${reply.message}`);
  const value = (parseShape(reply.bytes.toString('utf8'), {}) ?? {}) as OidcConfig;
  if (reply.status < 300) return value;
  const errors = [value['error'], value['error_description']].filter((one) => typeof one === 'string');
  throw new Error(`${host} refused the request (${[`HTTP ${reply.status}`, ...errors].join(', ')})`);
}

function requiredField(config: OidcConfig, key: string): string {
  const value = config[key];
  if (typeof value === 'string' && value !== '') return value;
  throw new Error(`${key} is missing`);
}

/** Throws for an address to which a secret would go unencrypted. */
function requireHttps(url: string): string {
  if (url.startsWith('https://') || isLoopback(url)) return url;
  throw new Error(`${url} is not an https URL`);
}
