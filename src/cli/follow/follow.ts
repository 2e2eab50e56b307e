// Follows one job and only reads. Checks it four times a second, and at once after a change.

import type { Client, JobView, LogQuery, LogRef } from '../../app/client.ts';
import { exitCode, isNotFoundError } from '../../app/errors.ts';
import { asClause, formatDuration, escapeLine } from '../../app/format.ts';
import { formatEnding } from '../../app/phrases.ts';
import { type Cli, verdictCode, printError } from '../context.ts';
import { createJobPoller, pollInterval } from './poll.ts';
import { createProgress, type ExitHints, type Progress } from './progress.ts';
import { pause } from '../../app/concurrency.ts';
import { createLogStream, type LogRules, type LogStream } from '../logs/stream.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { openWindow } from '../block.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import type { Duration, Instant } from '../../core/model/time.ts';

type FollowEnd =
  | { readonly kind: 'finished'; readonly view: JobView }
  | { readonly kind: 'left' }
  | { readonly kind: 'output_closed' };

interface FollowOptions {
  readonly query: LogQuery;
  readonly rules: LogRules;
  readonly leave: AbortSignal;
  /** Skips attempts up to this one. Without it: the newest attempt and all that follow. */
  readonly after?: number | undefined;
  /** Absent for a log alone, which only reports interruptions. */
  readonly reportsPhases?: true;
  readonly exitHints?: ExitHints;
}

/** The end of a log may arrive shortly after the end of the job. */
const quietAfterEnd: Duration = 600;
/** A job that finished this long ago has no log data in transit. */
const longFinished: Duration = 5_000;

/** Throws JobmanError if the job does not exist, or no longer. */
async function followJob(
  cli: Cli,
  client: Client,
  id: string,
  { query, leave, after }: FollowOptions,
  logs: LogStream,
  progress: Progress,
): Promise<FollowEnd> {
  const { io } = cli;
  const poller = createJobPoller(cli, client);
  let view = await client.show(id);
  let printedAt = io.now();
  let attempt: number | null = null;
  let listedUpTo = after ?? 0;
  let isFirst = true;
  let isBehind = false;

  const pump = async (): Promise<void> => {
    const printed = await logs.pump(io.now(), progress.clear);
    isBehind = printed === 'behind';
    if (printed !== 'nothing') printedAt = io.now();
  };
  const logRefs = async (): Promise<readonly LogRef[]> => {
    const newest = await client.logs(id, query);
    const from = attempt ?? after;
    if (from === undefined || query.attempt !== undefined || query.step !== undefined) return newest;
    const last = newest[0]?.attempt ?? view.attempts.findLast(({ startedAt }) => startedAt !== null)?.attempt ?? from;
    const earlier: LogRef[] = [];
    for (let missed = Math.max(from, listedUpTo) + 1; missed < last; missed += 1) {
      earlier.push(...(await client.logs(id, { ...query, attempt: missed })));
      listedUpTo = missed;
    }
    return [...earlier, ...newest];
  };
  const reportBegin = (number: number | null): void => {
    const begun = view.attempts.find((one) => one.attempt === number);
    if (begun === undefined || query.step !== undefined) return;
    const { worker } = query;
    progress.attemptBegins(view, begun, worker === undefined ? begun.workers : [worker], isFirst);
  };
  const findLogs = async (): Promise<void> => {
    logs.expect(workersOf(view, query));
    for (const log of await logRefs()) {
      if (after !== undefined && log.attempt !== null && log.attempt <= after) continue;
      // Print the rest of the previous attempt's log first.
      if (attempt !== null && log.attempt !== null && log.attempt > attempt) {
        await logs.finish(io.now(), progress.clear);
        isFirst = false;
      }
      const isNew = log.attempt !== null && log.attempt !== attempt;
      attempt = log.attempt ?? attempt;
      if (!(await logs.add(log, isFirst))) continue;
      if (isNew) reportBegin(log.attempt);
    }
  };

  const changes = client.changesSince(null, [view.id])[Symbol.asyncIterator]();
  let change = nextChange(changes);
  try {
    for (;;) {
      const [update] = await poller.poll([id]);
      const now = io.now();
      if (update !== undefined) {
        const before = view.phase;
        // Throws for a deleted job.
        view = update.view ?? (await client.show(id));
        if (update.news.length > 0 || update.isFirst || view.phase !== before) {
          await pump();
          progress.changed(view, update.news, update.isFirst);
        }
      }
      await findLogs();
      await pump();
      if (io.stdout.closed) return { kind: 'output_closed' };
      if (leave.aborted) return { kind: 'left' };
      progress.tick(view, io.now());
      if (isFinishedPhase(view.phase)) {
        const isOver =
          now - view.phaseStartedAt > longFinished || now - Math.max(printedAt, view.phaseStartedAt) > quietAfterEnd;
        if (isOver) {
          await logs.finish(io.now(), progress.clear);
          return { kind: 'finished', view };
        }
      } else await poller.checkController(progress.clear);
      if (isBehind) continue;
      const hasChanged = await Promise.race([pause(pollInterval, leave).then(() => false), change]);
      if (hasChanged) change = nextChange(changes);
    }
  } finally {
    void changes.return?.();
  }
}

/** True for a change. Without one, or if they cannot be read, the job is checked at its interval. */
async function nextChange(changes: AsyncIterator<unknown>): Promise<boolean> {
  try {
    if ((await changes.next()).done !== true) return true;
  } catch {
    // The next check reports it.
  }
  return new Promise(() => undefined);
}

/** For a setup step all workers, otherwise those of the command. */
function workersOf(view: JobView, { step }: LogQuery): readonly WorkerId[] {
  const attempt = view.attempts.findLast(({ workers }) => workers.length > 0);
  if (step === undefined || step === 'command') return attempt?.workers ?? [];
  return view.allocations.at(-1)?.workers.map(({ worker }) => worker) ?? [];
}

/** Prints output and events until the job has finished or `leave` is aborted. Throws JobmanError for a missing job. */
export async function followLog(cli: Cli, client: Client, id: string, options: FollowOptions): Promise<FollowEnd> {
  const { io, screen } = cli;
  const { rules, reportsPhases = false, exitHints } = options;
  const logs = createLogStream(client, io.stdout, rules);
  const window = await openWindow(cli, io.stderr, screen.progress === 'redraw');
  const progress = createProgress(cli, {
    logs,
    reportsPhases,
    foldsLines: rules.fold,
    window,
    ...omitUndefined({ exitHints }),
  });
  try {
    const end = await followJob(cli, client, id, options, logs, progress);
    if (end.kind === 'finished') {
      progress.clear();
      if (reportsPhases) await showFailedStep(cli, client, end.view);
      progress.end(verdictLine(end.view), io.now());
    }
    return end;
  } finally {
    progress.close();
  }
}

/**
 * Output on standard output, the rest on standard error. Resolves with the verdict's exit code; leaving ends no job.
 */
export async function followToEnd(
  cli: Cli,
  client: Client,
  id: string,
  leave: AbortSignal,
  noFold: boolean,
  after?: number,
): Promise<number> {
  const form = cli.json ? 'json' : cli.io.stdout.isTerminal ? 'terminal' : 'pipe';
  const fold = form === 'terminal' && !noFold;
  const rules: LogRules = { form, numbered: true, fold, colour: cli.screen.colour, follow: true };
  try {
    const end = await followLog(cli, client, id, { query: {}, rules, leave, after, reportsPhases: true });
    if (end.kind === 'finished') return verdictCode(end.view);
    if (end.kind === 'output_closed') return exitCode.ok;
    cli.printStderr(`Detached. Job ${id} keeps running. Attach again: jobman logs ${Number(id)} -f`);
    return exitCode.interrupted;
  } catch (error) {
    if (!isNotFoundError(error)) throw error;
    return printError(cli, `Job ${id} was deleted meanwhile.`, exitCode.failed, { job: id });
  }
}

/** A failed setup has no log of the command; the last lines of the step show the error. */
async function showFailedStep(cli: Cli, client: Client, view: JobView): Promise<void> {
  if (view.attempts.at(-1)?.reason !== 'setup_failed') return;
  const events = await client.events(view.id, 0);
  const failed = events.findLast(({ event }) => event.kind === 'step_failed')?.event;
  if (failed?.kind !== 'step_failed') return;
  const stream = createLogStream(client, cli.io.stderr, {
    form: cli.io.stderr.isTerminal ? 'terminal' : 'pipe',
    numbered: true,
    fold: false,
    colour: cli.screen.colour,
    tail: 20,
    follow: false,
  });
  for (const log of await client.logs(view.id, { step: failed.step, worker: failed.worker }))
    await stream.add(log, true);
  cli.printStderr(`-- the last lines of setup step ${failed.step} on worker ${failed.worker}`);
  await stream.finish(cli.io.now());
}

/** `Job 000042 (vit) failed after 2h05m: exit 1 on worker 3; its log says "…". Explain: jobman why 42` */
export function verdictLine(view: JobView): string {
  const { id, name, phase, heldCapacity } = view;
  const verdict = phase === 'stopped' || phase === 'cancelled' ? `was ${phase}` : phase;
  const holds = heldCapacity === null ? '' : ` and holds ${heldCapacity}`;
  const end = `Job ${id} (${name}) ${verdict} after ${formatDuration(view.phaseStartedAt - requestedAt(view))}${holds}`;
  if (phase === 'succeeded') return escapeLine(`${end}.`);
  const { evidence = null, reason = null } = view.attempts.at(-1) ?? {};
  const evidenceText = evidence === null || reason === null ? view.message : formatEnding(view, { reason, evidence });
  const more = phase === 'failed' ? ` Explain: jobman why ${Number(id)}` : '';
  return escapeLine(`${end}${evidenceText === '' ? '' : `: ${asClause(evidenceText)}`}.${more}`);
}

/** A job that was stopped last week and resumed today did not take a week. */
function requestedAt({ attempts, createdAt }: JobView): Instant {
  const newest = attempts.findLast(({ startedBy }) => startedBy === 'owner');
  return newest === undefined || newest.attempt === 1 ? createdAt : newest.createdAt;
}
