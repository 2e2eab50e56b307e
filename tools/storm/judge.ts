// The verdict on a storm. It is found in the world: in what the programs have told, in the copies of their logs, in the
// cloud. The record is only asked what it claims.

import type { Testimony, Told } from './witness.ts';

/** What the record claims of one attempt, as `show --json` says it. */
export interface ClaimedAttempt {
  readonly attempt: number;
  readonly how: 'fresh' | 'resume' | 'rerun';
  /** When the command was committed to be started; null when it never was. */
  readonly started: string | null;
  readonly ended: string | null;
  readonly reason: string | null;
}

/** One job at the end of a storm. */
export interface JobAtEnd {
  readonly id: string;
  readonly phase: string;
  readonly attempts: readonly ClaimedAttempt[];
  /** The workers that run its command. */
  readonly places: readonly string[];
  readonly testimony: Testimony;
  /** Programs of it that are alive although it is over, as `<attempt>-<worker>`. */
  readonly alive: readonly string[];
  /** jobman's copies of the logs, by `<attempt>-<worker>`. */
  readonly mirrored: ReadonlyMap<string, string>;
  /** How many faults struck it that may end an attempt. */
  readonly struck: number;
  /** The last step that its program counts to. */
  readonly steps: number;
}

/** What else there is to be seen at the end. */
export interface WorldAtEnd {
  /** The ids of the jobs that the record knows of. */
  readonly inRecord: readonly string[];
  /** What is left in the cloud, by name. */
  readonly inCloud: readonly string[];
  /** Jobs that were seen with two TPUs at once, with their names. */
  readonly twoAtOnce: readonly string[];
  /** Kinds of fault that were to strike, and of which none met anybody. */
  readonly missed: readonly string[];
}

/** Everything that does not hold, as sentences; none is what a storm should come to. */
export function judge(jobs: readonly JobAtEnd[], world: WorldAtEnd): readonly string[] {
  const created = new Set(jobs.map(({ id }) => id));
  return [
    ...jobs.flatMap((job) => laws.flatMap((law) => law(job).map((says) => `job ${job.id}: ${says}`))),
    ...world.inRecord.filter((id) => !created.has(id)).map((id) => `job ${id}: nobody was told that it was created`),
    ...[...created].filter((id) => !world.inRecord.includes(id)).map((id) => `job ${id}: the record has lost it`),
    ...world.inCloud.map((name) => `${name} is left in the cloud`),
    ...world.twoAtOnce.map((says) => `two TPUs at once for job ${says}`),
    ...world.missed.map((kind) => `no fault of the kind ${kind} met anybody, so nothing is proven about it`),
  ];
}

const laws: readonly ((job: JobAtEnd) => readonly string[])[] = [
  endedWell,
  startedOnce,
  neverTogether,
  nobodyAlive,
  onlyForAReason,
  nothingForgotten,
  logsWhole,
];

function endedWell({ phase, places, steps, testimony }: JobAtEnd): readonly string[] {
  if (phase !== 'succeeded') return [`it is ${phase}, and should have succeeded`];
  const last = Math.max(0, ...starts(testimony).map(({ attempt }) => attempt));
  return places.flatMap((place) => {
    const lines = (testimony.printed.get(`${last}-${place}`) ?? '').trimEnd().split('\n');
    const isDone = testimony.story.some(
      (told) => told.kind === 'end' && told.attempt === last && told.worker === place && told.how === 'done',
    );
    if (!isDone) return [`it is called succeeded, and its program never came to its end on worker ${place}`];
    // Who went on from the last step has nothing more to count.
    const from = starts(testimony).find(({ attempt, worker }) => attempt === last && worker === place)?.from ?? 0;
    const isCounted = (lines.at(-1) ?? '').includes(`step ${steps} of ${steps},`) || from >= steps;
    return isCounted ? [] : [`its program came to its end on worker ${place} without step ${steps}`];
  });
}

/** Each attempt's command once on each worker; and never for an attempt of which the record knows no start. */
function startedOnce({ attempts, places, testimony }: JobAtEnd): readonly string[] {
  const counts = new Map<string, number>();
  for (const { attempt, worker } of starts(testimony)) {
    const key = `${attempt}-${worker}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const expected = new Set(
    attempts.filter(({ started }) => started !== null).flatMap(({ attempt }) => places.map((at) => `${attempt}-${at}`)),
  );
  const wrong = [...counts].flatMap(([key, count]) => [
    ...(count > 1 ? [`the command of ${key} (attempt-worker) was started ${count} times`] : []),
    ...(expected.has(key) ? [] : [`the command of ${key} (attempt-worker) ran, and the record says nothing of it`]),
  ]);
  // A machine that was lost may have been lost before the command began there; one that did its work has begun.
  const missing = attempts
    .filter(({ reason }) => reason === 'succeeded')
    .flatMap(({ attempt }) => places.map((place) => `${attempt}-${place}`))
    .filter((key) => !counts.has(key))
    .map((key) => `the command of ${key} (attempt-worker) is called succeeded, and never began`);
  return [...wrong, ...missing];
}

function neverTogether({ testimony }: JobAtEnd): readonly string[] {
  return testimony.story.flatMap((told) =>
    told.kind === 'collision' ? [`${told.who} (attempt-worker) began while ${told.with} was alive`] : [],
  );
}

function nobodyAlive({ alive }: JobAtEnd): readonly string[] {
  return alive.map((who) => `the program of ${who} (attempt-worker) is alive, although the job is over`);
}

/** No attempt ends of a fault that harms no program. */
function onlyForAReason({ attempts, struck }: JobAtEnd): readonly string[] {
  const lost = attempts.filter(({ reason }) => reason !== 'succeeded');
  if (lost.length <= struck) return [];
  const reasons = lost.map(({ attempt, reason }) => `${attempt} ${reason ?? 'did not end'}`).join(', ');
  return [`${lost.length} attempts were lost (${reasons}), and ${struck} faults struck it that may cost one`];
}

/** A resumed attempt goes on from the newest checkpoint that its job had saved before. */
function nothingForgotten({ attempts, testimony }: JobAtEnd): readonly string[] {
  let saved = 0;
  const wrong: string[] = [];
  for (const told of testimony.story) {
    if (told.kind === 'saved') saved = Math.max(saved, told.step);
    if (told.kind !== 'start' || attempts.find(({ attempt }) => attempt === told.attempt)?.how !== 'resume') continue;
    // It may have saved a step and died before it could tell.
    if (told.from < saved)
      wrong.push(
        `attempt ${told.attempt} went on from step ${told.from} on worker ${told.worker}, and ${saved} was saved`,
      );
  }
  return wrong;
}

/** The copy has every line of a program that ended by itself, and of any other all up to some point. */
function logsWhole({ attempts, places, testimony, mirrored }: JobAtEnd): readonly string[] {
  return attempts.flatMap(({ attempt, reason }) =>
    places.flatMap((place): readonly string[] => {
      const key = `${attempt}-${place}`;
      const printed = testimony.printed.get(key) ?? '';
      const copy = mirrored.get(key) ?? '';
      if (copy === printed) return [];
      if (!printed.startsWith(copy))
        return [`the copied log of ${key} (attempt-worker) is not what was printed: ${difference(printed, copy)}`];
      if (reason !== 'succeeded') return [];
      return [`the copied log of ${key} (attempt-worker) ends after ${lineCount(copy)} of ${lineCount(printed)} lines`];
    }),
  );
}

function difference(printed: string, copy: string): string {
  const [lines, copied] = [printed.split('\n'), copy.split('\n')];
  const at = copied.findIndex((line, index) => line !== lines[index]);
  return `line ${at + 1} is "${copied[at] ?? ''}" in place of "${lines[at] ?? ''}"`;
}

function lineCount(text: string): number {
  return text.split('\n').length - 1;
}

function starts({ story }: Testimony): readonly Extract<Told, { readonly kind: 'start' }>[] {
  return story.filter((told) => told.kind === 'start');
}
