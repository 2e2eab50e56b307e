// Take: a TPU is made ready for a job. One question tells who uses it and what would be done; nothing is changed before the
// answer. Also: ending jobs and programs, which taking and `tpu kill` share.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { capital, inertWord } from '../../app/figures.ts';
import { minute, second } from '../../core/time.ts';
import { foldersOf } from '../../lab/attempt.ts';
import {
  bookingsNow,
  holderSentences,
  holdersNow,
  type Holds,
  holdSentences,
  jobsOn,
  type JobThere,
  othersBooking,
} from '../../lab/holds.ts';
import type { LabUser } from '../../lab/people.ts';
import type { EndAnswer, EndRequest, TpuDesk } from '../../lab/tpu-desk.ts';
import { type LabTpu, shortName, tpuNamed } from '../../lab/tpus.ts';
import { type Booking } from '../../lab/bookings.ts';
import { wake } from '../controller.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { bookExistence } from './begin-job.ts';
import type { TpuCli } from './command.ts';
import { canAsk, saysYes } from './terminal.ts';

/** Time between SIGTERM and SIGKILL for a program on a worker. */
const graceOnWorkers = 5 * second;

export interface TakeRequest {
  readonly tpu: LabTpu;
  readonly user: LabUser;
  readonly by: string;
  /** Said already: it may be made anew; it may be taken from whoever uses it. */
  readonly apply: boolean;
  readonly force: boolean;
  /** The job that is to go on there, which is in nobody's way. */
  readonly job?: string;
  /** Further effects to agree to, as sentences without full stops. */
  readonly also?: readonly string[];
}

export interface TakeParts {
  readonly client: Client;
  readonly tpus: TpuDesk;
  readonly signal: AbortSignal;
}

/** Opens the client and the TPUs for one command and closes the TPUs; Ctrl-C aborts the signal. */
export async function withParts(desk: TpuCli, work: (parts: TakeParts) => Promise<number>): Promise<number> {
  const client = await desk.services.client();
  return withTpus(desk, await desk.lab.tpus(desk.note), (tpus, signal) => work({ client, tpus, signal }));
}

/** Closes the TPUs after the work. Ctrl-C aborts the signal; a second one ends the program. */
export async function withTpus(
  desk: TpuCli,
  tpus: TpuDesk,
  work: (tpus: TpuDesk, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const { signal, release } = leaveOnSignal(desk);
  try {
    return await work(tpus, signal);
  } finally {
    release();
    tpus.close();
  }
}

export interface Taking {
  /** Null if it does not exist yet. */
  readonly zone: string | null;
  /** The jobs of the lab that were known when it was looked. */
  readonly known: ReadonlySet<string>;
  readonly booking: Booking | null;
  /** Ends what was agreed to be ended and makes it anew where that is needed. The first that changes anything. */
  prepare(): Promise<void>;
}

type Making = 'apply' | 'reapply' | null;

/**
 * Asks what has to be asked. Throws JobmanError: (4) where its state passes by itself, or it is in use and nobody said yes; (5)
 * where the cloud does not answer; (2) where nobody can be asked whether it may be created again; (1) when the answer is no.
 */
export async function takeTpu(desk: TpuCli, parts: TakeParts, request: TakeRequest): Promise<Taking> {
  const { client, tpus, signal } = parts;
  const { tpu, user, by, also = [] } = request;
  const called = shortName(tpu.name, (await desk.lab.site()).namePrefix);
  const [state, { jobs, others, known }, sheet] = await Promise.all([
    tpus.describe(tpu),
    jobsOn(client, desk.lab.record, tpu.name, request.job),
    bookingsNow(() => desk.lab.sheet()),
  ]);
  if (state.kind === 'unknown')
    throw new JobmanError(`How ${tpu.name} is cannot be told now; nothing was begun.`, exitCode.unreachable, [
      state.says,
      `tpu describe ${tpu.name}    asks again`,
    ]);
  const seen = state;
  const making = makingOf(seen.state, called);
  const ours = [...jobs.map(jobId), ...(request.job === undefined ? [] : [request.job])];
  const folders = await foldersThere(desk, tpu, ours);
  const devices = making === null ? await holdersNow(tpus, tpu, folders, signal) : { holders: [], says: [] };
  for (const sentence of [...sheet.says, ...devices.says]) desk.note(inertWord(sentence));
  const holds: Holds = {
    jobs,
    others,
    booking: othersBooking(sheet.bookings, tpu.name, user),
    holders: devices.holders,
  };
  // It does not begin with the name, which has no capital letter.
  const makingSentence =
    making === 'apply'
      ? `the cloud has no ${called}, and it would be made`
      : `the cloud calls ${called} ${seen.state}, and it would be made anew`;
  await agree(desk, signal, request, {
    making: making === null ? [] : [makingSentence],
    use: [...holdSentences(holds, called), ...whatEnds(holds)],
    also,
  });
  return {
    zone: seen.state === 'absent' ? null : seen.zone,
    known,
    booking: sheet.bookings.find((one) => one.tpu === tpu.name) ?? null,
    async prepare() {
      const say = (line: string): void => desk.note(line);
      const jobs = [...holds.jobs.map(jobId), ...holds.others.map(({ id }) => id)];
      await endJobs(desk, client, jobs, { by, signal });
      if (making !== null) {
        await tpus[making](tpu, say, signal);
        await bookExistence(desk, tpu.name, 'free', say);
        return;
      }
      const left = await foldersThere(desk, tpu, holds.jobs.map(jobId));
      await endOnWorkers(desk, tpus, tpu, { folders: left, pids: holds.holders }, signal);
    },
  };
}

function makingOf(state: string, called: string): Making {
  switch (state) {
    case 'ready':
      return null;
    case 'absent':
      return 'apply';
    case 'preempted':
    case 'terminated':
    case 'suspended':
    case 'failed':
      return 'reapply';
    case 'stopped':
      throw new JobmanError(`${called} is stopped, so nothing can run there.`, exitCode.conflict, [
        `tpu restart ${called}    starts it`,
      ]);
    default:
      throw new JobmanError(`${called} is ${state}, so nothing can run there now.`, exitCode.conflict, [
        `tpu check-status ${called}    says when it is ready`,
      ]);
  }
}

function whatEnds({ jobs, others, holders }: Holds): readonly string[] {
  const count = jobs.length + others.length;
  const what = [
    ...(count === 0 ? [] : [count === 1 ? 'that job' : 'those jobs']),
    ...(holders.length === 0 ? [] : [holders.length === 1 ? 'that process' : 'those processes']),
  ];
  return what.length === 0 ? [] : [`${what.join(' and ')} would be ended`];
}

/** Asks once about all that nobody has said yes to yet. */
async function agree(
  desk: TpuCli,
  signal: AbortSignal,
  { apply, force }: Pick<TakeRequest, 'apply' | 'force'>,
  concerns: { readonly making: readonly string[]; readonly use: readonly string[]; readonly also: readonly string[] },
): Promise<void> {
  if (desk.yes) return;
  const making = apply ? [] : concerns.making;
  const use = force ? [] : concerns.use;
  const sentences = [...use, ...making, ...concerns.also];
  if (sentences.length === 0) return;
  const text = sentences.map((sentence) => `${capital(sentence)}.`);
  const code = use.length > 0 ? exitCode.conflict : exitCode.usage;
  if (!canAsk(desk)) {
    const flags = [
      ...(use.length > 0 ? ['-f takes it all the same'] : []),
      ...(making.length > 0 ? ['-apply makes it'] : []),
    ];
    const [first = '', ...rest] = text;
    throw new JobmanError(`Nothing was begun. ${first}`, code, [
      ...rest,
      `${[...flags, '--yes says yes to all'].join('; ')}.`,
    ]);
  }
  // Notes of a sheet and command lines of programs are other people's words.
  for (const line of text) desk.complain(inertWord(line));
  desk.io.stderr.write('Go on? [y/N] ');
  if (await saysYes(desk)) return;
  if (signal.aborted) throw new JobmanError('Nothing was begun.', exitCode.interrupted);
  throw new JobmanError('Nothing was begun.', use.length > 0 ? exitCode.conflict : exitCode.failed);
}

/** The TPU from the registry, else from what its name says. Throws JobmanError (3) if neither knows it. */
export async function labTpuOf(desk: TpuCli, name: string): Promise<LabTpu> {
  const found = (await desk.lab.record.tpus()).find((one) => one.name === name) ?? tpuNamed(name);
  if (found !== null) return found;
  throw new JobmanError(`The registry has no TPU ${name} any more.`, exitCode.notFound, [
    `tpu register ${name} zone=ZONE type=v2-32    adds it`,
  ]);
}

export async function foldersThere(
  desk: TpuCli,
  tpu: Pick<LabTpu, 'name'>,
  jobs: readonly string[],
): Promise<readonly string[]> {
  if (jobs.length === 0) return [];
  return foldersOf(await desk.lab.record.windows({ jobs, cleared: true }), tpu.name);
}

export function jobId({ job }: JobThere): string {
  return job.job;
}

/** By the folders on their command lines, on every worker; and by their numbers, each on its own. */
type ToEnd = Pick<EndRequest, 'folders' | 'pids'>;

/**
 * Ends programs on the workers and notes who did not answer, which it resolves with. Throws JobmanError (1) where something
 * stays.
 */
export async function endOnWorkers(
  desk: TpuCli,
  tpus: TpuDesk,
  tpu: LabTpu,
  what: ToEnd,
  signal: AbortSignal,
): Promise<EndAnswer['missed']> {
  if (what.folders.length === 0 && what.pids.length === 0) return [];
  const missed = await endWhereHeard(desk, tpus, tpu, what, signal);
  for (const { worker, says } of missed)
    desk.note(`Worker ${worker} of ${tpu.name} does not answer: ${inertWord(says)}`);
  return missed;
}

/** As endOnWorkers, without the notes about silent workers. */
export async function endWhereHeard(
  desk: TpuCli,
  tpus: TpuDesk,
  tpu: LabTpu,
  what: ToEnd,
  signal: AbortSignal,
): Promise<EndAnswer['missed']> {
  const { ended, left, missed } = await tpus.end(tpu, { ...what, graceMs: graceOnWorkers }, signal);
  if (ended.length > 0) {
    const workers = new Set(ended.map(({ worker }) => worker)).size;
    desk.note(
      `Ended ${ended.length === 1 ? 'a process' : `${ended.length} processes`} on ${workers === 1 ? 'a worker' : `${workers} workers`} of ${tpu.name}.`,
    );
  }
  if (left.length === 0) return missed;
  throw new JobmanError(`Not everything on ${tpu.name} could be ended.`, exitCode.failed, holderSentences(left));
}

/** The script of a job has a minute to end; then it is killed. */
const endWithin = 2 * minute;
const lookEvery = 0.25 * second;

/**
 * Cancels those jobs in the name of `by` and resolves when all are finished. Throws JobmanError: what a job refuses; (1) where
 * one takes too long; (130) when the signal is aborted.
 */
export async function endJobs(
  desk: TpuCli,
  client: Client,
  jobs: readonly string[],
  { by, signal }: { readonly by: string; readonly signal: AbortSignal },
): Promise<void> {
  if (jobs.length === 0) return;
  for (const job of jobs) {
    const answer = await client.ask(job, 'cancel', { by, onBehalf: true });
    // It may have come to its end by itself in this moment; then there is nothing to end.
    if (!answer.ok && !(await isOver(client, job))) throw new JobmanError(answer.message, answer.code);
  }
  await wake(desk, client);
  await untilSettled(desk, client, jobs, signal);
}

async function isOver(client: Client, job: string): Promise<boolean> {
  return isSettledPhase((await client.show(job)).phase);
}

async function untilSettled(desk: TpuCli, client: Client, jobs: readonly string[], signal: AbortSignal): Promise<void> {
  const { io } = desk;
  const end = io.now() + endWithin;
  let changes = -1;
  let open = jobs;
  for (;;) {
    const now = await client.changes();
    if (now !== changes) {
      changes = now;
      const over = await Promise.all(open.map((job) => isOver(client, job)));
      open = open.filter((_, index) => over[index] !== true);
    }
    if (open.length === 0) return;
    if (signal.aborted)
      throw new JobmanError(
        `You left before job ${open.join(', ')} has ended; it goes on ending.`,
        exitCode.interrupted,
      );
    if (io.now() > end)
      throw new JobmanError(`Job ${open.join(', ')} has not ended within two minutes.`, exitCode.failed, [
        `jobman why ${Number(open[0])}    says what it waits for`,
      ]);
    await pause(lookEvery, signal);
  }
}
