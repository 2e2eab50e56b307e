// At the desk of the TPUs: what every command that does something with a TPU itself shares. Ctrl-C ends it with the words of what
// stands; a second one ends the program.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { capital } from '../../app/reason-words.ts';
import { mountRemedy, sharesOf, wandbRemedy, wandbVariable } from '../../lab/mount-step.ts';
import type { Remedy } from '../../lab/mount-step.ts';
import { bookingsNow, holdersNow, holdSentences, jobsOn, othersBooking } from '../../lab/holds.ts';
import type { Site } from '../../lab/site.ts';
import type { Say, TpuDesk, WorkerAnswer } from '../../lab/tpu-desk.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { wandbKey } from '../../lab/wandb-key.ts';
import { minute } from '../../core/time.ts';
import type { Duration } from '../../core/time.ts';
import { leaveOnSignal } from '../leave.ts';
import { confirm } from '../prompt.ts';
import { inertWord } from '../render/inert.ts';
import { typing } from './people.ts';
import type { TpuCli } from './tpu-cli.ts';

export interface AtDesk {
  readonly cli: TpuCli;
  readonly tpus: TpuDesk;
  readonly site: Site;
  readonly signal: AbortSignal;
  /** Progress, on standard error. */
  readonly say: Say;
}

/** Opens the desk for one command and closes it. */
export async function atDesk(cli: TpuCli, work: (at: AtDesk) => Promise<number>): Promise<number> {
  const site = await cli.lab.site();
  const typist = typing(cli, await cli.lab.record.users());
  const tpus = await cli.lab.tpus(cli.note, typist?.name ?? cli.io.user);
  const leave = leaveOnSignal(cli);
  try {
    return await work({ cli, tpus, site, signal: leave.signal, say: (line) => cli.note(inertWord(line)) });
  } finally {
    leave.release();
    tpus.close();
  }
}

/** A sentence for each who uses the TPU, by the record and, where it has workers, by its devices; and what could not be asked. */
export async function usesOf(
  { cli, tpus, signal }: AtDesk,
  tpu: LabTpu,
  hasWorkers: boolean,
): Promise<{ readonly uses: readonly string[]; readonly says: readonly string[] }> {
  const client = await cli.services.client();
  const { jobs, others } = await jobsOn(client, cli.lab.record, tpu.name);
  const folders = await foldersOf(
    cli,
    jobs.map(({ job }) => job.job),
  );
  const found = hasWorkers ? await holdersNow(tpus, tpu, folders, signal) : { holders: [], says: [] };
  return { uses: holdSentences({ jobs, others, booking: null, holders: found.holders }, tpu.name), says: found.says };
}

async function foldersOf({ lab }: TpuCli, jobs: readonly string[]): Promise<readonly string[]> {
  if (jobs.length === 0) return [];
  const windows = await lab.record.windows({ jobs });
  return windows.flatMap(({ window: { report } }) => (report === null ? [] : [report.logFolder, report.stageFolder]));
}

/** One question about all who use it; true when nobody does, or when they do not count. A worker that does not answer is not free. */
export async function confirmUse(at: AtDesk, tpu: LabTpu, hasWorkers: boolean, what: string): Promise<boolean> {
  const all = await concernsOf(at, tpu, hasWorkers);
  if (all.length === 0) return true;
  const list = inertWord(capital(all.join('; ')));
  const isAgreed = await confirm(at.cli, `${list}. ${what} all the same?`, `${list}.`);
  if (!isAgreed && at.signal.aborted)
    throw new JobmanError(`Interrupted: ${tpu.name} was left as it is.`, exitCode.interrupted);
  return isAgreed;
}

/** A sentence for each reason against changing that TPU: its uses, another person's booking, workers that do not answer. */
export async function concernsOf(at: AtDesk, tpu: LabTpu, hasWorkers: boolean): Promise<readonly string[]> {
  const [{ uses, says }, booked] = await Promise.all([usesOf(at, tpu, hasWorkers), othersBookings(at, tpu)]);
  return [...uses, ...booked, ...says];
}

/**
 * A sentence where the booking sheet has another person's booking of it. On a shared login without a named user every booking may be
 * another person's.
 */
async function othersBookings({ cli, say }: AtDesk, tpu: LabTpu): Promise<readonly string[]> {
  const typist = typing(cli, await cli.lab.record.users());
  const { bookings, says } = await bookingsNow(() => cli.lab.sheet());
  for (const line of says) say(line);
  const booking = othersBooking(bookings, tpu.name, typist);
  return holdSentences({ jobs: [], others: [], booking, holders: [] }, tpu.name);
}

/** The site's setup for workers of that zone: its shares, and a login to W&B. Empty if it has neither. */
export async function siteRemedies({ cli, site }: AtDesk, zone: string): Promise<readonly SiteRemedy[]> {
  const mount = mountRemedy(sharesOf(site, zone));
  const key = await wandbKey(site, cli.io.env);
  return [
    ...(mount === null ? [] : [{ name: 'shares', remedy: mount, secrets: {}, within: 15 * minute }]),
    ...(key === null ? [] : [wandbOf(key)]),
  ];
}

export interface SiteRemedy {
  readonly name: string;
  readonly remedy: Remedy;
  readonly secrets: Readonly<Record<string, string>>;
  readonly within: Duration;
}

export function wandbOf(key: string): SiteRemedy {
  return { name: 'W&B', remedy: wandbRemedy, secrets: { [wandbVariable]: key }, within: 2 * minute };
}

/** Makes it hold on every worker, side by side. True when it does; what went wrong is said, worker by worker. */
export async function applyRemedy(
  at: AtDesk,
  tpu: LabTpu,
  { name, remedy, secrets, within }: SiteRemedy,
): Promise<boolean> {
  const { tpus, signal, cli } = at;
  // The check is much cheaper than the apply.
  const script = `if (\n${remedy.check}\n) >/dev/null 2>&1; then echo 'holds already'; exit 0; fi\n(\n${remedy.apply}\n) 2>&1\n`;
  const answers = await tpus.onWorkers(tpu, script, { timeoutMs: within, signal, secrets });
  const failed = answers.filter((answer) => answer.kind === 'no_answer' || answer.code !== 0);
  const done = answers.length - failed.length;
  for (const answer of failed) cli.complain(`worker ${answer.worker}: ${inertWord(wordsOf(answer))}`);
  at.say(
    `${name}: ${failed.length === 0 ? 'as they should be' : `${done} of ${answers.length}`} on ${count(answers.length)}`,
  );
  return failed.length === 0;
}

function wordsOf(answer: WorkerAnswer): string {
  if (answer.kind === 'no_answer') return answer.says;
  return answer.output.trim().split('\n').slice(-3).join(' | ') || `its shell ended with ${answer.code}`;
}

function count(workers: number): string {
  return workers === 1 ? '1 worker' : `${workers} workers`;
}

/** Mounts the shares and logs in, as far as the site has such; the exit code. */
export async function prepare(at: AtDesk, tpu: LabTpu, zone: string): Promise<number> {
  let isWell = true;
  for (const remedy of await siteRemedies(at, zone)) isWell = (await applyRemedy(at, tpu, remedy)) && isWell;
  return isWell ? exitCode.ok : exitCode.failed;
}

/** The registry's TPU with the zone that it was found in, which the registry keeps from then on. */
export async function rememberZone({ lab }: TpuCli, tpu: LabTpu, zone: string): Promise<void> {
  if (tpu.zone !== null || zone === '') return;
  await lab.record.changeTpu(tpu.name, (now) => (now === null ? null : { ...now, zone: now.zone ?? zone }));
}

/** The cloud did not say how it is. */
export function unknownState({ name }: LabTpu, says: string): JobmanError {
  return new JobmanError(`How ${name} is cannot be told now.`, exitCode.unreachable, [says]);
}
