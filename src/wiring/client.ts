// The Client of this machine's record, as the terminal gets it.

import type { AskAnswer, Client } from '../app/client.ts';
import { createClient } from '../app/jobman.ts';
import type { LogFiles } from '../app/ports.ts';
import type { Services } from '../app/services.ts';
import type { JobSpec } from '../core/spec.ts';
import { openStore } from '../store/store.ts';
import { hasTraces, recordFile } from './paths.ts';

/** Opens nothing yet: the record is opened by the first question or change. */
export async function createLocalClient(services: Services): Promise<Client> {
  const { io, home } = services;
  const store = openStore({
    file: recordFile(home),
    isTaken: hasTraces(home),
  });
  let files: Promise<LogFiles> | undefined;
  /** Loaded when something is written, and not by each list. */
  const logFiles = () =>
    (files ??= import('../app/log-files.ts').then(({ createLogFiles }) =>
      createLogFiles({ home, history: (id, after) => store.events(id, after) }),
    ));
  /** Processes that were started and not yet reported. */
  let news: string[] = [];

  const client = createClient({
    store,
    home,
    owner: io.user,
    logFiles: {
      note: async (...line) => (await logFiles()).note(...line),
      mirror: async (...copy) => (await logFiles()).mirror(...copy),
    },
    now: () => io.now(),
    pricePerHour: priceOf,
    async freeze(from, to) {
      const { freeze } = await import('../remote/workdir/freeze.ts');
      return freeze({ from, to, apart: home, env: io.env, at: io.now() });
    },
    slots: async () => (await services.settings()).local.slots,
    grants: async () => (await services.settings()).grants,

    async hint(id) {
      const { dropWake } = await import('../controller/wake-folder.ts');
      // Due times are in the record: without the hint the job is looked at a little later.
      await dropWake(home, id).catch(() => undefined);
    },

    async expectController() {
      const { isControllerRunning } = await import('../controller/lock.ts');
      isControllerRunning(home);
    },

    async wake() {
      const { started, pid } = await (await services.controller()).start();
      if (started) news.push(`Started the controller (process ${pid}); it goes on without this terminal.`);
      const told = news.join('\n');
      news = [];
      return told === '' ? null : told;
    },
  });

  /** Asks for the login; where that is refused, for the owner if the login is theirs, or says how to name the owner. */
  async function asOwner(ask: (by: string) => Promise<AskAnswer>, by: string): Promise<AskAnswer> {
    const answer = await ask(by);
    if (answer.owner === undefined || by !== io.user) return answer;
    const { mayActAs, userVariable } = await import('../lab/people.ts');
    const may = mayActAs({ env: io.env, login: io.user }, await store.lab.users(), answer.owner);
    if (may === 'yes') return ask(answer.owner);
    if (may === 'no') return answer;
    const hint = `If you are ${answer.owner}, repeat the command with ${userVariable}=${answer.owner} in front of it.`;
    return { ...answer, message: `${answer.message} ${hint}` };
  }

  return {
    ...client,
    ask: (ref, verb, options) => asOwner((by) => client.ask(ref, verb, { ...options, by }), options.by),
    async clean(ref, by) {
      if (ref === null) return client.clean(ref, by);
      const one = async (owner: string): Promise<AskAnswer> => {
        const [answer] = await client.clean(ref, owner);
        if (answer === undefined) throw new Error(`no answer about job ${ref}`);
        return answer;
      };
      return [await asOwner(one, by)];
    },
    async create(request) {
      const { capacity } = request.spec;
      if (capacity.kind === 'tpu') {
        const { ensureEmulator, isServedByBuiltIn, startedText } = await import('./emulator-service.ts');
        if (isServedByBuiltIn(await services.settings(), capacity.project)) {
          const { started, endpoint } = await ensureEmulator(io, home, request.spec);
          if (started) news.push(startedText(endpoint));
        }
      }
      return client.create(request);
    },
  };
}

async function priceOf(spec: JobSpec): Promise<number | null> {
  if (spec.capacity.kind !== 'tpu') return null;
  const { pricePerHour } = await import('../catalogue/prices.ts');
  return pricePerHour(spec.capacity);
}
