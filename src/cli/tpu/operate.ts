// Carries out an operation on a TPU: creates its job, or attaches to the one that does the same work already, and follows
// it. Ctrl-C only detaches, because the controller carries the job out.

import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { createStoreSource, storedJob } from '../../app/store-source.ts';
import { escapeLine, formatReasons } from '../../app/format.ts';
import {
  covers,
  buildOperationSpec,
  hasStarted,
  mayBeOperation,
  runningOperation,
  type Operation,
} from '../../lab/operation.ts';
import { persistentTpuSpec } from '../../lab/run-spec.ts';
import { siteSteps, wandbKeyIn, wandbSecret, wandbVariable } from '../../lab/site-setup.ts';
import type { FoundTpu } from '../../lab/tpu-operations.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import type { TpuOperation } from '../../core/model/spec.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { wakeController } from '../controller.ts';
import { verdictLine } from '../follow/verdict.ts';
import { outputRules, printJobLogs } from '../logs/print.ts';
import type { ClaimContext } from './claim-tpu.ts';
import type { TpuCli } from './command.ts';
import type { TpuContext } from './tpu-context.ts';

export interface OperationRequest {
  readonly operation: Operation;
  /** The zone that the cloud reports; empty if it is not known. */
  readonly zone: string;
  /** The TPU that exists before the operation. */
  readonly found?: FoundTpu | undefined;
  /** False: the caller or a later job prepares the workers. */
  readonly prepares: boolean;
}

interface RunningOperation {
  readonly view: JobView;
  readonly work: TpuOperation;
}

/** The unfinished operation on the TPU; null without one. With `wanted` also a `tpu run` that does this work first. */
export async function findOperation(
  client: Client,
  tpu: Pick<LabTpu, 'name'>,
  wanted?: TpuOperation,
): Promise<RunningOperation | null> {
  const { rows } = await client.list({});
  for (const { id, name, phase, backend } of rows) {
    const mayCreateFirst = wanted !== undefined && backend === 'tpu' && phase !== 'running';
    if (isFinishedPhase(phase) || !(mayCreateFirst || mayBeOperation(name, tpu.name))) continue;
    const view = await client.show(id);
    const work = runningOperation(view, tpu);
    if (work === null) continue;
    if (work.withCommand !== true || (wanted !== undefined && covers(work, wanted))) return { view, work };
  }
  return null;
}

/**
 * The job that already does what this operation is to do; null without one. Throws JobmanError (4) if another operation is
 * under way.
 */
async function findSameOperation(
  { cli, client, tpu }: { readonly cli: TpuCli; readonly client: Client; readonly tpu: LabTpu },
  wanted: TpuOperation,
): Promise<JobView | null> {
  const running = await findOperation(client, tpu, wanted);
  if (running === null) return null;
  const { id, name, owner } = running.view;
  if (!covers(running.work, wanted)) throw operationConflict(running.view, tpu);
  cli.note(`Job ${id} (${name}) of ${owner} does that already. Following it.`);
  if (wandbKeyIn(cli.io.env) !== null)
    cli.note(`It does not use the key in ${wandbVariable}. To log in with it: tpu set-wandb ${tpu.name}`);
  return running.view;
}

export function operationConflict({ id, name, owner }: JobView, tpu: LabTpu): JobmanError {
  return new JobmanError(
    `Job ${id} (${name}) of ${owner} is under way on ${tpu.name}. Nothing was changed.`,
    exitCode.conflict,
    nextSteps(id),
  );
}

function nextSteps(id: string): readonly string[] {
  return [`Explain: jobman why ${Number(id)} · End it: jobman cancel ${Number(id)}`];
}

/** A TPU after its operation. */
export interface PreparedTpu {
  readonly zone: string;
  /** False if the TPU is ready and its workers are not. */
  readonly isPrepared: boolean;
}

/** Follows the job that does this work already; without one, `begin` asks and begins it. */
export async function attachOr<Result>(
  context: TpuContext,
  work: TpuOperation,
  begin: () => Promise<Result>,
): Promise<PreparedTpu | Result> {
  const running = await findSameOperation(context, work);
  return running === null ? begin() : followOperation(context.cli, context, running.id);
}

export async function operate(
  cli: TpuCli,
  context: Pick<ClaimContext, 'client' | 'signal'>,
  tpu: LabTpu,
  request: OperationRequest,
): Promise<PreparedTpu> {
  return followOperation(cli, context, await beginOperation(cli, context.client, tpu, request));
}

/** Creates the job, or finds the one that another command has just created. Returns its id. */
async function beginOperation(
  cli: TpuCli,
  client: Client,
  tpu: LabTpu,
  { operation, zone, found, prepares }: OperationRequest,
): Promise<string> {
  const [site, project] = await Promise.all([cli.lab.site(), cli.lab.project()]);
  const capacity = persistentTpuSpec(tpu, site, { project, foundZone: zone === '' ? null : zone });
  const key = prepares ? wandbKeyIn(cli.io.env) : null;
  const steps = prepares ? siteSteps(site, capacity.zone, key !== null) : [];
  const of = { steps, spreadsheet: site.spreadsheet !== null, owner: found?.owner };
  const spec = buildOperationSpec(operation, capacity, of);
  const manifest = `# Created by: tpu ${operation.name} ${tpu.name}\n`;
  const secrets = key === null ? {} : { [wandbSecret.secret]: Buffer.from(key).toString('base64') };
  const answer = await client.create({ spec, manifest, secrets });
  if (answer.kind === 'created') {
    cli.note(`Job ${answer.id} (${spec.name}) runs in the background; Ctrl-C only detaches from it.`);
    await wakeController(cli, client);
    return answer.id;
  }
  // Another command was quicker.
  const same = await findSameOperation({ cli, client, tpu }, operation.work);
  if (same !== null) return same.id;
  throw new JobmanError(`Nothing was changed. ${formatReasons(answer.confirmation)}`, exitCode.conflict);
}

/**
 * Follows the job to the end of its operation. Throws JobmanError: (130) after Ctrl-C, otherwise if the TPU did not become
 * ready.
 */
export async function followOperation(
  cli: TpuCli,
  { client, signal }: Pick<ClaimContext, 'client' | 'signal'>,
  id: string,
): Promise<PreparedTpu> {
  const end = await printJobLogs(cli, createStoreSource(client, cli.io), storedJob(id), {
    query: { follow: true, after: 0 },
    rules: outputRules(cli),
    leave: signal,
    reportsPhases: true,
    omitsVerdict: true,
    until: hasStarted,
  });
  if ((end.kind !== 'finished' && end.kind !== 'reached') || end.view === null)
    throw new JobmanError(`Detached. Job ${id} continues.`, exitCode.interrupted, nextSteps(id));
  const { view } = end;
  const { phase, why } = view;
  const { capacity } = view.spec;
  const { zone, name } = capacity.kind === 'tpu' ? capacity : { zone: '', name: '' };
  // The job has stored the change of the booking.
  const { late } = await (await cli.lab.sheet()).deliver();
  for (const one of late) if (one.tpu === name) cli.note(escapeLine(one.message));
  const isPrepared = phase === 'succeeded' || hasStarted(view);
  if (isPrepared || hasOnlySetupFailed(view)) return { zone, isPrepared };
  throw new JobmanError(verdictLine(view), exitCode.failed, why.evidence === null ? [] : [why.evidence]);
}

/** The TPU is ready, and only its workers are not prepared. */
function hasOnlySetupFailed({ phase, attempts }: JobView): boolean {
  const reason = attempts.at(-1)?.reason;
  return phase === 'failed' && (reason === 'setup_failed' || reason === 'unreachable');
}
