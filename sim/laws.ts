// Laws: what must be true in every world, whatever the storm (design, section 4). They are judged by what happened in
// the world and by what the owners said. Where a law speaks of the record itself (commit before act, settled means
// empty, history tells the state) the record is held against the world.

import type { AllocationRef, CommitResult, Commit, Stray } from '../src/app/ports.ts';
import type { Event } from '../src/core/decision.ts';
import type { Allocation, Attempt, Job } from '../src/core/job.ts';
import type { OutcomeResult } from '../src/core/observation.ts';
import { placesOf } from '../src/core/place.ts';
import { ruleOf } from '../src/core/recover.ts';
import { taskKey } from '../src/core/subject.ts';
import { minute, second } from '../src/core/time.ts';
import { checkpointsIn } from './checkpoints.ts';
import type { Checkpoint } from './checkpoints.ts';
import { zoneOf } from './cloud.ts';
import { contentOf } from './copies.ts';
import type { Copies } from './copies.ts';
import { retold } from './retold.ts';
import { findMachine, folderOf, isAlive, outputOf, printed, printedAt, runName } from './world.ts';
import type { Machine, Run, World } from './world.ts';

export const laws = {
  1: 'unknown is not absent',
  2: 'commit before act',
  3: 'only what is ours',
  4: 'one command at a time',
  5: 'setup before start',
  6: 'settled means empty',
  7: 'bounded',
  8: 'quiet at rest',
  9: 'history tells the state',
  10: 'convergence',
  11: 'logs are whole',
  12: 'places in turn',
  13: 'slots are kept to',
  14: 'only its own checkpoints',
} as const;

export type Law = keyof typeof laws;

export interface Violation {
  readonly law: Law;
  readonly sentence: string;
  readonly at: number;
}

/** How many programs of this machine's own capacity may run at once. */
export const slots = 1;

/** How long a machine that is to be let go is kept for the rest of its logs. */
const drainMost = 15 * minute;

/** The longest that an answer of the pretend cloud is under way. */
const replyMost = minute;

interface Nothing {
  readonly at: number;
  readonly allocation: number;
  readonly isForbidden: boolean;
}

/** What the owners, the cloud and the hosts know of one job, without asking any controller. */
interface Ledger {
  /** The record as last committed: by a controller or by the owner's word. */
  job: Job;
  readonly madeAt: number;
  /** How many words the owner has said, and when the last. */
  words: number;
  wordAt: number;
  /** How many attempts there were when the owner said that the last of them is to be the last; null while no such word counts. */
  lastOf: number | null;
  /** Replies of the cloud, by action and ordinal: `request/1`. */
  readonly accepted: Set<string>;
  readonly refused: Set<string>;
  /** Things on hosts that did not go well: steps, starts, stops. */
  troubles: number;
  /** Attempts that began in the world since the owner's last word. */
  begun: Set<number>;
  readonly begunInCalm: Set<number>;
  /**
   * When a place last said that it has nothing, or nothing for us: by the attempt and the place, with the allocation. Only
   * answers that are in the record: one that a full disk or the end of a controller has lost is unknown, and is asked for again.
   */
  readonly nothing: Map<string, Nothing>;
  /** How often the record says that a place was passed over, by the attempt and the place. */
  readonly rounds: Map<string, number>;
  /** When it settled as failed, by the world's clock; null before, and after the owner's newest word. */
  failedAt: number | null;
  /** Times of the latest requests, by allocation, place and round. */
  readonly requests: Map<string, number[]>;
  /** When each allocation was first asked for, and when the record first said that its place was passed over. */
  readonly firstAsked: Map<number, number>;
  readonly passedOver: Map<number, number>;
  readonly steps: Map<string, number>;
  /** How often a setup step has failed on a worker, by the attempt that it was for: `2 3/docker`. */
  readonly stepFailures: Map<string, number>;
  readonly events: Event[];
  commits: number;
  /** The owner has taken it off the list by force: what it holds is a stray, and nobody reads on in its logs. */
  isForced: boolean;
}

export interface Judge {
  /** The first law that was broken; nothing after it counts. */
  readonly violation: Violation | null;
  /** The record's owner has spoken: a new job, or a word about an old one. */
  spoken(job: Job, events: readonly Event[]): void;
  committed(commit: Commit, result: CommitResult): void;
  called(kind: 'request' | 'release' | 'step' | 'start' | 'stop' | 'look', ref: AllocationRef, detail: string): void;
  /** `step` is `3/docker`, for the reply of a setup step. */
  replied(kind: string, ref: AllocationRef, result: OutcomeResult, step?: string): void;
  /** That reply is in the record. */
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
  /** What holds only once all is at rest. */
  atRest(): void;
}

export function createJudge(world: () => World, copies: () => Copies): Judge {
  const ledgers = new Map<string, Ledger>();
  const jumps: number[] = [];
  /** What to note of a reply once it is in the record. */
  const unrecorded = new WeakMap<OutcomeResult, () => void>();
  const counts = { acts: 0, looks: 0, commits: 0 };
  let violation: Violation | null = null;
  let calmSince: number | null = null;

  function breakLaw(law: Law, sentence: string): void {
    if (violation !== null) return;
    violation = { law, sentence, at: world().timeline.now };
    world().say(`LAW ${law} (${laws[law]}) is broken: ${sentence}`);
  }

  function ledgerOf(id: string): Ledger {
    const ledger = ledgers.get(id);
    if (ledger === undefined) throw new Error(`the world knows no job ${id}`);
    return ledger;
  }

  function machineOf(ref: AllocationRef): Machine | undefined {
    return findMachine(world(), zoneOf(ref), ref.allocation.name);
  }

  // ------------------------------------------------------------------------------------------ grounds

  /**
   * Whatever may move a controller to end a program or to let a machine go, as far as the world and the owner know of it:
   * the owner's word, the cloud's act, a program that ended or overstayed, a host that was silent for too long.
   */
  function hasGround(ledger: Ledger, machine: Machine | undefined): boolean {
    const { now } = world().timeline;
    const { job } = ledger;
    if (job.desired !== 'run' || ledger.words > 0) return true;
    // A job that only sets up is done when it has; checkSetUp holds its end against the world.
    if (job.spec.command.isSetupOnly === true && job.settled?.verdict === 'succeeded') return true;
    const { limits, recovery } = job.spec;
    if (ledger.troubles >= limits.setupTries) return true;
    if (ledger.refused.size > 0) return true;
    const runs = world().runs.filter((run) => run.job === job.id);
    if (runs.some((run) => run.endedAt !== null)) return true;
    const { troubleTimeout = Infinity } = limits;
    if (runs.some(({ hungAt }) => hungAt !== null && now - hungAt >= troubleTimeout * 0.9)) return true;
    for (const run of runs) {
      if (run.startedAt === null) continue;
      if (limits.maxRuntime !== null && now - run.startedAt >= limits.maxRuntime * 0.9) return true;
      const gang = runs.filter(({ attempt }) => attempt === run.attempt);
      const { silenceTimeout } = limits;
      if (silenceTimeout !== null && gang.every((one) => now - printedAt(one, now) >= silenceTimeout * 0.9))
        return true;
    }
    if (limits.capacityWait !== null && now - ledger.madeAt >= limits.capacityWait * 0.9) return true;
    if (machine === undefined) return true;
    if (isWaitedOut(ledger, machine) || isLate(ledger, machine)) return true;
    // One that was lost or let go may have come back by a late message.
    const ofThatName = world().machines.filter((one) => one.name === machine.name);
    if (ofThatName.some((one) => one.lostAt !== null || one.releaseAskedAt !== null)) return true;
    if (machine.wasInterrupted || machine.hosts.some((host) => host.restarts > 0)) return true;
    // Two silences with no look between them are one to whoever looks.
    const silentLongest = Math.max(...machine.hosts.map((host) => host.silentLongest(now)));
    if (silentLongest + world().lineCutLongest >= recovery.unreachableGrace * 0.8) return true;
    return jumps.some((at) => at >= ledger.madeAt);
  }

  /** A queue that was waited in for as long as the owner allows, and that had given nothing when it was last looked at. */
  function isWaitedOut({ job, firstAsked, passedOver }: Ledger, machine: Machine): boolean {
    const { capacity } = job.spec;
    const patience = capacity.kind === 'tpu' ? capacity.alternativesWait : undefined;
    const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
    const askedAt = firstAsked.get(ordinal);
    const passedAt = passedOver.get(ordinal);
    if (patience === undefined || askedAt === undefined || passedAt === undefined) return false;
    // A list may be some seconds old, and a pass takes some after it.
    const wasEmpty = machine.readyAt === null || machine.readyAt > passedAt - 15 * second;
    return wasEmpty && passedAt - askedAt >= patience * 0.9;
  }

  /** What came of a request that got no answer, after its place had said that it has nothing and was passed over for that. */
  function isLate({ job, nothing, passedOver }: Ledger, machine: Machine): boolean {
    const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
    const passedAt = passedOver.get(ordinal);
    const wasTold = [...nothing.values()].some((one) => one.allocation === ordinal);
    return wasTold && passedAt !== undefined && machine.madeAt >= passedAt;
  }

  // ------------------------------------------------------------------------------------------ calls as they arrive

  function checkRecorded(kind: string, ref: AllocationRef, detail: string, ledger: Ledger): void {
    const { ordinal } = ref.allocation;
    const allocation = ledger.job.allocations[ordinal - 1];
    const name = `job ${ref.job.id}: ${kind} ${ordinal} ${detail}`;
    if (allocation === undefined) {
      breakLaw(2, `${name} was done, and the record has no such allocation`);
      return;
    }
    const [first = '', worker = ''] = detail.split('/');
    switch (kind) {
      case 'request':
        if (allocation.requestedAt === null) breakLaw(2, `${name} was done before the record said so`);
        return;
      case 'release':
        if (allocation.releasedAt === null) breakLaw(2, `${name} was done before the record said so`);
        return;
      case 'step':
        if (allocation.releasedAt !== null) breakLaw(3, `${name} was done on an allocation that was let go`);
        return;
      case 'start':
      case 'stop': {
        const attempt = ledger.job.attempts[Number(first) - 1];
        if (attempt === undefined) {
          breakLaw(2, `${name} was done, and the record has no such attempt`);
          return;
        }
        if (attempt.allocation !== ordinal)
          breakLaw(3, `${name} is about attempt ${first}, which is not on that allocation`);
        if (kind === 'start' && attempt.startedAt === null) breakLaw(2, `${name} was done before the record said so`);
        const isOver = attempt.endedAt !== null || attempt.ending !== null;
        if (kind === 'start' && isOver) breakLaw(4, `${name} starts what the record has ended on ${worker}`);
        if (kind === 'stop' && attempt.ending === null) breakLaw(2, `${name} was done before the record said so`);
      }
    }
  }

  function checkPace(ref: AllocationRef, ledger: Ledger): void {
    const { now } = world().timeline;
    const { ordinal } = ref.allocation;
    const key = visitKey(ref, ledger);
    const recent = [...(ledger.requests.get(key) ?? []), now].filter((at) => at > now - minute);
    ledger.requests.set(key, recent);
    if (!ledger.firstAsked.has(ordinal)) ledger.firstAsked.set(ordinal, now);
    if (recent.length > 15) {
      breakLaw(7, `job ${ref.job.id}: allocation ${ordinal} was asked for ${recent.length} times within a minute`);
    }
  }

  /** One stay of an allocation in a place. */
  function visitKey(ref: AllocationRef, ledger: Ledger): string {
    const key = placeKey(ref, ledger);
    return `${ref.allocation.ordinal}/${key}/${ledger.rounds.get(key) ?? 0}`;
  }

  /** Which place of which attempt that allocation is for. */
  function placeKey({ allocation }: AllocationRef, { job }: Ledger): string {
    return `${job.attempts.length}/${allocation.place ?? 0}`;
  }

  /**
   * Of several places none is asked for something new right after it has said that it has nothing, or soon after it has said
   * that we lack a right, and none before every other that is open has been asked as often. Where the clock jumped forward
   * meanwhile, or while that was being said, the wait may be over by it; a clock that is set back makes no wait short.
   */
  function checkPlaces(ref: AllocationRef, ledger: Ledger): void {
    const { job } = ledger;
    const { capacity } = job.spec;
    const { place = 0 } = ref.allocation;
    const others = capacity.kind === 'tpu' ? (capacity.alternatives?.length ?? 0) : 0;
    const attempt = job.attempts.at(-1);
    if (others === 0 || attempt === undefined || (ledger.requests.get(visitKey(ref, ledger)) ?? []).length > 1) return;
    const key = placeKey(ref, ledger);
    const told = ledger.nothing.get(key);
    const soon = told?.isForbidden === true ? 7 * minute : 20 * second;
    const isSoon = told !== undefined && ledger.rounds.has(key) && world().timeline.now < told.at + soon;
    if (isSoon && !jumps.some((at) => at >= told.at - replyMost))
      breakLaw(12, `job ${job.id}: place ${place} is asked again too soon after it said that it has nothing`);
    const isBarred = (which: number): boolean =>
      ledger.nothing.get(`${job.attempts.length}/${which}`)?.isForbidden === true;
    const rounds = (which: number): number => ledger.rounds.get(`${job.attempts.length}/${which}`) ?? 0;
    for (let other = 0; other <= others; other += 1) {
      if (!isBarred(place) && !isBarred(other) && rounds(other) < rounds(place) && !isAvoided(job, other))
        breakLaw(12, `job ${job.id}: place ${place} is asked again before place ${other}`);
    }
    if (isAvoided(job, place))
      breakLaw(12, `job ${job.id}: place ${place} is asked, whose zone a rule has turned from`);
  }

  /** A zone that a rule has turned from since the owner's newest word or the last success, as long as another is left. */
  function isAvoided(job: Job, place: number): boolean {
    const { capacity, recovery } = job.spec;
    if (capacity.kind !== 'tpu') return false;
    const zones = placesOf(capacity).map(({ zone }) => zone);
    const chance = job.attempts.findLastIndex(
      ({ asked, ordinal }) => asked || job.attempts[ordinal - 2]?.ending?.reason === 'succeeded',
    );
    const left = new Set(
      job.attempts.slice(Math.max(0, chance)).flatMap(({ ending, allocation }) => {
        const isTurned = ending !== null && ruleOf(recovery, ending)?.avoidZone === true;
        return isTurned ? [zones[job.allocations[allocation - 1]?.place ?? 0]] : [];
      }),
    );
    return left.has(zones[place]) && zones.some((zone) => !left.has(zone));
  }

  function checkSteps(ref: AllocationRef, detail: string, ledger: Ledger): void {
    const attempt = ledger.job.attempts.at(-1)?.ordinal ?? 0;
    const key = `${attempt}/${ref.allocation.ordinal}/${detail}`;
    const tries = (ledger.steps.get(key) ?? 0) + 1;
    ledger.steps.set(key, tries);
    // A lost reply costs no try, so storms and killed controllers add some; without a limit there would be hundreds.
    if (tries > ledger.job.spec.limits.setupTries + 60) {
      breakLaw(7, `job ${ref.job.id}: step ${detail} was tried ${tries} times in attempt ${attempt}`);
    }
  }

  /** A second machine is asked for while the first is well and nobody has let it go. */
  function checkSecond(ref: AllocationRef, ledger: Ledger): void {
    if (ref.allocation.ordinal < 2) return;
    for (const machine of world().machines) {
      const { labels } = machine;
      if (labels === null || labels.job !== ref.job.id || labels.allocation >= ref.allocation.ordinal) continue;
      if (machine.state !== 'ready' || machine.releaseAskedAt !== null) continue;
      const wasLetGo = ledger.accepted.has(`release/${labels.allocation}`);
      if (!wasLetGo)
        breakLaw(1, `job ${ref.job.id}: ${ref.allocation.name} is asked for while ${machine.name} is well`);
    }
  }

  // ------------------------------------------------------------------------------------------ the record, held against the world

  function checkCommit(before: Job, job: Job, ledger: Ledger): void {
    for (const allocation of job.allocations) {
      const old = before.allocations[allocation.ordinal - 1];
      if (allocation.goneAt !== null && (old === undefined || old.goneAt === null)) checkGone(job, allocation);
      if (allocation.ownership === 'owned') checkAccepted(job, allocation, old, ledger);
      if (allocation.passedOver !== undefined && old?.passedOver === undefined)
        ledger.passedOver.set(allocation.ordinal, world().timeline.now);
    }
    checkLetGo(before, job, ledger);
    checkSetUp(before, job);
    checkAttempts(job);
    checkStepFailures(job, ledger);
    checkGrowth(job);
    const attempt = job.attempts.at(-1);
    for (const { place, asks } of attempt?.placesPassed ?? []) ledger.rounds.set(`${attempt?.ordinal}/${place}`, asks);
    const old = before.attempts[(attempt?.ordinal ?? 0) - 1];
    if (attempt !== undefined && attempt.endedAt !== null && old !== undefined && old.endedAt === null) {
      const alive = world().runs.find((run) => run.job === job.id && run.attempt === attempt.ordinal && isAlive(run));
      if (alive !== undefined && alive.host.machine.state === 'ready' && !isGivenUp(alive, job)) {
        breakLaw(4, `job ${job.id}: attempt ${attempt.ordinal} counts as ended while ${runName(alive)} is alive`);
      }
    }
  }

  /**
   * What is not the job's own is let go only by a rule that wants it made anew. What a failed job holds for a look is kept for
   * as long as its owner said, unless he has another word or the machine is lost. Waiting ends where it has a limit.
   */
  function checkLetGo(before: Job, job: Job, ledger: Ledger): void {
    const { now } = world().timeline;
    const { recovery, finish, limits } = job.spec;
    const isNews = job.settled !== null && before.settled === null;
    if (isNews) ledger.failedAt = job.settled.verdict === 'failed' ? now : null;
    for (const { ordinal, ownership, name, releasedAt, seen } of job.allocations) {
      if (releasedAt === null || before.allocations[ordinal - 1]?.releasedAt !== null) continue;
      const isMadeAnew = job.settled === null && recovery.rules.some(({ answer }) => answer.on === 'new');
      if (ownership === 'standing' && !isMadeAnew)
        breakLaw(3, `job ${job.id}: ${name}, which was there before it, is let go`);
      const { holdOnFailure = 0 } = finish;
      const failedAt = job.desired === 'run' && job.settled !== null ? ledger.failedAt : null;
      const isShort = failedAt !== null && now < failedAt + holdOnFailure * 0.9 && !jumps.some((at) => at >= failedAt);
      if (ownership === 'owned' && isShort && seen?.state === 'ready' && ordinal === job.allocations.length)
        breakLaw(
          6,
          `job ${job.id}: ${name} is let go after ${now - failedAt} ms, and was to be held for ${holdOnFailure}`,
        );
    }
    const isOwned = job.spec.capacity.ownership === 'owned';
    const hasGivenUp = isNews && job.settled.reason === 'allocation_failed' && ledger.refused.size === 0;
    // A name that somebody else has taken is an end, too.
    const isTaken = job.allocations.some(({ name }) =>
      world().machines.some((one) => one.name === name && one.isStanding),
    );
    if (isOwned && hasGivenUp && limits.capacityWait === null && !isTaken)
      breakLaw(10, `job ${job.id} has given up waiting for capacity, and its owner has set no limit`);
  }

  /** A job that only sets up succeeds when every worker has gone through every step, and not before. */
  function checkSetUp(before: Job, job: Job): void {
    if (job.spec.command.isSetupOnly !== true) return;
    if (job.settled?.verdict !== 'succeeded' || before.settled !== null) return;
    const last = job.attempts.at(-1);
    const name = job.allocations[(last?.allocation ?? 0) - 1]?.name;
    const machine = world().machines.findLast((one) => one.name === name);
    if (last?.commandOnly === true || machine === undefined) return;
    for (const host of machine.hosts) {
      const { proofs } = folderOf(host, job.id, `${host.worker}`);
      const lacks = job.spec.steps.find(
        ({ key }) => ![...proofs].some((one) => one.startsWith(`${last?.allocation}/${key}/`)),
      );
      if (lacks !== undefined)
        breakLaw(5, `job ${job.id} counts as set up, and worker ${host.worker} lacks ${lacks.name}`);
    }
  }

  /** On a machine that is nobody's to let go, and on a host that has been silent for ten graces. */
  function isGivenUp({ host }: Run, job: Job): boolean {
    const { now } = world().timeline;
    const silent = host.silence === null ? 0 : now - host.silence.since;
    return host.machine.isStanding && silent >= 10 * job.spec.recovery.unreachableGrace * 0.9;
  }

  /** Attempts that followed one another by rule since the owner's newest word. What got no capacity uses up no budget. */
  function checkAttempts({ id, attempts, spec }: Job): void {
    const since = attempts.slice(
      Math.max(
        0,
        attempts.findLastIndex((one) => one.asked),
      ),
    );
    const { preemptions, failures, setupFailures = 0 } = spec.recovery.budget;
    const row = mostInARow(since, ({ ending }) => ending?.reason === 'setup_failed');
    if (row > 1 + setupFailures)
      breakLaw(7, `job ${id}: its setup has failed ${row} times in a row, and ${setupFailures} failures are allowed`);
    const counted = since.filter(
      ({ ending }) => ending !== null && ending.reason !== 'allocation_failed' && ending.reason !== 'setup_failed',
    );
    const most = 1 + preemptions + failures + ownLimits(spec);
    if (counted.length > most)
      breakLaw(7, `job ${id}: ${counted.length} attempts have ended, and the budgets allow ${most}`);
  }

  /** The longest row of such attempts without a command that ran in between. An attempt that lost its TPU does not end the row. */
  function mostInARow(attempts: readonly Attempt[], isCounted: (attempt: Attempt) => boolean): number {
    let most = 0;
    let row = 0;
    for (const attempt of attempts) {
      if (isCounted(attempt)) row += 1;
      else if (attempt.runningAt !== null || attempt.ending?.reason === 'command_failed') row = 0;
      most = Math.max(most, row);
    }
    return most;
  }

  /** An attempt counts no failure of a setup step that was not its own: its tries would be fewer than its owner allowed. */
  function checkStepFailures({ id, attempts }: Job, ledger: Ledger): void {
    for (const { ordinal, failures } of attempts) {
      for (const { task, tries } of failures) {
        if (task.kind !== 'step') continue;
        const key = taskKey(task);
        const failed = ledger.stepFailures.get(`${ordinal} ${key}`) ?? 0;
        if (tries > failed)
          breakLaw(7, `job ${id}: attempt ${ordinal} counts ${tries} failures of step ${key}, and it had ${failed}`);
      }
    }
  }

  /** What never was in the cloud, and what nobody ever was in doubt about, adds nothing to the record but once an attempt. */
  function checkGrowth({ id, allocations, attempts }: Job): void {
    const vain = allocations.filter(
      ({ name, requestedAt, releasedAt, goneAt, isDoubtful }) =>
        requestedAt !== null &&
        releasedAt === null &&
        goneAt !== null &&
        isDoubtful !== true &&
        !world().machines.some((one) => one.name === name),
    );
    if (vain.length > attempts.length)
      breakLaw(
        7,
        `job ${id}: the record of ${attempts.length} attempts holds ${vain.length} allocations that never were`,
      );
  }

  /** How many more attempts the owner's own rules allow beside the budgets. */
  function ownLimits({ recovery }: Job['spec']): number {
    return recovery.rules.reduce((sum, { limit = 0 }) => sum + limit, 0);
  }

  function checkGone(job: Job, allocation: Allocation): void {
    const { now } = world().timeline;
    const machine = findMachine(world(), zoneOf({ job, allocation }), allocation.name);
    if (machine === undefined || !isAllocation(machine, job, allocation)) return;
    // What took effect only just now cannot have been seen by a look that began before.
    if (now - machine.madeAt < 40 * second) return;
    breakLaw(
      6,
      `job ${job.id}: allocation ${allocation.ordinal} counts as gone while ${machine.name} is ${machine.state}`,
    );
  }

  /**
   * True if that machine is the allocation. Several machines in turn may have the name of a persistent allocation: its creation
   * time identifies it once it was seen ready, and the labels of its request before that.
   */
  function isAllocation({ labels, madeAt }: Machine, job: Job, { ordinal, made }: Allocation): boolean {
    if (made !== undefined) return made === `${madeAt}`;
    return labels?.job === job.id && labels.allocation === ordinal;
  }

  function checkAccepted(job: Job, allocation: Allocation, old: Allocation | undefined, ledger: Ledger): void {
    if (allocation.acceptedAt === null || allocation.acceptedAt === old?.acceptedAt) return;
    const kind = allocation.releasedAt === null ? 'request' : 'release';
    if (ledger.accepted.has(`${kind}/${allocation.ordinal}`)) return;
    const hasExisted = world().machines.some((one) => one.name === allocation.name);
    if (kind === 'request' && hasExisted) return;
    breakLaw(
      3,
      `job ${job.id}: the ${kind} of allocation ${allocation.ordinal} counts as accepted, and nobody said so`,
    );
  }

  // ------------------------------------------------------------------------------------------ the judge

  return {
    get violation() {
      return violation;
    },
    counts,
    get jobs() {
      return [...ledgers.values()].map((ledger) => ledger.job);
    },
    job: (id) => ledgerOf(id).job,
    wordAt: (id) => ledgerOf(id).wordAt,
    break: breakLaw,
    becomeCalm() {
      calmSince = world().timeline.now;
    },
    clockJumpedForward() {
      jumps.push(world().timeline.now);
    },
    spoken(job, events) {
      const known = ledgers.get(job.id);
      if (known === undefined) {
        ledgers.set(job.id, {
          job,
          madeAt: world().timeline.now,
          words: 0,
          wordAt: 0,
          lastOf: null,
          accepted: new Set(),
          refused: new Set(),
          troubles: 0,
          begun: new Set(),
          begunInCalm: new Set(),
          nothing: new Map(),
          rounds: new Map(),
          failedAt: null,
          requests: new Map(),
          firstAsked: new Map(),
          passedOver: new Map(),
          steps: new Map(),
          stepFailures: new Map(),
          events: [...events],
          commits: 0,
          isForced: false,
        });
        return;
      }
      known.job = job;
      const isLast = events.some((event) => event.kind === 'asked' && event.verb === 'last');
      known.lastOf = isLast ? job.attempts.length : job.desired === 'run' ? null : known.lastOf;
      // A settled job that holds nothing is off the list at once without force, and its logs are still copied.
      known.isForced ||= job.removed && (job.settled === null || holdsCapacity(job));
      known.words += 1;
      known.failedAt = null;
      known.wordAt = world().timeline.now;
      known.begun = new Set();
      known.events.push(...events);
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
      checkCommit(before, commit.job, ledger);
    },
    called(kind, ref, detail) {
      if (kind === 'look') {
        counts.looks += 1;
        return;
      }
      counts.acts += 1;
      const ledger = ledgerOf(ref.job.id);
      world().say(`call: ${kind} ${ref.job.id}/${ref.allocation.ordinal} ${detail}`);
      checkRecorded(kind, ref, detail, ledger);
      if (kind === 'request') {
        checkPace(ref, ledger);
        checkPlaces(ref, ledger);
        checkSecond(ref, ledger);
      }
      if (kind === 'step') checkSteps(ref, detail, ledger);
      const machine = machineOf(ref);
      if (kind === 'release' && machine !== undefined) checkLastWords(ref, machine, ledger);
      if ((kind === 'release' || kind === 'stop') && machine !== undefined && !hasGround(ledger, machine)) {
        breakLaw(1, `job ${ref.job.id}: ${kind} ${detail} on ${machine.name}, which is well, and nothing had happened`);
      }
    },
    replied(kind, ref, result, step) {
      const reply = result.kind;
      const error = errorKind(result);
      const ledger = ledgerOf(ref.job.id);
      if (step !== undefined && (reply === 'failed' || reply === 'refused')) {
        const failure = `${ref.job.attempts.length} ${step}`;
        ledger.stepFailures.set(failure, (ledger.stepFailures.get(failure) ?? 0) + 1);
      }
      const key = `${kind}/${ref.allocation.ordinal}`;
      if (reply === 'done') ledger.accepted.add(key);
      else if (kind === 'request' || kind === 'release') {
        if (reply === 'refused') ledger.refused.add(key);
        if (kind === 'request' && (error === 'stockout' || error === 'quota' || error === 'permission')) {
          const at = world().timeline.now;
          const said = { at, allocation: ref.allocation.ordinal, isForbidden: error === 'permission' };
          const place = placeKey(ref, ledger);
          unrecorded.set(result, () => {
            // A controller that was suspended may record an answer that a newer one has replaced since.
            if ((ledger.nothing.get(place)?.at ?? 0) <= at) ledger.nothing.set(place, said);
          });
        }
      } else ledger.troubles += 1;
    },
    recorded(result) {
      unrecorded.get(result)?.();
    },
    strayReleased(stray) {
      const ledger = ledgers.get(stray.job);
      counts.acts += 1;
      if (ledger === undefined) {
        breakLaw(3, `${stray.resource} was deleted, and no job here has ever claimed it`);
        return;
      }
      const allocation = ledger.job.allocations[stray.allocation - 1];
      if (allocation === undefined)
        breakLaw(3, `${stray.resource} was deleted, and no allocation here has that number`);
      else if (allocation.goneAt === null) breakLaw(3, `${stray.resource} was swept away while its job claims it`);
    },
    begins(run) {
      const ledger = ledgerOf(run.job);
      ledger.begun.add(run.attempt);
      if (ledger.job.spec.command.isSetupOnly === true)
        breakLaw(5, `${runName(run)} begins, and its manifest has no command`);
      for (const other of world().runs) {
        if (other === run || other.job !== run.job || !isAlive(other)) continue;
        if (other.attempt === run.attempt && other.worker !== run.worker) continue;
        breakLaw(4, `${runName(run)} begins while ${runName(other)} is alive`);
      }
      checkSetup(run, ledger);
      checkBudget(run, ledger);
      const isByRule = ledger.job.attempts[run.attempt - 1]?.asked === false;
      if (ledger.lastOf !== null && run.attempt > ledger.lastOf && isByRule)
        breakLaw(7, `${runName(run)} begins, and its owner wanted none after attempt ${ledger.lastOf}`);
      checkSlots(run, ledger);
      checkCheckpoint(run, ledger);
    },
    atRest() {
      for (const ledger of ledgers.values()) {
        checkEmpty(ledger);
        checkHistory(ledger);
      }
      // A machine that was made anew under its name may have run an attempt again: the copy goes on with the last, where that
      // has more to say than the first had.
      const last = new Map<string, Run>();
      const { now } = world().timeline;
      for (const run of world().runs) {
        const before = last.get(runName(run));
        if (before === undefined || printed(run, now) >= printed(before, now)) last.set(runName(run), run);
      }
      for (const run of last.values()) checkLog(run);
      for (const [key, copy] of copies().files) {
        const [job, attempt, worker] = key.split('/');
        const run = world().runs.find(
          (one) => one.job === job && `${one.attempt}` === attempt && one.worker === worker,
        );
        if (run === undefined && copy.bytes > 0) breakLaw(11, `we hold ${copy.bytes} bytes of ${key}, which never ran`);
      }
    },
  };

  /** Attempts since the owner's last word, and those of them that failed by the program's own doing. */
  function checkBudget(run: Run, ledger: Ledger): void {
    const { budget } = ledger.job.spec.recovery;
    const { preemptions } = budget;
    const failures = budget.failures + ownLimits(ledger.job.spec);
    const failed = new Set<number>();
    const isOfSetup = (ordinal: number): boolean => ledger.job.attempts[ordinal - 1]?.ending?.reason === 'setup_failed';
    for (const other of world().runs) {
      // Of the same attempt another worker may begin late, when one has failed already.
      const isEarlier = other.job === run.job && other.attempt < run.attempt;
      if (isEarlier && isOwnFailure(other) && ledger.begun.has(other.attempt) && !isOfSetup(other.attempt))
        failed.add(other.attempt);
    }
    if (failed.size > failures) {
      breakLaw(
        7,
        `job ${run.job}: attempt ${run.attempt} begins after ${failed.size} failures, and ${failures} are allowed`,
      );
    }
    // In calm nothing is taken away any more, so only failures can make new attempts, after a few that were under way.
    if (calmSince !== null) ledger.begunInCalm.add(run.attempt);
    const names = ledger.job.allocations.map((one) => one.name);
    const isAnyHostDead = world().machines.some(
      ({ name, hosts }) => names.includes(name) && hosts.some(({ silence }) => silence !== null),
    );
    if (!isAnyHostDead && ledger.begunInCalm.size > failures + 4) {
      breakLaw(7, `job ${run.job}: ${ledger.begunInCalm.size} attempts in calm, and ${failures} failures are allowed`);
    }
    const begun = [...ledger.begun].filter((ordinal) => !isOfSetup(ordinal));
    if (begun.length > 1 + preemptions + failures) {
      breakLaw(7, `job ${run.job}: attempt ${run.attempt} begins, and the budgets allow ${1 + preemptions + failures}`);
    }
  }

  /** No more jobs of this machine's own capacity have a program alive at once than there are slots. */
  function checkSlots(run: Run, { job }: Ledger): void {
    if (job.spec.capacity.kind !== 'local') return;
    const alive = new Set(
      world()
        .runs.filter((one) => one === run || isAlive(one))
        .filter((one) => ledgerOf(one.job).job.spec.capacity.kind === 'local')
        .map((one) => one.job),
    );
    if (alive.size > slots)
      breakLaw(13, `${runName(run)} begins as one of ${alive.size}, and there are ${slots} slots`);
  }

  /**
   * A program resumes from a checkpoint that its own job has written since its newest start from the beginning, or from one that
   * its owner has named, and from no other. If its job has one, a resumed program gets it.
   */
  function checkCheckpoint(run: Run, { job }: Ledger): void {
    const { checkpoints, resumedFrom: from } = run;
    const { command } = job.spec;
    if (checkpoints === undefined || checkpoints.checkpointDir === null || command.checkpoints === 'shared') return;
    const beginning = job.attempts.findLast(
      ({ ordinal, stage, startedAt }) => ordinal <= run.attempt && stage === 0 && startedAt !== null,
    );
    // The start from the beginning may never have reached its worker: then the first later run began the work.
    const first = beginning?.ordinal ?? Infinity;
    const starts = world()
      .runs.filter((one) => one.job === run.job && one.attempt >= first && one !== run)
      .map(({ startedAt }) => startedAt ?? Infinity);
    const begunAt = Math.min(...starts);
    const isOwn = ({ writer, at }: Checkpoint): boolean => writer.job === run.job && at >= begunAt;
    const named = command.resumeFrom?.kind === 'folder' ? command.resumeFrom.job : undefined;
    if (from !== null && !isOwn(from) && from.writer.job !== named)
      breakLaw(14, `${runName(run)} resumes from ${from.name}, which ${runName(from.writer)} wrote`);
    const isResume = (job.attempts[run.attempt - 1]?.stage ?? 0) > 0;
    const own = checkpointsIn(world(), checkpoints.checkpointDir).filter((one) => isOwn(one) && one.writer !== run);
    if (isResume && own.length > 0 && (from === null || !isOwn(from)))
      breakLaw(14, `${runName(run)} does not resume from ${own.at(-1)?.name}, which its job wrote`);
  }

  /** It failed by itself, and nothing else had gone wrong with its machine that could be the reason instead. */
  function isOwnFailure(run: Run): boolean {
    if (run.exitCode === null || run.exitCode === 0 || run.askedAt !== null || run.killed || run.endedAt === null)
      return false;
    const others = world().runs.filter((one) => one.job === run.job && one.attempt === run.attempt);
    if (others.some((one) => one.endedAt !== null && one.askedAt === null && (one.killed || one.exitCode === null)))
      return false;
    // The command on this machine fails with the workers that it drives.
    const name = ledgerOf(run.job).job.allocations[run.allocation - 1]?.name;
    const machine =
      world().machines.findLast((one) => one.name === name && one.madeAt <= run.madeAt) ?? run.host.machine;
    if (machine.lostAt !== null && machine.lostAt < run.endedAt + 2 * minute) return false;
    if (machine.troubledAt >= run.madeAt || world().lineCutUntil >= run.madeAt) return false;
    return machine.hosts.every((host) => host.silence === null);
  }

  function checkSetup(run: Run, ledger: Ledger): void {
    const { machine } = run.host;
    if (isJustTheCommand(ledger, run)) return;
    // The command on this machine drives workers that must be set up all the same.
    const hosts =
      run.worker === 'here'
        ? (world().machines.findLast((one) => one.name === ledger.job.allocations[run.allocation - 1]?.name)?.hosts ??
          [])
        : machine.hosts;
    for (const host of hosts) {
      const { proofs } = folderOf(host, run.job, `${host.worker}`);
      for (const step of ledger.job.spec.steps) {
        const proven = [...proofs].filter((proof) => proof.startsWith(`${run.allocation}/${step.key}/`));
        // A restart only just now cannot have been seen by the look that the start rests on. Where it begins itself, the
        // launcher must have noticed.
        const isFresh = host !== run.host && world().timeline.now - host.bootedAt < 40 * second;
        if (proven.some((proof) => isFresh || proof.endsWith(`/${host.bootId}`))) continue;
        breakLaw(5, `${runName(run)} begins and worker ${host.worker} has not gone through ${step.name}`);
        return;
      }
    }
  }

  /** The owner wanted no steps, on a machine that was his before he said so. */
  function isJustTheCommand({ job, wordAt }: Ledger, run: Run): boolean {
    if (job.attempts[run.attempt - 1]?.commandOnly !== true) return false;
    const name = job.allocations[run.allocation - 1]?.name;
    const machine = world().machines.findLast((one) => one.name === name) ?? run.host.machine;
    // A shared one may be made anew by whoever it belongs to, while nobody could look.
    if (machine.isStanding) return true;
    // By the world's own time: the record's may have been set back in between.
    return machine.readyAt !== null && machine.readyAt <= wordAt;
  }

  function checkEmpty({ job, isForced }: Ledger): void {
    if (job.settled === null) return;
    const { finish } = job.spec;
    const isHeld = job.settled.verdict === 'failed' && finish.holdOnFailure !== undefined;
    const isKept = job.desired === 'hold' || finish.capacity === 'keep' || isHeld;
    if (isKept) return;
    for (const machine of world().machines) {
      if (machine.state === 'gone' || machine.isStanding || machine.labels?.job !== job.id) continue;
      // What a forced delete leaves behind is noted as a stray, for a person to let go.
      const isGone = job.allocations[machine.labels.allocation - 1]?.goneAt !== null;
      if (isForced && !isGone) continue;
      // What comes of a request long after its release is waited for by the clock, and may miss a wait that a leap has cut
      // short. It carries our label: `gc` lists it.
      if (isGone && jumps.some((at) => at >= machine.madeAt - drainMost)) continue;
      breakLaw(6, `job ${job.id} is settled and ${machine.name} is still ${machine.state}`);
    }
  }

  function checkHistory({ job, events }: Ledger): void {
    const told = retold(events);
    for (const [what, fromHistory, fromRecord] of told.differences(job)) {
      breakLaw(9, `job ${job.id}: ${what} is ${fromRecord} in the record and ${fromHistory} by its history`);
      return;
    }
  }

  function holdsCapacity({ allocations }: Job): boolean {
    return allocations.some(
      ({ ownership, requestedAt, goneAt }) => ownership === 'owned' && requestedAt !== null && goneAt === null,
    );
  }

  function heldOf(run: Run): Uint8Array {
    const copy = copies().files.get(`${run.job}/${run.attempt}/${run.worker}`);
    return copy === undefined ? new Uint8Array(0) : contentOf(copy);
  }

  /**
   * A machine that is let go takes its logs with it. So whatever the record knows to have ended there is held by then,
   * unless something has stood in the way of reading it since.
   */
  function checkLastWords(ref: AllocationRef, machine: Machine, { job, isForced }: Ledger): void {
    const seen = job.allocations[ref.allocation.ordinal - 1]?.seen?.state;
    if (machine.state !== 'ready' || seen !== 'ready' || machine.releaseAskedAt !== null || isForced) return;
    for (const run of world().runs) {
      if (run.host.machine !== machine || run.job !== job.id || run.endedAt === null) continue;
      if ((job.attempts[run.attempt - 1]?.endedAt ?? null) === null) continue;
      const since = run.endedAt - drainMost;
      const { lineCutUntil, diskFullUntil } = world();
      if (Math.max(machine.troubledAt, lineCutUntil, diskFullUntil, ...jumps) >= since) continue;
      const held = heldOf(run).length;
      const all = printed(run, world().timeline.now);
      if (held < all) breakLaw(11, `${machine.name} is let go, and we hold ${held} of ${all} bytes of ${runName(run)}`);
    }
  }

  function checkLog(run: Run): void {
    const { now } = world().timeline;
    const held = heldOf(run);
    const all = printed(run, now);
    if (held.length > all) {
      breakLaw(11, `we hold ${held.length} bytes of ${runName(run)}, which printed ${all}`);
      return;
    }
    const truth = outputOf(run, 0, held.length);
    const wrong = held.findIndex((byte, index) => byte !== truth[index]);
    if (wrong >= 0) {
      breakLaw(11, `our copy of ${runName(run)} differs from what it printed at byte ${wrong}`);
      return;
    }
    // What was out of reach from the program's end on may be lost with its machine. What can be read must be there.
    const isReachable = run.host.isUp && run.host.silence === null && run.host.machine.state === 'ready';
    const { isForced } = ledgerOf(run.job);
    if (!isReachable || isForced) return;
    const due = run.endedAt === null ? printed(run, now - minute) : all;
    if (held.length < due)
      breakLaw(11, `we hold ${held.length} of ${due} bytes of ${runName(run)}, whose host answers`);
  }
}

/** The class of the error that came back, if one did. */
function errorKind(result: OutcomeResult): string | undefined {
  return result.kind === 'failed' || result.kind === 'refused' ? result.error?.kind : undefined;
}
