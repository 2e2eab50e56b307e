// Plan of an attempt: the work of its script, and its result. Pure: `tpu __begin` and `tpu __end` observe and act.

import {
  type AttemptRef,
  type Lineages,
  lineageOf,
  newestReport,
  stageOf,
  type JobAttempts,
  continuedWork,
} from './lineage.ts';
import type { WindowWithJob, LabJob, WindowReport } from './lab-store.ts';

export interface AttemptPlan {
  readonly folder: string;
  readonly isFrozen: boolean;
  readonly args: readonly string[];
  readonly loadFrom: (AttemptRef & { readonly logFolder: string }) | null;
  readonly stage: number;
}

/**
 * The first attempt runs its directory, any other the newest frozen code that an attempt reported. It loads from the
 * newest attempt with a checkpoint: a program that died before its first checkpoint has nothing to load.
 */
export function planAttempt({
  job,
  attempt,
  lineages,
  jobOf,
  hasCheckpoints,
}: {
  readonly job: LabJob;
  readonly attempt: number;
  readonly lineages: Lineages;
  readonly jobOf: (job: string) => JobAttempts | null;
  readonly hasCheckpoints: (logFolder: string) => boolean;
}): AttemptPlan {
  const self = { job: job.job, attempt };
  const jobAttempts = jobOf(job.job) ?? { attempts: [] };
  const { attempts } = jobAttempts;
  // A rule's attempt replaces an earlier one that never started, so it takes over that attempt's role.
  let first = attempt;
  while (first > 1 && attempts[first - 1]?.startedByOwner === false && attempts[first - 2]?.startedAt === null)
    first -= 1;
  const isFresh = attempts[attempt - 1]?.startMode === 'fresh' && (first > 1 || job.parent === null);
  const before = (line: readonly AttemptRef[]): readonly AttemptRef[] => line.slice(1);
  const frozen = isFresh ? null : newestReport(lineages, before(lineageOf(lineages, self)));
  const work = before(continuedWork(lineages, self, jobOf));
  const saved = work.flatMap((one) => {
    const found = newestReport(lineages, [one]);
    return found !== null && hasCheckpoints(found.report.logFolder) ? [found] : [];
  });
  const last = saved[0] ?? newestReport(lineages, work);
  const stage = stageOf(job, jobAttempts, attempt);
  return {
    folder: frozen?.report.stageFolder ?? job.directory,
    isFrozen: frozen !== null,
    args: [
      `ka=${job.tpu}`,
      ...job.configs,
      ...(last === null ? [] : [`--config.load_from=${last.report.logFolder}`]),
      ...(job.logStage ? [`--config.stage=${stage}`] : []),
    ],
    loadFrom: last === null ? null : { job: last.job, attempt: last.attempt, logFolder: last.report.logFolder },
    stage,
  };
}

/** The log and code folders of these attempts' programs on the TPU, without duplicates. Their processes name them. */
export function runFolders(windows: readonly WindowWithJob[], tpu: string): readonly string[] {
  const reports = windows
    .filter(({ job }) => job.tpu === tpu)
    .map(({ window }) => window.report)
    .filter((report): report is WindowReport => report !== null);
  return [...new Set(reports.flatMap(({ logFolder, stageFolder }) => [logFolder, stageFolder]))];
}

/** The folders of earlier programs on the job's TPU, and of `replaced` jobs there: two programs cannot use one TPU. */
export function earlierRunFolders(
  { job, tpu }: LabJob,
  attempt: number,
  { jobs, windows }: Lineages,
  replaced: readonly WindowWithJob[],
): readonly string[] {
  const earlier = [...windows.values()].flatMap((window) => {
    const of = jobs.get(window.job);
    return of === undefined || (window.job === job && window.attempt === attempt) ? [] : [{ window, job: of }];
  });
  return runFolders([...earlier, ...replaced], tpu);
}

/** The folders of the attempt's programs, which must end with its script unless it succeeded. */
export function ownRunFolders(
  window: WindowWithJob | undefined,
  end: { readonly isStopped: boolean; readonly code: number; readonly reason: string | null },
): readonly string[] {
  const hasFailed = end.isStopped || end.code !== 0 || end.reason !== null;
  return window === undefined || !hasFailed ? [] : runFolders([window], window.job.tpu);
}

/** W&B prints this line at the end of a run. Older scripts recognize success by it. */
export const historyLine = 'wandb: Run history:';

/** Null if the exit code decides. The older `tpu` scripts always exit with 0: `finish-job` or W&B confirms success. */
export function unconfirmedReason(of: {
  readonly code: number;
  readonly report: WindowReport | null;
  readonly isFinished: boolean;
  readonly hasHistory: boolean;
  readonly lastError: string | null;
}): string | null {
  const { code, report, isFinished, hasHistory, lastError } = of;
  if (code !== 0 || isFinished || hasHistory) return null;
  const missing =
    report === null
      ? 'the script called neither `tpu upd-log` nor `tpu finish-job`'
      : 'the script did not call `tpu finish-job`';
  const error = lastError === null ? '' : `; last error in its log: ${lastError}`;
  return `exit code 0, but ${missing}, and its log has no line "${historyLine}"${error}`;
}

const errorPattern =
  /^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b|\b(?:error|fatal|failed)\b\s*:|GRPC [Ee]rror|DEADLINE_EXCEEDED/;
const jobFailedPattern = /^\s*Job failed\b/;
const maxErrorLength = 200;

/** The last line that reports an error, truncated. A line that says only `Job failed` is the last choice. */
export function findLastError(text: string): string | null {
  const lines = text.split(/[\r\n]+/);
  const found =
    lines.findLast((line) => errorPattern.test(line)) ?? lines.findLast((line) => jobFailedPattern.test(line));
  if (found === undefined) return null;
  const line = found.trim();
  return line.length > maxErrorLength ? `${line.slice(0, maxErrorLength - 2)}..` : line;
}
