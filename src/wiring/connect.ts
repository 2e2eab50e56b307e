// The package as a library: `import { connect } from 'jobman'`. Its types are generated (tools/typescript-client.ts). Node
// 20 runs it too, so it uses nothing newer.

import { usageError } from '../app/errors.ts';
import { isLoopback } from '../http/client.ts';
import { createServerClient, type HttpClientParts, type ServerClient } from '../http-client/client.ts';
import { createFrom, type CreateFrom } from '../http-client/create-from.ts';
import { version } from '../version.ts';

export { JobmanError } from '../app/errors.ts';

type ConnectOptions = Pick<HttpClientParts, 'server' | 'token' | 'ca'> & Partial<Pick<HttpClientParts, 'env'>>;

/** Connects to a server. Throws JobmanError (2) for an invalid address, or one that would send the token in clear text. */
export function connect({ server, token, ca = null, env = {} }: ConnectOptions): ServerClient & CreateFrom {
  const protocol = URL.canParse(server) ? new URL(server).protocol : '';
  if (!['https:', 'http:'].includes(protocol))
    throw usageError(`${server} is not the address of a server, such as https://jobman.example.org.`);
  if (protocol === 'http:' && !isLoopback(server))
    throw usageError(`${server} would send the token in clear text. Use https.`);
  const client = createServerClient({ server: server.replace(/\/+$/, ''), token, version, ca, env });
  return { ...client, createFrom: (...manifest) => createFrom(client, ...manifest) };
}
