// Attempt: what the script of one attempt is to do, and how it came out. Pure: `tpu __begin` and `tpu __end` observe and act.

import { type AttemptName, type Families, lineOf, newestReport, stageOf, type Tries, workOf } from './lineage.ts';
import type { LabAttempt, LabJob, WindowReport } from './record.ts';

export interface Course {
  readonly folder: string;
  readonly isFrozen: boolean;
  /** The words behind staging.sh. */
  readonly args: readonly string[];
  readonly from: (AttemptName & { readonly logFolder: string }) | null;
  readonly stage: number;
}

/**
 * The first attempt of a job runs its directory; a later one, and the first of a job that came of another, the frozen code of
 * the newest attempt in its line that reported some. It loads from the newest attempt that saved a checkpoint: a program that
 * died before its first one left nothing to load.
 */
export function courseOf({
  job,
  attempt,
  families,
  jobOf,
  hasCheckpoints,
}: {
  readonly job: LabJob;
  readonly attempt: number;
  readonly families: Families;
  readonly jobOf: (job: string) => Tries | null;
  readonly hasCheckpoints: (logFolder: string) => boolean;
}): Course {
  const me = { job: job.job, attempt };
  const tries = jobOf(job.job) ?? { attempts: [] };
  const { attempts } = tries;
  // One that never started left its place to the one that a rule made after it: what that was to be, this one is.
  let first = attempt;
  while (first > 1 && attempts[first - 1]?.asked === false && attempts[first - 2]?.startedAt === null) first -= 1;
  const isFresh = attempts[attempt - 1]?.how === 'fresh' && (first > 1 || job.father === null);
  const before = (line: readonly AttemptName[]): readonly AttemptName[] => line.slice(1);
  const frozen = isFresh ? null : newestReport(families, before(lineOf(families, me)));
  const work = before(workOf(families, me, jobOf));
  const saved = work.flatMap((one) => {
    const found = newestReport(families, [one]);
    return found !== null && hasCheckpoints(found.report.logFolder) ? [found] : [];
  });
  const last = saved[0] ?? newestReport(families, work);
  const stage = stageOf(job, tries, attempt);
  return {
    folder: frozen?.report.stageFolder ?? job.directory,
    isFrozen: frozen !== null,
    args: [
      `ka=${job.tpu}`,
      ...job.configs,
      ...(last === null ? [] : [`--config.load_from=${last.report.logFolder}`]),
      ...(job.logStage ? [`--config.stage=${stage}`] : []),
    ],
    from: last === null ? null : { job: last.job, attempt: last.attempt, logFolder: last.report.logFolder },
    stage,
  };
}

/** The folders by which programs of these attempts are known on the workers of that TPU, none twice. */
export function foldersOf(windows: readonly LabAttempt[], tpu: string): readonly string[] {
  const reports = windows
    .filter(({ job }) => job.tpu === tpu)
    .map(({ window }) => window.report)
    .filter((report): report is WindowReport => report !== null);
  return [...new Set(reports.flatMap(({ logFolder, stageFolder }) => [logFolder, stageFolder]))];
}

/** The line that W&B prints at the end of a run, by which the scripts of old know a success. */
export const historyLine = 'wandb: Run history:';

/**
 * The reason of a failure despite an exit code of 0; null where the exit code is the verdict. Scripts of the older `tpu` exit with
 * 0 however the program ended, so `finish-job` or the line of W&B in a log has to confirm a success.
 */
export function unconfirmedReason(of: {
  readonly code: number;
  readonly report: WindowReport | null;
  readonly isFinished: boolean;
  readonly hasHistory: boolean;
  /** The last line of the log that reports an error; null where none does. */
  readonly lastError: string | null;
}): string | null {
  const { code, report, isFinished, hasHistory, lastError } = of;
  if (code !== 0 || isFinished || hasHistory) return null;
  const lacks =
    report === null
      ? 'the script called neither `tpu upd-log` nor `tpu finish-job`'
      : 'the script did not call `tpu finish-job`';
  const ends = lastError === null ? '' : `; last error in its log: ${lastError}`;
  return `exit code 0, but ${lacks}, and its log has no line "${historyLine}"${ends}`;
}

const errorLine =
  /^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b|\b(?:error|fatal|failed)\b\s*:|GRPC [Ee]rror|DEADLINE_EXCEEDED/;
const failedLine = /^\s*Job failed\b/;
const errorLongest = 200;

/** The last line of a text that reports an error, cut; a line that says more than `Job failed` comes first. */
export function lastErrorIn(text: string): string | null {
  const lines = text.split(/[\r\n]+/);
  const found = lines.findLast((line) => errorLine.test(line)) ?? lines.findLast((line) => failedLine.test(line));
  if (found === undefined) return null;
  const line = found.trim();
  return line.length > errorLongest ? `${line.slice(0, errorLongest - 2)}..` : line;
}
