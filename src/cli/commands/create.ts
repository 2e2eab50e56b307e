// create: from a manifest to a job, and on request to its end.

import type { Plan } from '../../app/client.ts';
import { costText } from '../../app/phrases.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { rowJson } from '../../app/json.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { wake } from '../controller.ts';
import { untilLeft } from '../leave.ts';
import { readManifest } from '../manifest-file.ts';
import { isGranted } from '../prompt.ts';
import { labelled } from '../render/aligned.ts';
import { wrap } from '../render/cell.ts';
import { inertWord } from '../../app/figures.ts';
import { columnsOf } from '../screen.ts';
import type { CreateFlags } from '../table/flags.ts';
import { given } from '../../core/given.ts';
import type { JobSpec } from '../../core/spec.ts';

export async function create(cli: Cli, flags: CreateFlags & GlobalFlags, path?: string): Promise<number> {
  const { io } = cli;
  const isCreating = flags.dryRun !== true;
  const read = await readManifest(cli, manifestPath(flags, path), flags.set ?? [], { isCreating });
  if ('cluster' in read) {
    const { submitWishes } = await import('./submit.ts');
    const { namespace, context } = flags;
    return submitWishes(cli, { ...read.cluster, ...given({ namespace, context }) }, flags);
  }
  if (flags.namespace !== undefined || flags.context !== undefined) {
    throw usageError(
      `--namespace and --context are for a job of a cluster, and ${manifestPath(flags, path)} has no section kubernetes.`,
    );
  }
  const manifest = { ...read.manifest, warnings: read.warnings };
  const client = await cli.services.client();

  if (flags.dryRun === true) {
    const plan = await client.plan(manifest.spec);
    const columns = columnsOf(io.stdout);
    const whole = { ...plan, warnings: manifest.warnings };
    cli.print(cli.json ? JSON.stringify(whole) : planLines(plan, columns, flags.verbose === true).join('\n'));
    const beyond = await client.beyond(manifest.spec);
    if (beyond !== null && beyond.mayContinue !== true) cli.note(`note: ${beyond.sentence}: create will ask first.`);
    return exitCode.ok;
  }
  if (flags.noCheck !== true) await cli.services.checkLogin(manifest.spec, 'Nothing was created');
  if (!(await isGranted(cli, client, manifest.spec, 'Create it', 'Nothing was created'))) return exitCode.failed;
  const request = { spec: manifest.spec, manifest: manifest.text, owner: io.user, env: io.env };
  if (flags.follow !== true) {
    const { id, row, warnings } = await client.create(request);
    sayCreated(cli, manifest.spec, id, warnings);
    cli.print(cli.json ? JSON.stringify(rowJson(row)) : cli.quiet ? id : `${id} ${row.name} created`);
    await wake(cli, client);
    cli.note(`It goes on without this terminal: jobman logs ${Number(id)} -f | jobman why ${Number(id)}`);
    return exitCode.ok;
  }

  const { followToEnd } = await import('../follow/follow.ts');
  // From here on Ctrl-C leaves in order: a job that was stored a moment before is named to whoever leaves.
  return untilLeft(cli, async (signal) => {
    const { id, row, warnings } = await client.create(request);
    sayCreated(cli, manifest.spec, id, warnings);
    if (cli.json) cli.print(JSON.stringify(rowJson(row)));
    else cli.note(`${id} ${row.name} created; it goes on without this terminal`);
    await wake(cli, client);
    return followToEnd(cli, client, id, signal, flags.noFold === true, 0);
  });
}

function sayCreated(cli: Cli, { command, capacity, finish }: JobSpec, id: string, warnings: readonly string[]): void {
  const word = cli.screen.err('bold', cli.screen.err('magenta', 'warning:'));
  for (const warning of warnings) cli.note(`${word} ${inertWord(warning)}.`);
  if (command.isSetupOnly !== true || capacity.kind !== 'tpu') return;
  const isKept = capacity.ownership === 'standing' || finish.capacity === 'keep';
  const release = capacity.ownership === 'standing' ? '' : `; to release it: jobman stop ${Number(id)} --release`;
  cli.note(`It runs no command: its TPU is set up and then ${isKept ? `kept${release}` : 'released (job.on_finish)'}.`);
}

function manifestPath(flags: CreateFlags, path: string | undefined): string {
  if (path !== undefined && flags.config !== undefined) {
    throw usageError(`Two manifests are named, ${path} and ${flags.config}; say one.`);
  }
  const only = path ?? flags.config;
  if (only === undefined) {
    throw usageError('Which manifest? `jobman create configs/quick-start.yaml` runs the example.');
  }
  return only;
}

function planLines(plan: Plan, columns: number | null, verbose = false): readonly string[] {
  const rows: (readonly [string, string])[] = [];
  const list = (label: string, texts: readonly string[]) => {
    for (const [index, text] of texts.entries()) rows.push([index === 0 ? label : '', text]);
  };
  list('asks', plan.asks);
  rows.push(['price', priceText(plan)]);
  list('setup', plan.steps);
  list('command', plan.command.trimEnd().split('\n'));
  if (verbose && plan.script !== null) list('script', plan.script.split('\n'));
  list('rules', plan.rules);
  list('limits', plan.limits);
  const head = `${plan.name}: nothing was stored; this is what create would do`;
  return [...(columns === null ? [head] : wrap(head, columns)), ...labelled(rows, columns)];
}

function priceText(plan: Plan): string {
  if (plan.backend === 'local') return 'nothing: it runs here';
  return plan.pricePerHour === null ? 'not known' : `${costText(plan, plan.pricePerHour)}, while it is ready`;
}
