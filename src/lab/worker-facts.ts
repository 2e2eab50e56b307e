// What can be told of a worker's state in one go: its clock, disks, shares, Python, lock file of libtpu, and who holds its chips.

import type { Duration, Instant } from '../core/time.ts';
import { findHolders, holderIn, processFunctions } from './holders.ts';
import { shellWord } from './shell-words.ts';
import type { Share, Site } from './site.ts';
import type { Holder, WorkerAnswer } from './tpu-desk.ts';

export interface WorkerFacts {
  readonly worker: number;
  /** How far its clock is ahead of this machine's; negative when behind. */
  readonly clockAheadMs: Duration;
  /** Of the folders that have to be written to. */
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

/** What a worker told between those two moments; null where it told nothing that can be read. */
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
    clockAheadMs: aheadOf(Number(clock), asked.from, asked.to),
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

/** A clock that was read at some moment between the two is off only by what it lies outside of them. */
function aheadOf(clock: Instant, from: Instant, to: Instant): Duration {
  if (clock > to) return clock - to;
  return clock < from ? clock - from : 0;
}
