// Worker facts: what one script tells of a worker (clock, disks, shares, Python, lock file of libtpu, who holds its chips), and
// whether its Python sees the devices. All workers of a slice are asked together, since they open their devices together.

import { type Duration, type Instant, second } from '../core/time.ts';
import { shellWord } from './script.ts';
import type { Share, Site } from './site.ts';
import type { Holder, WorkerAnswer } from './tpu-desk.ts';

export interface WorkerFacts {
  readonly worker: number;
  readonly clockAheadMs: Duration;
  readonly disks: readonly { readonly path: string; readonly freeMb: number }[];
  readonly shares: readonly ShareFact[];
  readonly hasPython: boolean;
  /** Whether there is a lock file of libtpu, and which processes have it open. */
  readonly lock: { readonly openedBy: readonly number[] } | null;
  readonly holders: readonly Holder[];
  /** Whether it is logged in to W&B; null where the site has no key. */
  readonly isLoggedIn: boolean | null;
}

interface ShareFact {
  readonly share: Share;
  /** `other`: something else is mounted there. `silent`: it is mounted, and its server does not answer. */
  readonly how: 'mounted' | 'missing' | 'silent' | 'other';
}

/** The file by which libtpu keeps a second program off. */
export const lockFile = '/tmp/libtpu_lockfile';

/** Changes nothing. */
export function factsScript(shares: readonly Share[], { python }: Pick<Site, 'python'>): string {
  const shareLines = shares.map(
    ({ source, target }, index) => `tell_share ${index} ${shellWord(source)} ${shellWord(target)}\n`,
  );
  return `${processFunctions}${findHolders}
tell_share() {
  found=
  while read -r from point rest; do
    [ "$(printf '%b' "$point")" != "$3" ] || found=$(printf '%b' "$from")
  done </proc/self/mounts
  how=missing
  if [ -n "$found" ] && [ "$found" != "$2" ]; then how=other
  elif [ -n "$found" ]; then
    how=silent
    ! timeout -s KILL 10 ls "$3" >/dev/null 2>&1 || how=mounted
  fi
  printf 'share\\t%s\\t%s\\n' "$1" "$how"
}
now=$(date +%s%3N 2>/dev/null)
case $now in '' | *[!0-9]*) now=$(date +%s)000 ;; esac
printf 'clock\\t%s\\n' "$now"
for path in / /tmp "$HOME"; do
  printf 'disk\\t%s\\t%s\\n' "$path" "$(df -Pk "$path" 2>/dev/null | awk 'NR == 2 { print $4 }')"
done
${shareLines.join('')}command -v ${shellWord(python ?? 'python3')} >/dev/null 2>&1 && printf 'python\\n'
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
  line=$(tell "$holder") && printf 'holder\\t%s\\n' "$line"
done
exit 0
`;
}

/** The facts that a worker printed between those two times; null where nothing can be read. */
export function readFacts(
  answer: WorkerAnswer,
  asked: { readonly shares: readonly Share[]; readonly hasKey: boolean; readonly from: Instant; readonly to: Instant },
): WorkerFacts | null {
  if (answer.kind === 'no_answer' || answer.code !== 0) return null;
  const { worker } = answer;
  const lines = answer.output.split('\n').map((line) => line.split('\t'));
  const of = (word: string): readonly (readonly string[])[] => lines.filter(([first]) => first === word);
  const [[, clock = ''] = []] = of('clock');
  if (!/^\d+$/.test(clock)) return null;
  const [lock] = of('lock');
  return {
    worker,
    // A clock that was read between the two is off only by what is outside of them.
    clockAheadMs: Math.max(0, Number(clock) - asked.to) + Math.min(0, Number(clock) - asked.from),
    disks: of('disk').flatMap(([, path = '', free = '']) =>
      /^\d+$/.test(free) ? [{ path, freeMb: Math.floor(Number(free) / 1024) }] : [],
    ),
    shares: of('share').flatMap(([, index = '', how = '']) => {
      const share = asked.shares[Number(index)];
      return share === undefined ? [] : [{ share, how: how as ShareFact['how'] }];
    }),
    hasPython: of('python').length > 0,
    lock: lock === undefined ? null : { openedBy: (lock[1] ?? '').split(' ').filter(Boolean).map(Number) },
    holders: of('holder').flatMap(([, ...fields]) => holderIn(worker, fields.join('\t'))),
    isLoggedIn: asked.hasKey ? of('wandb').length > 0 : null,
  };
}

/**
 * Functions of POSIX shell. Only the administrator sees what other users' processes hold. `tell` prints a process's number, user
 * and command line, parted by tabs; nothing about one that has gone.
 */
export const processFunctions = `
as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@" 2>/dev/null || "$@"; fi
}
tell() {
  line=$(tr '\\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | tr -dc '[:print:]' | cut -c1-400)
  [ -n "$line" ] || return 1
  printf '%s\\t%s\\t%s\\n' "$1" "$(stat -c %U "/proc/$1" 2>/dev/null)" "\${line% }"
}
`;

/**
 * Prints the numbers of the processes that hold a chip: `accel0` up to v4, `vfio/0` since v5. JOBMAN_DEVICES in the worker's
 * environment replaces /dev.
 */
export const findHolders = `
find_holders() {
  devices=\${JOBMAN_DEVICES:-/dev}
  as_administrator find /proc/[0-9]*/fd -type l \\
    \\( -lname "$devices/accel[0-9]*" -o -lname "$devices/vfio/[0-9]*" \\) 2>/dev/null |
    sed -n 's,^/proc/\\([0-9]*\\)/fd/.*,\\1,p' | sort -un
}
`;

/** A line that \`tell\` printed on that worker, or none. */
export function holderIn(worker: number, line: string): readonly Holder[] {
  const [pid = '', user = '', ...command] = line.split('\t');
  return /^\d+$/.test(pid) ? [{ worker, pid: Number(pid), user, command: command.join(' ') }] : [];
}

/** `file error`: there is no such Python, or a file that it needs is not there, as when a share is not mounted. */
export type EnvironmentClass = 'success' | 'file error' | 'occupied' | 'timeout' | 'unknown';

export interface Environment {
  readonly class: EnvironmentClass;
  /** The line that says it; of `success` the devices of worker 0. */
  readonly says: string;
  readonly worker: number;
}

/** The time limit of Python: libtpu waits for the other workers of a slice. */
const pythonWithin: Duration = 120 * second;
export const environmentWithin: Duration = pythonWithin + 30 * second;

/** Prints the devices as JAX names them: `[TpuDevice(id=0, ...)]`. */
export function environmentScript({ python }: Pick<Site, 'python'>): string {
  const program = shellWord(python ?? 'python3');
  return `command -v ${program} >/dev/null 2>&1 || { echo ${shellWord(`${python ?? 'python3'}: No such file or directory`)}; exit 127; }
timeout -k 5 ${pythonWithin / second} ${program} -c 'import jax; print(jax.local_devices())' 2>&1
`;
}

const signs: readonly (readonly [EnvironmentClass, RegExp])[] = [
  ['occupied', /The TPU is already in use|libtpu_lockfile|Device or resource busy/],
  ['file error', /No such file or directory/],
];

export function environmentOf(answers: readonly WorkerAnswer[]): Environment {
  const each = answers.map(classOf);
  const worst = (['occupied', 'file error', 'timeout', 'unknown'] as const)
    .map((one) => each.find((environment) => environment.class === one))
    .find((found) => found !== undefined);
  return worst ?? each[0] ?? { class: 'unknown', says: 'there are no workers', worker: 0 };
}

function classOf(answer: WorkerAnswer): Environment {
  const { worker } = answer;
  if (answer.kind === 'no_answer') {
    return {
      class: /did not (end|answer) within/.test(answer.says) ? 'timeout' : 'unknown',
      says: answer.says,
      worker,
    };
  }
  const lines = answer.output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  for (const [name, pattern] of signs) {
    const line = lines.find((one) => pattern.test(one));
    if (line !== undefined) return { class: name, says: line, worker };
  }
  if (answer.code === 124 || answer.code === 137) {
    return { class: 'timeout', says: `Python did not end within ${pythonWithin / second} s`, worker };
  }
  // A Python that finds no TPU is content with the processor.
  const devices = lines.find((line) => /TpuDevice|TPU_\d|TPU v/.test(line));
  if (answer.code === 0 && devices !== undefined) return { class: 'success', says: devices, worker };
  return { class: 'unknown', says: lines.at(-1) ?? `Python ended with ${answer.code} and said nothing`, worker };
}
