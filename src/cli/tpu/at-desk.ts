// Shared parts of the commands that change or examine a TPU itself. Ctrl-C ends them with a sentence about what remains; a second
// one ends the program.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText, capital, inertWord } from '../../app/figures.ts';
import { mountRemedy, type Remedy, sharesOf, wandbKey, wandbRemedy, wandbVariable } from '../../lab/site-setup.ts';
import { bookingsNow, holdersNow, holdSentences, jobsOn, othersBooking } from '../../lab/holds.ts';
import type { Site } from '../../lab/site.ts';
import type { KnownState, Say, TpuDesk, TpuState, WorkerAnswer } from '../../lab/tpu-desk.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { minute, type Duration } from '../../core/time.ts';
import { typing } from './people.ts';
import { confirmDespite } from './terminal.ts';
import { foldersThere, jobId, withTpus } from './take.ts';
import { type TpuCli, tpuOf, type Words } from './command.ts';

export interface AtDesk {
  readonly cli: TpuCli;
  readonly tpu: LabTpu;
  readonly tpus: TpuDesk;
  readonly site: Site;
  readonly signal: AbortSignal;
  /** Progress, on standard error. */
  readonly say: Say;
}

/** Opens the desk for one command and closes it. */
export async function atDesk(cli: TpuCli, words: Words, work: (at: AtDesk) => Promise<number>): Promise<number> {
  const tpu = tpuOf(words);
  const site = await cli.lab.site();
  const typist = typing(cli, await cli.lab.record.users());
  const opened = await cli.lab.tpus(cli.note, typist?.name ?? cli.io.user);
  return withTpus(cli, opened, (tpus, signal) =>
    work({ cli, tpu, tpus, site, signal, say: (line) => cli.note(inertWord(line)) }),
  );
}

/** The state of the TPU. Throws JobmanError (5) where the cloud does not say. */
export async function stateNow({ tpu, tpus }: AtDesk): Promise<KnownState> {
  return known(tpu, await tpus.describe(tpu));
}

export function known({ name }: LabTpu, state: TpuState): KnownState {
  if (state.kind === 'known') return state;
  throw new JobmanError(`How ${name} is cannot be told now.`, exitCode.unreachable, [state.says]);
}

/** A sentence for each who uses the TPU, by the record and, where it has workers, by its devices; and what could not be asked. */
export async function usesOf(
  { cli, tpu, tpus, signal }: AtDesk,
  hasWorkers: boolean,
): Promise<{ readonly uses: readonly string[]; readonly says: readonly string[] }> {
  const { jobs, others } = await jobsOn(await cli.services.client(), cli.lab.record, tpu.name);
  const folders = await foldersThere(cli, tpu, jobs.map(jobId));
  const { holders, says } = hasWorkers ? await holdersNow(tpus, tpu, folders, signal) : { holders: [], says: [] };
  return { uses: holdSentences({ jobs, others, holders }, tpu.name), says };
}

/** One question about all who use it; true when nobody does, or when they do not count. A worker that does not answer is not free. */
export async function confirmUse(at: AtDesk, hasWorkers: boolean, what: string): Promise<boolean> {
  const all = await concernsOf(at, hasWorkers);
  if (all.length === 0) return true;
  const isAgreed = await confirmDespite(at.cli, inertWord(`${capital(all.join('; '))}.`), `${what} all the same?`);
  if (!isAgreed && at.signal.aborted)
    throw new JobmanError(`Interrupted: ${at.tpu.name} was left as it is.`, exitCode.interrupted);
  return isAgreed;
}

/** A sentence for each reason against changing that TPU: its uses, another person's booking, workers that do not answer. */
export async function concernsOf(at: AtDesk, hasWorkers: boolean): Promise<readonly string[]> {
  const [{ uses, says }, booked] = await Promise.all([usesOf(at, hasWorkers), othersBookings(at)]);
  return [...uses, ...booked, ...says];
}

/** On a shared login without a named user every booking may be another person's. */
async function othersBookings({ cli, tpu, say }: AtDesk): Promise<readonly string[]> {
  const typist = typing(cli, await cli.lab.record.users());
  const { bookings, says } = await bookingsNow(() => cli.lab.sheet());
  for (const line of says) say(line);
  return holdSentences({ booking: othersBooking(bookings, tpu.name, typist) }, tpu.name);
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

export async function applyRemedies(at: AtDesk, remedies: readonly SiteRemedy[]): Promise<boolean> {
  let isWell = true;
  for (const remedy of remedies) isWell = (await applyRemedy(at, remedy)) && isWell;
  return isWell;
}

async function applyRemedy({ cli, tpu, tpus, signal, say }: AtDesk, given: SiteRemedy): Promise<boolean> {
  const { name, remedy, secrets, within } = given;
  // A remedy that holds already costs one short script.
  const script = `if (\n${remedy.check}\n) >/dev/null 2>&1; then echo 'holds already'; exit 0; fi\n(\n${remedy.apply}\n) 2>&1\n`;
  const answers = await tpus.onWorkers(tpu, script, { timeoutMs: within, signal, secrets });
  const failed = answers.filter(hasFailed);
  for (const answer of failed) cli.complain(`worker ${answer.worker}: ${inertWord(wordsOf(answer))}`);
  const how = failed.length === 0 ? 'as they should be' : `${answers.length - failed.length} of ${answers.length}`;
  say(`${name}: ${how} on ${countText(answers.length, 'worker')}`);
  return failed.length === 0;
}

export function hasFailed(answer: WorkerAnswer): boolean {
  return answer.kind === 'no_answer' || answer.code !== 0;
}

function wordsOf(answer: WorkerAnswer): string {
  if (answer.kind === 'no_answer') return answer.says;
  return answer.output.trim().split('\n').slice(-3).join(' | ') || `its shell ended with ${answer.code}`;
}

/** Mounts the shares and logs in, as far as the site has such; the exit code. */
export async function prepare(at: AtDesk, zone: string): Promise<number> {
  return (await applyRemedies(at, await siteRemedies(at, zone))) ? exitCode.ok : exitCode.failed;
}

/** Keeps in the registry the zone that the TPU was found in. */
export async function rememberZone({ cli, tpu }: AtDesk, zone: string): Promise<void> {
  if (tpu.zone !== null || zone === '') return;
  await cli.lab.record.changeTpu(tpu.name, (now) => (now === null ? null : { ...now, zone: now.zone ?? zone }));
}
