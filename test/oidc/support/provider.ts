/** A real identity provider (oidc-provider) on this machine, behind a proxy that can change its answers. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import Provider from 'oidc-provider';

export const clientSecret = 'secret-of-the-client';

export interface Person {
  readonly email?: string;
  readonly email_verified?: unknown;
  readonly preferred_username?: string;
  readonly groups?: unknown;
}

/** Returns the new body of an answer; undefined to leave it. */
type Tamper = (path: string, body: string, outgoing: ServerResponse) => string | undefined;

export interface TestProvider {
  readonly issuer: string;
  /** By the name that they type. */
  readonly people: Map<string, Person>;
  tamper: Tamper;
  /** The paths of requests, without their query. */
  readonly requests: string[];
  /** Signs its ID tokens. */
  readonly key: KeyObject;
  /** Closes the port; nothing answers there then. */
  close(): Promise<void>;
}

/** `claimsInToken`: as Google does; else the ID token has only `sub`, and the rest is in the user info. */
export async function startProvider(
  t: Pick<TestContext, 'after' | 'mock'>,
  { claimsInToken = false, deviceFlow = true } = {},
): Promise<TestProvider> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const key = { ...privateKey.export({ format: 'jwk' }), kid: 'test', use: 'sig', alg: 'RS256' };
  const people = new Map<string, Person>();
  const requests: string[] = [];
  // Its advice for production.
  for (const method of ['info', 'warn'] as const) t.mock.method(console, method, () => undefined);
  const back = createServer();
  const backPort = await listenOn(back);
  const front = createServer();
  const issuer = `http://127.0.0.1:${await listenOn(front)}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'jobman',
        client_secret: clientSecret,
        // So that the port of the callback may be any.
        application_type: 'native',
        grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
        redirect_uris: ['http://127.0.0.1/login/callback'],
      },
    ],
    jwks: { keys: [key as never] },
    cookies: { keys: ['a key of the test'] },
    conformIdTokenClaims: !claimsInToken,
    claims: { email: ['email', 'email_verified'], profile: ['preferred_username', 'groups'] },
    features: { deviceFlow: { enabled: deviceFlow }, devInteractions: { enabled: true } },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, ...(people.get(sub) as Record<string, unknown> | undefined) }),
    }),
    ttl: {
      AccessToken: 600,
      AuthorizationCode: 60,
      DeviceCode: 600,
      Grant: 600,
      IdToken: 600,
      Interaction: 600,
      Session: 600,
    },
  });
  const answer = provider.callback();
  back.on('request', (incoming, outgoing) => void answer(incoming, outgoing));
  const test: TestProvider = {
    issuer,
    people,
    requests,
    key: privateKey,
    tamper: () => undefined,
    close: () => closeAll(front, back),
  };
  front.on('request', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method, headers, url: path = '' } = incoming;
    requests.push(path.replace(/\?.*/, ''));
    const { connection: _, ...kept } = headers;
    const sent = request({ port: backPort, host: '127.0.0.1', method, path, headers: kept }, (answer) => {
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => parts.push(part));
      answer.on('end', () => {
        const body = Buffer.concat(parts);
        const { 'content-length': _length, 'transfer-encoding': _encoding, ...answered } = answer.headers;
        outgoing.statusCode = answer.statusCode ?? 500;
        for (const [name, value] of Object.entries(answered)) if (value !== undefined) outgoing.setHeader(name, value);
        const changed = test.tamper(path.replace(/\?.*/, ''), body.toString(), outgoing);
        outgoing.end(changed ?? body);
      });
    });
    incoming.pipe(sent);
  });
  t.after(() => test.close());
  return test;
}

async function listenOn(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function closeAll(...servers: readonly Server[]): Promise<void> {
  for (const server of servers) {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }
}
