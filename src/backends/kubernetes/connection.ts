// Requests to the API server of a context, with its certificates, its proxy and its login.

import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { readRegularFile } from '../../app/files.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import {
  createHttpClient,
  type Environment,
  type HttpClient,
  type HttpRequest,
  type RequestLimits,
  type RetryPolicy,
  type TlsTrust,
} from '../../http/client.ts';
import { NoReply } from '../../http/reply.ts';
import type { KubeContext } from './kubeconfig.ts';
import type { Login, LoginCredentials } from './login.ts';

export type ConnectionRequest = Omit<HttpRequest, 'url' | 'limits'>;

/** A connection to one API server. All methods reject with the signal's reason, or with a JobmanError of the login. */
export type Connection = ReturnType<typeof createConnection>;

/** `env` may name a proxy. Throws JobmanError for an invalid proxy-url. */
export function createConnection(
  context: KubeContext,
  login: Login,
  env: Environment,
  { limits, retry }: { readonly limits?: Partial<RequestLimits> | undefined; readonly retry: RetryPolicy },
) {
  const { server: url, 'proxy-url': proxy } = context.cluster;
  // Node ignores an invalid proxy address.
  if (proxy !== undefined && URL.parse(proxy) === null) {
    throw new JobmanError(`The proxy-url of the kubeconfig is not a URL: ${proxy}.`, exitCode.unreachable);
  }
  let client: HttpClient | undefined;
  let clientCredentials: LoginCredentials | undefined;

  /** Certificates belong to the connection, so another certificate needs another client. */
  function clientFor(credentials: LoginCredentials): HttpClient {
    if (client !== undefined && hasSameCertificate(credentials, clientCredentials)) return client;
    const { cert, key } = credentials;
    client?.close();
    client = createHttpClient({
      env,
      proxy,
      limits,
      retry,
      trust: { ...trustOf(context), ...omitUndefined({ cert, key }) },
    });
    clientCredentials = credentials;
    return client;
  }

  async function send<T>(request: ConnectionRequest, call: (client: HttpClient, request: HttpRequest) => Promise<T>) {
    const credentials = await unlessAborted(login.credentials(), request.signal);
    const headers = { accept: 'application/json', ...credentials.headers, ...request.headers };
    const reply = await call(clientFor(credentials), { ...request, url, headers });
    // Node's codes for unusable certificates, keys and headers. Its message contains the name of the header or option
    // and not its value.
    if (reply instanceof NoReply && /^ERR_(?:OSSL_|INVALID_|TLS_INVALID_CONTEXT$)/.test(reply.reason ?? '')) {
      const message = `The context ${context.name} of ${context.source} cannot be used: ${reply.message}.`;
      throw new JobmanError(message, exitCode.unreachable, [], { cause: reply });
    }
    return reply;
  }

  return {
    request: (request: ConnectionRequest) => send(request, (http, fullRequest) => http.request(fullRequest)),
    /** Resolves when the reply begins; a refusal is read completely. */
    open: (request: ConnectionRequest) => send(request, (http, fullRequest) => http.open(fullRequest)),
    /** The login's headers, and an agent with its certificates and proxy, for another client. */
    async headersAndAgent() {
      const credentials = await login.credentials();
      return { headers: credentials.headers, agent: await clientFor(credentials).agentFor(url) };
    },
    close: () => client?.close(),
  };
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason as Error);
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function trustOf({ name, cluster }: KubeContext): TlsTrust {
  const { 'certificate-authority': file, 'certificate-authority-data': data, 'tls-server-name': servername } = cluster;
  let ca: Buffer | undefined;
  try {
    if (data !== undefined && data !== '') ca = Buffer.from(data, 'base64');
    else if (file !== undefined) ca = readRegularFile(file);
  } catch (error) {
    throw new JobmanError(
      `The certificate authority of the context ${name} cannot be read: ${messageOf(error)}.`,
      exitCode.unreachable,
    );
  }
  // Node ignores an unreadable authority and would then report the server's certificate as the problem.
  if (ca?.includes('-----BEGIN ') === false) {
    throw new JobmanError(
      `The certificate authority of the context ${name} is not a PEM certificate.`,
      exitCode.unreachable,
    );
  }
  return omitUndefined({
    ca,
    servername,
    rejectUnauthorized: cluster['insecure-skip-tls-verify'] === true ? false : undefined,
  });
}

function hasSameCertificate(one: LoginCredentials, other: LoginCredentials | undefined): boolean {
  return String(one.cert) === String(other?.cert) && String(one.key) === String(other?.key);
}
