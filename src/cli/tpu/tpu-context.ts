// Shared parts of the commands that change or examine a TPU itself. The first Ctrl-C ends them with a message about
// what remains; the second ends the program.

import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { pluralize, capitalize, escapeLine } from '../../app/format.ts';
import { second } from '../../core/model/time.ts';
import { restartOf, type Operation } from '../../lab/operation.ts';
import { siteSetups, wandbKey, wandbKeyIn, wandbSetup, wandbVariable } from '../../lab/site-setup.ts';
import { formatUsage } from '../../lab/tpu-usage.ts';
import type { Site } from '../../lab/site.ts';
import type { KnownTpuState, TpuState, WorkerAnswer } from '../../lab/tpu-operations.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { currentUser } from './resolve-user.ts';
import { confirmDespite } from './terminal.ts';
import { readUsage, withTpus, type ClaimContext } from './claim-tpu.ts';
import { operate, type PreparedTpu } from './operate.ts';
import { type TpuCli, requiredTpu, type ParsedArguments } from './command.ts';

export interface TpuContext extends ClaimContext {
  readonly cli: TpuCli;
  readonly tpu: LabTpu;
  readonly site: Site;
  readonly report: (line: string) => void;
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

/** True if the lab or the environment has a key. Throws JobmanError (2) if its file is unreadable. */
export async function hasWandbKey({ lab, io }: TpuCli, site: Site): Promise<boolean> {
  if (lab.isOnServer) return site.wandbKeyFile !== null || wandbKeyIn(io.env) !== null;
  return (await wandbKey(site, io.env)) !== null;
}

/** As `wandbKey`. The key in the settings of a server stays there. */
export async function readWandbKey({ lab, io }: TpuCli, site: Site): Promise<string | null> {
  if (!lab.isOnServer || site.wandbKeyFile === null || wandbKeyIn(io.env) !== null) return wandbKey(site, io.env);
  throw usageError(`The W&B key of the lab does not leave the server. Set ${wandbVariable} to your own.`, [
    'tpu mount-disk TPU    logs in with the key of the lab',
  ]);
}

/** Logs in to W&B on all workers, and reports the workers where that failed. */
export async function logInToWandb(
  { cli, tpu, tpus, signal, report }: Pick<TpuContext, 'cli' | 'tpu' | 'tpus' | 'signal' | 'report'>,
  key: string,
): Promise<boolean> {
  const { script, timeoutMs } = wandbSetup;
  // The check first: a login that is already done costs one short script.
  const shellCode = `if (\n${script.check}\n) >/dev/null 2>&1; then echo 'done already'; exit 0; fi\n(\n${script.apply}\n) 2>&1\n`;
  const answers = await tpus.onWorkers(tpu, shellCode, { timeoutMs, signal, secrets: { [wandbVariable]: key } });
  const failed = answers.filter(hasFailed);
  for (const answer of failed) cli.printStderr(`worker ${answer.worker}: ${escapeLine(failureText(answer))}`);
  report(`W&B: ready on ${answers.length - failed.length} of ${pluralize(answers.length, 'worker')}`);
  return failed.length === 0;
}

export function hasFailed(answer: WorkerAnswer): boolean {
  return answer.kind === 'no_answer' || answer.code !== 0;
}

function failureText(answer: WorkerAnswer): string {
  if (answer.kind === 'no_answer') return answer.message;
  return answer.output.trim().split('\n').slice(-3).join(' | ') || `exit code ${answer.code}`;
}

/** Mounts the shares and logs in to W&B on a TPU that exists, as far as the site has them. */
export async function prepareWorkers(
  context: TpuContext,
  operation: Operation,
  { zone }: KnownTpuState,
): Promise<PreparedTpu> {
  const { cli, tpu, site } = context;
  if (siteSetups(site, zone, await hasWandbKey(cli, site)).length === 0) {
    await cli.lab.store.changeTpu(tpu.name, { kind: 'observe_zone', zone });
    await observeExistence(context, true);
    return { zone, isPrepared: true };
  }
  return operate(cli, context, tpu, { operation, zone, prepares: true });
}

/** Records the state of the cloud that needs no operation. */
export async function observeExistence({ cli, tpu, report }: TpuContext, exists: boolean): Promise<void> {
  const { late } = await (await cli.lab.sheet()).changeLater(tpu.name, { kind: 'observe', exists });
  for (const one of late) if (one.tpu === tpu.name) report(one.message);
}

/** Throws JobmanError (5) if the workers have to reboot themselves and one does not answer. */
export async function requireRestartable(
  { tpu, tpus, signal }: Pick<TpuContext, 'tpu' | 'tpus' | 'signal'>,
  state: KnownTpuState,
): Promise<Operation> {
  const operation = restartOf(state);
  if (operation.reboots !== true) return operation;
  const answers = await tpus.onWorkers(tpu, 'true', { timeoutMs: 20 * second, signal });
  const silent = answers.find((one) => one.kind === 'no_answer');
  if (silent === undefined) return operation;
  throw new JobmanError(
    `${tpu.name} cannot be restarted: worker ${silent.worker} does not answer.`,
    exitCode.unreachable,
    [silent.message, `tpu reapply ${tpu.name}    deletes it and creates it again`],
  );
}
