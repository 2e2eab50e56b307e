// Reports of run_remote.sh: where its run writes its log and has its code (`upd-log`), and that it succeeded (`finish-job`). A
// training waits for them, so nothing is loaded that is not needed, and whatever is wrong is a sentence on standard error.

import { isAbsolute, resolve } from 'node:path';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { LabServices } from '../../../lab/lab.ts';
import type { LabAttempt } from '../../../lab/record.ts';

/** Resolves with the exit code; everything has been said then. */
export async function tell(
  verb: 'upd-log' | 'finish-job',
  words: readonly string[],
  services: LabServices,
): Promise<number> {
  const { io } = services;
  const say = (sentence: string): void => io.stderr.write(`tpu: ${sentence}\n`);
  try {
    return await (verb === 'upd-log' ? updLog : finishJob)(words, services, say);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    say(error.message);
    for (const line of error.lines) io.stderr.write(`  ${line}\n`);
    // A record that cannot be written now must not fail a training: its log also tells of a success.
    return error.code === exitCode.unreachable ? exitCode.ok : error.code;
  }
}

type Say = (sentence: string) => void;

async function updLog(words: readonly string[], services: LabServices, say: Say): Promise<number> {
  const [where, logFolder, stageFolder, tpu, startTime, ...more] = words;
  if (!logFolder || !stageFolder || !tpu || !startTime || more.length > 0) {
    const count = `${words.length} ${words.length === 1 ? 'word' : 'words'}`;
    const given = words.length === 5 ? `an empty one (number ${words.indexOf('') + 1})` : count;
    throw new JobmanError(
      `upd-log takes five words and was given ${given}, so nothing was noted down: tpu upd-log <session:window> <log folder> <stage folder> <tpu> <time>`,
      exitCode.usage,
      ['One of the variables of the script may be empty, or have a blank in it.'],
    );
  }
  const { io } = services;
  const { session, window } = placeOf(where ?? '', services);
  const lab = await services.lab();
  const absolute = (path: string): string => (isAbsolute(path) ? path : resolve(io.cwd, path));
  const report = {
    logFolder: absolute(logFolder),
    stageFolder: absolute(stageFolder),
    tpu,
    startTime,
    at: io.now(),
  };
  const found = await lab.record.report(session, window, report);
  await lab.close();
  if (found === null) throw unknown(session, window);
  const before = found.window.report;
  if (before !== null && before.logFolder !== report.logFolder) {
    say(`${nameOf(found)} had told the log folder ${before.logFolder} before; now it is ${report.logFolder}.`);
  }
  return exitCode.ok;
}

async function finishJob(words: readonly string[], services: LabServices, say: Say): Promise<number> {
  const [where, ...more] = words;
  if (!where || more.length > 0) {
    throw new JobmanError(
      'finish-job takes one word, so nothing was noted down: tpu finish-job <session:window>',
      exitCode.usage,
    );
  }
  const { session, window } = placeOf(where, services);
  const lab = await services.lab();
  const found = await lab.record.finish(session, window, services.io.now());
  await lab.close();
  if (found === null) throw unknown(session, window);
  if (found.window.finishedAt !== null) say(`${nameOf(found)} had been finished before; nothing has changed.`);
  else if (found.window.report === null) {
    say(`${nameOf(found)} is finished, and upd-log was never called for it: nobody knows where its log is.`);
  }
  return exitCode.ok;
}

/**
 * `session:window`, as tmux prints `#S:#I`. The script of an attempt reports for its own window only: what is ended on the
 * workers, and what a resume continues from, depends on it.
 */
function placeOf(where: string, { io }: LabServices): { readonly session: string; readonly window: number } {
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

function unknown(session: string, window: number): JobmanError {
  return new JobmanError(
    `No job of \`tpu run\` has the window ${session}:${window}, so nothing was noted down; the script goes on.`,
    exitCode.notFound,
  );
}

function nameOf({ window, job }: LabAttempt): string {
  return `Window ${window.window} of ${window.user} (job ${job.job})`;
}
