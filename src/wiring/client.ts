// The Client of this machine's store, for the terminal.

import type { CommandResult, Client } from '../app/client.ts';
import { createClient } from '../app/store-client.ts';
import type { LogFiles } from '../app/ports.ts';
import type { Services } from '../app/services.ts';
import type { Price } from '../reports/prices.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { openStore } from '../store/store.ts';
import { hasJobFiles, databaseFile } from './paths.ts';

/** Opens nothing yet. */
export async function createLocalClient(services: Services): Promise<Client> {
  const { io, home } = services;
  const store = openStore({ file: databaseFile(home), isIdTaken: hasJobFiles(home) });
  let files: Promise<LogFiles> | undefined;
  /** Loaded on the first write, because lists do not need it. */
  const logFiles = () =>
    (files ??= import('../app/log-files.ts').then(({ createLogFiles }) =>
      createLogFiles({ home, history: (id, after) => store.events(id, after) }),
    ));
  let startMessages: string[] = [];

  const client = createClient({
    store,
    notifications: store.notifications,
    home,
    owner: io.user,
    logFiles: {
      note: async (...line) => (await logFiles()).note(...line),
      mirror: async (...copy) => (await logFiles()).mirror(...copy),
    },
    now: () => io.now(),
    pricePerHour: (spec) => hourlyPrice(services, spec),
    async freeze(from, to) {
      const { freeze } = await import('../remote/workdir/freeze.ts');
      return freeze({ from, to, excluded: home, env: io.env, at: io.now() });
    },
    slots: async () => (await services.settings()).local.slots,
    grants: async () => (await services.settings()).grants,

    async notifyController(id) {
      const { sendWake } = await import('../controller/wake-folder.ts');
      // Due times are in the store: without the wake-up the job is checked a little later.
      await sendWake(home, id).catch(() => undefined);
    },

    async isControllerRunning() {
      const { isControllerRunning } = await import('../controller/lock.ts');
      return isControllerRunning(home);
    },

    async wakeController() {
      const { started, pid } = await (await services.controller()).start();
      if (started) startMessages.push(`Started the controller (process ${pid}). It runs in the background.`);
      const message = startMessages.join('\n');
      startMessages = [];
      return message === '' ? null : message;
    },
  });

  /** Repeats a refused command as the owner if the login may act for them; otherwise adds a hint. */
  async function asOwner(ask: (by: string) => Promise<CommandResult>, by: string): Promise<CommandResult> {
    const answer = await ask(by);
    if (answer.owner === undefined || by !== io.user) return answer;
    const { mayActAs, userEnvVariable } = await import('../lab/users.ts');
    const may = mayActAs({ env: io.env, login: io.user }, await store.lab.users(), answer.owner);
    if (may === 'allowed') return ask(answer.owner);
    if (may === 'refused') return answer;
    const hint = `If you are ${answer.owner}, repeat the command with ${userEnvVariable}=${answer.owner} before it.`;
    return { ...answer, message: `${answer.message} ${hint}` };
  }

  return {
    ...client,
    sendCommand: (ref, verb, options) => asOwner((by) => client.sendCommand(ref, verb, { ...options, by }), options.by),
    clean: (ref, by) => asOwner((owner) => client.clean(ref, owner), by),
    async create(request) {
      const { capacity } = request.spec;
      if (capacity.kind === 'tpu') {
        const { ensureEmulator, isServedByEmulator, formatEmulatorStarted } = await import('./emulator-service.ts');
        if (isServedByEmulator(await services.settings(), capacity.project)) {
          const { started, endpoint } = await ensureEmulator(io, home, request.spec);
          if (started) startMessages.push(formatEmulatorStarted(endpoint));
        }
      }
      return client.create(request);
    },
  };
}

async function hourlyPrice(services: Services, { capacity }: JobSpec): Promise<Price | null> {
  const [{ capacityPrice }, { prices }] = await Promise.all([import('../reports/prices.ts'), services.settings()]);
  return capacityPrice(prices, capacity, services.io.now());
}
