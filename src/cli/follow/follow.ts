// Following one job: its events and its logs, until it has settled or the user leaves. It only reads. Nothing here waits
// in a busy loop: it looks four times a second, and at once when a log file says that it grew.

import { type FSWatcher, watch } from 'node:fs';
import type { Client, JobView, LogFile, LogQuery } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { lengthText, inertWord } from '../../app/figures.ts';
import { endText } from '../../app/phrases.ts';
import { type Cli, verdictCode } from '../context.ts';
import { controllerEvery, keepController } from '../controller.ts';
import { createProgress, type Ways, type Progress } from './progress.ts';
import { pause } from '../leave.ts';
import { createLogStream, type LogRules, type LogStream } from '../logs/stream.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { openWindow } from '../block.ts';
import type { WorkerId } from '../../core/spec.ts';
import type { Duration, Instant } from '../../core/time.ts';

type FollowEnd =
  | { readonly kind: 'settled'; readonly view: JobView }
  | { readonly kind: 'left' }
  | { readonly kind: 'unread' };

interface FollowOptions {
  readonly cli: Cli;
  readonly client: Client;
  readonly id: string;
  readonly follower: Progress;
  readonly logs: LogStream | null;
  readonly query: LogQuery;
  /** Attempts up to this one are passed over, and of the later ones none. Without it: the newest, and all that follow. */
  readonly after?: number;
  readonly leave: AbortSignal;
}

const lookEvery: Duration = 250;
/** Ages on the screen and phrases of others grow old: they are asked for again after this time. */
const refreshEvery: Duration = 1_000;
/** The end of a log may come a moment after the word that the job has ended. */
const quietAfterEnd: Duration = 600;
/** A job that settled this long ago has no log on its way any more. */
const longSettled: Duration = 5_000;
/** Growth that is told in many small steps is answered in few. */
const growthPause: Duration = 40;

/** Throws JobmanError when the job is not there (any more). */
async function followJob(options: FollowOptions): Promise<FollowEnd> {
  const { cli, client, id, follower, logs, leave } = options;
  const { io } = cli;
  const files = watchFiles();
  let view = await client.show(id);
  let changes = -1;
  let seq = 0;
  let shownAt = io.now();
  // The first look asks too: whoever follows expects that somebody works.
  let controllerAt = shownAt - controllerEvery;
  let printedAt = shownAt;
  let attempt: number | null = null;
  let asked = options.after ?? 0;
  let isFirst = true;
  let isBehind = false;

  const pump = async (): Promise<void> => {
    const printed = (await logs?.pump(io.now(), follower.clear)) ?? 'nothing';
    isBehind = printed === 'behind';
    if (printed !== 'nothing') printedAt = io.now();
  };
  const logFiles = async (): Promise<readonly LogFile[]> => {
    const { query } = options;
    const newest = await client.logs(id, query);
    const from = attempt ?? options.after;
    if (from === undefined || query.attempt !== undefined || query.step !== undefined) return newest;
    const last = newest[0]?.attempt ?? view.attempts.findLast(({ started }) => started !== null)?.attempt ?? from;
    const files: LogFile[] = [];
    for (let missed = Math.max(from, asked) + 1; missed < last; missed += 1) {
      files.push(...(await client.logs(id, { ...query, attempt: missed })));
      asked = missed;
    }
    return [...files, ...newest];
  };
  const tellBegin = (number: number | null): void => {
    const begun = view.attempts.find((one) => one.attempt === number);
    if (begun === undefined || options.query.step !== undefined) return;
    const { worker } = options.query;
    follower.begins(view, begun, worker === undefined ? begun.workers : [worker], isFirst);
  };
  const findLogs = async (): Promise<void> => {
    if (logs === null) return;
    logs.expect(workersOf(view, options.query));
    for (const file of await logFiles()) {
      if (options.after !== undefined && file.attempt !== null && file.attempt <= options.after) continue;
      // Another attempt's log begins: what the last one still had to say comes first.
      if (attempt !== null && file.attempt !== null && file.attempt > attempt) {
        await logs.finish(io.now(), follower.clear);
        isFirst = false;
      }
      const isNew = file.attempt !== null && file.attempt !== attempt;
      attempt = file.attempt ?? attempt;
      if (!(await logs.add(file, isFirst))) continue;
      files.add(file.path);
      if (isNew) tellBegin(file.attempt);
    }
  };

  try {
    for (;;) {
      const seen = await client.changes();
      const now = io.now();
      if (seen !== changes || now - shownAt >= refreshEvery) {
        // Events first: the view is then at least as new as what is told of it.
        const news = seen === changes ? [] : await client.events(id, seq);
        view = await client.show(id);
        shownAt = now;
        if (seen !== changes) {
          // Output from before the event is printed before it.
          await pump();
          follower.changed(
            view,
            news.map(({ event }) => event),
            changes === -1,
          );
        }
        seq = news.at(-1)?.seq ?? seq;
        changes = seen;
      }
      await findLogs();
      await pump();
      if (io.stdout.closed) return { kind: 'unread' };
      if (leave.aborted) return { kind: 'left' };
      follower.tick(view, io.now());
      if (isSettledPhase(view.phase)) {
        const isOver =
          logs === null || now - view.since > longSettled || now - Math.max(printedAt, view.since) > quietAfterEnd;
        if (isOver) {
          await logs?.finish(io.now(), follower.clear);
          return { kind: 'settled', view };
        }
      } else if (now - controllerAt >= controllerEvery) {
        controllerAt = now;
        await keepController(cli, client, follower.clear);
      }
      if (!isBehind) await Promise.race([pause(lookEvery, leave), files.grown()]);
    }
  } finally {
    files.close();
    await logs?.close();
  }
}

/** The workers whose logs belong to the answer: those of the command, or of a setup step, which runs on all of them. */
function workersOf(view: JobView, { step }: LogQuery): readonly WorkerId[] {
  const attempt = view.attempts.findLast(({ workers }) => workers.length > 0);
  if (step === undefined || step === 'command') return attempt?.workers ?? [];
  return view.allocations.at(-1)?.workers.map(({ worker }) => worker) ?? [];
}

function watchFiles() {
  const watchers = new Map<string, FSWatcher>();
  let tell: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  return {
    add(path: string): void {
      if (watchers.has(path)) return;
      try {
        const watcher = watch(path, () => {
          timer ??= setTimeout(() => {
            timer = undefined;
            tell?.();
          }, growthPause);
        });
        // The file is looked at anyway; being told is only quicker.
        watcher.on('error', () => watcher.close());
        watchers.set(path, watcher);
      } catch {
        // Too many watches, or a file system without them.
      }
    },
    grown: () =>
      new Promise<void>((resolve) => {
        tell = resolve;
      }),
    close(): void {
      clearTimeout(timer);
      for (const watcher of watchers.values()) watcher.close();
    },
  };
}

export function isGone(error: unknown): boolean {
  return error instanceof JobmanError && error.code === exitCode.notFound;
}

/**
 * Prints what the workers say until the job has settled, or until `leave` is aborted, and between the lines what happens
 * to the job meanwhile. Throws JobmanError when the job is not there (any more).
 */
export async function followLog(
  cli: Cli,
  client: Client,
  id: string,
  what: { readonly query: LogQuery; readonly rules: LogRules; readonly leave: AbortSignal; readonly ways?: Ways },
): Promise<FollowEnd> {
  const { io, screen } = cli;
  const { query, rules, leave, ways } = what;
  const logs = createLogStream(io.stdout, rules);
  const window = await openWindow(cli, io.stderr, screen.progress === 'redraw');
  const progress = createProgress(cli, {
    logs,
    tellsPhases: false,
    folds: rules.fold,
    window,
    ...(ways === undefined ? {} : { ways }),
  });
  try {
    const end = await followJob({ cli, client, id, follower: progress, logs, query, leave });
    if (end.kind === 'settled') progress.end(verdictLine(end.view), io.now());
    return end;
  } finally {
    progress.close();
  }
}

/**
 * Shows a job until it settles, its workers' output on standard output and everything else beside it; answers the
 * verdict's exit code. Leaving ends nothing but the looking. `after`: see FollowOptions.
 */
export async function followToEnd(
  cli: Cli,
  client: Client,
  id: string,
  leave: AbortSignal,
  noFold: boolean,
  after?: number,
): Promise<number> {
  const { io } = cli;
  const form = cli.json ? 'json' : io.stdout.isTerminal ? 'terminal' : 'pipe';
  const logs = createLogStream(io.stdout, {
    form,
    numbered: true,
    fold: form === 'terminal' && !noFold,
    colour: cli.screen.colour,
    follow: true,
  });
  const window = await openWindow(cli, io.stderr, cli.screen.progress === 'redraw');
  const progress = createProgress(cli, { logs, tellsPhases: true, folds: form === 'terminal' && !noFold, window });
  try {
    const from = after === undefined ? {} : { after };
    const end = await followJob({ cli, client, id, follower: progress, logs, query: {}, leave, ...from });
    switch (end.kind) {
      case 'settled':
        progress.clear();
        await showFailedStep(cli, client, end.view);
        progress.end(verdictLine(end.view), io.now());
        return verdictCode(end.view);
      case 'left':
        progress.close();
        cli.complain(`Left; ${id} goes on. Back: jobman logs ${Number(id)} -f`);
        return exitCode.interrupted;
      case 'unread':
        return exitCode.ok;
    }
  } catch (error) {
    progress.close();
    if (!isGone(error)) throw error;
    cli.complain(`${id} was deleted meanwhile.`);
    return exitCode.failed;
  } finally {
    progress.close();
  }
}

/** A job that failed in its setup has no log of its command: the last lines of the step say what went wrong. */
async function showFailedStep(cli: Cli, client: Client, view: JobView): Promise<void> {
  if (view.attempts.at(-1)?.reason !== 'setup_failed') return;
  const events = await client.events(view.id, 0);
  const failed = events.findLast(({ event }) => event.kind === 'step_failed')?.event;
  if (failed?.kind !== 'step_failed') return;
  const stream = createLogStream(cli.io.stderr, {
    form: cli.io.stderr.isTerminal ? 'terminal' : 'pipe',
    numbered: true,
    fold: false,
    colour: cli.screen.colour,
    tail: 20,
    follow: false,
  });
  for (const file of await client.logs(view.id, { step: failed.step, worker: failed.worker }))
    await stream.add(file, true);
  cli.complain(`-- the last lines of setup step ${failed.step} on worker ${failed.worker}`);
  await stream.finish(cli.io.now());
}

/** `000042 vit-l16 failed after 2h05m: exit 1 on worker 3; its log says "…". jobman why 42 says more.` */
export function verdictLine(view: JobView): string {
  // It ended after that time; what it holds on purpose (`, holds v4-16`), it holds now.
  const holds = view.status.slice(view.phase.length);
  const end = `${view.id} ${view.name} ${view.phase} after ${lengthText(view.since - wantedSince(view))}${holds}`;
  if (view.phase === 'succeeded') return inertWord(end);
  const { evidence = null, reason = null } = view.attempts.at(-1) ?? {};
  const because = evidence === null || reason === null ? view.reason : endText(view, { reason, evidence });
  const more = view.phase === 'failed' ? `. \`jobman why ${Number(view.id)}\` says more.` : '';
  return inertWord(`${end}${because === '' ? '' : `: ${because}`}${more}`);
}

/** Since when it was to run: a job that was stopped last week and resumed today did not take a week. */
function wantedSince({ attempts, createdAt }: JobView): Instant {
  const newest = attempts.findLast(({ asked }) => asked);
  return newest === undefined || newest.attempt === 1 ? createdAt : newest.created;
}
