// Reports of run_remote.sh: the log folder and code folder of its run (`upd-log`), and its success (`finish-job`). A
// training waits for these commands, so they load only what they need and print every problem as a sentence on standard
// error.

import { isAbsolute, resolve } from 'node:path';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { LabServices } from '../../../lab/lab.ts';
import type { WindowWithJob } from '../../../lab/lab-store.ts';

/** Returns the exit code after printing every problem. */
export async function runReportCommand(
  verb: 'upd-log' | 'finish-job',
  args: readonly string[],
  services: LabServices,
): Promise<number> {
  const { io } = services;
  const print = (sentence: string): void => io.stderr.write(`tpu: ${sentence}\n`);
  try {
    return await (verb === 'upd-log' ? updLog : finishJob)(args, services, print);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    print(error.message);
    for (const line of error.lines) io.stderr.write(`  ${line}\n`);
    // An unavailable database must not fail a training: its log also shows a success.
    return error.code === exitCode.unreachable ? exitCode.ok : error.code;
  }
}

type Print = (sentence: string) => void;

async function updLog(args: readonly string[], services: LabServices, print: Print): Promise<number> {
  const [where, logFolder, stageFolder, tpu, startTime, ...more] = args;
  if (!logFolder || !stageFolder || !tpu || !startTime || more.length > 0) {
    const given = args.length === 5 ? `argument ${args.indexOf('') + 1} is empty` : `there are ${args.length}`;
    throw new JobmanError(
      `upd-log needs five arguments, but ${given}: tpu upd-log <session:window> <log folder> <stage folder> <tpu> <time>`,
      exitCode.usage,
      ['Nothing was recorded. A variable of the script may be empty or contain a space.'],
    );
  }
  const { io } = services;
  const { session, window } = parseWindow(where ?? '', services);
  const lab = await services.lab();
  const absolute = (path: string): string => (isAbsolute(path) ? path : resolve(io.cwd, path));
  const report = {
    logFolder: absolute(logFolder),
    stageFolder: absolute(stageFolder),
    tpu,
    startTime,
    at: io.now(),
  };
  const found = await lab.localStore().reportWindow(session, window, report);
  await lab.close();
  if (found === null) throw unknownWindow(session, window);
  const before = found.window.report;
  if (before !== null && before.logFolder !== report.logFolder)
    print(`${formatWindow(found)} changed its log folder from ${before.logFolder} to ${report.logFolder}.`);
  return exitCode.ok;
}

async function finishJob(args: readonly string[], services: LabServices, print: Print): Promise<number> {
  const [where, ...more] = args;
  if (!where || more.length > 0)
    throw new JobmanError('finish-job needs one argument: tpu finish-job <session:window>', exitCode.usage, [
      'Nothing was recorded.',
    ]);
  const { session, window } = parseWindow(where, services);
  const lab = await services.lab();
  const found = await lab.localStore().finishWindow(session, window, services.io.now());
  await lab.close();
  if (found === null) throw unknownWindow(session, window);
  if (found.window.finishedAt !== null) print(`${formatWindow(found)} has already reported its success.`);
  else if (found.window.report === null)
    print(`${formatWindow(found)} has succeeded, but its script never called upd-log: its log folder is unknown.`);
  return exitCode.ok;
}

/** Parses `session:window`. A script may report only for its own window, from which a resume continues. */
function parseWindow(where: string, { io }: LabServices): { readonly session: string; readonly window: number } {
  const [, session, window] = /^(.+):(\d{1,9})$/.exec(where) ?? [];
  if (session === undefined)
    throw new JobmanError(
      `\`${where}\` is not a window such as ada:101 (session and number). Nothing was recorded.`,
      exitCode.usage,
    );
  const own = io.env['JOBMAN_WINDOW'];
  if (own !== undefined && own !== `${session}:${Number(window)}`)
    throw new JobmanError(
      `This script belongs to window ${own}, not to ${where}. Nothing was recorded; the script continues.`,
      exitCode.conflict,
      [`\`tmux display-message -p -t "$TMUX_PANE" '#S:#I'\` prints its window.`],
    );
  return { session, window: Number(window) };
}

function unknownWindow(session: string, window: number): JobmanError {
  return new JobmanError(
    `No job of \`tpu run\` has the window ${session}:${window}. Nothing was recorded; the script continues.`,
    exitCode.notFound,
  );
}

function formatWindow({ window, job }: WindowWithJob): string {
  return `Window ${window.window} of ${window.user} (job ${job.job})`;
}
