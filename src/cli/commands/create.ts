import { quote } from '../../catalogue/shell.ts';
import type { Client, CreatedJob, JobRow, Plan } from '../../app/client.ts';
import { planQuestions, planRefusal, quotaWarningsFor, requireCloudLogin } from '../../app/new-job.ts';
import { upload } from '../../app/upload.ts';
import { formatPlanPrice } from '../../app/phrases.ts';
import { exitCode, JobmanError, reworded, usageError } from '../../app/errors.ts';
import { variablesOf } from '../cluster-flags.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { wakeController } from '../controller.ts';
import { abortOnSignal } from '../interrupt.ts';
import { problemJson, readManifest, readSecretValues } from '../manifest-file.ts';
import type { CreatedJobOutput } from '../outputs.ts';
import { fileProblem } from '../../schema/problems.ts';
import { untilConfirmed } from '../prompt.ts';
import { labelled } from '../render/aligned.ts';
import { wrap } from '../render/cell.ts';
import { escapeLine } from '../../app/format.ts';
import { columnsOf } from '../screen.ts';
import type { CreateFlags } from '../table/flags.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { FileReader } from '../../manifest/files.ts';
import type { JobSpec } from '../../core/model/spec.ts';
import { presets } from '../../core/policy/presets.ts';

export async function create(cli: Cli, flags: CreateFlags & GlobalFlags, path?: string): Promise<number> {
  return createFrom(cli, flags, manifestPath(flags, path));
}

/** `files`: for a manifest that exists only in memory (`jobman run -- CMD`). */
export async function createFrom(
  cli: Cli,
  flags: CreateFlags & GlobalFlags,
  path: string,
  files?: FileReader,
): Promise<number> {
  const { io } = cli;
  if (flags.follow === true && flags.wait === true) throw usageError('--follow and --wait exclude each other.');
  if (flags.follow === true && flags.detach === true) throw usageError('--follow and --detach exclude each other.');
  const isCreating = flags.dryRun !== true;
  const read = await readManifest(cli, path, setsOf(cli, flags), omitUndefined({ isCreating, files }));
  if ('cluster' in read) {
    const { submitFromOptions } = await import('./submit.ts');
    const { namespace, context } = flags;
    return submitFromOptions(cli, { ...read.cluster, ...omitUndefined({ namespace, context }) }, flags);
  }
  if (flags.namespace !== undefined || flags.context !== undefined) {
    throw usageError(`--namespace and --context need a section kubernetes, and ${path} has none.`);
  }
  const { manifest } = read;
  const { spec } = manifest;
  const client = await cli.services.client();
  // Read while the command does the rest.
  const quotaWarnings = flags.noCheck === true ? Promise.resolve([]) : quotaWarningsFor(client, spec);
  const findings = read.warnings.map((warning) => problemJson(path, warning));
  const warningJson = (warning: string) => problemJson(path, fileProblem(warning));

  if (flags.dryRun === true) {
    const plan = await client.plan(spec, manifest.uploads.workdir ?? undefined);
    const columns = columnsOf(io.stdout);
    const warnings = await quotaWarnings;
    if (cli.json) cli.printJson({ ...plan, warnings: [...findings, ...warnings.map(warningJson)] });
    else cli.print(planLines(plan, spec, columns, flags.verbose === true).join('\n'));
    printWarnings(cli, warnings);
    const refusal = planRefusal(plan);
    if (refusal !== null) throw refusal;
    for (const question of planQuestions(plan)) cli.note(`note: ${question}`);
    return exitCode.ok;
  }
  if (flags.noCheck !== true) await checkLogin(client, spec);
  const { contents, workdir: folder } = manifest.uploads;
  await upload(client, contents);
  const workdir = folder === null ? undefined : await cli.services.copyWorkdir(folder);
  const secrets = readSecretValues(cli, manifest.secretSources);
  const request = { spec, manifest: manifest.text, secrets, ...omitUndefined({ workdir }) };
  const createJob = (send: Client['create']): Promise<CreatedJob | null> =>
    untilConfirmed(cli, 'Create it', 'Nothing was created', (confirmed) => send({ ...request, confirmed }));
  const printCreated = async ({ id, row, warnings: others }: CreatedJob): Promise<void> => {
    const warnings = [...others, ...(await quotaWarnings)];
    printNotes(cli, spec, id, warnings);
    const created: CreatedJobOutput = { ...row, warnings: [...findings, ...warnings.map(warningJson)] };
    if (cli.json) cli.printJson(created);
  };
  if (flags.follow !== true) {
    const created = await createJob((given) => client.create(given));
    if (created === null) return exitCode.failed;
    await printCreated(created);
    const { id, row } = created;
    if (!cli.json) {
      if (cli.quiet) cli.print(id);
      else cli.printSentence(formatCreated(row));
    }
    await wakeController(cli, client);
    if (flags.wait === true) {
      const { wait } = await import('./wait.ts');
      return wait(cli, {}, id);
    }
    cli.note(`Follow: jobman logs ${Number(id)} -f · Explain: jobman why ${Number(id)}`);
    return exitCode.ok;
  }

  const { followToEnd } = await import('../follow/follow.ts');
  let signal = AbortSignal.abort();
  let release = (): void => undefined;
  // Once it creates, Ctrl-C detaches, so that the user learns the id of the stored job. At a question it ends the command.
  const created = await createJob(async (given) => {
    ({ signal, release } = abortOnSignal(cli));
    const answer = await client.create(given).catch((error: unknown) => {
      release();
      throw error;
    });
    if (answer.kind !== 'created') release();
    return answer;
  });
  if (created === null) return exitCode.failed;
  try {
    await printCreated(created);
    if (!cli.json) cli.note(formatCreated(created.row));
    await wakeController(cli, client);
    return await followToEnd(cli, client, created.id, signal, flags.noFold === true, 0);
  } finally {
    release();
  }
}

function formatCreated({ id, name }: JobRow): string {
  return `Created job ${id} (${escapeLine(name)}). It runs in the background.`;
}

async function checkLogin(client: Client, spec: JobSpec): Promise<void> {
  try {
    await requireCloudLogin(client, spec);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    // Only a login can come later: a limit of the user stays in force.
    const hint =
      error.errorCode === 'forbidden'
        ? []
        : ['--no-check creates a job without this check. The job then waits for a login.'];
    throw reworded(error, { lines: [...error.lines, ...hint] });
  }
}

/** Not `~` or `[a]`, which mean another value in YAML. */
function literal(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : JSON.stringify(text);
}

/** --name and --env are short forms of --set. */
function setsOf({ io }: Cli, { name, env = [], set = [] }: CreateFlags): readonly string[] {
  const variables = Object.entries(variablesOf(env, io.env)).map(([key, value]) => `job.env.${key}=${literal(value)}`);
  return [...set, ...(name === undefined ? [] : [`job.name=${literal(name)}`]), ...variables];
}

function printNotes(cli: Cli, spec: JobSpec, id: string, warnings: readonly string[]): void {
  printWarnings(cli, warnings);
  noteMissingCommand(cli, spec, String(Number(id)));
}

function printWarnings(cli: Cli, warnings: readonly string[]): void {
  const label = cli.screen.styleErr('bold', cli.screen.styleErr('magenta', 'warning:'));
  for (const warning of warnings) cli.note(`${label} ${escapeLine(warning)}.`);
}

export function noteMissingCommand(cli: Cli, { command, capacity, finish }: JobSpec, job: string): void {
  if (command.isSetupOnly !== true || capacity.kind !== 'tpu') return;
  const isKept = capacity.ownership === 'persistent' || finish.capacity === 'keep';
  const release = capacity.ownership === 'persistent' ? '' : `. Release it: jobman stop ${job} --release`;
  cli.note(
    `The job has no command: its TPU is set up and then ${isKept ? `kept${release}` : 'released (job.on_finish)'}.`,
  );
}

/** The program that runs a script; undefined for another file. */
export function interpreterOf(file: string): 'python3' | 'bash' | undefined {
  if (/\.py$/i.test(file)) return 'python3';
  return /\.sh$/i.test(file) ? 'bash' : undefined;
}

export function missingManifest(command: 'create' | 'validate'): JobmanError {
  return usageError(`Which manifest? For example: jobman ${command} train.yaml · Write one: jobman init`);
}

function manifestPath(flags: CreateFlags, path: string | undefined): string {
  if (path !== undefined && flags.config !== undefined) {
    throw usageError(`Two manifests are given, ${path} and ${flags.config}; one is enough.`);
  }
  const only = path ?? flags.config;
  if (only === undefined) {
    throw missingManifest('create');
  }
  const program = interpreterOf(only);
  if (program !== undefined) {
    throw usageError(`${only} is a program, not a manifest.`, [
      `As a local job: jobman run -- ${program} ${quote(only)}`,
      'Write a manifest: jobman init',
    ]);
  }
  return only;
}

function planLines(plan: Plan, { recovery }: JobSpec, columns: number | null, verbose: boolean): readonly string[] {
  const rows: (readonly [string, string])[] = [];
  const list = (label: string, texts: readonly string[]) => {
    for (const [index, text] of texts.entries()) rows.push([index === 0 ? label : '', text]);
  };
  list('requests', plan.requests);
  if (plan.typicalWait !== null) rows.push(['usually', plan.typicalWait]);
  rows.push(['price', formatPlanPrice(plan)]);
  list('setup', plan.steps);
  list('command', plan.command.trimEnd().split('\n'));
  if (verbose && plan.script !== null) list('script', plan.script.split('\n'));
  // docs/recovery.md explains the presets, so only a job with rules of its own needs the whole list.
  list('rules', verbose || !Object.hasOwn(presets, recovery.preset) ? plan.rules : plan.rules.slice(0, 1));
  list('limits', plan.limits);
  const head = `Plan for ${plan.name} (nothing was created)`;
  return [...(columns === null ? [head] : wrap(head, columns)), ...labelled(rows, columns)];
}
