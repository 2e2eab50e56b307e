// Replay: the recorded passes of a job in sentences, and the passes that this version would decide differently.

import { differencesOf, type Difference } from '../core/decide/replay.ts';
import { situations } from '../core/decide/situations.ts';
import { deltaOf, isLeaf, type Delta, type Json } from '../core/model/json-delta.ts';
import type { Action, Subject } from '../core/model/decision.ts';
import type { Event } from '../core/model/event.ts';
import { stepsOf, type Job } from '../core/model/job.ts';
import type { AllocationStatus, Observed, Outcome, RunStatus, WorkerStatus } from '../core/model/observation.ts';
import { actionsOf, omittedText, outcomesOf, type RecordedPass } from '../core/model/recorded-pass.ts';
import { formatWorker, type WorkerId } from '../core/model/spec.ts';
import { minute, type Instant } from '../core/model/time.ts';
import { waitsForSlot } from '../core/policy/admission.ts';
import type { PassDifference, PassList, PassQuery, PassView } from './client.ts';
import { messageOf } from './errors.ts';
import { formatDuration, formatTimestamp, formatUsdOf } from './format.ts';
import { describeEvent, inParentheses } from './history.ts';
import { requireAttempt } from './logs.ts';
import { formatBudgetName, formatCapacity, formatCapacityAnswer, formatExit, phrasesOf } from './phrases.ts';
import type { RecordedStep } from './ports.ts';

/** The recorded passes of a job. Throws JobmanError (3) for an absent attempt. */
export function replayJob(
  job: Job,
  steps: readonly RecordedStep[],
  { attempt: wanted, decide = false }: PassQuery,
): PassList {
  if (wanted !== undefined) requireAttempt(job, wanted);
  let attempt: number | null = null;
  let last: RecordedPass | undefined;
  const all = steps.map((step) => {
    const previous = last;
    if (step.inputs !== null) {
      attempt = step.inputs.after.attempts.at(-1)?.ordinal ?? null;
      last = step.inputs.pass;
    }
    return { step, previous, attempt };
  });
  const ofAttempt = all.filter((one) => wanted === undefined || one.attempt === wanted);
  const passes = ofAttempt.map((one): PassView => ({
    ...viewOf(one.step, one.previous, job),
    attempt: one.attempt,
    differences: decide ? findDifferences(one.step, job) : [],
  }));
  const made = ofAttempt.filter(({ step }) => step.situation !== null);
  return {
    id: job.id,
    name: job.spec.name,
    owner: job.owner,
    passes: decide ? passes.filter(({ differences }) => differences.length > 0) : passes,
    readable: made.filter(({ step }) => step.inputs !== null).length,
    unreadable: made.filter(({ step }) => step.inputs === null).length,
  };
}

function viewOf(
  { seq, at, situation, events, inputs, repeats, repeatedAt }: RecordedStep,
  previous: RecordedPass | undefined,
  job: Job,
): Omit<PassView, 'attempt' | 'differences'> {
  const pass = inputs?.pass;
  const seen = inputs === null ? [] : seenIn(inputs.pass, inputs.before, previous);
  const decided = [...describeEvents(events, job), ...describeActions(pass === undefined ? [] : actionsOf(pass))];
  return {
    pass: seq,
    at,
    version: pass?.version ?? null,
    situation,
    description: situations.find(({ name }) => name === situation)?.means ?? null,
    seen,
    decided: decided.filter((text) => !seen.includes(text)),
    nextAt: pass?.wakeAt ?? null,
    repeats,
    repeatedAt,
    recorded: pass ?? null,
  };
}

function describeEvents(events: readonly Event[], job: Job): readonly string[] {
  return events.map((event) => describeEvent(event, job));
}

// ------------------------------------------------------------------------------------------ the observation

/** Without the facts that the previous pass has seen too. */
function seenIn(pass: RecordedPass, job: Job, previous: RecordedPass | undefined): readonly string[] {
  const before = new Set(previous === undefined ? [] : describeFacts(previous, job));
  return [...outcomesOf(pass).map(describeOutcome), ...describeFacts(pass, job).filter((fact) => !before.has(fact))];
}

function describeFacts({ facts, now }: RecordedPass, job: Job): readonly string[] {
  const { admitted, allocations, workers, unansweredRequests = [], ownerSpending, alternativeAnswers } = facts;
  const byText = Map.groupBy(Object.entries(workers), ([, observed]) =>
    observed.kind === 'unknown'
      ? `no answer${inParentheses(textOf(observed.reason))}`
      : describeWorker(observed.value, job, now),
  );
  return [
    ...(admitted || !waitsForSlot(job) ? [] : [phrasesOf(job).inUse]),
    ...unansweredRequests.map((ordinal) => `the request of allocation ${ordinal} was sent and got no reply`),
    ...Object.entries(allocations).map(([ordinal, one]) => describeAllocation(Number(ordinal), one, job, now)),
    ...[...byText].map(([text, all]) => `${formatWorkers(all.map(([key]) => workerIn(key)))}: ${text}`),
    ...(ownerSpending?.kind === 'known'
      ? ownerSpending.value.map((one) => `${formatUsdOf(one.spentUsd, one.budgetUsd)} spent (${formatBudgetName(one)})`)
      : ownerSpending === undefined
        ? []
        : [`the spending of the owner is not known${inParentheses(textOf(ownerSpending.reason))}`]),
    ...(alternativeAnswers?.kind === 'known'
      ? alternativeAnswers.value.map(
          ({ alternative, answer }) =>
            `${formatCapacity(job, alternative)}: ${answer === 'ready' ? answer : formatCapacityAnswer(answer)}, for another job`,
        )
      : []),
  ];
}

/** The same sentence as the event that a change of this state causes. */
function describeAllocation(allocation: number, observed: Observed<AllocationStatus>, job: Job, at: Instant): string {
  if (observed.kind === 'unknown')
    return describeEvent({ kind: 'unreachable', at, allocation, message: textOf(observed.reason) }, job);
  const { state, detail, workers } = observed.value;
  const count = state === 'ready' && workers !== undefined ? { workers } : {};
  return describeEvent({ kind: 'allocation_seen', at, allocation, state, message: textOf(detail), ...count }, job);
}

function describeWorker({ proofs, runs, matched }: WorkerStatus, job: Job, now: Instant): string {
  const run = runs.at(-1);
  const log = matched?.pattern === undefined ? '' : `, log matches ${matched.pattern}`;
  if (run !== undefined) return `${describeRun(run, now)}${log}`;
  const steps = stepsOf(job);
  const done = steps.filter(({ key }) => proofs.includes(key)).length;
  return steps.length === 0 ? 'answers' : `${done} of ${steps.length} setup steps done`;
}

function describeRun(run: RunStatus, now: Instant): string {
  const { attempt } = run;
  switch (run.state) {
    case 'starting':
      return `attempt ${attempt} has a folder, but no process yet`;
    case 'running': {
      // A shorter silence differs in every pass.
      const silence = now - run.outputAt;
      return `attempt ${attempt} is running${silence < minute ? '' : `, without output for ${formatDuration(silence)}`}`;
    }
    case 'exited':
      return `attempt ${attempt} has ended, ${formatExit(run)}${inParentheses(textOf(run.failure ?? ''))}`;
    case 'vanished':
      return `attempt ${attempt} has vanished${inParentheses(textOf(run.detail))}`;
  }
}

function describeOutcome({ subject, result }: Outcome): string {
  const what = describeSubject(subject, 'worker' in subject ? [subject.worker] : []);
  if (result.kind === 'done') return `${what}: done`;
  if (result.kind === 'unclear') return `${what}: no reply${inParentheses(textOf(result.evidence.message))}`;
  const { message } = result.error ?? result.evidence;
  return `${what}: ${result.kind}${inParentheses(textOf(message))}`;
}

function textOf(text: string): string {
  return text === omittedText ? '' : text;
}

// ------------------------------------------------------------------------------------------ actions

/** The same action on several workers is one sentence. */
function describeActions(actions: readonly Action[]): readonly string[] {
  const groups = Map.groupBy(actions, (action) => describeSubject(action, []));
  return [...groups.values()].flatMap((same) => {
    const [first] = same;
    const workers = same.flatMap((action) => ('worker' in action ? [action.worker] : []));
    return first === undefined ? [] : [describeSubject(first, workers)];
  });
}

function describeSubject(subject: Subject, workers: readonly WorkerId[]): string {
  const on = workers.length === 0 ? '' : ` on ${formatWorkers(workers)}`;
  switch (subject.kind) {
    case 'request':
    case 'release':
      return `${subject.kind} allocation ${subject.allocation}`;
    case 'step':
      return `run setup step ${subject.step}${on}`;
    case 'start':
      return `start attempt ${subject.attempt}${on}`;
    case 'stop':
      return `${subject.signal} attempt ${subject.attempt}${on}`;
  }
}

function workerIn(key: string): WorkerId {
  const worker = key.slice(key.indexOf('/') + 1);
  return worker === 'controller' ? worker : Number(worker);
}

/** `worker 3`, `workers 0-3, 5`, `this machine`. */
function formatWorkers(workers: readonly WorkerId[]): string {
  const [only, ...others] = workers;
  if (only !== undefined && others.length === 0) return formatWorker(only);
  const numbers = workers.filter((worker) => worker !== 'controller').toSorted((one, other) => one - other);
  const ranges: [number, number][] = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last?.[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const texts = ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`));
  const here = workers.includes('controller') ? ` and ${formatWorker('controller')}` : '';
  return `workers ${texts.join(', ')}${here}`;
}

// ------------------------------------------------------------------------------------------ differences

function findDifferences({ inputs, events }: RecordedStep, job: Job): readonly PassDifference[] {
  if (inputs === null) return [];
  try {
    return differencesOf({ ...inputs, events }).map((difference) => describeDifference(difference, job));
  } catch (error) {
    return [{ part: 'situation', recorded: [inputs.after.situation ?? ''], today: [`error: ${messageOf(error)}`] }];
  }
}

function describeDifference({ part, recorded, today }: Difference, job: Job): PassDifference {
  const sentencesOf = (value: Json): readonly string[] => describePart(part, value, job);
  const without = (texts: readonly string[], others: readonly string[]) =>
    texts.filter((text) => !others.includes(text));
  const [before, now] = [sentencesOf(recorded), sentencesOf(today)];
  const sentences = { recorded: without(before, now), today: without(now, before) };
  // No sentence shows every field.
  return sentences.recorded.length + sentences.today.length > 0
    ? { part, ...sentences }
    : { part, recorded: describeFields(today, recorded), today: describeFields(recorded, today) };
}

function describePart(part: Difference['part'], value: Json, job: Job): readonly string[] {
  switch (part) {
    case 'situation':
      return [typeof value === 'string' ? value : 'none'];
    case 'events':
      return describeEvents(value as unknown as readonly Event[], job);
    case 'actions':
      return describeActions(actionsOf({ actions: value as unknown as RecordedPass['actions'] }));
    case 'wakeAt':
      return [describeNext(value as Instant | null)];
    case 'job':
      return [];
  }
}

function describeNext(nextAt: Instant | null): string {
  return nextAt === null ? 'no further check' : `check at ${formatTimestamp(nextAt)}`;
}

/** The fields of `to` that `from` does not have or that differ there. */
function describeFields(from: Json, to: Json): readonly string[] {
  const delta = deltaOf(from, to);
  return delta === undefined ? [] : leavesOf(delta).map(([path, value]) => `${path}: ${JSON.stringify(value ?? null)}`);
}

function leavesOf(delta: Delta, path = ''): readonly (readonly [string, Json | undefined])[] {
  if (isLeaf(delta)) return [[path, delta[0]]];
  return Object.entries(delta).flatMap(([key, part]) => leavesOf(part, path === '' ? key : `${path}.${key}`));
}
