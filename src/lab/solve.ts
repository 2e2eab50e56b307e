// Solve: what may be wrong with a TPU, as a table in the order of causes: a preempted TPU has no disks, a full disk hides a Python
// that cannot start. To add a case, add an entry to `cases` and a row to test/lab/solve.test.ts.

import { type Duration, type Instant, minute, second } from '../core/time.ts';
import { administrator, mountRemedy, sharesOf } from './site-setup.ts';
import type { Site } from './site.ts';
import type { Holder, TpuDesk, TpuState } from './tpu-desk.ts';
import type { LabTpu } from './tpus.ts';
import {
  type Environment,
  environmentOf,
  environmentScript,
  environmentWithin,
  factsScript,
  lockFile,
  readFacts,
  type WorkerFacts,
} from './worker-facts.ts';

export interface SolveFacts {
  readonly tpu: LabTpu;
  readonly site: Pick<Site, 'shares' | 'python'>;
  readonly state: TpuState;
  readonly workers: readonly WorkerFacts[];
  readonly silent: readonly { readonly worker: number; readonly says: string }[];
  /** Null while nobody has asked Python: it is the last to be asked. */
  readonly environment: Environment | null;
}

export type Repair =
  | { readonly kind: 'apply' | 'reapply' | 'restart' }
  /** A script of POSIX shell on those workers; its last line says what went wrong. */
  | { readonly kind: 'script'; readonly script: string; readonly says: string; readonly within: Duration }
  | { readonly kind: 'login'; readonly says: string }
  /** Programs that have to end. Whose they are is asked about. */
  | { readonly kind: 'end'; readonly holders: readonly Holder[] }
  /** It comes by itself. */
  | { readonly kind: 'wait'; readonly length: Duration }
  | { readonly kind: 'by hand'; readonly says: string };

export interface Finding {
  readonly name: string;
  readonly says: string;
  /** The workers that it is about; empty: the whole TPU. */
  readonly workers: readonly number[];
  readonly repair: Repair;
}

/** Google's words for a TPU that never comes back by itself. */
const takenAway = ['preempted', 'terminated', 'suspended', 'failed'];

type Case = (facts: SolveFacts) => Omit<Finding, 'name'> | null;

/** Below this a program that writes a checkpoint or a log fails. */
const freeLeastMb = 500;
/** Beyond this logins and certificates are refused. */
const clockMost: Duration = 30 * second;

export const cases: Readonly<Record<string, Case>> = {
  'not there': ({ state }) => whole(is(state, 'absent'), 'the cloud has no TPU of that name', { kind: 'apply' }),
  'taken away': ({ state }) =>
    whole(is(state, ...takenAway), `it was taken away (${word(state)})`, { kind: 'reapply' }),
  stopped: ({ state }) => whole(is(state, 'stopped'), 'it is stopped', { kind: 'restart' }),
  'under way': ({ state }) =>
    whole(state.kind === 'known' && !is(state, 'ready', 'absent', 'stopped', ...takenAway), `it is ${word(state)}`, {
      kind: 'wait',
      length: minute,
    }),
  'no answer by SSH': ({ silent, workers }) => {
    // A login that is refused is refused after a restart too.
    const isRefused = silent.every((one) =>
      /authenti|publickey|host key|permission denied|no key to log in|none of our keys/i.test(one.says),
    );
    const byHand = 'see whether lab.remoteUser and lab.privateKey in the settings are those of this TPU';
    return about(
      silent,
      (found) => `${whose(found)} no answer by SSH: ${found[0]?.says}`,
      isRefused && workers.length === 0 ? { kind: 'by hand', says: byHand } : { kind: 'restart' },
    );
  },
  'disk full': ({ workers }) =>
    about(
      workers.filter(({ disks }) => disks.some(({ freeMb }) => freeMb < freeLeastMb)),
      (found) => `${whose(found)} less than ${freeLeastMb} MB of disk left`,
      script(freeDisk, 'removing packages, logs and old traces that can be fetched again', 5 * minute),
    ),
  'clock off': ({ workers }) =>
    about(
      workers.filter(({ clockAheadMs }) => Math.abs(clockAheadMs) > clockMost),
      (found) => {
        const most = Math.max(...found.map(({ clockAheadMs }) => Math.abs(clockAheadMs)));
        return `${whose(found)} a clock that is ${Math.round(most / second)} s off`;
      },
      script(setClock, 'setting the clock by the time servers', minute),
    ),
  'share missing': ({ workers, site }) => {
    const found = workers.filter(({ shares }) => shares.some(({ how }) => how !== 'mounted'));
    const wrong = found.flatMap(({ shares }) => shares.filter(({ how }) => how !== 'mounted'));
    const targets = [...new Set(wrong.map(({ share, how }) => `${share.target} (${shareWords[how]})`))].join(', ');
    const wanted = site.shares.filter((share) => found.some(({ shares }) => shares.some((one) => one.share === share)));
    return about(
      found,
      () => `${whose(found)} a share that is not as it should be: ${targets}`,
      wrong.some(({ how }) => how === 'other')
        ? { kind: 'by hand', says: 'unmount there what is none of the shares of the settings' }
        : script(mountRemedy(wanted)?.apply ?? 'true', 'mounting the shares', 15 * minute),
    );
  },
  'not logged in to W&B': ({ workers }) =>
    about(
      workers.filter(({ isLoggedIn }) => isLoggedIn === false),
      (found) => `${whose(found)} no login to W&B`,
      { kind: 'login', says: 'logging in to W&B' },
    ),
  'no Python': ({ workers, site }) =>
    about(
      workers.filter(({ hasPython }) => !hasPython),
      (found) => `${whose(found)} no ${site.python ?? 'python3'}`,
      { kind: 'by hand', says: 'see whether lab.python in the settings is on one of the shares' },
    ),
  'device busy': ({ workers }) =>
    about(
      workers.filter((one) => one.holders.length > 0),
      (found) => `its devices are held by ${holderWords(found.flatMap(({ holders }) => holders))}`,
      { kind: 'end', holders: workers.flatMap(({ holders }) => holders) },
    ),
  'stale lock file': ({ workers }) =>
    about(
      workers.filter(({ lock, holders }) => lock !== null && lock.openedBy.length === 0 && holders.length === 0),
      (found) => `${whose(found)} a lock file of libtpu whose owner is dead`,
      script(removeLock, `removing ${lockFile}`, minute),
    ),
  'libtpu in use': ({ environment }) =>
    whole(
      environment?.class === 'occupied',
      `libtpu is in use on worker ${environment?.worker}, by a program that does not show itself: ${environment?.says}`,
      { kind: 'restart' },
    ),
  'Python hangs': ({ environment }) =>
    whole(environment?.class === 'timeout', `Python does not come to its devices: ${environment?.says}`, {
      kind: 'restart',
    }),
  'Python fails': ({ environment }) =>
    about(
      environment?.class === 'file error' || environment?.class === 'unknown' ? [environment] : [],
      ([found]) => `Python on worker ${found?.worker} does not see its devices: ${found?.says}`,
      { kind: 'by hand', says: 'mend what it says, in the environment that lab.python names' },
    ),
};

/** Everything that is wrong, by causes; where the cloud does not say how the TPU is, nothing is known. */
export function findings(facts: SolveFacts): readonly Finding[] {
  if (facts.state.kind === 'unknown') return [];
  return Object.entries(cases).flatMap(([name, looks]) => {
    const found = looks(facts);
    return found === null ? [] : [{ name, ...found }];
  });
}

/** Whether workers are to be asked: only those of a TPU that is ready are there. */
export function hasWorkers(state: TpuState): boolean {
  return is(state, 'ready');
}

function is(state: TpuState, ...states: readonly string[]): boolean {
  return state.kind === 'known' && states.includes(state.state);
}

function word(state: TpuState): string {
  return state.kind === 'known' ? state.state : 'unknown';
}

interface OnWorker {
  readonly worker: number;
}

function whole(isWrong: boolean, says: string, repair: Repair): ReturnType<Case> {
  return isWrong ? { says, workers: [], repair } : null;
}

function script(text: string, says: string, within: Duration): Repair {
  return { kind: 'script', script: text, says, within };
}

function about<One extends OnWorker>(
  found: readonly One[],
  says: (found: readonly One[]) => string,
  repair: Repair,
): ReturnType<Case> {
  return found.length === 0 ? null : { says: says(found), workers: numbers(found), repair };
}

function numbers(found: readonly OnWorker[]): readonly number[] {
  return found.map(({ worker }) => worker);
}

function whose(found: readonly OnWorker[]): string {
  const all = numbers(found);
  if (all.length === 1) return `worker ${all[0]} has`;
  const shown = all.length > 4 ? `${all.slice(0, 3).join(', ')} and ${all.length - 3} more` : all.join(', ');
  return `workers ${shown} have`;
}

function holderWords(holders: readonly Holder[]): string {
  const words = holders.map(({ pid, worker, user, command }) => {
    const shown = command.length > 60 ? `${command.slice(0, 59)}…` : command;
    return `process ${pid} of ${user} on worker ${worker} (${shown})`;
  });
  return words.length > 3 ? `${words.slice(0, 2).join(', ')} and ${words.length - 2} more` : words.join(', ');
}

const shareWords = {
  mounted: 'mounted',
  missing: 'not mounted',
  silent: 'its server does not answer',
  other: 'something else is mounted there',
} as const;

/** Only what can be fetched again and what nobody reads any more: packages that were unpacked, the journal, traces of libtpu a day old. */
const freeDisk = `${administrator}
as_administrator apt-get clean
as_administrator journalctl --vacuum-size=100M 2>/dev/null
as_administrator find /tmp/tpu_logs /tmp/tensorboard -xdev -type f -mmin +1440 -delete 2>/dev/null
echo 'The largest folders, in MB:'
as_administrator du -xm --max-depth=2 / 2>/dev/null | sort -rn | head -n 8
exit 0
`;

const setClock = `${administrator}
as_administrator systemctl restart chrony 2>/dev/null || as_administrator systemctl restart systemd-timesyncd
as_administrator chronyc makestep 2>/dev/null
sleep 2
exit 0
`;

const removeLock = `${administrator}
as_administrator rm -f ${lockFile} || { echo '${lockFile} cannot be removed.'; exit 1; }
`;

/** A worker that hangs costs no more than this. */
const factsWithin = 40 * second;

/** Everything but Python. Throws JobmanError as the desk does. */
export async function gatherFacts(
  desk: Pick<TpuDesk, 'describe' | 'onWorkers'>,
  tpu: LabTpu,
  options: {
    readonly site: Site;
    /** Whether workers are to be logged in to W&B. */
    readonly hasKey: boolean;
    readonly now: () => Instant;
    readonly signal: AbortSignal;
  },
): Promise<SolveFacts> {
  const { site, hasKey, now, signal } = options;
  const state = await desk.describe(tpu);
  const nobody = { tpu, site, state, workers: [], silent: [], environment: null };
  if (state.kind === 'unknown' || !hasWorkers(state)) return nobody;
  const shares = sharesOf(site, state.zone);
  const from = now();
  const answers = await desk.onWorkers(tpu, factsScript(shares, site), { timeoutMs: factsWithin, signal });
  const asked = { shares, hasKey, from, to: now() };
  const workers = answers.flatMap((answer) => readFacts(answer, asked) ?? []);
  const silent = answers
    .filter(({ worker }) => !workers.some((one) => one.worker === worker))
    .map((answer) => ({
      worker: answer.worker,
      says: answer.kind === 'no_answer' ? answer.says : `what it told cannot be read: ${answer.output.slice(0, 200)}`,
    }));
  return { ...nobody, workers, silent };
}

/** Has Python look at the devices. Throws JobmanError as the desk does. */
export async function askPython(
  desk: Pick<TpuDesk, 'onWorkers'>,
  tpu: LabTpu,
  site: Pick<Site, 'python'>,
  signal: AbortSignal,
): Promise<Environment> {
  const answers = await desk.onWorkers(tpu, environmentScript(site), { timeoutMs: environmentWithin, signal });
  return environmentOf(answers);
}
