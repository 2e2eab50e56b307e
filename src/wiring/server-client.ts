// The Client of the server that the environment names.

import { userEnvVariable } from '../app/actor.ts';
import type { Client } from '../app/client.ts';
import { usageError } from '../app/errors.ts';
import type { Io } from '../app/services.ts';
import type { UserName } from '../core/model/user.ts';
import { createServerClient } from '../http-client/client.ts';
import { isLoopback } from '../http/client.ts';

/** Connects with the first call. Throws JobmanError. */
export function openServerClient({ env }: Pick<Io, 'env'>, server: string, user: UserName | null): Client {
  const url = URL.parse(server);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.username !== '')
    throw usageError(
      `JOBMAN_SERVER must be the address of a server, such as https://jobman.example, and not ${server}.`,
    );
  if (url.protocol === 'http:' && !isLoopback(server))
    throw usageError(`JOBMAN_SERVER is ${server}, which would send the token in clear text. Use https.`);
  const token = env['JOBMAN_TOKEN'] ?? '';
  if (token === '')
    throw usageError(`JOBMAN_SERVER is ${server}, but JOBMAN_TOKEN has no token for it.`, [
      'To get a token: jobman token create, on the machine of the server',
    ]);
  if (!/^[\u0021-\u007e]+$/.test(token)) throw usageError('JOBMAN_TOKEN has a character that no token has.');
  if (user !== null)
    throw usageError(
      `On a server, the token decides who you are: unset ${userEnvVariable}, which is ${user}, or JOBMAN_SERVER.`,
    );
  return createServerClient({ server, token, env });
}
