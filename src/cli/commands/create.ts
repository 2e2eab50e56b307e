// create: from a manifest to a job, and on request to its end.

import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { wake } from '../controller.ts';
import { rowJson } from '../json.ts';
import { readManifest } from '../manifest-file.ts';
import { planLines } from '../render/plan.ts';

export interface CreateFlags {
  readonly config: string | undefined;
  readonly follow: boolean | undefined;
  readonly dryRun: boolean | undefined;
  readonly set: readonly string[] | undefined;
  readonly noFold: boolean | undefined;
}

export async function create(cli: Cli, flags: CreateFlags & GlobalFlags, path?: string): Promise<number> {
  const { io } = cli;
  const purpose = flags.dryRun === true ? 'check' : 'create';
  const manifest = await readManifest(cli, manifestPath(flags, path), flags.set ?? [], purpose);
  for (const warning of manifest.warnings) cli.note(`warning: ${warning}`);
  const client = await cli.services.client();

  if (flags.dryRun === true) {
    const plan = await client.plan(manifest.spec);
    const columns = io.stdout.isTerminal ? io.stdout.size().columns : null;
    cli.print(cli.json ? JSON.stringify(plan) : planLines(plan, columns).join('\n'));
    return exitCode.ok;
  }
  const request = { spec: manifest.spec, manifest: manifest.text, owner: io.user };
  if (flags.follow !== true) {
    const { id, row } = await client.create(request);
    cli.print(cli.json ? JSON.stringify(rowJson(row)) : cli.quiet ? id : `${id} ${row.name} created`);
    await wake(cli, client);
    cli.note(`It goes on without this terminal: jobman logs ${Number(id)} -f | jobman why ${Number(id)}`);
    return exitCode.ok;
  }

  const { leaveOnSignal } = await import('../follow/loop.ts');
  // From here on Ctrl-C leaves in order: a job that was stored a moment before is named to whoever leaves.
  const leave = leaveOnSignal(cli);
  try {
    const { id, row } = await client.create(request);
    if (cli.json) cli.print(JSON.stringify(rowJson(row)));
    else cli.note(`${id} ${row.name} created; it goes on without this terminal`);
    await wake(cli, client);
    return await followToEnd(cli, client, id, leave.signal, flags.noFold === true);
  } finally {
    leave.release();
  }
}

function manifestPath(flags: CreateFlags, path: string | undefined): string {
  if (path !== undefined && flags.config !== undefined) {
    throw new JobmanError(`Two manifests are named, ${path} and ${flags.config}; say one.`, exitCode.usage);
  }
  const only = path ?? flags.config;
  if (only === undefined) {
    throw new JobmanError('Which manifest? `jobman create configs/quick-start.yaml` runs the example.', exitCode.usage);
  }
  return only;
}

async function followToEnd(cli: Cli, client: Client, id: string, leave: AbortSignal, noFold: boolean): Promise<number> {
  const { io } = cli;
  const [{ followJob, isGone, verdictCode }, { createProgress }, { createLogStream }, { verdictLine }] =
    await Promise.all([
      import('../follow/loop.ts'),
      import('../follow/progress.ts'),
      import('../logs/stream.ts'),
      import('../follow/verdict.ts'),
    ]);
  const form = cli.json ? 'json' : io.stdout.isTerminal ? 'terminal' : 'pipe';
  const logs = createLogStream(io.stdout, {
    form,
    numbered: true,
    fold: form === 'terminal' && !noFold,
    colour: cli.screen.colour,
    grep: undefined,
    tail: undefined,
    follow: true,
  });
  const progress = createProgress(cli, { logs, tellsPhases: true });
  try {
    const end = await followJob({ cli, client, id, follower: progress, logs, query: {}, leave });
    switch (end.kind) {
      case 'settled':
        progress.close();
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
  const { createLogStream } = await import('../logs/stream.ts');
  const stream = createLogStream(cli.io.stderr, {
    form: cli.io.stderr.isTerminal ? 'terminal' : 'pipe',
    numbered: true,
    fold: false,
    colour: cli.screen.colour,
    grep: undefined,
    tail: 20,
    follow: false,
  });
  for (const file of await client.logs(view.id, { step: failed.step, worker: failed.worker }))
    await stream.add(file, true);
  cli.complain(`-- the last lines of setup step ${failed.step} on worker ${failed.worker}`);
  await stream.finish(cli.io.now());
}
