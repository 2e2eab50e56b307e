// Shared parts of the commands that change or examine a TPU itself. The first Ctrl-C ends them with a message about
// what remains; the second ends the program.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { pluralize, capitalize, escapeLine } from '../../app/format.ts';
import { type SiteSetup, siteSetups, wandbKey, wandbSetup, wandbVariable } from '../../lab/site-setup.ts';
import { formatUsage } from '../../lab/tpu-usage.ts';
import type { Site } from '../../lab/site.ts';
import type { KnownTpuState, ReportProgress, TpuState, WorkerAnswer } from '../../lab/tpu-operations.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { currentUser } from './resolve-user.ts';
import { confirmDespite } from './terminal.ts';
import { readUsage, withTpus, type ClaimContext } from './claim-tpu.ts';
import { type TpuCli, requiredTpu, type ParsedArguments } from './command.ts';

export interface TpuContext extends ClaimContext {
  readonly cli: TpuCli;
  readonly tpu: LabTpu;
  readonly site: Site;
  readonly report: ReportProgress;
}

/** Opens the TPU operations for one command and closes them. */
export async function withTpuContext(
  cli: TpuCli,
  args: ParsedArguments,
  work: (context: TpuContext) => Promise<number>,
): Promise<number> {
  const tpu = requiredTpu(args);
  const site = await cli.lab.site();
  return withTpus(cli, null, (context) =>
    work({ ...context, cli, tpu, site, report: (line) => cli.note(escapeLine(line)) }),
  );
}

/** The state of the TPU. Throws JobmanError (5) if the cloud does not answer. */
export async function readState({ tpu, tpus }: TpuContext): Promise<KnownTpuState> {
  return requireKnown(tpu, await tpus.describe(tpu));
}

export function requireKnown({ name }: LabTpu, state: TpuState): KnownTpuState {
  if (state.kind === 'known') return state;
  throw new JobmanError(`The state of ${name} is unknown.`, exitCode.unreachable, [state.message]);
}

/** True if there are no uses or the user agrees. A worker that does not answer counts as a use. */
export async function confirmUse(context: TpuContext, hasWorkers: boolean, what: string): Promise<boolean> {
  const all = await readConcerns(context, hasWorkers);
  if (all.length === 0) return true;
  const isAgreed = await confirmDespite(context.cli, escapeLine(`${capitalize(all.join('; '))}.`), `${what} anyway?`);
  if (!isAgreed && context.signal.aborted)
    throw new JobmanError(`Interrupted. ${context.tpu.name} was not changed.`, exitCode.interrupted);
  return isAgreed;
}

/** A sentence for each reason not to change the TPU: uses, another user's booking, workers that do not answer. */
export async function readConcerns(context: TpuContext, hasWorkers: boolean): Promise<readonly string[]> {
  const { cli, tpu, report } = context;
  // On a shared login without a named user, every booking may be another user's.
  const user = currentUser(cli, await cli.lab.store.users());
  const { usage, sheetWarnings, workerWarnings } = await readUsage(cli, context, tpu, { user, hasWorkers });
  for (const line of sheetWarnings) report(line);
  return [...formatUsage(usage, tpu.name), ...workerWarnings];
}

/** Returns the exit code. `key` is the W&B key. */
export async function applySetups(
  context: TpuContext,
  setups: readonly SiteSetup[],
  key: string | null,
): Promise<number> {
  let isWell = true;
  for (const setup of setups) isWell = (await applySetup(context, setup, key)) && isWell;
  return isWell ? exitCode.ok : exitCode.failed;
}

async function applySetup(
  { cli, tpu, tpus, signal, report }: TpuContext,
  setup: SiteSetup,
  key: string | null,
): Promise<boolean> {
  const { name, script, timeoutMs } = setup;
  const secrets = setup === wandbSetup && key !== null ? { [wandbVariable]: key } : {};
  // The check first: a setup that is already done costs one short script.
  const shellCode = `if (\n${script.check}\n) >/dev/null 2>&1; then echo 'done already'; exit 0; fi\n(\n${script.apply}\n) 2>&1\n`;
  const answers = await tpus.onWorkers(tpu, shellCode, { timeoutMs, signal, secrets });
  const failed = answers.filter(hasFailed);
  for (const answer of failed) cli.printStderr(`worker ${answer.worker}: ${escapeLine(failureText(answer))}`);
  report(`${name}: ready on ${answers.length - failed.length} of ${pluralize(answers.length, 'worker')}`);
  return failed.length === 0;
}

export function hasFailed(answer: WorkerAnswer): boolean {
  return answer.kind === 'no_answer' || answer.code !== 0;
}

function failureText(answer: WorkerAnswer): string {
  if (answer.kind === 'no_answer') return answer.message;
  return answer.output.trim().split('\n').slice(-3).join(' | ') || `exit code ${answer.code}`;
}

/** Mounts the shares and logs in to W&B, as far as the site has them. Returns the exit code. */
export async function prepareWorkers(context: TpuContext, zone: string): Promise<number> {
  const key = await wandbKey(context.site, context.cli.io.env);
  return applySetups(context, siteSetups(context.site, zone, key !== null), key);
}

/** Stores the zone that the cloud reported, if the registry has none. */
export async function rememberZone({ cli, tpu }: TpuContext, zone: string): Promise<void> {
  if (tpu.zone !== null || zone === '') return;
  await cli.lab.store.changeTpu(tpu.name, { kind: 'observe_zone', zone });
}
