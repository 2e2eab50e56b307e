// Lab client: what the commands of `tpu` need from the machine of the database, so that they work through a server too.
// Arguments and answers are plain data. The server performs the calls here, in the name of the owner of a token.

import { isAbsolute } from 'node:path';
import type { AuditObject } from '../app/audit.ts';
import { auditEntry } from '../app/audit.ts';
import { untilLeft } from '../app/concurrency.ts';
import { recordRequestEnd } from '../app/audit-refusals.ts';
import type { Client } from '../app/client.ts';
import { JobmanError, exitCode, usageError } from '../app/errors.ts';
import type { LabJob } from '../app/lab-job.ts';
import { pageOf, type Key, type Page, type Rows } from '../app/pages.ts';
import { forbiddenError, requireGeneral, requireProject } from '../app/require-permission.ts';
import { withRefusalsRecorded, type ClientParts } from '../app/store-client.ts';
import { formProblem, nameRefusal, userNameProblem } from '../app/user-names.ts';
import type { Actor } from '../core/model/user.ts';
import { minute, type Duration, type Instant } from '../core/model/time.ts';
import { releaseConflict } from './booking-changes.ts';
import type { ChangedBooking, Delivery, SheetContents } from './bookings.ts';
import type { CheckRow } from './check-rows.ts';
import { checkRowsProblem } from './check-text.ts';
import type { DirectoryFacts, Lab } from './lab.ts';
import type { WindowQuery, WindowWithJob } from './lab-store.ts';
import { readLabUsage, type LabUsage } from './lab-usage.ts';
import { newsEventKinds, type NewsEvent } from './news.ts';
import type { BookingCommand, TpuChange, UserChange } from './service.ts';
import type { Site } from './site.ts';
import type { EndRequest, EndResult, HolderScan, TpuState, WorkerAnswer } from './tpu-operations.ts';
import { readJobsByTpu } from './tpu-usage.ts';
import { isTpuName, tpuFromName, type LabTpu } from './tpus.ts';
import { newLabUser, type LabUser, type NewLabUser } from './users.ts';

/** A script for the workers of a TPU of the lab. */
interface WorkerScript {
  /** For /bin/sh. */
  readonly script: string;
  /** 15 minutes at most. */
  readonly timeoutMs: Duration;
  /** By environment variable. They appear in no command line and no file that stays. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** All without it. */
  readonly workers?: readonly number[];
}

interface ServerSite extends Site {
  /** The Google Cloud project of its TPUs; null if the settings name none. */
  readonly project: string | null;
  /** The name of the booking sheet in messages. */
  readonly sheetName: string;
}

/** The methods throw JobmanError: (4) if the actor may not do it, and what the rule of a change throws. */
export interface LabClient {
  /** The settings of the lab. Of a file of the server only its presence is shown. */
  site(): Promise<ServerSite>;
  /** The registered users of the lab. */
  users(): Promise<readonly LabUser[]>;
  /** Adds a user to the lab. */
  addUser(user: NewLabUser): Promise<LabUser>;
  /** Changes a user of the lab. */
  changeUser(name: string, change: UserChange): Promise<{ readonly before: LabUser; readonly after: LabUser }>;
  /** Removes the user from the registry; jobs and windows stay. */
  removeUser(name: string): Promise<void>;
  /** Checks a folder on the machine of the server. Throws JobmanError (3) if it does not exist. */
  checkFolder(path: string): Promise<{ readonly hasScript: boolean }>;
  /** The facts about a working directory of a user. */
  directory(user: string, number: number): Promise<DirectoryFacts>;

  /** The TPUs that the lab shares. */
  tpus(): Promise<readonly LabTpu[]>;
  /** The full names of TPUs by alias. */
  tpuAliases(): Promise<Readonly<Record<string, string>>>;
  /** Adds or changes a TPU of the lab. `alias` becomes a name of the TPU too. */
  changeTpu(name: string, change: TpuChange, alias?: string): Promise<LabTpu | null>;
  /** Removes a TPU from the lab. The TPU itself stays. */
  removeTpu(name: string): Promise<void>;
  /** Sets an alias of a TPU; null removes the alias. */
  setTpuAlias(alias: string, name: string | null): Promise<void>;
  /** The state of a TPU of the lab in the cloud. */
  describeTpu(name: string): Promise<TpuState>;
  /** Runs a script on the workers of a TPU. Leaving the stream ends the script. */
  runOnWorkers(name: string, script: WorkerScript): AsyncIterable<WorkerAnswer>;
  /** The programs that hold the chips of a TPU. */
  holders(name: string): Promise<HolderScan>;
  /** Ends programs on the workers of a TPU. */
  endPrograms(name: string, programs: EndRequest): Promise<EndResult>;

  /** The jobs of `tpu run`, of one user or of all. */
  jobs(user?: string, page?: Page): Promise<Rows<LabJob>>;
  /** Sets the tag of a job. */
  tagJob(job: string, tag: string): Promise<void>;
  /** The windows that the query selects. */
  windows(query: WindowQuery, page?: Page): Promise<Rows<WindowWithJob>>;
  /** The window of an attempt, or a new one with the user's next number. */
  openWindow(job: string, attempt: number): Promise<WindowWithJob & { readonly session: string }>;
  /** Removes windows from the list of `tpu check`. */
  clearWindows(windows: readonly { readonly job: string; readonly attempt: number }[]): Promise<void>;
  /** The numbers of the windows of jobs in a tmux session; null if the session does not exist. */
  tmuxWindows(session: string): Promise<readonly number[] | null>;
  /** Closes a tmux window of a job. False if the window does not exist or is not one of a job. */
  closeTmuxWindow(session: string, window: number): Promise<boolean>;
  /** The rows of `tpu check`. */
  checkRows(user: string): Promise<readonly CheckRow[]>;
  /** Events of the user's jobs after the given number (0: all), oldest first. */
  news(user: string, after: number, page?: Page): Promise<Rows<NewsEvent>>;
  /** Makes the controller check these jobs now. Returns a message for the user, or null. */
  checkNow(jobs: readonly string[]): Promise<string | null>;

  /** The bookings and the jobs of each TPU. If the sheet does not answer, the bookings are those of its newest copy. */
  usage(): Promise<LabUsage>;
  /** The contents of the booking sheet. */
  bookings(): Promise<SheetContents>;
  /** Books or releases a TPU. Null: the sheet has no row for the TPU. Throws JobmanError (4) for a release while a job uses it. */
  changeBooking(
    tpu: string,
    command: Extract<BookingCommand, { readonly kind: 'book' | 'release' }>,
  ): Promise<ChangedBooking | null>;
  /** Records in the booking sheet whether the TPU exists. */
  observeBooking(tpu: string, exists: boolean): Promise<Delivery>;
  /** Writes stored changes that are due to the spreadsheet. */
  deliverBookings(): Promise<Delivery>;
}

const fileOfServer = 'a file of the server';
const maxScriptMs = 15 * minute;
const maxGraceMs = minute;
const maxNextWindow = 100_000;

/** The lab client of the owner of a token. `client` is the Client of the same actor. */
export function labClientFor(
  client: Calls,
  lab: Lab,
  parts: Pick<ClientParts, 'access' | 'now' | 'isChange'>,
): LabClient {
  return withRefusalsRecorded(createLabClient(client, lab, parts.now), async (method, args, end) => {
    const kebab = method.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const object = () => labObjectOf(method, args);
    const request = { route: `lab.${method}`, operation: `lab ${kebab}`, object };
    await recordRequestEnd(parts, () => client.whoAmI(), request, end);
  });
}

type Calls = Pick<Client, 'whoAmI' | 'wake' | 'list' | 'show'>;

function createLabClient(client: Calls, lab: Lab, now: () => Instant): LabClient {
  const gates = createGates(client, lab);
  return {
    ...createUsers(client, lab, now, gates),
    ...createTpus(client, lab, gates),
    ...createJobs(client, lab, now, gates),
    ...createBookings(client, lab, now, gates),
  };
}

type Gates = ReturnType<typeof createGates>;

/** The checks of the actor before a call. Each throws JobmanError (4, `forbidden`). */
function createGates(client: Calls, lab: Lab) {
  const { store } = lab;
  /** Called before each change. */
  async function member(what = 'change the lab'): Promise<Actor> {
    const actor = await client.whoAmI();
    requireGeneral(actor, 'lab', what);
    await lab.assertOriginalHome();
    return actor;
  }
  /** Users and their logins decide who may act as whom. */
  async function admin(what: string): Promise<Actor> {
    const actor = await member(what);
    if (actor.role !== 'admin')
      throw forbiddenError(`your role is ${actor.role}, and through a server only an admin may ${what}`);
    return actor;
  }
  /** A viewer sees only the output of their own jobs. */
  async function reader(user: string): Promise<LabUser> {
    const problem = checkRowsProblem(await client.whoAmI(), user);
    if (problem !== null) throw forbiddenError(problem);
    return userNamed(user);
  }
  async function userNamed(name: string): Promise<LabUser> {
    const found = (await store.users()).find((user) => user.name === name);
    if (found !== undefined) return found;
    throw new JobmanError(`There is no user ${JSON.stringify(name)}.`, exitCode.notFound);
  }
  /** A program in a folder of this machine can read what its login can. */
  async function folderOwner(): Promise<void> {
    const { role, mayUseServerMachine } = await member();
    if (role !== 'admin' && mayUseServerMachine !== true)
      throw forbiddenError(
        'through a server only an admin, or a user whom an admin allows the host localhost, may name a folder of its machine',
      );
  }
  return { member, admin, reader, folderOwner };
}

type OfUsers = 'site' | 'users' | 'addUser' | 'changeUser' | 'removeUser' | 'checkFolder' | 'directory';

function createUsers(
  client: Calls,
  lab: Lab,
  now: () => Instant,
  { member, admin, folderOwner }: Gates,
): Pick<LabClient, OfUsers> {
  const { store } = lab;
  return {
    async site() {
      const { spreadsheet, wandbKeyFile, privateKey, ...site } = await lab.site();
      return {
        ...site,
        wandbKeyFile: wandbKeyFile && fileOfServer,
        privateKey: privateKey && fileOfServer,
        spreadsheet: spreadsheet && { ...spreadsheet, credentials: fileOfServer },
        project: await lab.project(),
        sheetName: (await lab.sheet()).name,
      };
    },
    users: () => store.users(),
    async addUser(user) {
      const actor = await admin('add a user');
      requireName('user name', user.name, userNameProblem);
      requireName('tmux session', user.session, userNameProblem);
      for (const folder of Object.values(user.directories)) await lab.checkFolder(folder);
      const object = { kind: 'user', id: user.name } as const;
      const detail = { detail: { logins: user.logins } };
      return store.addUser(newLabUser(user, now()), auditEntry(actor, now(), 'tpu add-user', object, detail));
    },
    async changeUser(name, change) {
      const isOfLogins = change.kind === 'set' && change.values.logins !== undefined;
      const actor = isOfLogins ? await admin('change logins') : await member();
      await checkChange(change);
      const object = { kind: 'user', id: name } as const;
      const detail = { detail: { logins: (isOfLogins && change.values.logins) || [] } };
      return store.changeUser(
        name,
        change,
        isOfLogins ? auditEntry(actor, now(), 'tpu set-logins', object, detail) : undefined,
      );
    },
    async removeUser(name) {
      const actor = await admin('remove a user');
      await store.removeUser(name, auditEntry(actor, now(), 'tpu del-user', { kind: 'user', id: name }));
    },
    async checkFolder(path) {
      await folderOwner();
      return lab.checkFolder(path);
    },
    async directory(user, number) {
      const [facts, actor] = await Promise.all([lab.directory(user, number), client.whoAmI()]);
      return actor.role === 'viewer' ? { ...facts, tpuScript: null } : facts;
    },
  };

  /** The checks of a line of `tpu`, for callers without one. Throws JobmanError. */
  async function checkChange(change: UserChange): Promise<void> {
    switch (change.kind) {
      case 'set': {
        const { nextWindow = 1, session: name } = change.values;
        if (name !== undefined) requireName('tmux session', name, userNameProblem);
        if (!Number.isSafeInteger(nextWindow) || nextWindow < 1 || nextWindow > maxNextWindow)
          throw usageError(`${nextWindow} is not a window number: 1 to ${maxNextWindow}.`);
        return;
      }
      case 'set_directory':
        await folderOwner();
        if (!isAbsolute(change.folder)) throw usageError(`The folder ${change.folder} is not an absolute path.`);
        await lab.checkFolder(change.folder);
        return;
      case 'set_config_alias':
        return requireName('config alias', change.alias, userNameProblem);
      case 'fill':
        throw usageError('Only an import fills a user.');
      default:
    }
  }
}

type OfTpus = 'tpus' | 'tpuAliases' | 'changeTpu' | 'removeTpu' | 'setTpuAlias' | OnTpus;
type OnTpus = 'describeTpu' | 'runOnWorkers' | 'holders' | 'endPrograms';

function createTpus(client: Calls, lab: Lab, { member }: Gates): Pick<LabClient, OfTpus> {
  const { store } = lab;
  async function tpuNamed(name: string): Promise<LabTpu> {
    const found = (await store.tpus()).find((tpu) => tpu.name === name) ?? tpuFromName(name);
    if (found !== null) return found;
    throw new JobmanError(`The registry has no TPU ${JSON.stringify(name)}.`, exitCode.notFound);
  }
  async function withTpus<T>(name: string, call: (tpus: Awaited<ReturnType<Lab['tpus']>>, tpu: LabTpu) => Promise<T>) {
    const [tpu, actor] = await Promise.all([tpuNamed(name), client.whoAmI()]);
    requireProject(actor, tpu.project ?? (await lab.project()));
    const tpus = await lab.tpus();
    try {
      return await call(tpus, tpu);
    } finally {
      tpus.close();
    }
  }
  /** The TPU of a job of `jobman` belongs to its owner, and not to the lab. */
  const onWorkers: typeof withTpus = async (name, call) => {
    await member('use the workers of a TPU of the lab');
    return withTpus(name, async (tpus, tpu) => {
      const state = await tpus.describe(tpu);
      if (state.kind === 'unknown')
        throw new JobmanError(`The state of ${name} is unknown.`, exitCode.unreachable, [state.message]);
      const job = state.found?.job ?? null;
      if (job !== null) throw forbiddenError(`${name} belongs to job ${job}; it is not a TPU of the lab`);
      return call(tpus, tpu);
    });
  };

  return {
    tpus: () => store.tpus(),
    tpuAliases: async () => Object.fromEntries(await store.tpuAliases()),
    async changeTpu(name, change, alias) {
      await member();
      if (!isTpuName(name)) throw usageError(`${JSON.stringify(name)} is not a TPU name.`);
      if (change.kind === 'add' && change.tpu.name !== name)
        throw usageError(
          `The request adds the TPU ${JSON.stringify(change.tpu.name)} with the name ${JSON.stringify(name)}.`,
        );
      if (alias !== undefined) requireName('TPU alias', alias, userNameProblem);
      return store.changeTpu(name, change, alias);
    },
    async removeTpu(name) {
      await member();
      await store.removeTpu(name);
    },
    async setTpuAlias(alias, name) {
      await member();
      if (name !== null) requireName('TPU alias', alias, userNameProblem);
      await store.setTpuAlias(alias, name);
    },
    describeTpu: (name) => withTpus(name, (tpus, tpu) => tpus.describe(tpu)),
    runOnWorkers: (name, { script, ...options }) =>
      untilLeft(async function* (left) {
        const timeoutMs = Math.min(options.timeoutMs, maxScriptMs);
        for (const [variable, value] of Object.entries(options.secrets ?? {})) {
          if (!/^[A-Z_][A-Z0-9_]*$/.test(variable)) throw usageError(`${JSON.stringify(variable)} is no variable.`);
          if (value.includes('\0')) throw usageError(`The value of ${variable} has a NUL character.`);
        }
        const signal = AbortSignal.any([left, AbortSignal.timeout(maxScriptMs)]);
        yield* await onWorkers(name, (tpus, tpu) => tpus.onWorkers(tpu, script, { ...options, timeoutMs, signal }));
      }),
    holders: (name) => onWorkers(name, (tpus, tpu) => tpus.holders(tpu, AbortSignal.timeout(maxScriptMs))),
    endPrograms: (name, programs) =>
      onWorkers(name, (tpus, tpu) => {
        const graceMs = Math.min(programs.graceMs, maxGraceMs);
        return tpus.endPrograms(tpu, { ...programs, graceMs }, AbortSignal.timeout(maxScriptMs));
      }),
  };
}

/** PostgreSQL numbers attempts with 32 bits. */
const maxAttempt = 2 ** 31 - 1;

/** Each wakes the controller. */
const maxChecks = 10_000;

/** Throws JobmanError (2). */
function requireCount(what: string, count: number, max: number): void {
  if (!Number.isSafeInteger(count) || count < 0 || count > max)
    throw usageError(`${what} must be a whole number from 0 to ${max}, and not ${count}.`);
}

type OfJobs =
  | 'jobs'
  | 'tagJob'
  | 'windows'
  | 'openWindow'
  | 'clearWindows'
  | 'checkRows'
  | 'news'
  | 'checkNow'
  | OfTmux;
type OfTmux = 'tmuxWindows' | 'closeTmuxWindow';

function createJobs(client: Calls, lab: Lab, now: () => Instant, { member, reader }: Gates): Pick<LabClient, OfJobs> {
  const { store } = lab;
  async function session(name: string): Promise<void> {
    await member();
    if ((await store.users()).every((user) => user.session !== name))
      throw new JobmanError(`No user has the tmux session ${JSON.stringify(name)}.`, exitCode.notFound);
  }

  return {
    jobs: async (user, page = {}) => pageOf('lab-jobs', await store.jobs(user), page, ({ job }) => [Number(job)]),
    async tagJob(job, tag) {
      await member();
      requireName('tag', tag, formProblem);
      await store.tagJob(job, tag);
    },
    windows: async (query, page = {}) => pageOf('windows', await store.windows(query), page, keyOfWindow),
    async openWindow(job, attempt) {
      await member();
      requireCount('The attempt', attempt, maxAttempt);
      return store.openWindow(job, attempt, now());
    },
    async clearWindows(windows) {
      await member();
      for (const { attempt } of windows) requireCount('The attempt', attempt, maxAttempt);
      await store.setWindowState(windows, 'cleared', now());
    },
    async tmuxWindows(name) {
      await session(name);
      const windows = await lab.tmuxWindows();
      return windows.tmux === null ? null : windows.list(name);
    },
    async closeTmuxWindow(name, window) {
      await session(name);
      const windows = await lab.tmuxWindows();
      return windows.tmux !== null && windows.close({ session: name, window });
    },
    checkRows: async (user) => lab.checkRows(await reader(user), now()),
    async news(user, after, page = {}) {
      await reader(user);
      requireCount('The number of the event', after, Number.MAX_SAFE_INTEGER);
      return pageOf('news', await store.eventsSince(user, after, newsEventKinds), page, ({ number }) => [number]);
    },
    async checkNow(jobs) {
      await member();
      if (jobs.length > maxChecks) throw usageError(`At most ${maxChecks} jobs at once.`);
      return lab.checkNow(jobs, client);
    },
  };
}

/** In the order of the store. */
function keyOfWindow({ window: { window, user, openedAt, job, attempt } }: WindowWithJob): Key {
  return [window, user, openedAt, Number(job), attempt];
}

type OfBookings = 'usage' | 'bookings' | 'changeBooking' | 'observeBooking' | 'deliverBookings';

function createBookings(client: Calls, lab: Lab, now: () => Instant, { member }: Gates): Pick<LabClient, OfBookings> {
  return {
    usage: () => readLabUsage(client, lab, now()),
    bookings: async () => (await lab.sheet()).read(),
    async changeBooking(tpu, command) {
      const { user: by } = await member();
      if (command.kind === 'release') {
        const conflict = releaseConflict(tpu, (await readJobsByTpu(client, lab.store)).on(tpu));
        if (conflict !== null) throw conflict;
      }
      return (await lab.sheet()).change(tpu, { ...command, by });
    },
    async observeBooking(tpu, exists) {
      await member();
      return (await lab.sheet()).changeLater(tpu, { kind: 'observe', exists });
    },
    async deliverBookings() {
      await member();
      return (await lab.sheet()).deliver();
    },
  };
}

function requireName(what: string, name: string, problem: (name: string) => string | null): void {
  const why = problem(name);
  if (why !== null) throw usageError(nameRefusal(what, name, why));
}

/** The object in the audit log of a refused call. */
function labObjectOf(method: keyof LabClient, [first]: readonly unknown[]): AuditObject | null {
  const name = typeof first === 'string' ? first : (first as { readonly name?: unknown } | undefined)?.name;
  if (typeof name !== 'string') return null;
  if (/User|Rows|news|directory/.test(method)) return { kind: 'user', id: name };
  if (/Tpu|Workers|holders|Programs|Booking/.test(method) && !method.includes('tmux')) return { kind: 'tpu', id: name };
  return method === 'tagJob' || method === 'openWindow' ? { kind: 'job', id: name } : null;
}
