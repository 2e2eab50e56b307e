// The lab of a server, over its API: the parts that the commands of `tpu` use on any machine. A command that needs the
// login machine is refused before it gets here.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Lab } from './lab.ts';
import type { LabClient } from './lab-client.ts';
import type { LabStore } from './lab-store.ts';
import type { TpuOperations } from './tpu-operations.ts';

export function createServerLab(api: LabClient): Lab {
  const nothing = (what: string) => (): Promise<never> =>
    Promise.reject(new Error(`the lab of a server has no ${what}`));
  let read: ReturnType<LabClient['site']> | undefined;
  const site = () => (read ??= api.site());
  const store: LabStore = {
    users: () => api.users(),
    addUser: (user) => api.addUser({ ...pick(user, userKeys), timeZone: user.settings.time_zone }),
    changeUser: (name, change) => api.changeUser(name, change),
    removeUser: (name) => api.removeUser(name),
    tpus: () => api.tpus(),
    tpuAliases: async () => new Map(Object.entries(await api.tpuAliases())),
    changeTpu: (name, change, alias) => api.changeTpu(name, change, alias),
    removeTpu: (name) => api.removeTpu(name),
    setTpuAlias: (alias, name) => api.setTpuAlias(alias, name),
    jobs: (user) => api.jobs(user),
    tagJob: (job, tag) => api.tagJob(job, tag),
    windows: (query) => api.windows(query),
    openWindow: (job, attempt) => api.openWindow(job, attempt),
    setWindowState: (windows) => api.clearWindows(windows.map((one) => pick(one, ['job', 'attempt']))),
    // The kinds of news are the only ones that a command reads.
    eventsSince: ((user, after) => api.news(user, after)) as LabStore['eventsSince'],
    addJob: nothing('addJob'),
    job: nothing('job'),
    jobStates: nothing('jobStates'),
    similarJobs: nothing('similarJobs'),
    findWindow: nothing('findWindow'),
    reportWindow: nothing('reportWindow'),
    finishWindow: nothing('finishWindow'),
    bookings: nothing('bookings'),
    changeBooking: nothing('changeBooking'),
    sheetChanges: nothing('sheetChanges'),
    addSheetChange: nothing('addSheetChange'),
    claimSheetChange: nothing('claimSheetChange'),
    endSheetChange: nothing('endSheetChange'),
    applyChanges: nothing('applyChanges'),
  };
  return {
    isOnServer: true,
    store,
    site,
    project: async () => (await site()).project,
    checkFolder: (path) => api.checkFolder(path),
    directory: (user, number) => api.directory(user, number),
    checkRows: ({ name }) => api.checkRows(name),
    async sheet() {
      const { sheetName } = await site();
      return {
        name: sheetName,
        read: () => api.bookings(),
        async change(tpu, command) {
          if (command.kind !== 'book' && command.kind !== 'release')
            throw new Error(`no command sends ${command.kind}`);
          const { seen, ...rest } = command;
          return api.changeBooking(tpu, seen ? { ...rest, seen: pick(seen, bookingKeys) } : command);
        },
        async changeLater(tpu, command) {
          if (command.kind === 'observe') return api.observeBooking(tpu, command.exists);
          throw new Error(`no command sends ${command.kind}`);
        },
        deliver: () => api.deliverBookings(),
      };
    },
    tpus: async () => createServerTpus(api),
    tmuxWindows: async () => ({
      // Of the server, which answers as if there were no windows without it.
      tmux: { path: 'tmux', version: '' },
      list: (session) => api.tmuxWindows(session),
      close: ({ session, window }) => api.closeTmuxWindow(session, window),
      open: nothing('terminal'),
      viewerCommand: () => [],
    }),
    checkNow: (jobs) => api.checkNow(jobs),
    // The server does it.
    assertOriginalHome: async () => undefined,
    close: async () => undefined,
  };
}

const userKeys = ['name', 'id', 'session', 'sheetName', 'logins', 'directories'] as const;
const bookingKeys = ['status', 'user', 'note', 'scriptNote'] as const;

/** The schemas of the API refuse other fields. */
function pick<T, Key extends keyof T>(from: T, keys: readonly Key[]): Pick<T, Key> {
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, Key>;
}

function createServerTpus(api: LabClient): TpuOperations {
  return {
    describe: ({ name }) => api.describeTpu(name),
    onWorkers: ({ name }, script, { signal, ...options }) =>
      untilAborted(api.runOnWorkers(name, { ...options, script }), signal),
    holders: ({ name }, signal) => untilAborted(api.holders(name), signal),
    endPrograms: ({ name }, { pids, ...what }, signal) =>
      untilAborted(api.endPrograms(name, { ...what, pids: pids.map((one) => pick(one, ['worker', 'pid'])) }), signal),
    close: () => undefined,
  };
}

/** The server finishes the request without its caller. */
async function untilAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void =>
    aborted.reject(new JobmanError('Interrupted. A script that has begun continues.', exitCode.interrupted));
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([answer, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
