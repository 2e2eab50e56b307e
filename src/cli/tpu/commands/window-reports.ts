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
    const count = `${args.length} ${args.length === 1 ? 'word' : 'words'}`;
    const given = args.length === 5 ? `an empty one (number ${args.indexOf('') + 1})` : count;
    throw new JobmanError(
      `upd-log takes five words and was given ${given}, so nothing was noted down: tpu upd-log <session:window> <log folder> <stage folder> <tpu> <time>`,
      exitCode.usage,
      ['One of the variables of the script may be empty, or have a blank in it.'],
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
  const found = await lab.store.reportWindow(session, window, report);
  await lab.close();
  if (found === null) throw unknownWindow(session, window);
  const before = found.window.report;
  if (before !== null && before.logFolder !== report.logFolder) {
    print(`${formatWindow(found)} had told the log folder ${before.logFolder} before; now it is ${report.logFolder}.`);
  }
  return exitCode.ok;
}

async function finishJob(args: readonly string[], services: LabServices, print: Print): Promise<number> {
  const [where, ...more] = args;
  if (!where || more.length > 0) {
    throw new JobmanError(
      'finish-job takes one word, so nothing was noted down: tpu finish-job <session:window>',
      exitCode.usage,
    );
  }
  const { session, window } = parseWindow(where, services);
  const lab = await services.lab();
  const found = await lab.store.finishWindow(session, window, services.io.now());
  await lab.close();
  if (found === null) throw unknownWindow(session, window);
  if (found.window.finishedAt !== null) print(`${formatWindow(found)} had been finished before; nothing has changed.`);
  else if (found.window.report === null) {
    print(`${formatWindow(found)} is finished, and upd-log was never called for it: nobody knows where its log is.`);
  }
  return exitCode.ok;
}

/**
 * `session:window`, as tmux prints `#S:#I`. A script may report only for its own window, because the report decides
 * which programs end and what a resume continues from.
 */
function parseWindow(where: string, { io }: LabServices): { readonly session: string; readonly window: number } {
  const [, session, window] = /^(.+):(\d{1,9})$/.exec(where) ?? [];
  if (session === undefined) {
    throw new JobmanError(
      `\`${where}\` is no window: a session and a number were expected, as tmux prints them: ada:101`,
      exitCode.usage,
    );
  }
  const own = io.env['JOBMAN_WINDOW'];
  if (own !== undefined && own !== `${session}:${Number(window)}`) {
    throw new JobmanError(
      `This is the script of window ${own}, and it told of ${where}; nothing was noted down, and the script goes on.`,
      exitCode.conflict,
      [`Its own window is what \`tmux display-message -p -t "$TMUX_PANE" '#S:#I'\` prints in it.`],
    );
  }
  return { session, window: Number(window) };
}

function unknownWindow(session: string, window: number): JobmanError {
  return new JobmanError(
    `No job of \`tpu run\` has the window ${session}:${window}, so nothing was noted down; the script goes on.`,
    exitCode.notFound,
  );
}

function formatWindow({ window, job }: WindowWithJob): string {
  return `Window ${window.window} of ${window.user} (job ${job.job})`;
}
