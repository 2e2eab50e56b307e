// Run: one seed, one story. First a storm in which nothing bad may happen, then calm in which everything must come to
// rest within a stated time. The controller, performer, mirror, sweeper, core and store are the real ones.

import { createHash } from 'node:crypto';
import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/job.ts';
import { capacityAt, placeCount } from '../src/core/spec.ts';
import { hour, minute, second } from '../src/core/time.ts';
import { openStore } from '../src/store/store.ts';
import { createChance, calm, drawWeather } from './chance.ts';
import type { Chance } from './chance.ts';
import type { Sky } from './cloud.ts';
import { createClient, createControllers } from './controllers.ts';
import type { Controllers, Ground } from './controllers.ts';
import { createCopies } from './outputs.ts';
import type { Disk } from './outputs.ts';
import { bareZone, drawJobs, grantedZone, installation, planFor, unsureZones } from './jobs.ts';
import type { Nature, Wanted } from './jobs.ts';
import { createJudge } from './laws.ts';
import type { Violation } from './laws.ts';
import { checkHeard, checkQuiet, describe, isAbandoned, isResting } from './rest.ts';
import type { RestParts } from './rest.ts';
import { beginStorm, drawStrength } from './storm.ts';
import type { StormParts, StormStrength } from './storm.ts';
import { createTimeline } from './timeline.ts';
import { createWorld, lastChangeOfMachines, makeMachine, newMachine, vanish } from './world.ts';
import type { World } from './world.ts';

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

function drawZones(chance: Chance): Pick<World, 'bare' | 'closed'> {
  const fates = unsureZones.map((zone) => ({ zone, fate: chance.pick(['gives', 'bare', 'bare', 'closed'] as const) }));
  const of = (wanted: string): readonly string[] => fates.filter(({ fate }) => fate === wanted).map(({ zone }) => zone);
  return { bare: new Set([bareZone, ...of('bare')]), closed: new Set([grantedZone, ...of('closed')]) };
}

/** A world with its jobs, its owners and its controllers, before anything has happened. */
interface Stage extends RestParts, Omit<StormParts, 'owners' | 'ids' | 'chance'> {
  readonly controllers: Controllers;
  readonly natures: ReadonlyMap<string, Nature>;
  readonly owners: Chance;
  readonly strength: StormStrength;
  readonly storm: Chance;
  isStorm: boolean;
  create(wanted: Wanted): Promise<void>;
  close(): Promise<void>;
}

function createStage(chance: Chance, say: (line: string) => void): Stage {
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

  const natures = new Map<string, Nature>();
  const owners = chance.fork('owners');
  /** `tpu ack`. A fork, so that all else of a seed stays as it was. */
  const acks = chance.fork('ends that are to be judged at once');

  async function create(wanted: Wanted): Promise<void> {
    const job = await client.insert({ owner: 'owner', spec: wanted.spec, manifest: '', at: clock.now() });
    natures.set(job.id, wanted.nature);
    prepareFor(world, owners, job, wanted);
    client.tap(job.id);
  }

  const fates = chance.fork('fates');
  const storm = chance.fork('storm');
  const strength = drawStrength(storm);
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
        if (isHeldBack && stage.isStorm && acks.yes(0.5))
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
      if (stage.isStorm && fates.yes(strength.killiness))
        incarnation.dieAt(fates.between(1, 400), fates.pick(['before', 'after']));
    },
  });
  const client = createClient(ground, controllers, {
    owner: () => 'owner',
    isTapLost: () => stage.isStorm && owners.yes(0.2),
  });

  function natureOf(job: string): Nature {
    const nature = natures.get(job);
    if (nature === undefined) throw new Error(`the world knows no job ${job}`);
    return nature;
  }

  const stage: Stage = {
    world,
    sky,
    disk,
    wall,
    judge,
    controllers,
    lives: controllers.lives,
    client,
    natures,
    owners,
    storm,
    strength,
    isStorm: true,
    create,
    close: () => store.close(),
  };
  return stage;
}

/** Makes the machines that must exist before: a shared one; sometimes a machine of another owner with our name. */
function prepareFor(world: World, owners: Chance, job: Job, { spec, nature }: Wanted): void {
  if (spec.capacity.kind !== 'tpu') return;
  const at = world.timeline.now;
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

/** Nothing goes wrong any more, and what people look after is put right. */
function becomeCalm(stage: Stage): void {
  const { world, judge, sky, controllers } = stage;
  const { timeline } = world;
  stage.isStorm = false;
  judge.becomeCalm();
  world.say('the storm is over');
  sky.weather = calm;
  world.closed.delete(grantedZone);
  // A rule that turned from the one zone that gives has to wait for the others, which have something one day.
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
      makeMachine(world, newMachine({ name, labels: null, isStanding: true, workers: hosts.length, at: timeline.now }));
    }
  }
  timeline.after(2 * second, () => controllers.ensureAlive('somebody looks after it'));
}

async function playCalm(stage: Stage, isBroken: () => boolean): Promise<void> {
  const { world, judge, natures } = stage;
  const { timeline } = world;
  becomeCalm(stage);
  const until = timeline.now + patience;
  let restingSince: number | null = null;
  const calmAt = timeline.now;
  await timeline.play(until, () => {
    checkHeard(stage, calmAt);
    if (isBroken()) return true;
    if (natures.size === 0 || isAbandoned(stage) || !judge.jobs.every((job) => isResting(stage, job))) {
      restingSince = null;
      return false;
    }
    restingSince ??= timeline.now;
    // Late effects and the sweep that finds them have their time, too. Where a sweep found one, the controller watches for
    // a second one as long as for the first, so the wait starts again.
    return timeline.now - Math.max(restingSince, lastChangeOfMachines(world)) > 8 * minute;
  });
  if (!isBroken() && restingSince === null) {
    const late = judge.jobs.find((job) => !isResting(stage, job));
    const holds = late?.settled !== null && late?.removed === false;
    judge.break(
      holds ? 6 : 10,
      late === undefined ? 'no job was ever made' : `job ${late.id} has not come to rest: ${describe(late)}`,
    );
  }
  if (!isBroken()) judge.atRest();
  if (!isBroken()) await checkQuiet(stage, isBroken);
}

/** Plays that seed to its end, or to the first law that is broken. */
export async function run({ seed, trace = false }: RunOptions): Promise<Story> {
  const hash = createHash('sha256');
  const lines: string[] = [];
  const chance = createChance(seed);
  const stage = createStage(chance, (line) => {
    hash.update(line).update('\n');
    if (trace) lines.push(line);
  });
  const { world, judge, controllers, natures } = stage;
  const { timeline } = world;
  const isBroken = (): boolean => judge.violation !== null;
  for (const wanted of drawJobs(chance.fork('jobs'))) timeline.after(wanted.at, () => void stage.create(wanted));
  // Things of another installation, which carry our label by a copied record, or none.
  if (chance.yes(0.3)) {
    const labels = { installation, job: '999999', allocation: 1 };
    makeMachine(world, newMachine({ name: 'left-behind', labels, isStanding: false, workers: 1, at: 0 }));
  }
  timeline.after(50, () => controllers.ensureAlive('somebody starts it'));
  beginStorm(stage.storm, { ...stage, chance, ids: () => [...natures.keys()] }, () => stage.isStorm);
  await timeline.play(stage.strength.length, isBroken);
  if (!isBroken()) await playCalm(stage, isBroken);
  for (const life of controllers.lives) life.incarnation.die();
  await stage.close();
  return {
    seed,
    violation: judge.violation,
    hash: hash.digest('hex'),
    lines,
    virtualMs: timeline.now,
    events: timeline.played,
    jobs: natures.size,
    lives: controllers.lives.length,
  };
}
