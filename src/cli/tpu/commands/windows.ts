// ack, add-tag, attach and log: commands about windows. ack lets the controller check jobs now, accepts a program's
// exit that waits for the cloud's report, and prints when a hung program is ended.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { pluralize, escapeLine } from '../../../app/format.ts';
import { type Trouble, troubleOf } from '../../../lab/check-rows.ts';
import { timeFormatter } from '../../../lab/local-time.ts';
import { parseName } from '../../../lab/names.ts';
import type { LabUser } from '../../../lab/users.ts';
import { isFinishedPhase } from '../../../core/decide/phase.ts';
import { refuseJson } from '../../context.ts';
import { requiredText, type TpuHandler, type TpuCli, type ParsedArguments, namesInUse } from '../command.ts';
import { clientNaming, resolveActingUser, resolveUser, resolveUsers } from '../resolve-user.ts';
import { findWindow, formatWindows } from '../user-windows.ts';

export async function ack(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const users = await resolveUsers(cli, args);
  const client = await clientNaming(cli, args.user);
  const { rows } = await client.list({});
  const live = rows.filter((row) => !isFinishedPhase(row.phase) && users.some(({ name }) => name === row.owner));
  if (live.length === 0) {
    if (cli.json) return exitCode.ok;
    cli.printSentence(`${args.user ?? 'The lab'} has no unfinished jobs. There is nothing to check.`);
    return exitCode.ok;
  }
  const ids = live.map(({ id }) => id);
  const windows = await cli.lab.store.windows({ jobs: ids });
  const newest = new Map(windows.map(({ window }) => [window.job, window.window]));
  // Only a job whose program has ended without a decision accepts this.
  const judged: string[] = [];
  for (const { id } of live) if ((await client.sendCommand(id, 'accept-exit', {})).ok) judged.push(id);
  const notice = await cli.lab.checkNow(ids, client);
  for (const user of users) {
    const troubles = await readTroubles(cli, user);
    const theirs = live
      .filter((row) => row.owner === user.name)
      .map(({ id: job }) => ({ window: newest.get(job) ?? null, job, judged: judged.includes(job) }));
    if (cli.json) {
      for (const one of theirs) {
        const { trouble = null, hangsAt = null } = troubles.get(one.job) ?? {};
        cli.printJson({ ...one, user: user.name, trouble, hangsAt });
      }
    } else if (theirs.length > 0) printChecked(cli, user, theirs, troubles);
  }
  if (notice !== null) cli.note(notice);
  return exitCode.ok;
}

function printChecked(
  cli: TpuCli,
  { name, settings }: LabUser,
  jobs: readonly { readonly window: number | null; readonly job: string; readonly judged: boolean }[],
  troubles: ReadonlyMap<string, Trouble>,
): void {
  const numbers = jobs.flatMap(({ window }) => window ?? []).toSorted((a, b) => a - b);
  const which = numbers.length === 0 ? '' : `: ${formatWindows(numbers)}`;
  cli.printSentence(escapeLine(`Checking ${pluralize(jobs.length, 'job')} of ${name} now${which}.`));
  const clock = timeFormatter(settings.time_zone, cli.io.now());
  for (const { window, job, judged } of jobs) {
    const label = window === null ? `Job ${job}` : `Window ${window}`;
    if (judged) cli.printSentence(`${label}: its program has ended; its rule is applied now.`);
    const found = troubles.get(job);
    if (found === undefined) continue;
    // A program that is silent after a failed call may still work, so its time limit is not shortened.
    const next =
      found.hangsAt === null
        ? `no rule ends it while it runs. To kill it: tpu kill ${window ?? job}`
        : `if it prints nothing until ${clock(found.hangsAt)}, it is ended and its rule is applied`;
    cli.printSentence(escapeLine(`${label}: the log reports ${found.trouble}; ${next}.`));
  }
}

async function readTroubles(cli: TpuCli, user: LabUser): Promise<ReadonlyMap<string, Trouble>> {
  const rows = await cli.lab.checkRows(user, cli.io.now());
  return new Map(rows.flatMap(({ status, job }) => [[job, troubleOf(status)] as const]).filter(hasTrouble));
}

function hasTrouble(entry: readonly [string, Trouble | null]): entry is readonly [string, Trouble] {
  return entry[1] !== null;
}

export async function addTag(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const user = await resolveActingUser(cli, args, 'tag a job');
  const [number = 0] = args.windows;
  const tag = parseName('tag', requiredText(args, 'tag'), await namesInUse(cli));
  const { job } = await findWindow(cli, user, number);
  await cli.lab.store.tagJob(job.job, tag);
  cli.printSentence(`Tagged window ${number} of ${user.name} (job ${job.job}) as ${tag}.`);
  return exitCode.ok;
}

export async function attach(cli: TpuCli, args: ParsedArguments): Promise<number> {
  refuseJson(cli.json, '`tpu attach`');
  const user = await resolveUser(cli, args);
  const [number] = args.windows;
  const host = await cli.lab.tmuxWindows();
  const fallback = number === undefined ? `tpu check ${user.name}` : `tpu log ${number} ${user.name} -f`;
  if (host.tmux === null)
    throw new JobmanError('tmux is not installed on this machine.', exitCode.failed, [`${fallback}    shows the same`]);
  const there = await host.list(user.session);
  if (there === null)
    throw new JobmanError(
      `${user.name} has no tmux session ${user.session}; the next job opens it.`,
      exitCode.notFound,
      [`${fallback}    works without it`],
    );
  if (number !== undefined && !there.includes(number))
    throw new JobmanError(`The tmux session ${user.session} has no window ${number} of a job.`, exitCode.notFound, [
      `${fallback}    prints its output`,
    ]);
  if (!cli.io.stdin.isTerminal || !cli.io.stdout.isTerminal)
    throw new JobmanError('`tpu attach` needs a terminal.', exitCode.usage, [`${fallback}    is for scripts`]);
  const target = `=${user.session}:${number ?? ''}`;
  const inside = cli.io.env['TMUX'] !== undefined && cli.io.env['TMUX'] !== '';
  return cli.services.onTerminal([host.tmux.path, inside ? 'switch-client' : 'attach-session', '-t', target]);
}

export const log: TpuHandler = async (cli, args) => {
  const user = await resolveUser(cli, args);
  const [number = 0] = args.windows;
  const { job, attempt } = (await findWindow(cli, user, number)).window;
  const lines = args.keys['tail'];
  const { logs } = await import('../../commands/logs.ts');
  return logs(
    cli,
    {
      follow: args.flags.has('f') ? true : undefined,
      attempt,
      tail: lines === undefined ? undefined : Number(lines),
      json: cli.json,
      yes: cli.yes,
      quiet: cli.quiet,
      settings: undefined,
      color: undefined,
      progress: undefined,
    },
    job,
  );
};
