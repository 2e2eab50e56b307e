// Facts of a worker from one script: clock, disks, shares, Python, libtpu's lock file, holders of its chips. A second
// script checks that its Python sees the devices. All workers of a slice run together, because libtpu opens their
// devices together.

import { holderFunctions } from '../catalogue/devices.ts';
import { quote } from '../catalogue/shell.ts';
import { type Duration, type Instant, second } from '../core/model/time.ts';
import { shareFunctions } from './site-setup.ts';
import type { NfsShare, Site } from './site.ts';
import type { DeviceHolder } from '../app/lab-job.ts';
import type { WorkerAnswer } from './tpu-operations.ts';

export interface WorkerFacts {
  readonly worker: number;
  readonly clockAheadMs: Duration;
  readonly disks: readonly { readonly path: string; readonly freeMb: number }[];
  readonly shares: readonly ShareState[];
  readonly hasPython: boolean;
  /** The processes that have libtpu's lock file open; null without a lock file. */
  readonly lock: { readonly openedBy: readonly number[] } | null;
  readonly holders: readonly DeviceHolder[];
  /** True if logged in to W&B; null if the site has no key. */
  readonly isLoggedIn: boolean | null;
}

interface ShareState {
  readonly share: NfsShare;
  /** `other`: another source is mounted there. `silent`: mounted, but its server does not answer. */
  readonly state: 'mounted' | 'missing' | 'silent' | 'other';
}

/** libtpu's lock against a second program. */
export const lockFile = '/tmp/libtpu_lockfile';

/** The script changes nothing. */
export function factsScript(shares: readonly NfsShare[], { python }: Pick<Site, 'python'>): string {
  const shareLines = shares.map(
    ({ source, target }, index) => `print_share ${index} ${quote(source)} ${quote(target)}\n`,
  );
  return `${holderFunctions}${shareFunctions}
print_share() {
  there=$(source_at "$3")
  how=silent
  if [ -z "$there" ]; then how=missing
  elif [ "$there" != "$2" ]; then how=other
  elif answers "$3"; then how=mounted
  fi
  printf 'share\\t%s\\t%s\\n' "$1" "$how"
}
now=$(date +%s%3N 2>/dev/null)
case $now in '' | *[!0-9]*) now=$(date +%s)000 ;; esac
printf 'clock\\t%s\\n' "$now"
for path in / /tmp "$HOME"; do
  printf 'disk\\t%s\\t%s\\n' "$path" "$(df -Pk "$path" 2>/dev/null | awk 'NR == 2 { print $4 }')"
done
${shareLines.join('')}command -v ${quote(python ?? 'python3')} >/dev/null 2>&1 && printf 'python\\n'
if [ -e ${lockFile} ]; then
  open=
  for file in $(as_administrator find /proc/[0-9]*/fd -type l -lname ${lockFile} 2>/dev/null); do
    one=\${file#/proc/}
    open="$open \${one%%/*}"
  done
  printf 'lock\\t%s\\n' "$open"
fi
! grep -qs 'api\\.wandb\\.ai' "\${NETRC:-$HOME/.netrc}" || printf 'wandb\\n'
for holder in $(find_holders); do
  line=$(print_process "$holder") && printf 'holder\\t%s\\n' "$line"
done
exit 0
`;
}

/** The facts that a worker printed between two times; null if unreadable. */
export function parseFacts(
  answer: WorkerAnswer,
  query: {
    readonly shares: readonly NfsShare[];
    readonly hasKey: boolean;
    readonly from: Instant;
    readonly to: Instant;
  },
): WorkerFacts | null {
  if (answer.kind === 'no_answer' || answer.code !== 0) return null;
  const { worker } = answer;
  const lines = answer.output.split('\n').map((line) => line.split('\t'));
  const of = (label: string): readonly (readonly string[])[] => lines.filter(([first]) => first === label);
  const [[, clock = ''] = []] = of('clock');
  if (!/^\d+$/.test(clock)) return null;
  const [lock] = of('lock');
  return {
    worker,
    // The exact time of the reading is unknown, so only the distance to the interval counts.
    clockAheadMs: Math.max(0, Number(clock) - query.to) + Math.min(0, Number(clock) - query.from),
    disks: of('disk').flatMap(([, path = '', free = '']) =>
      /^\d+$/.test(free) ? [{ path, freeMb: Math.floor(Number(free) / 1024) }] : [],
    ),
    shares: of('share').flatMap(([, index = '', state = '']) => {
      const share = query.shares[Number(index)];
      return share === undefined ? [] : [{ share, state: state as ShareState['state'] }];
    }),
    hasPython: of('python').length > 0,
    lock: lock === undefined ? null : { openedBy: (lock[1] ?? '').split(' ').filter(Boolean).map(Number) },
    holders: of('holder').flatMap(([, ...fields]) => parseHolder(worker, fields.join('\t'))),
    isLoggedIn: query.hasKey ? of('wandb').length > 0 : null,
  };
}

/** Parses a line of `print_process`; empty if it is not one. */
export function parseHolder(worker: number, line: string): readonly DeviceHolder[] {
  const [pid = '', user = '', ...command] = line.split('\t');
  return /^\d+$/.test(pid) ? [{ worker, pid: Number(pid), user, command: command.join(' ') }] : [];
}

/** `file_error`: Python or a file that it needs is missing, for example because a share is not mounted. */
export type EnvironmentClass = 'success' | 'file_error' | 'occupied' | 'timeout' | 'unknown';

export interface EnvironmentCheck {
  readonly class: EnvironmentClass;
  /** The decisive line; for `success`, the devices of worker 0. */
  readonly message: string;
  readonly worker: number;
}

/** Long, because libtpu waits for the other workers of a slice. */
const pythonTimeout: Duration = 120 * second;
export const environmentTimeout: Duration = pythonTimeout + 30 * second;

/** The script prints JAX's devices: `[TpuDevice(id=0, ...)]`. */
export function environmentScript({ python }: Pick<Site, 'python'>): string {
  const program = quote(python ?? 'python3');
  return `command -v ${program} >/dev/null 2>&1 || { echo ${quote(`${python ?? 'python3'}: No such file or directory`)}; exit 127; }
timeout -k 5 ${pythonTimeout / second} ${program} -c 'import jax; print(jax.local_devices())' 2>&1
`;
}

const errorPatterns: readonly (readonly [EnvironmentClass, RegExp])[] = [
  ['occupied', /The TPU is already in use|libtpu_lockfile|Device or resource busy/],
  ['file_error', /No such file or directory/],
];

export function worstEnvironment(answers: readonly WorkerAnswer[]): EnvironmentCheck {
  const each = answers.map(classifyAnswer);
  const worst = (['occupied', 'file_error', 'timeout', 'unknown'] as const)
    .map((one) => each.find((environment) => environment.class === one))
    .find((found) => found !== undefined);
  return worst ?? each[0] ?? { class: 'unknown', message: 'there are no workers', worker: 0 };
}

function classifyAnswer(answer: WorkerAnswer): EnvironmentCheck {
  const { worker } = answer;
  if (answer.kind === 'no_answer')
    return {
      class: /did not (end|answer) within/.test(answer.message) ? 'timeout' : 'unknown',
      message: answer.message,
      worker,
    };
  const lines = answer.output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  for (const [name, pattern] of errorPatterns) {
    const line = lines.find((one) => pattern.test(one));
    if (line !== undefined) return { class: name, message: line, worker };
  }
  if (answer.code === 124 || answer.code === 137)
    return { class: 'timeout', message: `Python did not end within ${pythonTimeout / second} s`, worker };
  // Without a TPU, Python uses the CPU and still succeeds.
  const devices = lines.find((line) => /TpuDevice|TPU_\d|TPU v/.test(line));
  if (answer.code === 0 && devices !== undefined) return { class: 'success', message: devices, worker };
  return { class: 'unknown', message: lines.at(-1) ?? `Python ended with exit code ${answer.code}`, worker };
}
