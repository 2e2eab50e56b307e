// The server that a command uses, and contexts: servers with tokens that `jobman login` has stored by name.

import { usageError, type JobmanError } from './errors.ts';

export interface Context {
  readonly server: string;
  /** Null after `jobman logout`. */
  readonly token: string | null;
  /** At the login. */
  readonly user: string | null;
  readonly tokenName: string | null;
  /** Certificates in PEM of authorities that may sign the server's, in addition to those that the machine trusts. */
  readonly ca: string | null;
}

export interface Contexts {
  /** Name of the context that commands use; null for this machine. */
  readonly current: string | null;
  readonly contexts: Readonly<Record<string, Context>>;
}

export interface ServerInUse {
  /** Null for an address that no context has. */
  readonly context: string | null;
  readonly url: string;
  readonly token: string;
  readonly ca: string | null;
  readonly chosenBy: '--server' | 'JOBMAN_SERVER' | 'current context';
}

/** Stands for this machine where a command takes the name of a context. */
export const thisMachine = 'local';

export const serverVariable = 'JOBMAN_SERVER';

/** A name is neither an address nor a flag, and needs no quotes in a shell. */
export const contextNamePattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/;

export function formatServer({ context, url }: Pick<ServerInUse, 'context' | 'url'>): string {
  return context === null ? url : `${context} (${url})`;
}

/** The context of an address: the current one first, because two users may have contexts with the same address. */
export function contextOf({ current, contexts }: Contexts, url: string): string | null {
  const text = (address: string) => URL.parse(address)?.href.replace(/\/$/, '');
  const names = Object.keys(contexts).filter((name) => text(contexts[name]?.server ?? '') === text(url));
  return names.find((name) => name === current) ?? names[0] ?? null;
}

/** Hints that say how to use this machine instead. */
export function localRemedies(chosenBy: ServerInUse['chosenBy']): readonly string[] {
  const once = 'For one command on this machine: --server local, or JOBMAN_SERVER=local before `tpu`';
  return {
    '--server': ['To use this machine: --server local'],
    JOBMAN_SERVER: [once, 'For this terminal: unset JOBMAN_SERVER'],
    'current context': [once, 'For all commands: jobman context use local'],
  }[chosenBy];
}

/** The refusal of a command that works only on this machine, while a server is in use. */
export function notOnServerError(what: string, server: ServerInUse): JobmanError {
  return usageError(
    `${what} works only on this machine, and not through a server. The server in use is ${formatServer(server)}. Nothing was changed.`,
    localRemedies(server.chosenBy),
  );
}
