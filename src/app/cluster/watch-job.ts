import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import type { Why } from '../client.ts';
import { exitCode, JobmanError } from '../errors.ts';
import type { ClusterRecord } from './cluster-record.ts';
import { clusterPhase } from './job-result.ts';

export type JobChange = { readonly kind: 'phase'; readonly why: Why } | { readonly kind: 'deleted' };

export interface WatchOptions {
  readonly signal: AbortSignal;
  /** Called with sentences about the answers of the cluster. */
  readonly onNote: (message: string) => void;
}

/** Throws JobmanError (5) for an archived job that may still run. `explain` observes the job again. */
export async function* watchJob(
  { found: { id, copy }, job, archived, cluster }: ClusterRecord,
  explain: (job?: ClusterRecord['job']) => Promise<Why>,
  { signal, onNote }: WatchOptions,
): AsyncGenerator<JobChange> {
  if (archived !== null || cluster === null) {
    const why = await explain();
    if (copy !== null) onNote(copy.message);
    if (isFinishedPhase(why.phase) && copy?.isCertain === true) return yield { kind: 'phase', why };
    throw new JobmanError(`Job ${id} cannot be watched: its cluster cannot be reached.`, exitCode.unreachable);
  }
  let before: Phase | undefined;
  for await (const change of cluster.watchJobs({ name: job.name, signal })) {
    if (change.kind === 'lost')
      onNote(
        change.why === null
          ? 'The cluster answers again.'
          : `The cluster does not answer (${change.why}); still trying.`,
      );
    const isAbsent = change.kind === 'synced' && before === undefined;
    if (isAbsent || (change.kind === 'gone' && change.object.uid === job.uid)) return yield { kind: 'deleted' };
    if (change.kind !== 'changed' || change.object.uid !== job.uid) continue;
    const phase = clusterPhase(change.object);
    if (phase === before) continue;
    before = phase;
    yield { kind: 'phase', why: { ...(await explain(change.object)), phase } };
    if (isFinishedPhase(phase)) return;
  }
}
