// wait: until jobs have settled. One line for each, and the worst verdict as exit code; meanwhile, what is waited for.

import type { WaitFlags } from '../cluster/wait.ts';
import type { Client, JobView, Ref } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import { lengthText } from '../../app/figures.ts';
import type { Duration } from '../../core/time.ts';
import { meantBy } from '../cluster/either.ts';
import { forEach, type Cli, type GlobalFlags } from '../context.ts';
import { controllerEvery, keepController } from '../controller.ts';
import { isGone } from '../follow/loop.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { verdictLine } from '../follow/verdict.ts';
import { createWaiting } from '../follow/waiting.ts';
import { viewJson } from '../../app/json.ts';
import { isSettled, verdictCode } from '../settled.ts';
import { openWindow } from '../window.ts';

const lookEvery: Duration = 250;
/** Without any change of the record ages and phrases are asked for again after this time, and more seldom for many jobs. */
const refreshEvery: Duration = 1_000;
const refreshAtOnce = 8;

export async function wait(cli: Cli, flags: WaitFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const meant = await meantBy(cli, flags, args);
  try {
    const refs = meant.meanings.flatMap((meaning) => (meaning.kind === 'record' ? [meaning.ref] : []));
    if (refs.length === meant.meanings.length) return await waitForRecord(cli, meant.client, refs, flags);
    const { waitForCluster } = await import('../cluster/wait.ts');
    // All at once: each is told when it is over.
    const codes = await Promise.all([
      waitForCluster(cli, meant, flags),
      ...(refs.length === 0 ? [] : [waitForRecord(cli, meant.client, refs, flags)]),
    ]);
    return Math.max(...codes);
  } finally {
    await meant.close();
  }
}

async function waitForRecord(cli: Cli, client: Client, refs: readonly Ref[], flags: WaitFlags): Promise<number> {
  const { io } = cli;
  const open = new Set<string>();
  let worst = await forEach(cli, refs, async (ref) => {
    open.add((await client.show(ref)).id);
    return exitCode.ok;
  });

  const views = new Map<string, JobView>();
  const seqs = new Map<string, number>();
  const back = `jobman wait ${[...open].map(Number).join(' ')}`;
  const window = await openWindow(cli, io.stderr, cli.screen.progress === 'redraw');
  const waiting = createWaiting(cli, [...open], back, window);
  const verdict = (view: JobView) => {
    waiting.clear();
    cli.answer(viewJson(view), verdictLine(view));
    worst = Math.max(worst, verdictCode(view));
  };
  /** Looks at one job, and tells what is new about it. */
  const look = async (id: string): Promise<void> => {
    try {
      // Events first: the view is then at least as new as what is told of it.
      const news = await client.events(id, seqs.get(id) ?? 0);
      const view = await client.show(id);
      waiting.changed(
        view,
        news.map(({ event }) => event),
        !views.has(id),
      );
      seqs.set(id, news.at(-1)?.seq ?? seqs.get(id) ?? 0);
      views.set(id, view);
      if (!isSettled(view)) return;
      open.delete(id);
      verdict(view);
    } catch (error) {
      if (!isGone(error)) throw error;
      open.delete(id);
      waiting.clear();
      cli.complain(`${id} was deleted meanwhile.`);
      worst = Math.max(worst, exitCode.failed);
    }
  };

  const began = io.now();
  const { signal, release } = leaveOnSignal(cli);
  try {
    let changes = -1;
    let lookedAt = began;
    // At once, and then every few seconds: whoever waits expects that somebody works.
    let controllerAt = began - controllerEvery;
    for (let isFirst = true; ; isFirst = false) {
      const seen = await client.changes();
      if (seen !== changes || io.now() - lookedAt >= refreshEvery * Math.ceil(open.size / refreshAtOnce)) {
        changes = seen;
        for (const id of open) await look(id);
        lookedAt = io.now();
      }
      if (open.size === 0) {
        // No bell for an answer that comes at once.
        if (!isFirst) window.ring();
        return worst;
      }
      if (signal.aborted) {
        waiting.clear();
        cli.complain(`Left; ${[...open].join(', ')} ${open.size === 1 ? 'goes' : 'go'} on. Back: ${back}`);
        return exitCode.interrupted;
      }
      if (flags.timeout !== undefined && io.now() - began >= flags.timeout) {
        waiting.clear();
        cli.complain(
          `Not settled after ${lengthText(flags.timeout)}: ${[...open].join(', ')}. The wait is over; the jobs go on.`,
        );
        window.ring();
        return Math.max(worst, exitCode.failed);
      }
      waiting.tick(
        [...open].flatMap((id) => views.get(id) ?? []),
        io.now(),
      );
      if (io.now() - controllerAt >= controllerEvery) {
        controllerAt = io.now();
        await keepController(cli, client, waiting.clear);
      }
      await pause(lookEvery, signal);
    }
  } finally {
    waiting.close();
    release();
  }
}
