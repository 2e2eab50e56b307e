// The sentences of `tpu check` about an attempt, for every front end. Names in them are untrusted text.

import { visibleLines } from '../app/program-output.ts';
import type { Instant } from '../core/model/time.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import { generalProblem } from '../core/policy/permissions.ts';
import type { CheckRow, CheckStatus, Trouble } from './check-rows.ts';

/** The reason why the actor may not see the rows of the user, without a full stop; null if the actor may. */
export function checkRowsProblem(actor: Actor, user: UserName): string | null {
  return actor.user === user ? null : generalProblem(actor, 'lab', `see the output of the jobs of ${user}`);
}

/** `stage 2, 12 < 11 < 9`; empty for an attempt that continues nothing. */
export function formatLineage({ stage, lineage }: Pick<CheckRow, 'stage' | 'lineage'>): string {
  const parts = [...(stage > 0 ? [`stage ${stage}`] : []), ...(lineage.length > 1 ? [lineage.join(' < ')] : [])];
  return parts.join(', ');
}

/** `Running(ep 3.2)`, `error: OOM 08:11:40`, `resumed in 14, after grpc`. */
export function formatCheckStatus(
  row: Pick<CheckRow, 'status' | 'since' | 'windowClosed'>,
  clock: (at: Instant) => string,
): string {
  const isUnderWay = row.status.kind === 'starting' || row.status.kind === 'running';
  const closed = row.windowClosed && isUnderWay ? ', window closed: recovery is off' : '';
  return `${describeStatus(row.status, clock(row.since), clock)}${closed}`;
}

function describeStatus(status: CheckStatus, when: string, clock: (at: Instant) => string): string {
  switch (status.kind) {
    case 'starting':
      return `${status.waitReason === null ? 'starting' : `starting, ${status.waitReason}`}${formatTrouble(status, clock)}`;
    case 'running': {
      const phase = status.phase === 'Unknown' ? 'Running' : status.phase;
      return `${phase}${status.waitReason === null ? '' : `, ${status.waitReason}`}${formatTrouble(status, clock)}`;
    }
    case 'succeeded':
    case 'killed':
    case 'stopped':
      return `${status.kind} ${when}`;
    case 'error':
      return `error: ${status.error} ${when}${status.next === null ? '' : `; ${status.next}s soon${status.waitReason === null ? '' : `: ${status.waitReason}`}`}`;
    case 'resumed':
    case 'rerunned':
      return `${status.kind} in ${status.child}${status.error === null ? '' : `, after ${status.error}`}`;
  }
}

function formatTrouble({ trouble, hangsAt }: Trouble, clock: (at: Instant) => string): string {
  if (trouble === null) return '';
  const until = hangsAt === null ? '' : `, ended at ${clock(hangsAt)} if silent`;
  return `; log: ${trouble}${until}`;
}

const maxLines = 4;

/** The end of the output. */
export function newestLines({ message }: Pick<CheckRow, 'message'>): readonly string[] {
  return visibleLines(message).slice(-maxLines);
}

/** The end of the output, if the status says too little. */
export function explainingLines(row: Pick<CheckRow, 'message' | 'status'>): readonly string[] {
  const { status } = row;
  const isVague =
    (status.kind === 'running' && status.phase === 'Unknown') ||
    (status.kind === 'error' && /^(exit|unknown)/.test(status.error));
  return isVague ? newestLines(row) : [];
}
