// Builds one running server: the HTTP API over the database of the home, and its controller.

import { clientFor } from '../app/store-client.ts';
import { createAuthenticate, type TokenView } from '../app/tokens.ts';
import { JobmanError, exitCode, messageOf, usageError } from '../app/errors.ts';
import type { ControllerService, Io, Services } from '../app/services.ts';
import { settingsFile } from '../files/files.ts';
import { isLoopback } from '../http/client.ts';
import { listen as listenAt, type Listening } from '../server/serve.ts';
import { createClientParts } from './client.ts';
import { createLogger, fingerprintOf } from './controller-process.ts';

interface ServerOptions {
  /** `HOST:PORT` or a port. */
  readonly listen?: string | undefined;
  readonly io: Io;
  readonly home: string;
  readonly controller: ControllerService;
  /** Those of this process, with settings that are read again. */
  readonly openServices: () => Services;
}

const defaultAddress = '127.0.0.1:7420';

/** Runs until a signal or an exit request to the controller. Throws JobmanError. */
export async function runServer(options: ServerOptions): Promise<number> {
  const { io, home, controller, openServices, listen: text = defaultAddress } = options;
  const address = parseAddress(text);
  const log = createLogger(io);
  const clients = createClients(openServices, home, (line) => log.warn(line));
  const { store, access } = await clients.parts();
  // An unusable database is reported here, with its own message.
  await store.changeCount();
  let server: Listening;
  try {
    server = await listenAt(address, {
      authenticate: async (token) =>
        createAuthenticate({ access: (await clients.parts()).access, now: () => io.now() })(token),
      clientOf: async (actor) => clientFor(async () => actor, await clients.parts()),
      ready: async () => void (await (await clients.parts()).store.changeCount()),
      reportBug: (line) => log.error(line),
    });
  } catch (error) {
    throw new JobmanError(`The server cannot listen at ${text}: ${messageOf(error)}.`, exitCode.failed, [
      'To choose another address: jobman server --listen 127.0.0.1:PORT',
    ]);
  }
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= server.close());
  const forget = io.onSignal(() => void close());
  io.stdout.write(`The server runs at ${server.url}. Stop it: Ctrl-C\n`);
  try {
    const isAdmins = ({ role, revokedAt, expiresAt }: TokenView): boolean =>
      role === 'admin' && revokedAt === null && expiresAt > io.now();
    if (!(await access.tokens(null)).some(isAdmins))
      io.stdout.write('No admin has a token for it yet. Create one: jobman token create\n');
    return await controller.run({ idleExitMs: null });
  } finally {
    await close();
    forget();
    await clients.close();
  }
}

/** The parts of clients with the settings in the files. If these have a mistake, the former settings stay in force. */
function createClients(openServices: () => Services, home: string, warn: (line: string) => void) {
  let current = openServices();
  let opened = createClientParts(current);
  const { template, explicit } = current.settingsFiles();
  const files = [settingsFile(home), ...[template, explicit].flatMap((path) => path ?? [])];
  let seen = fingerprintOf(files);
  async function renew(): Promise<void> {
    const next = openServices();
    try {
      await next.settings();
      const old = opened;
      [current, opened] = [next, createClientParts(next)];
      await old.close();
    } catch (error) {
      warn(`the changed settings cannot be used, so the previous ones stay in force: ${messageOf(error)}`);
    }
  }
  let renewal = Promise.resolve();
  return {
    async parts() {
      const now = fingerprintOf(files);
      if (now !== seen) renewal = renewal.then(renew);
      seen = now;
      await renewal;
      return opened.parts;
    },
    close: () => opened.close(),
  };
}

/** Throws JobmanError (2). */
function parseAddress(text: string): { readonly host: string; readonly port: number } {
  const [, host = '127.0.0.1', digits = ''] = /^(?:(\[[\da-f:]+\]|[\w.-]+):)?(\d{1,5})$/i.exec(text) ?? [];
  const port = Number(digits);
  if (digits === '' || port > 65_535)
    throw usageError(`--listen takes an address such as ${defaultAddress}, and not ${text}.`);
  if (!isLoopback(`http://${host}`))
    throw usageError(
      `The server has no TLS yet, so it listens on this machine only, and not at ${host}. Nothing was started.`,
      [`To serve this machine: jobman server --listen 127.0.0.1:${port}`],
    );
  return { host: host.replace(/^\[|\]$/g, ''), port };
}
