// run, resume and rerun: a working directory on a TPU, and the job of a window once more. On its own TPU that is the next attempt
// of the job, on another the first of a job that names this one its father.

import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobView } from '../../../app/client.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { capital, inertWord } from '../../../app/figures.ts';
import { isSettledPhase } from '../../../core/phase.ts';
import { bookingsNow, holdersNow, jobsThere, othersBooking } from '../../../lab/holds.ts';
import { stageOf, triesOf } from '../../../lab/lineage.ts';
import { newName } from '../../../lab/names.ts';
import { directoryOf, type LabUser } from '../../../lab/people.ts';
import type { LabJob } from '../../../lab/record.ts';
import {
  configWords,
  type LabRule,
  runSpec,
  specElsewhere,
  tpuInScript,
  tpusOfTypes,
  usualRule,
  writtenLine,
} from '../../../lab/run.ts';
import { type LabTpu, shortName, tpuNamed } from '../../../lab/tpus.ts';
import { wake } from '../../controller.ts';
import { beginJob, bookFor, surroundings } from '../begin-job.ts';
import { type TpuBody, type TpuCli, type Words, wordsInUse } from '../command.ts';
import { actingFor } from '../people.ts';
import { endJobs, labTpuOf, type TakeParts, type TakeRequest, takeTpu, withParts } from '../take.ts';
import { canAsk, notesOf, question } from '../terminal.ts';
import { windowCalled } from '../windows.ts';

const noNotes = 'Nobody can be asked for the notes of the booking sheet here. Say them: ssn=the_notes';

const usualDirectory = 1;

export async function run(desk: TpuCli, words: Words): Promise<number> {
  const { user, by } = await actingFor(desk, words, 'run a job');
  const number = words.numbers['dir'] ?? usualDirectory;
  const directory = await codeOf(user, number);
  const { tag: said } = words.keys;
  const tag = said === undefined ? null : newName('tag', said, await wordsInUse(desk));
  const configs = configWords(words.configs, user.aliases, desk.ownKeys);
  return withParts(desk, async (parts) => {
    const tpu = words.tpu ?? (await tpuFor(desk, words, user, directory, parts));
    const notes = await notesOf(desk, words, noNotes);
    const request = { tpu, user, by, apply: words.flags.has('apply'), force: words.flags.has('f') };
    const taking = await takeTpu(desk, parts, request);
    const around = (await surroundings(desk))(tpu, taking.zone);
    await taking.prepare();
    const monitor = words.keys['monitor'] !== 'false';
    const spec = runSpec({
      directory,
      tag,
      ...around,
      rule: (words.keys['rule'] as LabRule | undefined) ?? usualRule(tpu),
      monitor,
      written: writtenLine(tpu.name, configs),
    });
    const { id, window } = await beginJob(desk, parts.client, {
      user,
      by,
      tpu,
      spec,
      manifest: `# Made by: tpu run ${tpu.name} ${user.name} dir=${number}\n# ${spec.command.written ?? ''}\n`,
      labJob: {
        user: user.name,
        directory,
        directoryNumber: number,
        tpu: tpu.name,
        configs,
        tag,
        monitor,
        logStage: words.flags.has('log-stage'),
        father: null,
        baseStage: 0,
      },
      taking,
      notes,
    });
    const where = shortName(tpu.name, (await desk.lab.site()).namePrefix);
    sayBegun(desk, { window, id, does: `runs ${directory} on ${where}` });
    return goOnWatching(desk, words, user);
  });
}

export function sayBegun(
  desk: TpuCli,
  { window, id, does }: { readonly window: number; readonly id: string; readonly does: string },
): void {
  if (desk.json) desk.print(JSON.stringify({ window, job: id }));
  else desk.tell(`Window ${window}: job ${id} ${does}`);
}

async function codeOf(user: LabUser, number: number): Promise<string> {
  const directory = directoryOf(user, number);
  if (!(await isThere(directory, 'isDirectory')))
    throw new JobmanError(`Working directory ${number} of ${user.name} is gone: ${directory}`, exitCode.notFound, [
      `tpu set-cur ${number} ${user.name}    gives the number to the folder that you are in`,
    ]);
  if (await isThere(join(directory, 'staging.sh'), 'isFile')) return directory;
  throw new JobmanError(
    `Working directory ${number} of ${user.name} has no staging.sh, which is what tpu run runs: ${directory}`,
    exitCode.notFound,
  );
}

async function isThere(path: string, kind: 'isDirectory' | 'isFile'): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found?.[kind]() === true;
}

async function tpuFor(desk: TpuCli, words: Words, user: LabUser, directory: string, parts: TakeParts): Promise<LabTpu> {
  if (words.types.length > 0 || words.flags.has('auto')) return freeTpu(desk, words.types, user, parts);
  const file = join(directory, 'ka.sh');
  const text = await readFile(file, 'utf8').catch(() => '');
  const said = tpuInScript(text, file);
  const lacks =
    text === ''
      ? `the line names none, and there is no ${file}`
      : `the line names none, and ${file} does not say it in a way that can be read without running it`;
  if (said === null && !canAsk(desk))
    throw new JobmanError(`Which TPU? ${capital(lacks)}.`, exitCode.usage, [
      'tpu -lta    lists the TPUs and their aliases; -auto takes one that is free',
    ]);
  const name = said ?? (await question(desk, `Which TPU? (${lacks})`));
  const { record } = desk.lab;
  const [known, aliases] = await Promise.all([record.tpus(), record.tpuAliases()]);
  const full = aliases.get(name) ?? name;
  const tpu = known.find((one) => one.name === full) ?? tpuNamed(full);
  if (tpu === null)
    throw new JobmanError(
      `The registry has no TPU "${name}"${said === null ? '' : `, which ${file} names`}.`,
      exitCode.notFound,
      [`tpu register ${name} zone=ZONE type=v2-32    adds it`],
    );
  if (said !== null) desk.note(`${file} names ${tpu.name}.`);
  return tpu;
}

const isAbsent = 'the cloud has none of that name';

/**
 * The first that nobody uses, those first that the sheet reserves for this user. Throws JobmanError (4) where none is free, with
 * what each is used for; (3) where there is none of those types.
 */
async function freeTpu(
  desk: TpuCli,
  types: readonly string[],
  user: LabUser,
  { client, tpus, signal }: TakeParts,
): Promise<LabTpu> {
  const { record } = desk.lab;
  const said = types.length === 0 ? '' : ` of type ${types.join(' or ')}`;
  const of = tpusOfTypes(await record.tpus(), types);
  if (of.length === 0)
    throw new JobmanError(`The registry has no TPU${said}.`, exitCode.notFound, [
      'tpu -lta    lists those that it has',
    ]);
  const [{ rows }, { bookings, says }, { namePrefix }] = await Promise.all([
    client.list({}),
    bookingsNow(() => desk.lab.sheet()),
    desk.lab.site(),
  ]);
  for (const sentence of says) desk.note(inertWord(sentence));
  const there = await jobsThere(record, rows);
  const isMine = ({ name }: LabTpu): boolean =>
    bookings.some(
      ({ tpu, status, user: whose }) => tpu === name && status.kind === 'reserved' && whose === user.sheetName,
    );
  const inTheWay: string[] = [];
  let unsure = 0;
  let absent: string | null = null;
  for (const tpu of of.toSorted((one, other) => Number(isMine(other)) - Number(isMine(one)))) {
    const why = await whyNot(tpu);
    const called = shortName(tpu.name, namePrefix);
    if (why === null) {
      desk.note(`${called} is free.`);
      return tpu;
    }
    inTheWay.push(`${called}: ${why}`);
    if (why === isAbsent) absent ??= called;
  }
  if (unsure === of.length)
    throw new JobmanError(
      `Whether a TPU${said} is free cannot be told now; nothing was begun.`,
      exitCode.unreachable,
      inTheWay,
    );
  // Nothing is created without its name.
  const hint = absent === null ? [] : [`tpu run ${absent} ${user.name} -apply    creates it first`];
  throw new JobmanError(`No TPU${said} is free.`, exitCode.conflict, [...inTheWay, ...hint]);

  async function whyNot(tpu: LabTpu): Promise<string | null> {
    const [job] = there.on(tpu.name);
    if (job !== undefined) return `job ${job.job.job} of ${job.job.user} is ${job.row.status} there`;
    const booking = othersBooking(bookings, tpu.name, user);
    if (booking !== null) return `${booking.status.kind === 'reserved' ? 'reserved for' : 'used by'} ${booking.user}`;
    const state = await tpus.describe(tpu);
    if (state.kind === 'unknown') {
      unsure += 1;
      return state.says;
    }
    if (state.state === 'absent') return isAbsent;
    if (state.state !== 'ready') return `it is ${state.state}`;
    const { holders, says: silent } = await holdersNow(tpus, tpu, [], signal);
    const [holder] = holders;
    if (holder !== undefined) return `${holder.user} holds its device with ${holder.command.slice(0, 60)}`;
    return silent[0] ?? null;
  }
}

export const resume: TpuBody = (desk, words) => again(desk, words, 'resume');
export const rerun: TpuBody = (desk, words) => again(desk, words, 'rerun');

type How = 'resume' | 'rerun';

interface Again extends Omit<TakeRequest, 'job' | 'also'> {
  readonly how: How;
  readonly number: number;
  readonly labJob: LabJob;
  readonly view: JobView;
}

async function again(desk: TpuCli, words: Words, how: How): Promise<number> {
  const { user, by } = await actingFor(desk, words, `${how} a job`);
  if (words.tpu !== null && words.windows.length > 1)
    throw new JobmanError('One TPU has room for one of several jobs. Say them one by one.', exitCode.usage);
  const agreed = { apply: words.flags.has('apply'), force: words.flags.has('f') };
  return withParts(desk, async (parts) => {
    for (const number of words.windows) {
      const { job: labJob } = await windowCalled(desk, user, number);
      const view = await parts.client.show(labJob.job);
      const tpu = words.tpu ?? (await labTpuOf(desk, labJob.tpu));
      const begin = tpu.name === labJob.tpu ? beginHere : beginElsewhere;
      await begin(desk, parts, { ...agreed, how, user, by, number, labJob, view, tpu });
      if (how !== 'resume' || labJob.father !== null) continue;
      // A job that continues another may have its folders from there.
      const windows = await desk.lab.record.windows({ jobs: [labJob.job], cleared: true });
      if (windows.every(({ window }) => window.report === null))
        desk.note(
          `Window ${number} has never told where its log is (tpu upd-log), so there is nothing to go on from: it begins from the start.`,
        );
    }
    return goOnWatching(desk, words, user);
  });
}

async function beginHere(desk: TpuCli, parts: TakeParts, wanted: Again): Promise<void> {
  const { how, user, by, number, labJob, view, tpu } = wanted;
  const { client } = parts;
  if (!isSettledPhase(view.phase))
    throw new JobmanError(
      `Window ${number} of ${user.name} (job ${labJob.job}) is ${view.status} already.`,
      exitCode.conflict,
      [`tpu kill ${number} ${user.name}    ends it first; then tpu ${how} ${number} ${user.name}`],
    );
  const taking = await takeTpu(desk, parts, { ...wanted, job: labJob.job });
  await taking.prepare();
  const unbook = await bookFor(desk, { user, tpu, taking, notes: null });
  const answer = await client.ask(labJob.job, how, { by, onBehalf: true });
  if (!answer.ok) {
    await unbook();
    throw new JobmanError(answer.message, answer.code);
  }
  const { window } = await desk.lab.record.openWindow(labJob.job, view.attempts.length + 1, desk.io.now());
  await wake(desk, client);
  const where = shortName(tpu.name, (await desk.lab.site()).namePrefix);
  sayBegun(desk, { window: window.window, id: labJob.job, does: `${does(how, number)} on ${where}` });
}

/** A job that comes of this one. Where this one is under way it is ended first, which is asked about. */
async function beginElsewhere(desk: TpuCli, parts: TakeParts, wanted: Again): Promise<void> {
  const { how, user, by, number, labJob, view, tpu } = wanted;
  const { client, signal } = parts;
  const isOver = isSettledPhase(view.phase);
  const { namePrefix } = await desk.lab.site();
  const newest = view.attempts.at(-1)?.attempt ?? 1;
  const also = isOver
    ? []
    : [`window ${number} is ${view.status} on ${shortName(labJob.tpu, namePrefix)}, and would be ended`];
  const taking = await takeTpu(desk, parts, { ...wanted, also });
  const around = (await surroundings(desk))(tpu, taking.zone);
  if (!isOver) await endJobs(desk, client, [labJob.job], { by, signal });
  await taking.prepare();
  const spec = specElsewhere(view.spec, around, labJob);
  const { job: father, ...same } = labJob;
  const { id, window } = await beginJob(desk, client, {
    user,
    by,
    tpu,
    spec,
    manifest: `# Made by: tpu ${how} windows=${number} tpu=${tpu.name} ${user.name}\n`,
    labJob: {
      ...same,
      tpu: tpu.name,
      father: { job: father, attempt: newest, how },
      baseStage: how === 'resume' ? stageOf(labJob, triesOf(view) ?? { attempts: [] }, newest) + 1 : 0,
    },
    taking,
    notes: null,
  });
  sayBegun(desk, { window, id, does: `${does(how, number)} on ${shortName(tpu.name, namePrefix)}` });
}

function does(how: How, number: number): string {
  return how === 'resume' ? `resumes window ${number}` : `begins window ${number} again`;
}

/** Goes on as `tpu monitor` on a terminal, as the user's settings say; -q and --json want nothing more. */
export async function goOnWatching(desk: TpuCli, words: Words, user: LabUser): Promise<number> {
  const { io, quiet, json } = desk;
  if (!io.stdout.isTerminal || quiet || json || words.flags.has('q') || !user.settings.monitor_after_run)
    return exitCode.ok;
  const { monitorOf } = await import('./check.ts');
  return monitorOf(desk, user);
}
