// Connection: requests to the API server of a context, with its certificates, its proxy and its login.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { readRegularFile } from '../../app/files.ts';
import { given } from '../../core/given.ts';
import {
  createHttpClient,
  type Environment,
  type HttpClient,
  type HttpRequest,
  type Limits,
  type RetryPolicy,
  type Trust,
} from '../../http/client.ts';
import { NoReply } from '../../http/reply.ts';
import type { KubeContext } from './kubeconfig.ts';
import type { Login, Proof } from './login.ts';

/** One request; its path is below the server's. */
export type ConnectionRequest = Omit<HttpRequest, 'url' | 'limits'>;

/** The way to one API server. All methods reject with the signal's reason, or with a JobmanError of the login. */
export type Connection = ReturnType<typeof createConnection>;

/** The connection to that context's server, as that login. `env` may name a proxy. */
export function createConnection(
  context: KubeContext,
  login: Login,
  env: Environment,
  { limits, retry }: { readonly limits?: Partial<Limits> | undefined; readonly retry: RetryPolicy },
) {
  const { server: url, 'proxy-url': proxy } = context.cluster;
  // Node ignores a proxy that is no address.
  if (proxy !== undefined && URL.parse(proxy) === null) {
    throw new JobmanError(`The proxy-url of the kubeconfig is not an address: ${proxy}.`, exitCode.unreachable);
  }
  let client: HttpClient | undefined;
  let clientOf: Proof | undefined;

  /** Certificates belong to the connection, so another certificate needs another client. */
  function clientFor(proof: Proof): HttpClient {
    if (client !== undefined && hasSameCertificate(proof, clientOf)) return client;
    const { cert, key } = proof;
    client?.close();
    client = createHttpClient({ env, proxy, limits, retry, trust: { ...trust(context), ...given({ cert, key }) } });
    clientOf = proof;
    return client;
  }

  async function send<T>(request: ConnectionRequest, act: (client: HttpClient, request: HttpRequest) => Promise<T>) {
    const proof = await unlessAborted(login.prove(), request.signal);
    const headers = { accept: 'application/json', ...proof.headers, ...request.headers };
    const reply = await act(clientFor(proof), { ...request, url, headers });
    if (reply instanceof NoReply && isOfLogin(reply)) throw brokenLogin(context, reply);
    return reply;
  }

  return {
    request: (request: ConnectionRequest) => send(request, (by, whole) => by.request(whole)),
    /** Resolves when the reply begins; a refusal is read whole. */
    open: (request: ConnectionRequest) => send(request, (by, whole) => by.open(whole)),
    /** The login's headers, and an agent with its certificates and proxy, for another client. */
    async way() {
      const proof = await login.prove();
      return { headers: proof.headers, agent: await clientFor(proof).agentFor(url) };
    },
    close: () => client?.close(),
  };
}

function brokenLogin({ name, from }: KubeContext, error: NoReply): JobmanError {
  // The text is Node's own, which names the header or the option and not its value.
  const message = `The context ${name} of ${from} cannot be used: ${error.message}.`;
  return new JobmanError(message, exitCode.unreachable, [], { cause: error });
}

/** Node's codes for certificates, keys and headers that it cannot use. */
function isOfLogin({ reason }: NoReply): boolean {
  return reason !== null && /^ERR_(?:OSSL_|INVALID_|TLS_INVALID_CONTEXT$)/.test(reason);
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const leave = (): void => aborted.reject(signal.reason as Error);
  signal.addEventListener('abort', leave);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

function trust({ name, cluster }: KubeContext): Trust {
  const { 'certificate-authority': file, 'certificate-authority-data': data, 'tls-server-name': servername } = cluster;
  let ca: Buffer | undefined;
  try {
    if (data !== undefined && data !== '') ca = Buffer.from(data, 'base64');
    else if (file !== undefined) ca = readRegularFile(file);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`The authority of the context ${name} cannot be read: ${why}.`, exitCode.unreachable);
  }
  // Node ignores an authority that it cannot read, and would then report the server's certificate instead.
  if (ca?.includes('-----BEGIN ') === false) {
    throw new JobmanError(`The authority of the context ${name} is not a certificate in PEM.`, exitCode.unreachable);
  }
  return given({
    ca,
    servername,
    rejectUnauthorized: cluster['insecure-skip-tls-verify'] === true ? false : undefined,
  });
}

function hasSameCertificate(one: Proof, other: Proof | undefined): boolean {
  return String(one.cert) === String(other?.cert) && String(one.key) === String(other?.key);
}
