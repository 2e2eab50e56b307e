// Ask: what the owner says to a job, from the word to the commit and the answer. What a word does is decided in core/ask.ts.

import { isLost } from '../core/allocate.ts';
import { ask, jobCan, type AskOptions as CoreOptions, type Verb } from '../core/commands.ts';
import { hasEnded, heldAllocations, isUnread, outlivesRemoval, type Job, type Settled } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { AskAnswer, AskOptions } from './client.ts';
import { costOf } from './phrases.ts';
import { exitCode, StoreError } from './errors.ts';
import type { LogFiles, Store, Stored } from './ports.ts';
import { capital } from './figures.ts';
import { straysOf } from './strays.ts';
import { acceleratorOf, keptAllocations, pricePerHour } from './views.ts';
import type { Event } from '../core/decision.ts';
import { eventSentence } from './history.ts';

/** Records that command for the job and answers what it led to. Throws what the store throws; a refusal is an answer. */
export async function sayTo(
  parts: { readonly store: Store; readonly logFiles: Pick<LogFiles, 'note' | 'mirror'>; readonly now: () => Instant },
  stored: Stored,
  verb: Verb,
  options: AskOptions & Pick<CoreOptions, 'copy'>,
): Promise<AskAnswer & { readonly changed: boolean }> {
  const { store, now } = parts;
  const { id } = stored.job;
  const said = await commitOwn(parts, stored, async (job) => {
    const can = jobCan(job, verb, options.by, options);
    if (!can.ok) {
      const isForeign = options.by !== job.owner && options.onBehalf !== true;
      return { answer: { ...refusal(id, can.sentence), ...(isForeign && { owner: job.owner }) }, change: null };
    }
    const { job: asked, events } = ask(job, verb, options, now());
    if (events.length === 0) {
      return { answer: { id, ok: true, message: sayAgain(job, verb), code: exitCode.ok }, change: null };
    }
    // A forced delete writes down what it leaves behind before it takes the job off the list: a crash between the two
    // leaves one stray too many, which the next sweep clears up, and never one too few.
    for (const stray of asked.removed ? straysOf(job) : []) await store.recordStray(stray);
    const isAtRest = asked.removed && !outlivesRemoval(asked);
    // A settled job has a time only while its outputs are being copied, and that goes on.
    const wakeAt = !isAtRest ? now() : isUnread(asked) ? null : await store.wakeOf(id);
    const answer = { id, ok: true, message: sayWhat(asked, verb), code: exitCode.ok };
    return { answer, change: { job: asked, events, wakeAt } };
  });
  if (said === 'busy') {
    const sentence = `job ${id} changes too quickly to be asked; try again`;
    return { ...refusal(id, sentence), code: exitCode.failed, changed: false };
  }
  return { ...said.answer, changed: said.change !== null };
}

function refusal(id: string, sentence: string): AskAnswer {
  return {
    id,
    ok: false,
    message: `${capital(sentence)}.`,
    code: exitCode.conflict,
  };
}

// ------------------------------------------------------------------------------------------ what is answered

function sayWhat(job: Job, verb: Verb): string {
  const it = `Job ${job.id} (${job.spec.name})`;
  const number = Number(job.id);
  switch (verb) {
    case 'start':
      return `${it} is started.`;
    case 'resume':
      // Without the folder jobman knows of no checkpoint, and the program finds its own or begins anew.
      return job.spec.command.checkpointDir === null
        ? `${it} goes on; its manifest names no job.checkpoint_dir, so its program has to find its last checkpoint itself.`
        : `${it} goes on from its last checkpoint.`;
    case 'rerun':
      return `${it} starts again from the beginning.`;
    case 'stop':
      if (job.desired === 'hold') return `${it} is being stopped.${holdText(job, number)}`;
      return job.settled === null ? `${it} is being stopped, and what it holds let go.` : letGoText(it, job.settled);
    case 'cancel':
      if (hasEndedByItself(job.settled)) return letGoText(it, job.settled);
      return `${it} is cancelled${heldAllocations(job).length > 0 ? '; what it holds is being let go' : ''}.`;
    case 'last':
      return `${it} goes on, and no rule starts it again when it ends.`;
    case 'judge':
      return `The end of ${it} is judged now.`;
    case 'delete':
      if (!job.removed) {
        const once = heldAllocations(job).length === 0 ? 'nothing of it runs any more' : 'its capacity is seen gone';
        return `${it} is being deleted; it leaves the list once ${once}.`;
      }
      return `${it} is off the list${outlivesRemoval(job) ? '; its program is being ended' : ''}.${strayText(job)}`;
  }
}

function hasEndedByItself(settled: Settled | null): settled is Settled {
  return settled?.verdict === 'succeeded' || settled?.verdict === 'failed';
}

function letGoText(it: string, { verdict }: Settled): string {
  return `${it} has ${hasEnded(verdict)} already; what it still holds is being let go.`;
}

function strayText(job: Job): string {
  const names = straysOf(job).map(({ resource }) => resource);
  if (names.length === 0) return '';
  return ` Nobody has seen what it holds gone, so it may go on and cost; it is noted as a stray (${names.join(', ')}); to let it go: jobman gc`;
}

function holdText(job: Job, number: number): string {
  const held = keptAllocations(job);
  const kept = held.filter((allocation) => !isLost(allocation));
  if (held.length > 0 && kept.length === 0) return ` It keeps nothing: its ${acceleratorOf(job)} is lost.`;
  if (job.spec.capacity.ownership === 'standing' || kept.length === 0) return '';
  // A stop keeps what can be used. What is still being waited for is given back, and with it the place in the queue.
  if (kept.every(({ readyAt }) => readyAt === null))
    return ` Its ${acceleratorOf(job)} was not ready yet and is let go.`;
  const price = pricePerHour(job);
  const cost = price === null ? '' : `, which costs ${costOf(job.spec.capacity, price)}`;
  return ` It keeps its ${acceleratorOf(job)}${cost}; to let it go: jobman stop ${number} --release`;
}

function sayAgain(job: Job, verb: Verb): string {
  const it = `Job ${job.id} (${job.spec.name})`;
  switch (verb) {
    case 'stop':
      return `${it} has been asked to stop already.${job.desired === 'hold' ? holdText(job, Number(job.id)) : ''}`;
    case 'cancel':
      return hasEndedByItself(job.settled) ? letGoText(it, job.settled) : `${it} has been cancelled already.`;
    case 'delete':
      return `${it} is being deleted already.`;
    case 'last':
      return `${it} was told already that no rule is to start it again.`;
    case 'judge':
      return `The end of ${it} is being judged already.`;
    case 'start':
    case 'resume':
    case 'rerun':
      return `${it} has been asked to run already.`;
  }
}

// ------------------------------------------------------------------------------------------ the commit

const triesMost = 20;

export interface OwnChange {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly wakeAt: Instant | null;
}

/** Commits what `changeOf` answers and notes it in job.log; asks again after another commit. `busy` when every try has met one. */
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
