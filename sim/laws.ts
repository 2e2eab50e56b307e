// Laws: what must be true in every world, whatever the storm. They are judged by what happened in the world and by what the
// owners said. Where one speaks of the record itself (commit before act, history tells the state) the record is held against
// the world. Each has its file in laws/; here is when each is asked.

import type { AllocationRef, CommitResult, Commit, Stray } from '../src/app/ports.ts';
import type { Event } from '../src/core/decision.ts';
import type { Job } from '../src/core/job.ts';
import type { OutcomeResult } from '../src/core/observation.ts';
import type { Copies } from './outputs.ts';
import {
  checkPlaces,
  placeKey,
  checkEmpty,
  checkGone,
  checkLetGo,
  checkSlots,
  checkSecond,
  hasGround,
} from './laws/capacity.ts';
import {
  checkAttempts,
  checkBudget,
  checkGrowth,
  checkPace,
  checkStepFailures,
  checkSteps,
  checkCheckpoint,
  checkAlone,
  checkEnded,
  checkSetup,
  checkSetUp,
} from './laws/attempts.ts';
import { checkHistory, checkCopies, checkLastWords, checkAccepted, checkRecorded, checkStray } from './laws/record.ts';
import { createScene, machineOf, newLedger } from './laws/scene.ts';
import type { Law, Ledger, Scene, Violation } from './laws/scene.ts';
import type { Run, World } from './world.ts';

export { laws, slots } from './laws/scene.ts';
export type { Law, Violation } from './laws/scene.ts';

export interface Judge {
  /** The first law that was broken; nothing after it counts. */
  readonly violation: Violation | null;
  /** The record's owner has spoken: a new job, or a word about an old one. */
  spoken(job: Job, events: readonly Event[]): void;
  committed(commit: Commit, result: CommitResult): void;
  called(kind: 'request' | 'release' | 'step' | 'start' | 'stop' | 'look', ref: AllocationRef, detail: string): void;
  /** `step` is `3/docker`, for the reply of a setup step. */
  replied(kind: string, ref: AllocationRef, result: OutcomeResult, step?: string): void;
  recorded(result: OutcomeResult): void;
  strayReleased(stray: Stray): void;
  begins(run: Run): void;
  /** The controllers' clock jumped forward: patience that is counted by it may end early. */
  clockJumpedForward(): void;
  /** The storm is over: from here nothing is taken away, refused or lost. */
  becomeCalm(): void;
  /** How many calls that have effects, and how many commits, there were so far. */
  readonly counts: { readonly acts: number; readonly looks: number; readonly commits: number };
  job(id: string): Job;
  /** When the owner of that job last gave a command, by the world's clock. */
  wordAt(id: string): number;
  readonly jobs: readonly Job[];
  break(law: Law, sentence: string): void;
  atRest(): void;
}

export function createJudge(world: () => World, copies: () => Copies): Judge {
  const scene = createScene(world, copies);
  const { ledgers, ledgerOf } = scene;
  /** Notes that are taken of a reply once it is in the record. */
  const unrecorded = new WeakMap<OutcomeResult, () => void>();
  const counts = { acts: 0, looks: 0, commits: 0 };
  return {
    get violation() {
      return scene.violation;
    },
    counts,
    get jobs() {
      return [...ledgers.values()].map((ledger) => ledger.job);
    },
    job: (id) => ledgerOf(id).job,
    wordAt: (id) => ledgerOf(id).wordAt,
    break: scene.breakLaw,
    becomeCalm() {
      scene.calmSince = world().timeline.now;
    },
    clockJumpedForward() {
      scene.jumps.push(world().timeline.now);
    },
    spoken(job, events) {
      const { now } = world().timeline;
      const known = ledgers.get(job.id);
      if (known === undefined) ledgers.set(job.id, newLedger(job, events, now));
      else noteWord(known, job, events, now);
    },
    committed(commit, result) {
      if (result !== 'committed') return;
      const ledger = ledgerOf(commit.job.id);
      const before = ledger.job;
      ledger.job = commit.job;
      ledger.events.push(...commit.events);
      ledger.commits += 1;
      counts.commits += 1;
      for (const { at: _at, ...event } of commit.events)
        world().say(`record: ${commit.job.id} ${JSON.stringify(event)}`);
      checkCommit(scene, before, commit.job, ledger);
    },
    called(kind, ref, detail) {
      if (kind === 'look') {
        counts.looks += 1;
        return;
      }
      counts.acts += 1;
      world().say(`call: ${kind} ${ref.job.id}/${ref.allocation.ordinal} ${detail}`);
      checkCall(scene, kind, ref, detail);
    },
    replied(kind, ref, result, step) {
      noteReply(scene, { kind, ref, result, step }, unrecorded);
    },
    recorded(result) {
      unrecorded.get(result)?.();
    },
    strayReleased(stray) {
      counts.acts += 1;
      checkStray(scene, stray);
    },
    begins(run) {
      const ledger = ledgerOf(run.job);
      ledger.begun.add(run.attempt);
      checkAlone(scene, run, ledger);
      checkSetup(scene, run, ledger);
      checkBudget(scene, run, ledger);
      checkSlots(scene, run, ledger);
      checkCheckpoint(scene, run, ledger);
    },
    atRest() {
      for (const ledger of ledgers.values()) {
        checkEmpty(scene, ledger);
        checkHistory(scene, ledger);
      }
      checkCopies(scene);
    },
  };
}

function noteWord(ledger: Ledger, job: Job, events: readonly Event[], now: number): void {
  ledger.job = job;
  const isLast = events.some((event) => event.kind === 'asked' && event.verb === 'last');
  ledger.lastOf = isLast ? job.attempts.length : job.desired === 'run' ? null : ledger.lastOf;
  // A settled job that holds nothing is off the list at once without force, and its logs are still copied.
  ledger.isForced ||= job.removed && (job.settled === null || holdsCapacity(job));
  ledger.words += 1;
  ledger.failedAt = null;
  ledger.wordAt = now;
  ledger.begun = new Set();
  ledger.events.push(...events);
}

function holdsCapacity({ allocations }: Job): boolean {
  return allocations.some(
    ({ ownership, requestedAt, goneAt }) => ownership === 'owned' && requestedAt !== null && goneAt === null,
  );
}

function checkCall(scene: Scene, kind: string, ref: AllocationRef, detail: string): void {
  const ledger = scene.ledgerOf(ref.job.id);
  checkRecorded(scene, kind, ref, detail, ledger);
  if (kind === 'request') {
    checkPace(scene, ref, ledger);
    checkPlaces(scene, ref, ledger);
    checkSecond(scene, ref, ledger);
  }
  if (kind === 'step') checkSteps(scene, ref, detail, ledger);
  const machine = machineOf(scene, ref);
  if (kind === 'release' && machine !== undefined) checkLastWords(scene, ref, machine, ledger);
  if ((kind === 'release' || kind === 'stop') && machine !== undefined && !hasGround(scene, ledger, machine)) {
    scene.breakLaw(
      1,
      `job ${ref.job.id}: ${kind} ${detail} on ${machine.name}, which is well, and nothing had happened`,
    );
  }
}

/** Keeps what the cloud and the hosts have answered; what a full disk or the end of a controller loses is not on record. */
function noteReply(
  scene: Scene,
  {
    kind,
    ref,
    result,
    step,
  }: {
    readonly kind: string;
    readonly ref: AllocationRef;
    readonly result: OutcomeResult;
    readonly step: string | undefined;
  },
  unrecorded: WeakMap<OutcomeResult, () => void>,
): void {
  const reply = result.kind;
  const error = result.kind === 'failed' || result.kind === 'refused' ? result.error?.kind : undefined;
  const ledger = scene.ledgerOf(ref.job.id);
  if (step !== undefined && (reply === 'failed' || reply === 'refused')) {
    const failure = `${ref.job.attempts.length} ${step}`;
    ledger.stepFailures.set(failure, (ledger.stepFailures.get(failure) ?? 0) + 1);
  }
  const key = `${kind}/${ref.allocation.ordinal}`;
  if (reply === 'done') ledger.accepted.add(key);
  else if (kind === 'request' || kind === 'release') {
    if (reply === 'refused') ledger.refused.add(key);
    if (kind === 'request' && (error === 'stockout' || error === 'quota' || error === 'permission')) {
      const at = scene.world().timeline.now;
      const said = { at, allocation: ref.allocation.ordinal, isForbidden: error === 'permission' };
      const place = placeKey(ref, ledger);
      unrecorded.set(result, () => {
        // A controller that was suspended may record an answer that a newer one has replaced since.
        if ((ledger.nothing.get(place)?.at ?? 0) <= at) ledger.nothing.set(place, said);
      });
    }
  } else ledger.troubles += 1;
}

function checkCommit(scene: Scene, before: Job, job: Job, ledger: Ledger): void {
  for (const allocation of job.allocations) {
    const old = before.allocations[allocation.ordinal - 1];
    if (allocation.goneAt !== null && (old === undefined || old.goneAt === null)) checkGone(scene, job, allocation);
    if (allocation.ownership === 'owned') checkAccepted(scene, job, allocation, old, ledger);
    if (allocation.passedOver !== undefined && old?.passedOver === undefined)
      ledger.passedOver.set(allocation.ordinal, scene.world().timeline.now);
  }
  checkLetGo(scene, before, job, ledger);
  checkSetUp(scene, before, job);
  checkAttempts(scene, job);
  checkStepFailures(scene, job, ledger);
  checkGrowth(scene, job);
  const attempt = job.attempts.at(-1);
  for (const { place, asks } of attempt?.placesPassed ?? []) ledger.rounds.set(`${attempt?.ordinal}/${place}`, asks);
  checkEnded(scene, before, job);
}
