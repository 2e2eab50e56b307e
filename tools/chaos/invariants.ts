// Invariants of a chaos test compare the programs' reports, the copied logs and the cloud with jobman's database.

import type { ProgramReports, ReportLine } from './program-reports.ts';

/** An attempt of the database, as in `show --json`. */
export interface RecordedAttempt {
  readonly attempt: number;
  readonly startMode: 'fresh' | 'resume' | 'rerun';
  /** Time at which the start of the command was committed; null when it never was. */
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly reason: string | null;
}

export interface JobAtEnd {
  readonly id: string;
  /** The output of `replay --decide` if it decides a recorded pass differently. */
  readonly replay: string | null;
  readonly phase: string;
  readonly attempts: readonly RecordedAttempt[];
  /** The workers that run its command. */
  readonly workers: readonly string[];
  readonly reports: ProgramReports;
  /** Programs that are alive although the job has ended, as `<attempt>-<worker>`. */
  readonly alive: readonly string[];
  /** jobman's log copies, by `<attempt>-<worker>`. */
  readonly logCopies: ReadonlyMap<string, string>;
  /** Number of faults that may have ended an attempt of this job. */
  readonly faultCount: number;
  /** The last step of its program. */
  readonly steps: number;
}

export interface EndState {
  /** Ids of the jobs in the database. */
  readonly storedJobs: readonly string[];
  /** Names of the resources that remain in the cloud. */
  readonly remainingResources: readonly string[];
  /** Jobs that had two TPUs at once, with their names. */
  readonly jobsWithTwoTpus: readonly string[];
  /** Kinds of planned faults that never hit. */
  readonly faultsWithoutTarget: readonly string[];
}

/** A sentence for each violated invariant. */
export function violationsOf(jobs: readonly JobAtEnd[], world: EndState): readonly string[] {
  const created = new Set(jobs.map(({ id }) => id));
  return [
    ...jobs.flatMap((job) =>
      invariants.flatMap((invariant) => invariant(job).map((message) => `job ${job.id}: ${message}`)),
    ),
    ...world.storedJobs.filter((id) => !created.has(id)).map((id) => `job ${id}: no command reported its creation`),
    ...[...created].filter((id) => !world.storedJobs.includes(id)).map((id) => `job ${id}: the database has lost it`),
    ...world.remainingResources.map((name) => `${name} is left in the cloud`),
    ...world.jobsWithTwoTpus.map((message) => `two TPUs at once for job ${message}`),
    ...world.faultsWithoutTarget.map((kind) => `no fault of the kind ${kind} hit a job, so nothing is proven about it`),
  ];
}

const invariants: readonly ((job: JobAtEnd) => readonly string[])[] = [
  checkSucceeded,
  checkStartedOnce,
  checkNotConcurrent,
  checkNothingAlive,
  checkLostAttempts,
  checkResumePoint,
  checkLogCopies,
  checkReplay,
];

function checkReplay({ replay }: JobAtEnd): readonly string[] {
  return replay === null ? [] : [`its passes cannot be replayed: ${replay}`];
}

function checkSucceeded({ phase, workers, steps, reports }: JobAtEnd): readonly string[] {
  if (phase !== 'succeeded') return [`it is ${phase}, and should have succeeded`];
  const last = Math.max(0, ...startLines(reports).map(({ attempt }) => attempt));
  return workers.flatMap((workerId) => {
    const lines = (reports.printed.get(`${last}-${workerId}`) ?? '').trimEnd().split('\n');
    const isDone = reports.lines.some(
      (line) => line.kind === 'end' && line.attempt === last && line.worker === workerId && line.outcome === 'done',
    );
    if (!isDone) return [`it succeeded, and its program never completed on worker ${workerId}`];
    // A program that resumed from the last step counts no further one.
    const from = startLines(reports).find(({ attempt, worker }) => attempt === last && worker === workerId)?.from ?? 0;
    const isCounted = (lines.at(-1) ?? '').includes(`step ${steps} of ${steps},`) || from >= steps;
    return isCounted ? [] : [`its program completed on worker ${workerId} without step ${steps}`];
  });
}

/** Each attempt's command runs once on each worker, and never without a recorded start. */
function checkStartedOnce({ attempts, workers, reports }: JobAtEnd): readonly string[] {
  const counts = new Map<string, number>();
  for (const { attempt, worker } of startLines(reports)) {
    const key = `${attempt}-${worker}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const expected = new Set(
    attempts
      .filter(({ startedAt }) => startedAt !== null)
      .flatMap(({ attempt }) => workers.map((at) => `${attempt}-${at}`)),
  );
  const wrong = [...counts].flatMap(([key, count]) => [
    ...(count > 1 ? [`the command of ${key} (attempt-worker) was started ${count} times`] : []),
    ...(expected.has(key) ? [] : [`the command of ${key} (attempt-worker) ran without a recorded start`]),
  ]);
  // A machine may be lost before the command begins there, but after a success the command must have begun.
  const missing = attempts
    .filter(({ reason }) => reason === 'succeeded')
    .flatMap(({ attempt }) => workers.map((workerId) => `${attempt}-${workerId}`))
    .filter((key) => !counts.has(key))
    .map((key) => `the command of ${key} (attempt-worker) succeeded, and never began`);
  return [...wrong, ...missing];
}

function checkNotConcurrent({ reports }: JobAtEnd): readonly string[] {
  return reports.lines.flatMap((line) =>
    line.kind === 'collision' ? [`${line.who} (attempt-worker) began while ${line.with} was alive`] : [],
  );
}

function checkNothingAlive({ alive }: JobAtEnd): readonly string[] {
  return alive.map((who) => `the program of ${who} (attempt-worker) is alive, although the job has finished`);
}

/** Harmless faults end no attempt. */
function checkLostAttempts({ attempts, faultCount }: JobAtEnd): readonly string[] {
  const lost = attempts.filter(({ reason }) => reason !== 'succeeded');
  if (lost.length <= faultCount) return [];
  const reasons = lost.map(({ attempt, reason }) => `${attempt} ${reason ?? 'did not end'}`).join(', ');
  return [`${lost.length} attempts were lost (${reasons}), and ${faultCount} faults hit it that may cost one`];
}

/** A resumed attempt continues from the newest checkpoint that its job has saved. */
function checkResumePoint({ attempts, reports }: JobAtEnd): readonly string[] {
  let saved = 0;
  const wrong: string[] = [];
  for (const line of reports.lines) {
    if (line.kind === 'saved') saved = Math.max(saved, line.step);
    if (line.kind !== 'start' || attempts.find(({ attempt }) => attempt === line.attempt)?.startMode !== 'resume')
      continue;
    // `from` may be later: a program may save a step and be killed before it reports that.
    if (line.from < saved)
      wrong.push(
        `attempt ${line.attempt} continued from step ${line.from} on worker ${line.worker}, and ${saved} was saved`,
      );
  }
  return wrong;
}

/** The copy has every line of a program that ended by itself, and a beginning of any other's lines. */
function checkLogCopies({ attempts, workers, reports, logCopies }: JobAtEnd): readonly string[] {
  return attempts.flatMap(({ attempt, reason }) =>
    workers.flatMap((workerId): readonly string[] => {
      const key = `${attempt}-${workerId}`;
      const printed = reports.printed.get(key) ?? '';
      const copy = logCopies.get(key) ?? '';
      if (copy === printed) return [];
      if (!printed.startsWith(copy))
        return [
          `the copied log of ${key} (attempt-worker) differs from the printed lines: ${difference(printed, copy)}`,
        ];
      if (reason !== 'succeeded') return [];
      return [`the copied log of ${key} (attempt-worker) ends after ${lineCount(copy)} of ${lineCount(printed)} lines`];
    }),
  );
}

function difference(printed: string, copy: string): string {
  const [lines, copied] = [printed.split('\n'), copy.split('\n')];
  const at = copied.findIndex((line, index) => line !== lines[index]);
  return `line ${at + 1} is "${copied[at] ?? ''}" instead of "${lines[at] ?? ''}"`;
}

function lineCount(text: string): number {
  return text.split('\n').length - 1;
}

function startLines({ lines }: ProgramReports): readonly Extract<ReportLine, { readonly kind: 'start' }>[] {
  return lines.filter((line) => line.kind === 'start');
}
