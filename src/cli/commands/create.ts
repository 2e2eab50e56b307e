import type { JobRow, Plan } from '../../app/client.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { rowJson } from '../../app/json.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { wakeController } from '../controller.ts';
import { untilInterrupted } from '../interrupt.ts';
import { problemJson, readManifest } from '../manifest-file.ts';
import type { CreatedJobOutput } from '../outputs.ts';
import { fileProblem } from '../../schema/problems.ts';
import { confirmIfRequired } from '../prompt.ts';
import { labelled } from '../render/aligned.ts';
import { wrap } from '../render/cell.ts';
import { escapeLine } from '../../app/format.ts';
import { columnsOf } from '../screen.ts';
import type { CreateFlags } from '../table/flags.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { JobSpec } from '../../core/model/spec.ts';

export async function create(cli: Cli, flags: CreateFlags & GlobalFlags, path?: string): Promise<number> {
  const { io } = cli;
  const isCreating = flags.dryRun !== true;
  const read = await readManifest(cli, manifestPath(flags, path), flags.set ?? [], { isCreating });
  if ('cluster' in read) {
    const { submitFromOptions } = await import('./submit.ts');
    const { namespace, context } = flags;
    return submitFromOptions(cli, { ...read.cluster, ...omitUndefined({ namespace, context }) }, flags);
  }
  if (flags.namespace !== undefined || flags.context !== undefined) {
    throw usageError(
      `--namespace and --context are for a job of a cluster, and ${manifestPath(flags, path)} has no section kubernetes.`,
    );
  }
  const { manifest } = read;
  const file = manifestPath(flags, path);
  const findings = read.warnings.map((warning) => problemJson(file, warning));
  const client = await cli.services.client();

  if (flags.dryRun === true) {
    const plan = await client.plan(manifest.spec);
    const columns = columnsOf(io.stdout);
    if (cli.json) cli.printJson({ ...plan, warnings: findings });
    else cli.print(planLines(plan, columns, flags.verbose === true).join('\n'));
    const confirmation = await client.checkPolicy(manifest.spec);
    if (confirmation !== null && confirmation.mayProceed !== true)
      cli.note(`note: ${confirmation.message}: create will ask first.`);
    return exitCode.ok;
  }
  if (flags.noCheck !== true) await cli.services.checkLogin(manifest.spec, 'Nothing was created');
  if (!(await confirmIfRequired(cli, client, manifest.spec, 'Create it', 'Nothing was created')))
    return exitCode.failed;
  const request = { spec: manifest.spec, manifest: manifest.text, owner: io.user, env: io.env };
  const createdJson = (row: JobRow, warnings: readonly string[]): CreatedJobOutput => ({
    ...rowJson(row),
    warnings: [...findings, ...warnings.map((warning) => problemJson(file, fileProblem(warning)))],
  });
  if (flags.follow !== true) {
    const { id, row, warnings } = await client.create(request);
    printCreated(cli, manifest.spec, id, warnings);
    if (cli.json) cli.printJson(createdJson(row, warnings));
    else cli.print(cli.quiet ? id : `${id} ${row.name} created`);
    await wakeController(cli, client);
    cli.note(`It goes on without this terminal: jobman logs ${Number(id)} -f | jobman why ${Number(id)}`);
    return exitCode.ok;
  }

  const { followToEnd } = await import('../follow/follow.ts');
  // From here on Ctrl-C leaves in order, so that the user learns the id of the stored job.
  return untilInterrupted(cli, async (signal) => {
    const { id, row, warnings } = await client.create(request);
    printCreated(cli, manifest.spec, id, warnings);
    if (cli.json) cli.printJson(createdJson(row, warnings));
    else cli.note(`${id} ${row.name} created; it goes on without this terminal`);
    await wakeController(cli, client);
    return followToEnd(cli, client, id, signal, flags.noFold === true, 0);
  });
}

function printCreated(cli: Cli, { command, capacity, finish }: JobSpec, id: string, warnings: readonly string[]): void {
  const label = cli.screen.styleErr('bold', cli.screen.styleErr('magenta', 'warning:'));
  for (const warning of warnings) cli.note(`${label} ${escapeLine(warning)}.`);
  if (command.isSetupOnly !== true || capacity.kind !== 'tpu') return;
  const isKept = capacity.ownership === 'persistent' || finish.capacity === 'keep';
  const release = capacity.ownership === 'persistent' ? '' : `; to release it: jobman stop ${Number(id)} --release`;
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
  list('asks', plan.requests);
  rows.push(['price', formatPrice(plan)]);
  list('setup', plan.steps);
  list('command', plan.command.trimEnd().split('\n'));
  if (verbose && plan.script !== null) list('script', plan.script.split('\n'));
  list('rules', plan.rules);
  list('limits', plan.limits);
  const head = `${plan.name}: nothing was stored; this is what create would do`;
  return [...(columns === null ? [head] : wrap(head, columns)), ...labelled(rows, columns)];
}

function formatPrice(plan: Plan): string {
  if (plan.backend === 'local') return 'nothing: it runs here';
  return plan.pricePerHourUsd === null
    ? 'not known'
    : `${formatHourlyCost(plan, plan.pricePerHourUsd)}, while it is ready`;
}
