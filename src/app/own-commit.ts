// Own commit: a change that a person makes to a job, written beside a controller that commits to the same job.

import type { Event } from '../core/decision.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import { StoreError } from './errors.ts';
import { eventSentence } from './history.ts';
import type { LogFiles, Store, Stored } from './ports.ts';

/** A controller commits often, and never for long. */
const triesMost = 20;

/** The change of a job to commit. */
export interface OwnChange {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly wakeAt: Instant | null;
}

/**
 * Commits a change, and tells job.log of its events. A commit that meets another one is made anew: `changeOf` is called with
 * the job as it stands then, and answers what is to be written, or anything else to write nothing. Resolves with its last
 * answer, or with `busy` when every try has met another commit. Throws what the store and `changeOf` throw.
 */
export async function commitOwn<Answer extends object>(
  { store, logFiles }: { readonly store: Store; readonly logFiles: Pick<LogFiles, 'note'> },
  stored: Stored,
  changeOf: (job: Job) => Promise<Answer & { readonly change: OwnChange | null }>,
): Promise<(Answer & { readonly change: OwnChange | null }) | 'busy'> {
  let { job, revision } = stored;
  for (let tries = 0; tries < triesMost; tries += 1) {
    const answer = await changeOf(job);
    if (answer.change === null) return answer;
    const result = await store.commit({ ...answer.change, revision, folded: [], epoch: null });
    if (result === 'committed') {
      await tell(logFiles, answer.change);
      return answer;
    }
    const fresh = await store.load(job.id);
    if (fresh === undefined) throw new Error(`job ${job.id} has vanished from the record`);
    ({ job, revision } = fresh);
  }
  return 'busy';
}

/** The change is committed by now: a log that cannot be written does not undo it. */
async function tell(logFiles: Pick<LogFiles, 'note'>, { job, events }: OwnChange): Promise<void> {
  try {
    for (const event of events) await logFiles.note(job, 'job', event.at, eventSentence(event, job));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}
