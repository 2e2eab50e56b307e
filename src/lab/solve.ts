// Solve: a table of possible problems of a TPU, causes first: a preempted TPU has no disks, and a full disk keeps
// Python from starting. To add a case, add an entry to `problemChecks` and a row to test/lab/solve.test.ts.

import { type Duration, type Instant, minute, second } from '../core/model/time.ts';
import { sudoFunction, mountScript, sharesOf } from './site-setup.ts';
import type { Site } from './site.ts';
import type { DeviceHolder } from '../app/lab-job.ts';
import { formatTpuState, type TpuOperations, type TpuState } from './tpu-operations.ts';
import { formatHolders } from './tpu-usage.ts';
import type { LabTpu } from './tpus.ts';
import {
  type EnvironmentCheck,
  worstEnvironment,
  environmentScript,
  environmentTimeout,
  factsScript,
  lockFile,
  parseFacts,
  type WorkerFacts,
} from './worker-facts.ts';

export interface SolveFacts {
  readonly tpu: LabTpu;
  readonly site: Pick<Site, 'shares' | 'python'>;
  readonly state: TpuState;
  readonly workers: readonly WorkerFacts[];
  readonly unresponsive: readonly { readonly worker: number; readonly message: string }[];
  /** Null until Python was checked, which is the last check. */
  readonly environment: EnvironmentCheck | null;
}

export type Repair =
  | { readonly kind: 'apply' | 'reapply' | 'restart' }
  /** POSIX shell for the problem's workers. Its last line is the reason of a failure. */
  | { readonly kind: 'script'; readonly script: string; readonly description: string; readonly timeout: Duration }
  | { readonly kind: 'login'; readonly description: string }
  /** Programs that have to end. The user confirms, because they may be another user's. */
  | { readonly kind: 'end'; readonly holders: readonly DeviceHolder[] }
  | { readonly kind: 'wait'; readonly duration: Duration }
  | { readonly kind: 'manual'; readonly description: string };

export interface TpuProblem {
  readonly name: string;
  readonly message: string;
  /** The affected workers; empty: the whole TPU. */
  readonly workers: readonly number[];
  readonly repair: Repair;
}

const lostStates = ['preempted', 'terminated', 'suspended', 'failed'];

type ProblemCheck = (facts: SolveFacts) => Omit<TpuProblem, 'name'> | null;

/** With less space, writing a checkpoint or a log fails. */
const minFreeMb = 500;
/** With a larger difference, logins and certificates are refused. */
const maxClockSkew: Duration = 30 * second;

export const problemChecks: Readonly<Record<string, ProblemCheck>> = {
  missing: ({ state }) => tpuProblem(isState(state, 'absent'), 'the TPU does not exist', { kind: 'apply' }),
  lost: ({ state }) =>
    tpuProblem(isState(state, ...lostStates), `the TPU was lost (${stateName(state)})`, { kind: 'reapply' }),
  stopped: ({ state }) => tpuProblem(isState(state, 'stopped'), 'the TPU is stopped', { kind: 'restart' }),
  not_ready: ({ state }) =>
    tpuProblem(
      state.kind === 'known' && !isState(state, 'ready', 'absent', 'stopped', ...lostStates),
      `the TPU is ${formatTpuState(stateName(state))}`,
      {
        kind: 'wait',
        duration: minute,
      },
    ),
  ssh_fails: ({ unresponsive, workers }) => {
    // A restart does not change a refused login.
    const isRefused = unresponsive.every((one) =>
      /authenti|publickey|host key|permission denied|no SSH key|no available SSH key/i.test(one.message),
    );
    const advice = 'check lab.remoteUser and lab.privateKey in the settings';
    return workerProblem(
      unresponsive,
      (found) => `no SSH connection to ${formatWorkers(found)}: ${found[0]?.message}`,
      isRefused && workers.length === 0 ? { kind: 'manual', description: advice } : { kind: 'restart' },
    );
  },
  disk_full: ({ workers }) =>
    workerProblem(
      workers.filter(({ disks }) => disks.some(({ freeMb }) => freeMb < minFreeMb)),
      (found) => `less than ${minFreeMb} MB of disk free on ${formatWorkers(found)}`,
      scriptRepair(freeDiskScript, 'remove cached packages, old logs and traces', 5 * minute),
    ),
  wrong_clock: ({ workers }) =>
    workerProblem(
      workers.filter(({ clockAheadMs }) => Math.abs(clockAheadMs) > maxClockSkew),
      (found) => {
        const most = Math.max(...found.map(({ clockAheadMs }) => Math.abs(clockAheadMs)));
        return `the clock is ${Math.round(most / second)} s off on ${formatWorkers(found)}`;
      },
      scriptRepair(setClockScript, 'set the clock from the time servers', minute),
    ),
  share_missing: ({ workers, site }) => {
    const found = workers.filter(({ shares }) => shares.some(({ state }) => state !== 'mounted'));
    const wrong = found.flatMap(({ shares }) => shares.filter(({ state }) => state !== 'mounted'));
    const targets = [...new Set(wrong.map(({ share, state }) => `${share.target} (${shareStateText[state]})`))].join(
      ', ',
    );
    const wanted = site.shares.filter((share) => found.some(({ shares }) => shares.some((one) => one.share === share)));
    return workerProblem(
      found,
      () => `shares missing on ${formatWorkers(found)}: ${targets}`,
      wrong.some(({ state }) => state === 'other')
        ? { kind: 'manual', description: 'unmount what is mounted there' }
        : scriptRepair(mountScript(wanted)?.apply ?? 'true', 'mount the shares', 15 * minute),
    );
  },
  wandb_login_missing: ({ workers }) =>
    workerProblem(
      workers.filter(({ isLoggedIn }) => isLoggedIn === false),
      (found) => `no login to W&B on ${formatWorkers(found)}`,
      { kind: 'login', description: 'log in to W&B' },
    ),
  python_missing: ({ workers, site }) =>
    workerProblem(
      workers.filter(({ hasPython }) => !hasPython),
      (found) => `${site.python ?? 'python3'} does not exist on ${formatWorkers(found)}`,
      { kind: 'manual', description: 'check that one of the shares has lab.python of the settings' },
    ),
  device_busy: ({ workers }) =>
    workerProblem(
      workers.filter((one) => one.holders.length > 0),
      (found) => formatHolders(found.flatMap(({ holders }) => holders)).join('; '),
      { kind: 'end', holders: workers.flatMap(({ holders }) => holders) },
    ),
  stale_lock_file: ({ workers }) =>
    workerProblem(
      workers.filter(({ lock, holders }) => lock !== null && lock.openedBy.length === 0 && holders.length === 0),
      (found) => `the process that made libtpu's lock file on ${formatWorkers(found)} is gone`,
      scriptRepair(removeLockScript, `remove ${lockFile}`, minute),
    ),
  libtpu_in_use: ({ environment }) =>
    tpuProblem(
      environment?.class === 'occupied',
      `libtpu is in use on worker ${environment?.worker} by an unknown program: ${environment?.message}`,
      { kind: 'restart' },
    ),
  python_hangs: ({ environment }) =>
    tpuProblem(environment?.class === 'timeout', `Python hangs before it sees the devices: ${environment?.message}`, {
      kind: 'restart',
    }),
  python_fails: ({ environment }) =>
    workerProblem(
      environment?.class === 'file_error' || environment?.class === 'unknown' ? [environment] : [],
      ([found]) => `Python on worker ${found?.worker} does not see the devices: ${found?.message}`,
      { kind: 'manual', description: 'repair the environment of lab.python' },
    ),
};

/** All problems, causes first. Empty if the cloud does not report the TPU's state. */
export function findProblems(facts: SolveFacts): readonly TpuProblem[] {
  if (facts.state.kind === 'unknown') return [];
  return Object.entries(problemChecks).flatMap(([name, check]) => {
    const found = check(facts);
    return found === null ? [] : [{ name, ...found }];
  });
}

/** Only a ready TPU has workers. */
export function hasWorkers(state: TpuState): boolean {
  return isState(state, 'ready');
}

function isState(state: TpuState, ...states: readonly string[]): boolean {
  return state.kind === 'known' && states.includes(state.state);
}

function stateName(state: TpuState): string {
  return state.kind === 'known' ? state.state : 'unknown';
}

interface WithWorker {
  readonly worker: number;
}

function tpuProblem(isWrong: boolean, message: string, repair: Repair): ReturnType<ProblemCheck> {
  return isWrong ? { message, workers: [], repair } : null;
}

function scriptRepair(text: string, description: string, timeout: Duration): Repair {
  return { kind: 'script', script: text, description, timeout };
}

function workerProblem<One extends WithWorker>(
  found: readonly One[],
  message: (found: readonly One[]) => string,
  repair: Repair,
): ReturnType<ProblemCheck> {
  return found.length === 0 ? null : { message: message(found), workers: workerNumbers(found), repair };
}

function workerNumbers(found: readonly WithWorker[]): readonly number[] {
  return found.map(({ worker }) => worker);
}

function formatWorkers(found: readonly WithWorker[]): string {
  const all = workerNumbers(found);
  if (all.length === 1) return `worker ${all[0]}`;
  return `workers ${all.length > 4 ? `${all.slice(0, 3).join(', ')} and ${all.length - 3} more` : all.join(', ')}`;
}

const shareStateText = {
  mounted: 'mounted',
  missing: 'not mounted',
  silent: 'server does not answer',
  other: 'another source is mounted',
} as const;

/** Deletes only what can be downloaded again: unpacked packages, the journal, libtpu traces older than a day. */
const freeDiskScript = `${sudoFunction}
as_administrator apt-get clean
as_administrator journalctl --vacuum-size=100M 2>/dev/null
as_administrator find /tmp/tpu_logs /tmp/tensorboard -xdev -type f -mmin +1440 -delete 2>/dev/null
echo 'Largest folders (MB):'
as_administrator du -xm --max-depth=2 / 2>/dev/null | sort -rn | head -n 8
exit 0
`;

const setClockScript = `${sudoFunction}
as_administrator systemctl restart chrony 2>/dev/null || as_administrator systemctl restart systemd-timesyncd
as_administrator chronyc makestep 2>/dev/null
sleep 2
exit 0
`;

const removeLockScript = `${sudoFunction}
as_administrator rm -f ${lockFile} || { echo 'Cannot remove ${lockFile}.'; exit 1; }
`;

const factsTimeout = 40 * second;

/** All facts except Python. Throws JobmanError like TpuOperations. */
export async function gatherFacts(
  tpus: Pick<TpuOperations, 'describe' | 'onWorkers'>,
  tpu: LabTpu,
  options: {
    readonly site: Site;
    readonly hasKey: boolean;
    readonly now: () => Instant;
    readonly signal: AbortSignal;
  },
): Promise<SolveFacts> {
  const { site, hasKey, now, signal } = options;
  const state = await tpus.describe(tpu);
  const empty = { tpu, site, state, workers: [], unresponsive: [], environment: null };
  if (state.kind === 'unknown' || !hasWorkers(state)) return empty;
  const shares = sharesOf(site, state.zone);
  const from = now();
  const answers = await tpus.onWorkers(tpu, factsScript(shares, site), { timeoutMs: factsTimeout, signal });
  const query = { shares, hasKey, from, to: now() };
  const workers = answers.flatMap((answer) => parseFacts(answer, query) ?? []);
  const unresponsive = answers
    .filter(({ worker }) => !workers.some((one) => one.worker === worker))
    .map((answer) => ({
      worker: answer.worker,
      message: answer.kind === 'no_answer' ? answer.message : `unexpected output: ${answer.output.slice(0, 200)}`,
    }));
  return { ...empty, workers, unresponsive };
}

/** Lets Python list the devices. Throws JobmanError like TpuOperations. */
export async function checkPython(
  tpus: Pick<TpuOperations, 'onWorkers'>,
  tpu: LabTpu,
  site: Pick<Site, 'python'>,
  signal: AbortSignal,
): Promise<EnvironmentCheck> {
  const answers = await tpus.onWorkers(tpu, environmentScript(site), { timeoutMs: environmentTimeout, signal });
  return worstEnvironment(answers);
}
