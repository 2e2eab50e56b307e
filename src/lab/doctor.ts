// Doctor: contradictions within the lab's data, or between the data and the machine. To add a check, add an entry to
// `checks` and a test.

import type { JobRow } from '../app/client.ts';
import type { Finding } from '../app/doctor.ts';
import { pluralize } from '../app/format.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import type { WrongMode } from './lab.ts';
import { newestWindows } from './lineage.ts';
import { nameProblem, type NameKind, type NamesInUse } from './names.ts';
import type { LabTpu } from './tpus.ts';
import type { BookingRow, LateChange } from './bookings.ts';
import type { LabUser } from './users.ts';
import type { WindowWithJob, LabJob } from './lab-store.ts';

export interface LabState {
  readonly users: readonly LabUser[];
  readonly tpus: readonly LabTpu[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly jobs: readonly LabJob[];
  readonly windows: readonly WindowWithJob[];
  /** All jobs by id, including finished ones, without deleted ones. */
  readonly rows: ReadonlyMap<string, JobRow>;
  readonly tmux: ReadonlyMap<string, readonly number[]>;
  readonly bookings: readonly BookingRow[];
  /** Changes that the spreadsheet does not have. */
  readonly lateBookings: readonly LateChange[];
  readonly zones: readonly string[];
  readonly isControllerRunning: boolean;
  /** Null if the home belongs to one login. */
  readonly wrongModes: readonly WrongMode[] | null;
  readonly reserved: Pick<NamesInUse, 'verbs' | 'keys'>;
  /** True if the folder certainly does not exist. A folder that cannot be checked may exist. */
  readonly isGone: (folder: string) => boolean;
}

/** A problem, which always has a remedy. */
export interface DoctorFinding extends Finding {
  /** A command or a sentence. */
  readonly remedy: string;
}

type Check = (state: LabState) => readonly Omit<DoctorFinding, 'check'>[];

const checks: Readonly<Record<string, Check>> = {
  stopped_controller: ({ isControllerRunning, rows }) => {
    const live = [...rows.values()].filter(({ phase }) => !isFinishedPhase(phase));
    if (isControllerRunning || live.length === 0) return [];
    const message = `No controller runs, so nothing recovers ${pluralize(live.length, 'unfinished job')}.`;
    return [{ message, remedy: 'jobman controller start' }];
  },
  unregistered_alias: ({ tpus, tpuAliases }) =>
    [...tpuAliases]
      .filter(([, name]) => !tpus.some((tpu) => tpu.name === name))
      .map(([alias, name]) => ({
        message: `The TPU ${name} of the alias ${alias} is not registered.`,
        remedy: `tpu register ${name}    or: tpu del-tpu-alias ${alias}`,
      })),
  ambiguous_name: ambiguousNames,
  duplicate_booking_name: ({ users }) =>
    users.flatMap(({ name, sheetName }, index) =>
      users
        .slice(0, index)
        .filter((user) => user.sheetName === sheetName)
        .slice(0, 1)
        .map((other) => ({
          message: `${other.name} and ${name} are both "${sheetName}" in the booking sheet, so jobman does not ask before one takes a TPU of the other.`,
          remedy: `tpu del-user ${name}    and then: tpu add-user ${name} sheet=ANOTHER dir=...`,
        })),
    ),
  tpu_without_zone: ({ tpus }) =>
    tpus
      .filter(({ zone }) => zone === null)
      .map(({ name }) => ({
        message: `The zone of ${name} is unknown.`,
        remedy: `tpu register ${name} zone=ZONE`,
      })),
  tpu_in_other_zone: ({ tpus, zones }) =>
    tpus
      .filter(({ zone }) => zone !== null && zones.length > 0 && !zones.includes(zone))
      .map(({ name, zone }) => ({
        message: `${name} is in ${zone}, which is not in the setting lab.zones.`,
        remedy: `jobman settings set lab.zones '${JSON.stringify([...zones, zone])}'    or: tpu register ${name} zone=ZONE`,
      })),
  missing_directory: ({ users, isGone }) =>
    users.flatMap(({ name, directories }) =>
      Object.entries(directories)
        .filter(([, folder]) => isGone(folder))
        .map(([number, folder]) => ({
          message: `Working directory ${number} of ${name} does not exist: ${folder}.`,
          remedy: `tpu del-dir ${number} ${name}    or, in another folder: tpu set-cur ${number} ${name}`,
        })),
    ),
  unresumable_window: ({ users, jobs, windows, rows, isGone }) =>
    newestListed(windows)
      .filter(({ window: { report, job, user } }) => {
        if (!users.some(({ name }) => name === user)) return false;
        const phase = rows.get(job)?.phase;
        const isParent = jobs.some(({ parent }) => parent?.job === job);
        const mayGoOn = phase !== undefined && phase !== 'succeeded' && !isParent;
        return mayGoOn && report !== null && isGone(report.stageFolder);
      })
      .map(({ window: { window, user, report } }) => ({
        message: `Window ${window} of ${user} cannot be resumed: the copy of its code is gone (${report?.stageFolder}).`,
        remedy: `tpu rerun window=${window} ${user}    runs the current code of the directory`,
      })),
  zombie_window: ({ users, windows, tmux }) =>
    users.flatMap(({ name, session }) => {
      const listed = windows.filter(({ window }) => window.user === name && window.clearedAt === null);
      const zombies = (tmux.get(session) ?? []).filter(
        (number) => !listed.some(({ window }) => window.window === number),
      );
      if (zombies.length === 0) return [];
      const which = zombies.length === 1 ? 'window' : 'windows';
      const message = `The tmux session "${session}" has ${which} ${zombies.join(', ')} without a job on the list of ${name}.`;
      return [{ message, remedy: `tpu -czw ${name}` }];
    }),
  zombie_job: zombieJobs,
  tpu_with_two_jobs: ({ jobs, rows }) => {
    const running = jobs.filter(({ job }) => rows.get(job)?.phase === 'running');
    return [...Map.groupBy(running, ({ tpu }) => tpu)]
      .filter(([, on]) => on.length > 1)
      .map(([tpu, on]) => ({
        message: `${pluralize(on.length, 'job')} run on ${tpu}: ${on.map(({ job, user }) => `${job} of ${user}`).join(', ')}.`,
        remedy: `jobman cancel ${Number(on.at(-1)?.job)}    cancels the newer one`,
      }));
  },
  booked_without_job: ({ bookings, jobs, rows, users }) =>
    bookings
      .filter(
        ({ status, tpu }) => status === 'running' && !jobs.some((job) => job.tpu === tpu && isLive(rows, job.job)),
      )
      .map(({ tpu, user }) => {
        const name = users.find(({ sheetName }) => sheetName === user)?.name;
        return {
          message: `${tpu} is booked as running${user === '' ? '' : ` for ${user}`}, but no job of jobman runs on it.`,
          remedy: `tpu release ${tpu}${name === undefined ? '' : ` ${name}`}    unless a user runs a program there manually`,
        };
      }),
  late_booking: ({ lateBookings }) =>
    lateBookings.map(({ tpu, message }) => ({
      message,
      remedy: `tpu book ${tpu}    books it, or tpu release ${tpu}    frees it; a controller repeats a late change`,
    })),
  wrong_file_modes: ({ wrongModes }) => {
    const [first, ...others] = wrongModes ?? [];
    if (first === undefined) return [];
    const more = others.length === 0 ? '' : `, and ${pluralize(others.length, 'other file')} too`;
    const message = `${first.path} has a wrong mode (${first.message})${more}: some logins of the group cannot use it.`;
    return [{ message, remedy: 'As its owner: tpu init-lab group=GROUP    repairs the modes' }];
  },
};

export function runChecks(state: LabState): readonly DoctorFinding[] {
  return Object.entries(checks).flatMap(([check, run]) => run(state).map((found) => ({ check, ...found })));
}

export const checkCount = Object.keys(checks).length;

function ambiguousNames({ users, tpus, tpuAliases, reserved }: LabState): ReturnType<Check> {
  const names = users.map(({ name }) => name);
  const use: NamesInUse = { ...reserved, users: names, tpuAliases, tpus: tpus.map(({ name }) => name) };
  const problem = (what: NameKind, name: string, remedy: string): ReturnType<Check> => {
    const others = what === 'user' ? { ...use, users: names.filter((one) => one !== name) } : use;
    const message = nameProblem(what, name, others);
    return message === null ? [] : [{ message: message.replace(/ Choose another\.$/, ''), remedy }];
  };
  const renamed = (name: string): string =>
    `Write user=${name}, or give the user another name with tpu del-user and tpu add-user.`;
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
  const deleted = newestListed(windows)
    .filter(({ window }) => !rows.has(window.job))
    .map(({ window: { window, user } }) => ({
      message: `Window ${window} of ${user} is on the list, but its job was deleted.`,
      remedy: `tpu -czj ${user}`,
    }));
  const ownerless = jobs
    .filter(({ job, user }) => isLive(rows, job) && !names.has(user))
    .map(({ job, user }) => ({
      message: `Job ${job} of ${user} is not finished, but the user ${user} was removed.`,
      remedy: `jobman cancel ${Number(job)}    or: tpu add-user name=${user}`,
    }));
  // No user can take a finished job of a removed user off the list.
  const orphaned = newestListed(windows).filter(
    ({ window: { job, user } }) => rows.has(job) && !isLive(rows, job) && !names.has(user),
  );
  const left = [...new Set(orphaned.map(({ window }) => window.user))].map((user) => ({
    message: `The list has ${pluralize(orphaned.filter(({ window }) => window.user === user).length, 'job')} of ${user}, but the user was removed.`,
    remedy: `tpu add-user name=${user}    and then: tpu clean ${user}`,
  }));
  return [...deleted, ...ownerless, ...left];
}

function newestListed(windows: readonly WindowWithJob[]): readonly WindowWithJob[] {
  return [...newestWindows(windows.filter(({ window }) => window.clearedAt === null)).values()];
}

function isLive(rows: LabState['rows'], job: string): boolean {
  const phase = rows.get(job)?.phase;
  return phase !== undefined && !isFinishedPhase(phase);
}
