// Run: one seed, one story. First a storm in which nothing bad may happen, then calm in which everything must come to
// rest within a stated time. The controller, performer, mirror, sweeper, core and store are the real ones.

import { createHash } from 'node:crypto';
import type { Clock } from '../src/app/ports.ts';
import { holdsSlot, waitsForSlot } from '../src/core/admit.ts';
import { heldAllocations } from '../src/core/job.ts';
import type { Job } from '../src/core/job.ts';
import { capacityAt, placeCount } from '../src/core/place.ts';
import { hour, minute, second } from '../src/core/time.ts';
import { openStore } from '../src/store/store.ts';
import { createChance } from './chance.ts';
import type { Chance } from './chance.ts';
import { zoneOf } from './cloud.ts';
import type { Sky } from './cloud.ts';
import { createClient, createControllers } from './controllers.ts';
import type { Ground, Life } from './controllers.ts';
import { createCopies } from './copies.ts';
import type { Disk } from './copies.ts';
import { killFromOutside } from './hosts.ts';
import { bareZone, drawJobs, grantedZone, installation, planFor, unsureZones } from './jobs.ts';
import type { Nature, Wanted } from './jobs.ts';
import { createJudge } from './laws.ts';
import type { Violation } from './laws.ts';
import { createTimeline } from './timeline.ts';
import { calm, drawWeather } from './weather.ts';
import {
  createWorld,
  interruptMachine,
  isAlive,
  lastChangeOfMachines,
  loseMachine,
  makeMachine,
  newMachine,
  restartHost,
  silenceHost,
  vanish,
} from './world.ts';
import type { Machine, World } from './world.ts';

/** By when everything must have come to rest after the storm. */
const patience = 4 * hour;
/** The wall clock of the machine that the controllers run on, when the world begins. */
const epoch = Date.UTC(2026, 0, 1);

export interface Story {
  readonly seed: number;
  readonly violation: Violation | null;
  /** Of everything that happened, in order: equal for equal seeds. */
  readonly hash: string;
  readonly lines: readonly string[];
  /** How much happened, for the report: virtual time, events, jobs, lives of controllers. */
  readonly virtualMs: number;
  readonly events: number;
  readonly jobs: number;
  readonly lives: number;
}

export interface RunOptions {
  readonly seed: number;
  /** Keeps the story; without it only its hash is. */
  readonly trace?: boolean;
}

/** Whether a rule of the job's own may turn it from a zone. */
function mayTurnFromZones({ spec }: Job): boolean {
  return spec.recovery.rules.some(({ avoidZone }) => avoidZone === true);
}

/** What becomes of the zones that jobs name beside the sure one. */
function drawZones(chance: Chance): Pick<World, 'bare' | 'closed'> {
  const fates = unsureZones.map((zone) => ({ zone, fate: chance.pick(['gives', 'bare', 'bare', 'closed'] as const) }));
  const of = (wanted: string): readonly string[] => fates.filter(({ fate }) => fate === wanted).map(({ zone }) => zone);
  return { bare: new Set([bareZone, ...of('bare')]), closed: new Set([grantedZone, ...of('closed')]) };
}

/** Plays that seed to its end, or to the first law that is broken. */
export async function run({ seed, trace = false }: RunOptions): Promise<Story> {
  const hash = createHash('sha256');
  const lines: string[] = [];
  const say = (line: string): void => {
    hash.update(line).update('\n');
    if (trace) lines.push(line);
  };
  const chance = createChance(seed);
  const timeline = createTimeline();
  const judge = createJudge(
    () => world,
    () => copies,
  );
  const world: World = createWorld(
    timeline,
    chance.fork('world'),
    say,
    { begins: (run) => judge.begins(run) },
    drawZones(chance.fork('zones')),
  );
  const sky: Sky = { weather: drawWeather(chance.fork('weather')), cloudIsDown: false, lineIsCut: false };
  const disk: Disk = { isFull: false };
  const copies = createCopies(disk, chance.fork('disk'));
  const store = openStore({ file: ':memory:', installation });
  const wall = { offset: 0, setBack: 0 };
  const clock: Clock = {
    now: () => epoch + timeline.now + wall.offset,
    at: (at, call) => timeline.after(Math.max(0, at - (epoch + timeline.now + wall.offset)), call),
  };

  // -------------------------------------------------------------------------------------- jobs and their owners

  const natures = new Map<string, Nature>();
  const owners = chance.fork('owners');
  const ways = chance.fork('ways of saying it');
  const lasts = chance.fork('words that nothing is to follow');
  /** `tpu ack`. A fork, so that all else of a seed stays as it was. */
  const acks = chance.fork('ends that are to be judged at once');

  async function create(wanted: Wanted): Promise<void> {
    const job = await client.insert({ owner: 'owner', spec: wanted.spec, manifest: '', at: clock.now() });
    natures.set(job.id, wanted.nature);
    prepareFor(job, wanted);
    client.tap(job.id);
  }

  /** What must be there before: a shared machine; sometimes somebody else's machine with our name. */
  function prepareFor(job: Job, { spec, nature }: Wanted): void {
    if (spec.capacity.kind !== 'tpu') return;
    const at = timeline.now;
    if (spec.capacity.ownership === 'standing') {
      makeMachine(
        world,
        newMachine({ name: spec.capacity.name, labels: null, isStanding: true, workers: nature.workers, at }),
      );
    } else if (owners.yes(0.03) && placeCount(spec.capacity) === 1) {
      makeMachine(
        world,
        newMachine({ name: `${spec.capacity.name}-${job.id}-1`, labels: null, isStanding: true, workers: 1, at }),
      );
    }
  }

  // -------------------------------------------------------------------------------------- controllers, one life after another

  const fates = chance.fork('fates');
  let isStorm = true;
  const ground: Ground = {
    world,
    sky,
    disk,
    copies,
    store,
    clock,
    judge: {
      ...judge,
      get violation() {
        return judge.violation;
      },
      committed(commit, result) {
        judge.committed(commit, result);
        const isHeldBack = result === 'committed' && commit.events.some(({ kind }) => kind === 'exit_seen');
        if (isHeldBack && isStorm && acks.yes(0.5))
          timeline.after(acks.between(0, 25) * second, () => void client.speak('judge', commit.job.id, {}));
      },
    },
    installation,
    workersOf: (job) => natures.get(job)?.workers ?? 1,
    planFor: (job, attempt, worker) => planFor(natureOf(job), attempt, worker),
  };
  const controllers = createControllers(ground, {
    ports: chance,
    chance: fates,
    born({ incarnation }) {
      if (isStorm && fates.yes(killiness)) incarnation.dieAt(fates.between(1, 400), fates.pick(['before', 'after']));
    },
  });
  const { lives } = controllers;
  const client = createClient(ground, controllers, {
    owner: () => 'owner',
    isTapLost: () => isStorm && owners.yes(0.2),
  });

  function natureOf(job: string): Nature {
    const nature = natures.get(job);
    if (nature === undefined) throw new Error(`the world knows no job ${job}`);
    return nature;
  }

  // -------------------------------------------------------------------------------------- the storm

  const storm = chance.fork('storm');
  const killiness = storm.pick([0, 0.5, 0.9]);
  const stormLength = storm.between(3, 12) * minute;

  /** Every accident of the storm, each with how often it comes in a seed that has it. */
  const accidents: readonly (readonly [string, () => void])[] = [
    ['preemption', () => onMachine((machine) => loseMachine(world, machine, 'preempted'))],
    ['failure', () => onMachine((machine) => loseMachine(world, machine, 'failed'))],
    ['disappearance', () => onMachine((machine) => machine.isStanding || vanish(world, machine))],
    [
      'maintenance',
      () => onMachine((machine) => void interruptMachine(world, machine, storm.between(10, 180) * second)),
    ],
    ['restart', () => onMachine((machine) => void restartHost(world, storm.pick(machine.hosts)))],
    [
      'silence',
      () => onMachine((machine) => silenceHost(world, storm.pick(machine.hosts), storm.between(5, 300) * second)),
    ],
    ['dead host', () => onMachine((machine) => silenceHost(world, storm.pick(machine.hosts), Infinity))],
    ['kill', () => onRun((one) => killFromOutside({ world }, one, storm.yes(0.5)))],
    ['outage', () => during('the cloud is out of reach', storm.between(10, 300), (on) => (sky.cloudIsDown = on))],
    ['cut', () => cutLine(storm.between(10, 120))],
    ['stockout', () => during('there is no capacity', storm.between(10, 300), (on) => (world.hasCapacity = !on))],
    ['full disk', () => fillDisk(storm.between(5, 120))],
    ['death', () => onLife((life) => life.incarnation.die())],
    ['suspension', suspend],
    ['clock forward', () => jump(storm.between(10, 3_600) * second)],
    ['clock backward', () => jump(-(storm.yes(0.5) ? storm.between(10, 900) * second : 24 * hour))],
    ['clock a day ahead for a while', () => dayAhead(storm.between(5, 240) * second)],
    ['word', word],
    ['word', word],
  ];
  /** Clocks that go back and two controllers at a moment do not come together: nothing can tell them apart then. */
  const hasSuspension = storm.yes(0.3);
  const enabled = accidents.filter(([name]) => {
    const isRare = name.startsWith('clock') || name === 'dead host';
    if (name === 'suspension') return hasSuspension;
    if (name === 'clock backward' || name.startsWith('clock a day')) return !hasSuspension && storm.yes(0.2);
    return storm.yes(isRare ? 0.2 : 0.4);
  });

  function onMachine(hit: (machine: Machine) => void): void {
    const candidates = world.machines.filter(
      (one) => one !== world.here && (one.state === 'ready' || one.state === 'provisioning'),
    );
    if (candidates.length > 0) hit(storm.pick(candidates));
  }

  function onRun(hit: (run: World['runs'][number]) => void): void {
    const alive = world.runs.filter(isAlive);
    if (alive.length > 0) hit(storm.pick(alive));
  }

  function onLife(hit: (life: Life) => void): void {
    const alive = lives.filter((life) => !life.incarnation.isDead && life.hasLeft === null);
    if (alive.length > 0) hit(storm.pick(alive));
  }

  function during(what: string, seconds: number, turn: (on: boolean) => void): void {
    world.say(`storm: ${what} for ${seconds} s`);
    turn(true);
    timeline.after(seconds * second, () => {
      turn(false);
      world.say(`storm: over: ${what}`);
    });
  }

  function fillDisk(seconds: number): void {
    world.diskFullUntil = Math.max(world.diskFullUntil, timeline.now + seconds * second);
    during('the disk is full', seconds, (on) => (disk.isFull = on));
  }

  function cutLine(seconds: number): void {
    world.lineCutLongest += seconds * second;
    world.lineCutUntil = Math.max(world.lineCutUntil, timeline.now + seconds * second);
    during('the line to all hosts is cut', seconds, (on) => (sky.lineIsCut = on));
  }

  /** The process stands still, another takes the lease when it has run out, and the first goes on as if nothing had been. */
  function suspend(): void {
    onLife((life) => {
      // Who takes the lease by force holds the machine's lock, and nobody else begins beside it.
      if (!life.hasBegun) return;
      world.say(`${life.incarnation.name} is suspended`);
      life.incarnation.freeze();
      timeline.after(storm.between(1, 20) * second, () => {
        if (life.incarnation.isDead) return;
        controllers.begin('the last one does not answer', false);
      });
      timeline.after(storm.between(20, 90) * second, () => {
        world.say(`${life.incarnation.name} goes on`);
        life.incarnation.thaw();
      });
    });
  }

  function jump(length: number): void {
    world.say(`storm: the controller's clock jumps by ${length}`);
    wall.offset += length;
    wall.setBack += Math.max(0, -length);
    if (length > 0) judge.clockJumpedForward();
  }

  /** Somebody sets the wrong date, and right again. */
  function dayAhead(length: number): void {
    jump(24 * hour);
    timeline.after(length, () => jump(-24 * hour));
  }

  function word(): void {
    const ids = [...natures.keys()];
    if (ids.length === 0) return;
    const verb = owners.pick([
      'stop',
      'stop',
      'start',
      'resume',
      'rerun',
      'cancel',
      'delete',
      'resume',
      'start',
    ] as const);
    const id = owners.pick(ids);
    // Of a chance of its own, so that older worlds stay what they were.
    if (lasts.yes(0.15)) void client.speak('last', id, {});
    else if (verb === 'stop') void client.speak(verb, id, { release: owners.yes(0.4) });
    else if (verb === 'start') void client.speak(verb, id, { commandOnly: ways.yes(0.3) });
    else void client.speak(verb, id, verb === 'delete' ? { force: ways.yes(0.5) } : {});
  }

  function nextAccident(): void {
    timeline.after(storm.between(1, 60) * second, () => {
      if (!isStorm) return;
      if (enabled.length > 0) storm.pick(enabled)[1]();
      nextAccident();
    });
  }

  // -------------------------------------------------------------------------------------- the calm

  function becomeCalm(): void {
    isStorm = false;
    judge.becomeCalm();
    world.say('the storm is over');
    sky.weather = calm;
    world.closed.delete(grantedZone);
    // Whoever turned from the one zone that gives has to wait for the others, which have something one day.
    for (const { capacity } of judge.jobs.filter(mayTurnFromZones).map(({ spec }) => spec)) {
      for (let place = 0; place < placeCount(capacity); place += 1) {
        const at = capacityAt(capacity, place);
        if (at.kind !== 'tpu') continue;
        world.bare.delete(at.zone);
        world.closed.delete(at.zone);
      }
    }
    for (const machine of world.machines) {
      if (machine.isStanding && machine.state === 'lost') {
        // The owner of a shared machine creates it again. jobman did not ask for this one, so it has no label of a job.
        vanish(world, machine);
        const { name, hosts } = machine;
        makeMachine(
          world,
          newMachine({ name, labels: null, isStanding: true, workers: hosts.length, at: timeline.now }),
        );
      }
    }
    timeline.after(2 * second, () => controllers.ensureAlive('somebody looks after it'));
  }

  /** The last controller has died or lost its lease, and the next has not begun: what is printed meanwhile is copied later. */
  function isAbandoned(): boolean {
    const last = lives.reduce<Life | null>(
      (late, life) => ((late?.overAt ?? -1) > (life.overAt ?? -1) ? late : life),
      null,
    );
    const isFollowed = last?.hasLeft === null || last?.hasLeft === 'lease_lost';
    return lives.every(({ overAt }) => overAt !== null) && isFollowed;
  }

  /** The owner's command reaches a controller within minutes, also where its wake-up was lost and the next pass is hours away. */
  function checkHeard(calmAt: number): void {
    for (const job of judge.jobs) {
      const attempt = job.attempts.at(-1);
      if (job.desired === 'run' || job.removed || attempt === undefined) continue;
      if (attempt.ending !== null || attempt.endedAt !== null) continue;
      if (timeline.now - Math.max(calmAt, judge.wordAt(job.id)) > 15 * minute)
        judge.break(10, `job ${job.id}: its owner said ${job.desired}, and its attempt goes on: ${describe(job)}`);
    }
  }

  /** Settled and empty, or truly running what never ends, or told to hold. */
  function isResting(job: Job): boolean {
    if (job.removed) return !isLooseEnd(job);
    if (job.settled !== null) {
      if (isOutOfSight(job)) return true;
      if (job.desired === 'delete') return false;
      const { capacity, keepFor } = job.spec.finish;
      const isKept = job.desired === 'hold' || (capacity === 'keep' && keepFor === null);
      // What was kept may be let go all the same: by a limit, or by the owner's word.
      const isLeaving = heldAllocations(job).some(({ releasedAt }) => releasedAt !== null);
      return (isKept && !isLeaving) || heldAllocations(job).length === 0;
    }
    // What he wants anew is not asked for before that is gone.
    if (isOutOfSight(job) && job.allocations.at(-1)?.requestedAt === null) return true;
    // Behind a program that never ends it waits for ever, as it should.
    if (waitsForSlot(job) && judge.jobs.some((other) => holdsSlot(other) && isResting(other))) return true;
    // The owner's command is still to be carried out.
    if (job.desired !== 'run' || job.wish !== null) return false;
    const attempt = job.attempts.at(-1);
    if (attempt === undefined || attempt.runningAt === null || attempt.ending !== null) return false;
    // Whoever is silent will be given up one day.
    if (job.allocations.at(-1)?.silentSince !== null) return false;
    // A limit ends it one day; when that is, a clock that was set back decides as well.
    if (job.spec.limits.maxRuntime !== null) return false;
    const alive = world.runs.filter((one) => one.job === job.id && one.attempt === attempt.ordinal && isAlive(one));
    // What may still end by itself is not at rest yet.
    return (
      alive.length > 0 &&
      alive.every((one) => one.plan.length === null) &&
      (job.spec.limits.silenceTimeout === null || alive.some((one) => one.plan.silentAfter === null)) &&
      timeline.now - (alive[0]?.startedAt ?? 0) > minute
    );
  }

  /**
   * What it may still hold is in a zone that lets us neither look nor let go, and an answer to a request there was lost, with
   * its controller perhaps: only a person can say that nothing came of it.
   */
  function isOutOfSight(job: Job): boolean {
    const held = heldAllocations(job);
    return (
      held.length > 0 &&
      held.every(
        (allocation) =>
          (allocation.isAsking === true || allocation.isDoubtful === true) &&
          world.closed.has(zoneOf({ job, allocation })),
      )
    );
  }

  /** A program of a job off the list that runs on where nothing else ends it, although somebody there has answered of late. */
  function isLooseEnd(job: Job): boolean {
    if (job.allocations.some(({ silentSince }) => silentSince !== null)) return false;
    return world.runs.some(
      (one) => one.job === job.id && isAlive(one) && (one.host.machine === world.here || one.host.machine.isStanding),
    );
  }

  const isBroken = (): boolean => judge.violation !== null;

  // -------------------------------------------------------------------------------------- the story

  for (const wanted of drawJobs(chance.fork('jobs'))) {
    timeline.after(wanted.at, () => void create(wanted));
  }
  // Somebody else's things, which carry our label by a copied record, or none.
  if (chance.yes(0.3)) {
    const labels = { installation, job: '999999', allocation: 1 };
    makeMachine(world, newMachine({ name: 'left-behind', labels, isStanding: false, workers: 1, at: 0 }));
  }
  timeline.after(50, () => controllers.ensureAlive('somebody starts it'));
  nextAccident();
  await timeline.play(stormLength, isBroken);
  if (!isBroken()) {
    becomeCalm();
    const until = timeline.now + patience;
    let restingSince: number | null = null;
    const calmAt = timeline.now;
    await timeline.play(until, () => {
      checkHeard(calmAt);
      if (isBroken()) return true;
      if (natures.size === 0 || isAbandoned() || !judge.jobs.every(isResting)) {
        restingSince = null;
        return false;
      }
      restingSince ??= timeline.now;
      // Late effects and the sweep that finds them have their time, too. Where a sweep found one, the controller watches for
      // a second one as long as for the first, so the wait starts again.
      return timeline.now - Math.max(restingSince, lastChangeOfMachines(world)) > 8 * minute;
    });
    if (!isBroken() && restingSince === null) {
      const late = judge.jobs.find((job) => !isResting(job));
      const holds = late?.settled !== null && late?.removed === false;
      judge.break(
        holds ? 6 : 10,
        late === undefined ? 'no job was ever made' : `job ${late.id} has not come to rest: ${describe(late)}`,
      );
    }
    if (!isBroken()) judge.atRest();
    if (!isBroken()) await checkQuiet();
  }
  for (const life of lives) life.incarnation.die();
  await store.close();
  return {
    seed,
    violation: judge.violation,
    hash: hash.digest('hex'),
    lines,
    virtualMs: timeline.now,
    events: timeline.played,
    jobs: natures.size,
    lives: lives.length,
  };

  /** Law 8: where nothing is wanted and nothing changes, nothing is done, nothing written, and nobody wakes for nothing. */
  async function checkQuiet(): Promise<void> {
    if (judge.jobs.some(isOutOfSight)) return;
    const before = { ...judge.counts };
    // Whoever only waits for the lease is kept from beginning by the machine's lock, outside the simulator.
    const begun = lives.filter((life) => life.hasBegun);
    const wakeupsNow = (): number => begun.reduce((sum, { incarnation }) => sum + incarnation.wakeups, 0);
    const wakeups = wakeupsNow();
    const length = 3 * minute;
    await timeline.play(timeline.now + length, isBroken);
    const { acts, commits, looks } = judge.counts;
    const watched = judge.jobs.filter(
      (job) => !job.removed && (job.settled === null || heldAllocations(job).length > 0),
    ).length;
    if (acts > before.acts) judge.break(8, `at rest, ${acts - before.acts} things were done in three minutes`);
    if (commits > before.commits + 1)
      judge.break(8, `at rest, the record was written ${commits - before.commits} times`);
    const woken = wakeupsNow() - wakeups;
    // The lease is renewed every ten seconds, a job that runs is looked at as often, and a little comes on top.
    const wakeupsMost = (1 + watched) * (length / (10 * second)) * 1.2 + 10;
    // One that took over meanwhile, from another that has left, has a minute of its own to see that nothing is left.
    const alive = begun.filter((life) => !life.incarnation.isDead && life.hasLeft === null);
    if (watched === 0) {
      // Where the clock was set back, something that was let go before seems to have been let go just now, and is waited out;
      // and what has ended long ago seems to have logs left to copy, to a controller that has just begun.
      const isPuzzled = wall.setBack > 0;
      if (looks > before.looks && !isPuzzled)
        judge.break(8, `nothing is left to watch, and ${looks - before.looks} looks were made`);
      if (alive.length > 0 && !isPuzzled) judge.break(8, 'nothing is left to watch, and the controller has not left');
    } else if (woken > wakeupsMost) {
      judge.break(8, `at rest, the controller woke ${woken} times in three minutes`);
    }
  }

  function describe(job: Job): string {
    const attempt = job.attempts.at(-1);
    const allocation = job.allocations.at(-1);
    return [
      `desired ${job.desired}, ${job.settled === null ? 'not settled' : `settled ${job.settled.verdict}`}`,
      `attempt ${attempt?.ordinal ?? 0}${attempt?.ending === null ? '' : ` ending ${attempt?.ending.reason ?? ''}`}`,
      `allocation ${allocation?.ordinal ?? 0} ${allocation?.seen?.state ?? 'never seen'}`,
    ].join(', ');
  }
}
