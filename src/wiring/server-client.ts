// The server that a command uses, chosen by flag, environment or current context, and its Client.

import { userEnvVariable } from '../app/actor.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import type { Io } from '../app/services.ts';
import {
  contextOf,
  localRemedies,
  serverVariable,
  thisMachine,
  type Contexts,
  type ServerInUse,
} from '../app/server-in-use.ts';
import type { UserName } from '../core/model/user.ts';
import { readContexts } from '../files/contexts-file.ts';
import { createServerClient, type HttpClientParts, type ServerClient } from '../http-client/client.ts';
import { isLoopback } from '../http/client.ts';
import { contextsFile } from './paths.ts';

const tokenVariable = 'JOBMAN_TOKEN';

/** `named`: a context or an address; by default the current context. Throws JobmanError. */
export async function chooseServer(
  { env, uid }: Pick<Io, 'env' | 'uid'>,
  home: string,
  named: { readonly value: string; readonly by: '--server' | 'JOBMAN_SERVER' } | null,
): Promise<ServerInUse | null> {
  // The variable belongs to the server that the environment names: no other server may get it.
  const given = named?.by === serverVariable ? (env[tokenVariable] ?? '') : '';
  const isUrl = named?.value.includes('://') === true;
  if (isUrl) requireServerUrl(named.value, named.by);
  // An address with its token needs no file.
  const stored: Contexts =
    isUrl && given !== '' ? { current: null, contexts: {} } : await readContexts(contextsFile(home, uid));
  const chosenBy = named?.by ?? 'current context';
  const context = isUrl ? contextOf(stored, named.value) : (named?.value ?? stored.current);
  if (context === null && !isUrl) return null;
  const {
    server: url,
    token,
    ca,
  } = (context === null ? undefined : stored.contexts[context]) ?? {
    server: isUrl ? named.value : null,
    token: null,
    ca: null,
  };
  if (url === null) throw missingContextError(stored, context ?? '', chosenBy);
  if (given !== '') return { context, url, token: requireToken(given, tokenVariable), ca, chosenBy };
  if (token === null)
    throw usageError(`You are not logged in to ${context === null || context === url ? url : `${context} (${url})`}.`, [
      `To log in: jobman login ${url}`,
      ...localRemedies(chosenBy),
    ]);
  return { context, url, token: requireToken(token, 'The stored token'), ca, chosenBy };
}

function missingContextError({ contexts }: Contexts, name: string, chosenBy: ServerInUse['chosenBy']): JobmanError {
  const names = [...Object.keys(contexts), thisMachine].join(', ');
  return new JobmanError(
    `${chosenBy === 'current context' ? 'The current context is' : `${chosenBy} is`} ${name}, which is neither an address such as https://jobman.example nor a context.`,
    exitCode.usage,
    [`Contexts: ${names}`, 'To store one: jobman login URL', ...localRemedies(chosenBy)],
  );
}

/** `source` names the address in the message. Throws JobmanError. */
export function requireServerUrl(server: string, source: string): void {
  const url = URL.parse(server);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.username !== '' || url.hash !== '')
    throw usageError(`${source} must be the address of a server, such as https://jobman.example, and not ${server}.`);
  if (url.protocol === 'http:' && !isLoopback(server))
    throw usageError(`${source} is ${server}, which would send the token in clear text. Use https.`);
}

export function requireToken(token: string, source: string): string {
  if (/^[\u0021-\u007e]+$/.test(token)) return token;
  throw usageError(`${source} has a character that a token cannot have.`);
}

/** Connects with the first call. Throws JobmanError. */
export function openServerClient(
  io: Pick<Io, 'env' | 'onSignal' | 'version'>,
  server: ServerInUse,
  user: UserName | null,
  calls: Pick<HttpClientParts, 'beforeChange' | 'onWait'>,
): ServerClient {
  const onSignal = (call: () => void) => io.onSignal(call);
  if (user !== null)
    throw usageError(
      `Through a server, the token decides which user you are: unset ${userEnvVariable}, which is ${user}.`,
      localRemedies(server.chosenBy),
    );
  return createServerClient({ ...httpPartsOf(io, server), ...calls, onSignal });
}

export function httpPartsOf(
  { env, version }: Pick<Io, 'env' | 'version'>,
  { url, token, ca, chosenBy }: ServerInUse,
): HttpClientParts {
  const tokenRemedy =
    chosenBy === serverVariable && (env[tokenVariable] ?? '') !== ''
      ? `${tokenVariable} has it. Set a new one, or unset both variables and log in: jobman login ${url}`
      : `To log in again: jobman login ${url}`;
  return { server: url, token, version, ca, env, tokenRemedy };
}
