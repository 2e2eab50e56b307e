// Prints the logs of a job with its news, once or until it has finished, and the command `logs` for one job. A log that is
// not followed needs no display, so its code is loaded with the first news.

import type { JobView } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import type { FoundJob, JobSource, LogsQuery, LogStep } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import type { Cli } from '../context.ts';
import { createWaker, keepController } from '../controller.ts';
import type { ExitHints, Progress } from '../follow/progress.ts';
import { untilInterrupted } from '../interrupt.ts';
import { readCode } from '../jobs/resolve.ts';
import type { LogsFlags } from '../table/flags.ts';
import { createLogStream, type LogRules } from './stream.ts';

type PrintEnd =
  /** `view` is null for a job in a cluster, `phase` for one that was deleted. */
  | { readonly kind: 'finished'; readonly phase: Phase | null; readonly view: JobView | null }
  /** `until` was true, and the job continues. */
  | { readonly kind: 'reached'; readonly view: JobView }
  /** All logs were printed, without following them. */
  | { readonly kind: 'printed' }
  | { readonly kind: 'left' }
  | { readonly kind: 'output_closed' };

interface PrintOptions {
  readonly query: LogsQuery;
  readonly rules: LogRules;
  readonly leave: AbortSignal;
  /** Absent for a log alone, which only reports interruptions. */
  readonly reportsPhases?: true;
  /** The caller reports the end of the job. */
  readonly omitsVerdict?: true;
  /** Ends before the end of the job. Its output is not what the caller waits for, and is not printed. */
  readonly until?: (view: JobView) => boolean;
  readonly exitHints?: ExitHints;
}

export type LogSource = Pick<JobSource, 'logs' | 'readLog'>;

/** Output on standard output, the rest on standard error. Throws JobmanError for a missing job. */
export async function printJobLogs(
  cli: Cli,
  source: LogSource,
  job: FoundJob,
  options: PrintOptions,
): Promise<PrintEnd> {
  const { io } = cli;
  const { query, rules, leave } = options;
  const stream = createLogStream(
    async ({ id }, from, maxBytes) => (await source.readLog(job, id, from, maxBytes)).bytes,
    io.stdout,
    rules,
  );
  const checkController = keepController(cli, createWaker(cli));
  let progress: Progress | null = null;
  let view: JobView | null = null;
  let attempt: number | null = null;
  const clear = (): void => progress?.clear();

  async function printNew(): Promise<void> {
    if (query.follow !== true) return stream.finish(io.now(), clear);
    while ((await stream.pump(io.now(), clear)) === 'behind') if (io.stdout.closed || leave.aborted) return;
  }

  async function take(step: LogStep): Promise<PrintEnd | null> {
    switch (step.kind) {
      case 'job': {
        progress ??= await openProgress(cli, options, stream);
        if (step.news.length > 0 || step.isFirst || step.view.phase !== view?.phase) {
          await printNew();
          progress.changed(step.view, step.news, step.isFirst);
        }
        view = step.view;
        if (!isFinishedPhase(view.phase) && options.until?.(view) === true) {
          progress.clear();
          return { kind: 'reached', view };
        }
        stream.expect(query.worker === undefined ? workersOf(view, query) : []);
        return null;
      }
      case 'logs': {
        if (step.isNext) await stream.finish(io.now(), clear);
        if (options.until === undefined) for (const log of step.logs) stream.add(log);
        const [first] = step.logs;
        const begun =
          first?.attempt === attempt ? undefined : view?.attempts.find((one) => one.attempt === first?.attempt);
        attempt = first?.attempt ?? attempt;
        if (view !== null && first !== undefined && begun !== undefined && query.step === undefined) {
          const workers = query.worker === undefined ? begun.workers : [query.worker];
          progress?.attemptBegins(view, begun, workers, !first.isNew);
        }
        return printNew().then(() => null);
      }
      case 'grown':
        await printNew();
        if (view === null || io.stdout.closed || leave.aborted) return null;
        progress?.tick(view, io.now());
        if (!isFinishedPhase(view.phase)) await checkController(clear);
        return null;
      case 'note':
        await printNew();
        clear();
        cli.note(step.message);
        return null;
      case 'finished':
        await stream.finish(io.now(), clear);
        if (progress !== null && view !== null) {
          progress.clear();
          const { showFailedStep, verdictLine } = await import('../follow/verdict.ts');
          if (options.reportsPhases === true) await showFailedStep(cli, view);
          if (options.omitsVerdict !== true) progress.end(verdictLine(view), io.now());
        }
        return { kind: 'finished', phase: step.phase, view };
    }
  }

  try {
    for await (const step of source.logs(job, query, leave)) {
      const end = await take(step);
      if (end !== null) return end;
      if (io.stdout.closed) return { kind: 'output_closed' };
      if (leave.aborted) return { kind: 'left' };
    }
    return { kind: leave.aborted ? 'left' : 'printed' };
  } finally {
    // TypeScript does not see that `take` assigns it.
    (progress as Progress | null)?.close();
  }
}

async function openProgress(
  cli: Cli,
  { rules, reportsPhases, exitHints }: PrintOptions,
  logs: Pick<ReturnType<typeof createLogStream>, 'partial'>,
): Promise<Progress> {
  const [{ createProgress }, { openWindow }] = await Promise.all([
    import('../follow/progress.ts'),
    import('../block.ts'),
  ]);
  const window = await openWindow(cli, cli.io.stderr, cli.screen.progress === 'redraw');
  const hints = exitHints === undefined ? {} : { exitHints };
  return createProgress(cli, { logs, reportsPhases: reportsPhases === true, foldsLines: rules.fold, window, ...hints });
}

/** For a setup step all workers, otherwise those of the command. */
function workersOf(view: JobView, { step }: LogsQuery): readonly WorkerId[] {
  const attempt = view.attempts.findLast(({ workers }) => workers.length > 0);
  if (step === undefined || step === 'command') return attempt?.workers ?? [];
  return view.allocations.at(-1)?.workers.map(({ worker }) => worker) ?? [];
}

/** The rules for what a terminal, a pipe or a program reads. */
export function outputRules(cli: Cli, noFold = false): LogRules {
  const form = cli.json ? 'json' : cli.io.stdout.isTerminal ? 'terminal' : 'pipe';
  return { form, fold: form === 'terminal' && !noFold, colour: cli.screen.colour };
}

/** Resolves with 0 for any result of the job; `wait` reports results. */
export async function printLogs(cli: Cli, jobs: Jobs, job: FoundJob, flags: LogsFlags): Promise<number> {
  const [query, rules] = [queryOf(cli, flags), rulesOf(cli, flags)];
  const end = await untilInterrupted(cli, (leave) => printJobLogs(cli, jobs, job, { query, rules, leave }));
  return end.kind === 'left' ? exitCode.interrupted : readCode(job);
}

export function queryOf({ io }: Cli, flags: LogsFlags): LogsQuery {
  const { worker, step, attempt, container, allContainers, previous, allPods, follow, tail, grep, since } = flags;
  return omitUndefined({
    worker,
    step,
    attempt,
    container,
    allContainers,
    previous,
    allPods,
    follow,
    // The last matches may be before the last lines.
    tail: grep === undefined ? tail : undefined,
    reportsEnd: grep !== undefined && tail !== undefined ? true : undefined,
    since: since === undefined ? undefined : io.now() - since,
  });
}

function rulesOf(cli: Cli, { raw, noFold, grep, tail }: LogsFlags): LogRules {
  const rules = outputRules(cli, noFold);
  return {
    ...(raw === true ? { ...rules, form: 'raw', fold: false } : rules),
    ...omitUndefined({ grep, lastMatches: grep === undefined ? undefined : tail }),
  };
}
