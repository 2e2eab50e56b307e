// The lab of a server, over its API: the parts that the commands of `tpu` use on any machine. A command that needs the
// login machine is refused before it gets here.

import { unlessAborted, untilAborted } from '../app/concurrency.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Lab } from './lab.ts';
import type { LabClient } from './lab-client.ts';
import type { SharedLabStore } from './lab-store.ts';
import type { TpuOperations } from './tpu-operations.ts';

export function createServerLab(api: LabClient): Lab {
  let read: ReturnType<LabClient['site']> | undefined;
  const site = () => (read ??= api.site());
  const store: SharedLabStore = {
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
    eventsSince: ((user, after) => api.news(user, after)) as SharedLabStore['eventsSince'],
  };
  return {
    isOnServer: true,
    store,
    localStore() {
      throw new Error('the tables of the lab are on the server');
    },
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
        // The server answers with it where it is of use.
        lastRead: async () => null,
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
      open: () => Promise.reject(new Error('the terminal of a user is not on the server')),
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
    onWorkers: ({ name }, script, { signal, ...options }) => {
      const answers = api.runOnWorkers(name, { ...options, script });
      const message = `Interrupted while working on ${name}.`;
      const interrupted = () => Promise.reject(new JobmanError(message, exitCode.interrupted));
      return Array.fromAsync(untilAborted(answers, signal, interrupted));
    },
    holders: ({ name }, signal) => unlessAborted(api.holders(name), signal, leftError),
    endPrograms: ({ name }, { pids, ...what }, signal) => {
      const programs = { ...what, pids: pids.map((one) => pick(one, ['worker', 'pid'])) };
      return unlessAborted(api.endPrograms(name, programs), signal, leftError);
    },
    close: () => undefined,
  };
}

/** The server finishes these requests without their caller. */
function leftError(): JobmanError {
  return new JobmanError('Interrupted. A script that has begun continues.', exitCode.interrupted);
}
