// ack, add-tag, attach and log: commands about windows. ack has the controller check jobs now, judges an end that waits for the
// cloud's report, and tells when a program that hangs is ended.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { countText, moment, inertWord } from '../../../app/figures.ts';
import { createLooker, type Trouble, troubleOf } from '../../../lab/check.ts';
import { clockFor } from '../../../lab/local-time.ts';
import { newName } from '../../../lab/names.ts';
import type { LabUser } from '../../../lab/people.ts';
import { isSettledPhase } from '../../../core/phase.ts';
import { textOf, type TpuBody, type TpuCli, type Words, wordsInUse } from '../command.ts';
import { actingFor, userOf, usersOf } from '../people.ts';
import { windowCalled } from '../windows.ts';

export async function ack(desk: TpuCli, words: Words): Promise<number> {
  const users = await usersOf(desk, words);
  const client = await desk.services.client();
  const { rows } = await client.list({});
  const live = rows.filter((row) => !isSettledPhase(row.phase) && users.some(({ name }) => name === row.user));
  if (live.length === 0) {
    if (desk.json) return exitCode.ok;
    const whose = words.user === null ? 'No user has a job' : `${words.user} has no job`;
    desk.tell(`${whose} under way, so there is nothing to check.`);
    return exitCode.ok;
  }
  const ids = live.map(({ id }) => id);
  // Of several attempts of one job, people know the newest by its number.
  const windows = await desk.lab.record.windows({ jobs: ids });
  const newest = new Map(windows.map(({ window }) => [window.job, window.window]));
  // Only a job whose program has ended and was not judged yet accepts this.
  const judged: string[] = [];
  for (const { id, user } of live)
    if ((await client.ask(id, 'judge', { by: user, onBehalf: true })).ok) judged.push(id);
  const news = await desk.lab.lookNow(ids);
  for (const user of users) {
    const theirs = live.filter((row) => row.user === user.name);
    if (theirs.length === 0) continue;
    const hangs = await hangsOf(desk, user);
    if (desk.json) {
      for (const { id: job } of theirs) {
        const { trouble = null, hangsAt = null } = hangs.get(job) ?? {};
        const window = newest.get(job) ?? null;
        const ends = hangsAt === null ? null : moment(hangsAt);
        desk.print(
          JSON.stringify({ window, job, user: user.name, judged: judged.includes(job), trouble, hangsAt: ends }),
        );
      }
      continue;
    }
    const shown = theirs.flatMap(({ id }) => newest.get(id) ?? []).toSorted((a, b) => a - b);
    const which = shown.length === 0 ? '' : `: ${windowsText(shown)}`;
    desk.tell(inertWord(`Checking ${countText(theirs.length, 'job')} of ${user.name} now${which}.`));
    for (const { id } of theirs.filter(({ id }) => judged.includes(id)))
      desk.tell(`${nameOfJob(newest.get(id) ?? null, id)}: its program has ended; what follows is decided now.`);
    tellHangs(desk, user, newest, hangs);
  }
  if (news !== null) desk.note(news);
  return exitCode.ok;
}

function windowsText(numbers: readonly number[]): string {
  return `${numbers.length === 1 ? 'window' : 'windows'} ${numbers.join(', ')}`;
}

function nameOfJob(window: number | null, id: string): string {
  return window === null ? `Job ${id}` : `Window ${window}`;
}

async function hangsOf(desk: TpuCli, user: LabUser): Promise<ReadonlyMap<string, Trouble>> {
  const { io, lab, services } = desk;
  // Names of TPUs are not shown here.
  const looker = createLooker({ record: lab.record, home: services.home, user, namePrefix: '' });
  const rows = await looker.look(io.now());
  return new Map(
    rows.flatMap(({ status, job }) => {
      const found = troubleOf(status);
      return found === null ? [] : [[job, found] as const];
    }),
  );
}

/** A program that is silent after a failed call may still be at work, so its grace is not cut short. */
function tellHangs(
  desk: TpuCli,
  { settings }: LabUser,
  newest: ReadonlyMap<string, number>,
  hangs: ReadonlyMap<string, Trouble>,
): void {
  const clock = clockFor(settings.time_zone, desk.io.now());
  for (const [job, { trouble, hangsAt }] of hangs) {
    const window = newest.get(job) ?? null;
    const next =
      hangsAt === null
        ? `and no rule ends it while it runs; to end it: tpu kill ${window ?? job}`
        : `it is ended at ${clock(hangsAt)} if it prints nothing until then, and its rule decides what follows`;
    desk.tell(inertWord(`${nameOfJob(window, job)}: its log says ${trouble}; ${next}.`));
  }
}

export async function addTag(desk: TpuCli, words: Words): Promise<number> {
  const { user } = await actingFor(desk, words, 'tag a job');
  const [number = 0] = words.windows;
  const tag = newName('tag', textOf(words, 'tag'), await wordsInUse(desk));
  const { job } = await windowCalled(desk, user, number);
  await desk.lab.record.changeJob(job.job, (stands) => ({ ...stands, tag }));
  desk.tell(`Window ${number} of ${user.name} (job ${job.job}) is tagged ${tag}.`);
  return exitCode.ok;
}

export async function attach(desk: TpuCli, words: Words): Promise<number> {
  const user = await userOf(desk, words);
  const [number] = words.windows;
  const host = await desk.lab.windows();
  const look = number === undefined ? `tpu check ${user.name}` : `tpu log ${number} ${user.name} -f`;
  if (host.tmux === null)
    throw new JobmanError('There is no tmux on this machine, so there is no window to go to.', exitCode.failed, [
      `${look}    shows the same`,
    ]);
  const there = await host.list(user.session);
  if (there === null)
    throw new JobmanError(`The tmux session ${user.session} of ${user.name} is not there.`, exitCode.notFound, [
      `It comes with the next job; until then: ${look}`,
    ]);
  if (number !== undefined && !there.includes(number))
    throw new JobmanError(`The tmux session ${user.session} has no window ${number} of a job.`, exitCode.notFound, [
      `${look}    shows what it printed`,
    ]);
  if (!desk.io.stdin.isTerminal || !desk.io.stdout.isTerminal)
    throw new JobmanError('A window can be gone to on a terminal only.', exitCode.usage, [`${look}    is for scripts`]);
  const target = `=${user.session}:${number ?? ''}`;
  const inside = desk.io.env['TMUX'] !== undefined && desk.io.env['TMUX'] !== '';
  return desk.services.onTerminal([host.tmux.path, inside ? 'switch-client' : 'attach-session', '-t', target]);
}

export const log: TpuBody = async (desk, words) => {
  const user = await userOf(desk, words);
  const [number = 0] = words.windows;
  const { job, attempt } = (await windowCalled(desk, user, number)).window;
  const lines = words.keys['n'];
  const { logs } = await import('../../commands/logs.ts');
  return logs(
    desk,
    {
      follow: words.flags.has('f') ? true : undefined,
      attempt,
      tail: lines === undefined ? undefined : Number(lines),
      json: desk.json,
      yes: desk.yes,
      quiet: desk.quiet,
      settings: undefined,
      color: undefined,
      progress: undefined,
    },
    job,
  );
};
