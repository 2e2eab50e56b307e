// Doctor: what in the lab's record does not fit together, or does not fit the machine. To add a check, add an entry to `checks`
// and a test.

import type { JobRow } from '../app/client.ts';
import { countText } from '../app/figures.ts';
import { isSettledPhase } from '../core/phase.ts';
import type { WrongMode } from './lab.ts';
import { nameOf, newestOf } from './lineage.ts';
import { nameProblem, type Named, type WordsInUse } from './names.ts';
import { acceleratorCalled, type LabTpu } from './tpus.ts';
import { type BookingRow } from './bookings.ts';
import type { LabUser } from './people.ts';
import type { LabAttempt, LabJob } from './record.ts';

export interface LabState {
  readonly users: readonly LabUser[];
  readonly tpus: readonly LabTpu[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly jobs: readonly LabJob[];
  readonly windows: readonly LabAttempt[];
  /** The jobs of the record by their ids, settled ones too; those that were deleted are not among them. */
  readonly rows: ReadonlyMap<string, JobRow>;
  readonly tmux: ReadonlyMap<string, readonly number[]>;
  readonly bookings: readonly BookingRow[];
  readonly zones: readonly string[];
  readonly controllerRuns: boolean;
  /** Null where the home is one login's alone. */
  readonly wrongModes: readonly WrongMode[] | null;
  readonly words: Pick<WordsInUse, 'verbs' | 'keys'>;
  /** Whether the folder is certainly not there: one that cannot be asked about may be. */
  readonly isGone: (folder: string) => boolean;
}

/** Something that does not fit, as a sentence, and what puts it right: a line to type, or a sentence. */
export interface Finding {
  readonly check: string;
  readonly says: string;
  readonly remedy: string;
}

type Check = (state: LabState) => readonly Omit<Finding, 'check'>[];

const checks: Readonly<Record<string, Check>> = {
  'controller that is stopped': ({ controllerRuns, rows }) => {
    const live = [...rows.values()].filter(({ phase }) => !isSettledPhase(phase));
    if (controllerRuns || live.length === 0) return [];
    const says = `No controller runs, so no rule acts on ${countText(live.length, 'job')} under way.`;
    return [{ says, remedy: 'jobman controller start' }];
  },
  'alias that points nowhere': ({ tpus, tpuAliases }) =>
    [...tpuAliases]
      .filter(([, name]) => !tpus.some((tpu) => tpu.name === name))
      .map(([alias, name]) => ({
        says: `The alias ${alias} means ${name}, which is not registered.`,
        remedy: `tpu register ${name}    or: tpu del-tpu-alias ${alias}`,
      })),
  'name that means something else': namesThatMeanMore,
  'one name for two in the booking sheet': ({ users }) =>
    users.flatMap(({ name, sheetName }, index) =>
      users
        .slice(0, index)
        .filter((user) => user.sheetName === sheetName)
        .slice(0, 1)
        .map((other) => ({
          says: `${other.name} and ${name} are both "${sheetName}" in the booking sheet, so neither is asked before taking a TPU of the other.`,
          remedy: `tpu del-user ${name}    and then, with directories and all: tpu add-user ${name} sheet=ANOTHER dir=...`,
        })),
    ),
  'TPU without a zone': ({ tpus }) =>
    tpus
      .filter(({ zone }) => zone === null)
      .map(({ name }) => ({
        says: `Nobody has said in which zone ${name} is.`,
        remedy: `tpu register ${name} zone=ZONE`,
      })),
  'TPU outside of the site': ({ tpus, zones }) =>
    tpus
      .filter(({ zone }) => zone !== null && zones.length > 0 && !zones.includes(zone))
      .map(({ name, zone }) => ({
        says: `${name} is in ${zone}, which is none of the zones of the settings (lab.zones).`,
        remedy: `jobman settings set lab.zones '${JSON.stringify([...zones, zone])}'    or: tpu register ${name} zone=ZONE`,
      })),
  'TPU of no known type': ({ tpus }) =>
    tpus
      .filter(({ accelerator }) => acceleratorCalled(accelerator) === null)
      .map(({ name, accelerator }) => ({
        says: `${name} is registered as a ${accelerator}, which is no type of TPU.`,
        remedy: `tpu register ${name} type=TYPE`,
      })),
  'directory that is gone': ({ users, isGone }) =>
    users.flatMap(({ name, directories }) =>
      Object.entries(directories)
        .filter(([, folder]) => isGone(folder))
        .map(([number, folder]) => ({
          says: `Directory ${number} of ${name} is ${folder}, which is not there.`,
          remedy: `tpu del-dir ${number} ${name}    or, in another folder: tpu set-cur ${number} ${name}`,
        })),
    ),
  'window that cannot be resumed': ({ users, jobs, windows, rows, isGone }) =>
    newestShown(windows)
      .filter(({ window: { report, job, user } }) => {
        if (!users.some(({ name }) => name === user)) return false;
        const phase = rows.get(job)?.phase;
        // Another job goes on in its place already.
        const isFather = jobs.some(({ father }) => father?.job === job);
        const mayGoOn = phase !== undefined && phase !== 'succeeded' && !isFather;
        return mayGoOn && report !== null && isGone(report.stageFolder);
      })
      .map(({ window: { window, user, report } }) => ({
        says: `Window ${window} of ${user} ran the code in ${report?.stageFolder}, which is gone: it cannot be resumed.`,
        remedy: `tpu rerun window=${window} ${user}    runs the directory as it is now`,
      })),
  'duplicate window': ({ windows }) => {
    const shown = windows.filter(({ window }) => window.clearedAt === null).map(({ window }) => window);
    return shown
      .filter(({ user, window }, index) =>
        shown.slice(0, index).some((before) => before.user === user && before.window === window),
      )
      .map(({ user, window }) => ({
        says: `Two windows of ${user} have the number ${window}.`,
        remedy: `tpu clear ${user}    takes those that have ended off the list`,
      }));
  },
  'zombie window': ({ users, windows, tmux }) =>
    users.flatMap(({ name, session }) => {
      const listed = windows.filter(({ window }) => window.user === name && window.clearedAt === null);
      const zombies = (tmux.get(session) ?? []).filter(
        (number) => !listed.some(({ window }) => window.window === number),
      );
      if (zombies.length === 0) return [];
      const [which, are] = zombies.length === 1 ? ['window', 'is'] : ['windows', 'are'];
      const says = `tmux shows ${which} ${zombies.join(', ')} in the session "${session}", which ${are} none of the list of ${name}.`;
      return [{ says, remedy: `tpu -czw ${name}` }];
    }),
  'zombie job': zombieJobs,
  'resumed without a father': ({ jobs, windows }) => {
    const known = new Set(jobs.map(({ job }) => job));
    const number = new Map(windows.map(({ window }) => [nameOf(window), window.window]));
    return jobs.flatMap(({ job, user, father }) => {
      if (father === null || known.has(father.job)) return [];
      const window = number.get(nameOf({ job, attempt: 1 }));
      const which = window === undefined ? `Job ${job}` : `Window ${window}`;
      const says = `${which} of ${user} goes back to job ${father.job}, of which the record knows nothing.`;
      return [{ says, remedy: 'It can be rerun; its first resume has no log folder to load from.' }];
    });
  },
  'two jobs on one TPU': ({ jobs, rows }) => {
    const running = jobs.filter(({ job }) => rows.get(job)?.phase === 'running');
    return [...Map.groupBy(running, ({ tpu }) => tpu)]
      .filter(([, on]) => on.length > 1)
      .map(([tpu, on]) => ({
        says: `${countText(on.length, 'job')} run on ${tpu}: ${on.map(({ job, user }) => `${job} of ${user}`).join(', ')}.`,
        remedy: `jobman cancel ${on.at(-1)?.job}    ends the one that began last`,
      }));
  },
  'booked and idle': ({ bookings, jobs, rows, users }) =>
    bookings
      .filter(
        ({ status, tpu }) => status === 'running' && !jobs.some((job) => job.tpu === tpu && isLive(rows, job.job)),
      )
      .map(({ tpu, user }) => {
        const name = users.find(({ sheetName }) => sheetName === user)?.name;
        return {
          says: `${tpu} is booked as running${user === '' ? '' : ` by ${user}`}, and no job of the record runs on it.`,
          remedy: `tpu release ${tpu}${name === undefined ? '' : ` ${name}`}    unless somebody runs on it by hand`,
        };
      }),
  'home with wrong modes': ({ wrongModes }) => {
    const [first, ...others] = wrongModes ?? [];
    if (first === undefined) return [];
    const more = others.length === 0 ? '' : `, and ${countText(others.length, 'thing')} more is not as it should be`;
    const says = `${first.path} is ${first.says}${more}: some logins of the group cannot use it.`;
    return [{ says, remedy: 'Its owner: tpu init-lab group=GROUP    gives the group all that it should have' }];
  },
};

export function examine(state: LabState): readonly Finding[] {
  return Object.entries(checks).flatMap(([check, looks]) => looks(state).map((found) => ({ check, ...found })));
}

export const checkCount = Object.keys(checks).length;

function namesThatMeanMore({ users, tpus, tpuAliases, words }: LabState): ReturnType<Check> {
  const names = users.map(({ name }) => name);
  const use: WordsInUse = { ...words, users: names, tpuAliases, tpus: tpus.map(({ name }) => name) };
  const problem = (what: Named, name: string, remedy: string): ReturnType<Check> => {
    const others = what === 'user' ? { ...use, users: names.filter((one) => one !== name) } : use;
    const says = nameProblem(what, name, others);
    return says === null ? [] : [{ says: says.replace(/ Choose another\.$/, ''), remedy }];
  };
  const renamed = (name: string): string =>
    `It can be said as user=${name}; a user gets another name by tpu del-user and tpu add-user.`;
  const ofUsers = users.flatMap((user) => Object.entries(user.aliases).map((one) => [user.name, ...one] as const));
  return [
    ...names.flatMap((name) => problem('user', name, renamed(name))),
    ...[...tpuAliases].flatMap(([alias, name]) =>
      problem('TPU alias', alias, `tpu del-tpu-alias ${alias}    and: tpu -ta ANOTHER ${name}`),
    ),
    ...ofUsers.flatMap(([user, alias, key]) =>
      problem('config alias', alias, `tpu del-config-alias ${alias} ${user}    and: tpu -a ANOTHER ${key} ${user}`),
    ),
  ];
}

function zombieJobs({ users, windows, jobs, rows }: LabState): ReturnType<Check> {
  const names = new Set(users.map(({ name }) => name));
  const deleted = newestShown(windows)
    .filter(({ window }) => !rows.has(window.job))
    .map(({ window: { window, user } }) => ({
      says: `Window ${window} of ${user} stands on the list, and its job was deleted.`,
      remedy: `tpu -czj ${user}`,
    }));
  const masterless = jobs
    .filter(({ job, user }) => isLive(rows, job) && !names.has(user))
    .map(({ job, user }) => ({
      says: `Job ${job} of ${user} goes on, and there is no user ${user} any more.`,
      remedy: `jobman cancel ${job}    or: tpu add-user name=${user}`,
    }));
  // A finished job of a removed user has nobody who could take it off the list.
  const orphaned = newestShown(windows).filter(
    ({ window: { job, user } }) => rows.has(job) && !isLive(rows, job) && !names.has(user),
  );
  const left = [...new Set(orphaned.map(({ window }) => window.user))].map((user) => ({
    says: `The list still has ${countText(orphaned.filter(({ window }) => window.user === user).length, 'job')} of ${user}, who is no user any more.`,
    remedy: `tpu add-user name=${user}    and then: tpu clean ${user}`,
  }));
  return [...deleted, ...masterless, ...left];
}

function newestShown(windows: readonly LabAttempt[]): readonly LabAttempt[] {
  return [...newestOf(windows.filter(({ window }) => window.clearedAt === null)).values()];
}

function isLive(rows: LabState['rows'], job: string): boolean {
  const phase = rows.get(job)?.phase;
  return phase !== undefined && !isSettledPhase(phase);
}
