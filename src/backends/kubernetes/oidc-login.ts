// OIDC login: the identity provider of a kubeconfig (`auth-provider: oidc`), whose refresh token gives new id tokens.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens

import { exitCode, JobmanError } from '../../app/errors.ts';
import { readRegularFile } from '../../app/regular-file.ts';
import { second } from '../../core/time.ts';
import { createHttpClient, type HttpClient, type HttpRequest } from '../../http/client.ts';
import { isLoopback, type Environment } from '../../http/proxy.ts';
import { NoReply } from '../../http/reply.ts';
import type { KubeContext } from './kubeconfig.ts';

type Config = Readonly<Record<string, unknown>>;

/** A new id token, and the refresh token for the next one. Rejects with JobmanError (unreachable) in the provider's words. */
export async function renewIdToken(
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
