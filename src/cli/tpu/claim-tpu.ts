// Claims a TPU for a job: one question lists its uses and the planned effects, and nothing changes before the answer.
// Also ends jobs and programs, for claims and for `tpu kill`.

import type { Client, JobRow } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { escapeLine, pluralize } from '../../app/format.ts';
import { minute, second } from '../../core/model/time.ts';
import { runFolders } from '../../lab/attempt-plan.ts';
import {
  readBookings,
  formatHolders,
  readHolders,
  type TpuUsage,
  readJobsByTpu,
  type JobOnTpu,
  othersBooking,
} from '../../lab/tpu-usage.ts';
import type { DeviceHolder } from '../../app/lab-job.ts';
import type { LabJob } from '../../lab/lab-store.ts';
import type { LabUser } from '../../lab/users.ts';
import { claimQuestion, operationFor } from '../../lab/claim.ts';
import { covers } from '../../lab/operation.ts';
import { type EndResult, type EndRequest, type TpuOperations } from '../../lab/tpu-operations.ts';
import { type LabTpu, shortName, tpuFromName } from '../../lab/tpus.ts';
import { type Booking } from '../../lab/bookings.ts';
import { wakeController } from '../controller.ts';
import { jobUpdates } from '../../app/job-updates.ts';
import { confirm } from '../prompt.ts';
import { abortOnSignal } from '../interrupt.ts';
import type { TpuOperation } from '../../core/model/spec.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { findOperation, followOperation, operationConflict } from './operate.ts';
import { clientNaming } from './resolve-user.ts';
import type { TpuCli } from './command.ts';

const graceOnWorkers = 5 * second;

export interface ClaimRequest {
  readonly tpu: LabTpu;
  readonly user: LabUser;
  /** Consent given by flags: `apply` to create the TPU, `force` to take it from its users. */
  readonly apply: boolean;
  readonly force: boolean;
  /** The job that continues on this TPU. It does not count as a use. */
  readonly job?: string;
  /** More effects that need consent: sentences without full stops. */
  readonly otherEffects?: readonly string[];
}

export interface ClaimContext {
  readonly client: Client;
  readonly tpus: TpuOperations;
  readonly signal: AbortSignal;
}

/**
 * Opens the TPU operations, and the client of the user who types; `named` is the user on the line. The first Ctrl-C
 * aborts the signal, the second ends the program.
 */
export async function withTpus(
  cli: TpuCli,
  named: LabUser | null,
  work: (context: ClaimContext) => Promise<number>,
): Promise<number> {
  const client = await clientNaming(cli, named?.name ?? null);
  const tpus = await cli.lab.tpus(cli.note);
  const { signal, release } = abortOnSignal(cli);
  try {
    return await work({ client, tpus, signal });
  } finally {
    release();
    tpus.close();
  }
}

/** All uses of the TPU, except by the job `without` and the booking of `user` (null: every booking counts). */
export async function readUsage(
  cli: TpuCli,
  { client, tpus, signal }: ClaimContext,
  tpu: LabTpu,
  of: {
    readonly user: LabUser | null;
    readonly hasWorkers: boolean;
    readonly without?: string | undefined;
    /** The bookings, if they are read already. */
    readonly sheet?: Awaited<ReturnType<typeof readBookings>>;
  },
): Promise<{
  readonly usage: TpuUsage;
  readonly booking: Booking | null;
  /** Sentences about a sheet, and about workers, that did not answer. */
  readonly sheetWarnings: readonly string[];
  readonly workerWarnings: readonly string[];
}> {
  const { user, hasWorkers, without } = of;
  const [jobsByTpu, sheet] = await Promise.all([
    readJobsByTpu(client, cli.lab.store),
    of.sheet ?? readBookings(() => cli.lab.sheet()),
  ]);
  const { jobs, otherJobs } = jobsByTpu.on(tpu.name, without);
  const folders = await runFoldersOn(cli, tpu, [...jobs.map(jobId), ...(without === undefined ? [] : [without])]);
  const none = { holders: [], warnings: [] };
  const { holders, warnings } = hasWorkers ? await readHolders(tpus, tpu, folders, signal) : none;
  return {
    usage: { jobs, otherJobs, booking: othersBooking(sheet.bookings, tpu.name, user), holders },
    booking: sheet.bookings.find((one) => one.tpu === tpu.name) ?? null,
    sheetWarnings: [...sheet.warnings, ...sheet.late.flatMap((one) => (one.tpu === tpu.name ? [one.message] : []))],
    workerWarnings: warnings,
  };
}

export interface TpuClaim {
  /** Null if the TPU does not exist. */
  readonly zone: string | null;
  /** The jobs to end when the new one is stored. A later job on the TPU is a conflict. */
  readonly replaces: readonly string[];
  /** Programs that belong to no job. The script of the new job ends them first. */
  readonly foreignPrograms: readonly DeviceHolder[];
  readonly booking: Booking | null;
  /** The work with which the new job creates its TPU, and the owner in the metadata of the old one. Null: it is ready. */
  readonly creates: { readonly work: TpuOperation; readonly owner: string | undefined } | null;
}

/**
 * Asks for missing consent. Throws JobmanError: (4) if the TPU is stopped or changing, or without consent; (5) if the
 * cloud does not answer; (1) if the TPU would be created and the answer is no; (130) after Ctrl-C.
 */
export async function claimTpu(cli: TpuCli, parts: ClaimContext, request: ClaimRequest): Promise<TpuClaim> {
  const { tpus, signal } = parts;
  const { tpu, user, otherEffects = [] } = request;
  const called = shortName(tpu.name, (await cli.lab.site()).namePrefix);
  let state = await tpus.describe(tpu);
  if (await waitForOperation(cli, parts, request, called)) state = await tpus.describe(tpu);
  if (state.kind === 'unknown')
    throw new JobmanError(`The state of ${tpu.name} is unknown. Nothing was started.`, exitCode.unreachable, [
      state.message,
      `tpu describe ${tpu.name}    checks it again`,
    ]);
  const operation = operationFor(tpu, state, called);
  const found = await readUsage(cli, parts, tpu, { user, hasWorkers: operation === null, without: request.job });
  const { usage, booking, sheetWarnings, workerWarnings } = found;
  for (const sentence of [...sheetWarnings, ...workerWarnings]) cli.note(escapeLine(sentence));
  const question = claimQuestion({ usage, operation, state: state.state, called, agreed: request, otherEffects });
  const { reasons, flags, takesTpu } = question;
  const text = reasons.join(' ');
  const refused = ['Nothing was started.', text, ...flags].join(' ');
  if (reasons.length > 0 && !(await confirm(cli, `${text} Continue?`, refused, reasons))) {
    const refusal = takesTpu ? exitCode.conflict : exitCode.failed;
    throw new JobmanError('Nothing was started.', signal.aborted ? exitCode.interrupted : refusal);
  }
  const replaces = [...usage.jobs.map(({ row }) => row), ...usage.otherJobs].map(({ id }) => id);
  return {
    zone: state.state === 'absent' ? null : state.zone,
    replaces,
    foreignPrograms: usage.holders,
    booking,
    creates: operation && { work: { ...operation.work, withCommand: true }, owner: state.found?.owner },
  };
}

/**
 * A run may begin while the workers are prepared. It waits for an operation that creates its TPU, and for no other. True if
 * it has waited.
 */
async function waitForOperation(
  cli: TpuCli,
  parts: ClaimContext,
  request: ClaimRequest,
  called: string,
): Promise<boolean> {
  const running = await findOperation(parts.client, request.tpu);
  if (running === null || running.work.kind === 'prepare') return false;
  const { view, work } = running;
  const { id, name, owner } = view;
  const conflict = operationConflict(view, request.tpu);
  const question = `Job ${id} (${name}) of ${owner} is creating ${called}. Start once it is ready?`;
  const waits = covers(work, { kind: 'create' }) && (request.apply || (await confirm(cli, question, conflict.message)));
  if (!waits) throw conflict;
  cli.note(`Job ${id} (${name}) of ${owner} is creating ${called}. Following it.`);
  await followOperation(cli, parts, id);
  return true;
}

/** Finds the TPU in the registry, or derives it from its name. Throws JobmanError (3) if neither is possible. */
export async function resolveTpu(cli: TpuCli, name: string): Promise<LabTpu> {
  const found = (await cli.lab.store.tpus()).find((one) => one.name === name) ?? tpuFromName(name);
  if (found !== null) return found;
  throw new JobmanError(`The registry has no TPU ${name}.`, exitCode.notFound, [
    `tpu register ${name} zone=ZONE type=v2-32    adds it`,
  ]);
}

export async function runFoldersOn(
  cli: TpuCli,
  tpu: Pick<LabTpu, 'name'>,
  jobs: readonly string[],
): Promise<readonly string[]> {
  if (jobs.length === 0) return [];
  return runFolders(await cli.lab.store.windows({ jobs, cleared: true }), tpu.name);
}

function jobId({ job }: JobOnTpu): string {
  return job.job;
}

/** Ends these programs and returns the workers that do not answer. Throws JobmanError (1) if a program survives. */
export async function endOnWorkers(
  cli: TpuCli,
  tpus: TpuOperations,
  tpu: LabTpu,
  what: Pick<EndRequest, 'folders' | 'pids'>,
  signal: AbortSignal,
  report = cli.note,
): Promise<EndResult['unreachable']> {
  if (what.folders.length === 0 && what.pids.length === 0) return [];
  const { ended, left, unreachable } = await tpus.endPrograms(tpu, { ...what, graceMs: graceOnWorkers }, signal);
  if (ended.length > 0) {
    const workers = new Set(ended.map(({ worker }) => worker)).size;
    cli.note(
      `Ended ${pluralize(ended.length, 'process', 'processes')} on ${pluralize(workers, 'worker')} of ${tpu.name}.`,
    );
  }
  if (left.length > 0)
    throw new JobmanError(`Some processes on ${tpu.name} did not end.`, exitCode.failed, formatHolders(left));
  for (const { worker, message } of unreachable)
    report(`Worker ${worker} of ${tpu.name} does not answer: ${escapeLine(message)}`);
  return unreachable;
}

/** A job's script has one minute to end before it is killed. */
const endTimeout = 2 * minute;

type JobToEnd = Pick<JobRow, 'id' | 'owner'>;

export function toEnd({ job, user }: LabJob): JobToEnd {
  return { id: job, owner: user };
}

/**
 * Cancels the jobs with one request in the names of their owners, to which the user has agreed, and waits. Throws
 * JobmanError: a refusal, (1) after the timeout, (130) on the signal.
 */
export async function endJobs(
  cli: TpuCli,
  { client, signal }: Pick<ClaimContext, 'client' | 'signal'>,
  jobs: readonly JobToEnd[],
): Promise<void> {
  if (jobs.length === 0) return;
  for (const [index, { id, owner }] of jobs.entries()) {
    const replaces = jobs.slice(index + 1).map((other) => other.id);
    const answer = await client.sendCommand(id, 'cancel', { onBehalfOf: owner ?? '', replaces });
    if (answer.ok) break;
    // The job may have finished by itself meanwhile. Then the request begins with the next one.
    if (!(await isFinished(client, id))) throw new JobmanError(answer.message, answer.exitCode);
  }
  await wakeController(cli, client);
  await waitUntilFinished(cli, client, jobs, signal);
}

async function isFinished(client: Client, job: string): Promise<boolean> {
  return isFinishedPhase((await client.show(job)).phase);
}

async function waitUntilFinished(
  cli: TpuCli,
  client: Client,
  jobs: readonly JobToEnd[],
  signal: AbortSignal,
): Promise<void> {
  const end = cli.io.now() + endTimeout;
  const open = new Set(jobs.map(({ id }) => id));
  for await (const updates of jobUpdates(client, open, cli.io, signal)) {
    for (const { id, view } of updates) if (view === null || isFinishedPhase(view.phase)) open.delete(id);
    if (open.size === 0) return;
    const left = [...open];
    if (signal.aborted)
      throw new JobmanError(`Interrupted. Job ${left.join(', ')} is still being cancelled.`, exitCode.interrupted);
    if (cli.io.now() > end)
      throw new JobmanError(`Job ${left.join(', ')} did not end within two minutes.`, exitCode.failed, [
        `jobman why ${Number(left[0])}    shows the reason`,
      ]);
  }
}
