// Jobs: the jobs of a simulated world, and the behaviour of their programs.

import { presets } from '../src/core/policy/presets.ts';
import type { PresetName } from '../src/core/policy/presets.ts';
import { jobIdPlaceholder, ownCheckpointSubfolder, ownHost } from '../src/core/model/spec.ts';
import type {
  CapacitySpec,
  CommandSpec,
  JobSpec,
  ResumeFrom,
  RecoveryRule,
  SetupStep,
  TpuOperation,
} from '../src/core/model/spec.ts';
import { minute, second } from '../src/core/model/time.ts';
import { createChance, hashOf } from './chance.ts';
import type { Chance } from './chance.ts';
import type { ProgramPlan } from './world.ts';

export const installation = 'pretnd';

/** The behaviour of each attempt of one job; the last one repeats. */
type ProgramBehavior = 'succeeds' | 'fails' | 'hangs' | 'endless';

export interface JobProfile {
  readonly workers: number;
  readonly behaviors: readonly ProgramBehavior[];
  readonly duration: number;
  readonly linePeriod: number;
  readonly stopDelay: number | null;
  /** As in `ProgramPlan`, in every attempt. */
  readonly leavesNoTrace?: boolean;
  readonly seed: number;
}

export interface PlannedJob {
  readonly spec: JobSpec;
  readonly profile: JobProfile;
  readonly at: number;
}

/** The jobs of one world: between one and four, in most worlds on cloud machines. */
export function drawJobs(chance: Chance): readonly PlannedJob[] {
  const jobs = chance.pick([1, 1, 2, 2, 3, 4]);
  // Forks, so that every other world stays the same.
  const sharesTpu = jobs > 1 && chance.fork('shared TPU').yes(0.15);
  const sharesHosts = chance.fork('shared hosts').yes(0.08);
  const shared = sharesTpu ? 'persistent' : sharesHosts ? 'local' : null;
  // More jobs than slots, and one after the other, so that slots are given while others are in use.
  const count = shared === 'local' ? 4 : jobs;
  return Array.from({ length: count }, (_, index) => drawJob(chance.fork(`job ${index}`), index, shared));
}

/** The workers of the persistent TPU that all jobs of some worlds share. */
const sharedWorkers = 2;

/** `shared`: the capacity for which all jobs of the world compete, one persistent TPU or the hosts. */
export function drawJob(chance: Chance, index: number, shared: 'persistent' | 'local' | null): PlannedJob {
  const drawnKind = chance.pick([
    'ephemeral',
    'ephemeral',
    'ephemeral',
    'ephemeral',
    'ephemeral',
    'persistent',
    'local',
  ] as const);
  const kind = shared ?? drawnKind;
  const drawnWorkers = kind === 'local' ? 1 : chance.pick([1, 1, 2, 2, 3, 4]);
  const workers = shared === 'persistent' ? sharedWorkers : drawnWorkers;
  const runsOn = kind !== 'local' && chance.yes(0.15) ? 'controller' : 'workers';
  const preset = chance.pick([
    'pre',
    'pre',
    'pass',
    'reapply',
    'rerun',
    'resume',
    'loop: failures',
    'loop: failures',
  ] satisfies PresetName[]);
  const behaviors = drawBehaviors(chance);
  // Only a limit separates a hang from a long silence, so a program that hangs has one.
  const hangs = behaviors.includes('hangs');
  const linePeriod = chance.between(5, 20) * second;
  // Some setups cannot succeed. A separate draw, so that every other job stays the same.
  const setup = chance.fork('setup');
  const isBroken = setup.yes(0.08);
  const money = chance.fork('money');
  const spec: JobSpec = {
    version: 2,
    name: `job-${index}`,
    tags: [],
    capacity: withAlternatives(
      drawCapacity(chance, kind, shared === null ? `${index}` : 'shared'),
      chance.fork('alternatives'),
    ),
    steps: [
      ...Array.from({ length: chance.pick([0, 1, 1, 2]) }, (_, number) => step(`step${number}`)),
      ...(isBroken ? [{ ...step('broken'), apply: brokenStep }] : []),
    ],
    command: {
      script: 'true\n',
      runsOn,
      workers: runsOn === 'workers' && workers > 2 && chance.yes(0.2) ? [0, 1] : 'all',
      env: {},
      workdir: null,
      ...drawCheckpoints(chance.fork('checkpoints'), index),
      ...(chance.fork('setup only').yes(0.05) && { isSetupOnly: true as const }),
    },
    recovery: {
      preset,
      rules: [...ownRules(chance.fork('rules')), ...presets[preset], ...(isBroken ? presets['loop: failures'] : [])],
      budget: {
        preemptions: chance.pick([2, 20, 100]),
        failures: chance.between(0, 3),
        setupFailures: setup.between(0, 3),
      },
      delayMs: chance.between(1, 20) * second,
      delayMaxMs: minute,
      unreachableGraceMs: chance.pick([minute, 3 * minute]),
    },
    limits: {
      maxRuntimeMs: chance.yes(0.15) ? chance.between(2, 6) * minute : null,
      silenceTimeoutMs: hangs || chance.yes(0.2) ? 2 * minute : null,
      capacityWaitMs: chance.yes(0.1) ? chance.between(2, 10) * minute : null,
      setupTries: chance.between(2, 5),
      // A dollar is an hour of one machine.
      ...(money.yes(0.15) && { budgetUsd: money.between(2, 12) / 60 }),
    },
    stop: { signal: 'TERM', graceMs: chance.between(5, 30) * second },
    finish: chance.yes(0.1)
      ? { capacity: 'keep', keepForMs: chance.pick([null, 5 * minute]) }
      : { capacity: 'release', keepForMs: null, ...(chance.yes(0.1) && { holdOnFailureMs: 4 * minute }) },
  };
  const { capacity } = spec;
  const profile: JobProfile = {
    workers: capacity.kind === 'hosts' ? capacity.hosts.length : workers,
    behaviors,
    duration: chance.between(20, 240) * second,
    linePeriod,
    stopDelay: chance.yes(0.2) ? null : chance.between(0, 8) * second,
    leavesNoTrace: chance.fork('trace').yes(0.03),
    seed: chance.between(0, 2 ** 31),
  };
  const isAtOnce = chance.yes(0.7) && shared !== 'local';
  const at = isAtOnce ? 0 : chance.between(0, 5 * minute);
  return { spec: withOperation(spec, chance.fork('operation')), profile, at };
}

/** Some jobs on a persistent TPU operate on the TPU itself. They wait for capacity as long as it takes. */
function withOperation(spec: JobSpec, chance: Chance): JobSpec {
  const { capacity } = spec;
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'persistent' || !chance.yes(0.3)) return spec;
  const kind = chance.pick(['create', 'create', 'recreate', 'recreate', 'delete', 'prepare'] as const);
  const isNew = kind === 'create' || kind === 'recreate';
  const operation = operationWith(kind);
  // The runs of a lab.
  if (isNew && chance.yes(0.4))
    return { ...spec, capacity: { ...capacity, operation: { ...operation, withCommand: true } } };
  return {
    ...spec,
    // `create` in run.ts adds the creation time of the TPU.
    capacity: { ...capacity, operation },
    command: { ...spec.command, script: '', isSetupOnly: true, runsOn: 'workers', workers: 'all' },
    recovery: isNew
      ? { ...spec.recovery, rules: [recreated], budget: { ...spec.recovery.budget, preemptions: 100 } }
      : spec.recovery,
    limits: { ...spec.limits, maxRuntimeMs: null, silenceTimeoutMs: null },
  };
}

const recreated: RecoveryRule = { reason: 'preempted', answer: { then: 'rerun', on: 'new' } };

function operationWith(kind: TpuOperation['kind']): TpuOperation {
  return kind === 'create' || kind === 'prepare' ? { kind } : { kind, creationTime: null };
}

/**
 * Most jobs keep checkpoints below one folder, as the runs of a sweep do, or name a folder. Some share it, and some
 * start from the job before.
 */
function drawCheckpoints(
  chance: Chance,
  index: number,
): Pick<CommandSpec, 'checkpointDir' | 'checkpoints' | 'checkpointStorage' | 'resumeFrom'> {
  if (chance.yes(0.2)) return { checkpointDir: null };
  if (chance.yes(0.1)) return { checkpointDir: '/shared', checkpoints: 'shared', checkpointStorage: 'file:///shared' };
  if (chance.yes(0.5)) return { checkpointDir: `/named/${jobIdPlaceholder}`, checkpoints: 'named' };
  const before = `00000${index}`;
  const resumeFrom: ResumeFrom = { kind: 'folder', path: `/runs/${before}-${installation}`, job: before };
  return {
    checkpointDir: `/runs/${ownCheckpointSubfolder}`,
    checkpoints: 'own',
    ...(index > 0 && chance.yes(0.2) && { resumeFrom }),
  };
}

export const brokenStep = 'false';

/** Some owners have their own rules, which come before the preset's. */
function ownRules(chance: Chance): readonly RecoveryRule[] {
  if (!chance.yes(0.3)) return [];
  const delay = { delayMs: chance.between(1, 30) * second, delayMaxMs: minute };
  const avoidZone: RecoveryRule = { reason: 'preempted', answer: { then: 'resume', on: 'new' }, avoidZone: true };
  const byCode: RecoveryRule = {
    reason: 'command_failed',
    exitCodes: [1],
    answer: { then: 'rerun', on: 'same' },
    limit: chance.between(0, 2),
    ...delay,
  };
  const byWorker: RecoveryRule = { reason: 'command_failed', worker: 0, answer: { then: 'fail', on: 'same' } };
  return chance.pick([[avoidZone], [avoidZone, byCode], [byCode], [byWorker]]);
}

function drawBehaviors(chance: Chance): readonly ProgramBehavior[] {
  const before = Array.from({ length: chance.pick([0, 0, 0, 1, 2]) }, () =>
    chance.pick(['fails', 'fails', 'hangs'] as const),
  );
  return [...before, chance.pick(['succeeds', 'succeeds', 'succeeds', 'fails', 'endless'] as const)];
}

function drawCapacity(chance: Chance, kind: 'ephemeral' | 'persistent' | 'local', suffix: string): CapacitySpec {
  if (kind === 'local') {
    const hosts = chance.fork('hosts').pick([[ownHost], ['gpu1'], ['gpu1'], ['gpu1'], [ownHost, 'gpu1']]);
    return { kind: 'hosts', ownership: 'persistent', hosts };
  }
  return {
    kind: 'tpu',
    ownership: kind,
    mode: chance.pick(['tpu-vm', 'queued-resources']),
    project: 'simulated',
    zone: 'simulated-a',
    accelerator: 'v4-8',
    name: `${kind === 'persistent' ? 'persistent' : 'job'}-${suffix}`,
    runtimeVersion: 'base',
    pricing: chance.pick(['spot', 'ondemand']),
    startupScript: null,
    networkTags: [],
    metadata: {},
    remoteUser: null,
    privateKey: null,
    pricePerHourUsd: 1,
  };
}

/** The zone of the simulated cloud that has capacity, except in storms. */
export const reliableZone = 'simulated-a';

/** Other zones of the simulated cloud; each world decides their capacity. */
export const drawnZones: readonly string[] = ['simulated-b', 'simulated-c'];

/**
 * A zone without capacity, and a zone without permission until the end of the storm, when a user gets the permission.
 */
export const emptyZone = 'simulated-d';
export const grantedLaterZone = 'simulated-e';

/** Some jobs prefer another zone, which gets capacity in the end. */
function withAlternatives(capacity: CapacitySpec, chance: Chance): CapacitySpec {
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent' || !chance.yes(0.4)) return capacity;
  const [first = reliableZone, ...others] = chance.pick([
    ['simulated-b', 'simulated-a'],
    ['simulated-b', 'simulated-c', 'simulated-a'],
    ['simulated-a', 'simulated-b'],
    ['simulated-c', 'simulated-a', 'simulated-b'],
    [emptyZone, grantedLaterZone],
  ]);
  const { accelerator, pricing, runtimeVersion } = capacity;
  return {
    ...capacity,
    zone: first,
    alternatives: others.map((zone) => ({ zone, accelerator, pricing, runtimeVersion, pricePerHourUsd: 1 })),
    ...(chance.yes(0.3) ? { alternativesWaitMs: chance.between(1, 5) * minute } : {}),
  };
}

function step(name: string): SetupStep {
  return { name, key: `${name}-key`, check: null, apply: 'true', files: [], timeoutMs: minute };
}

/** The behaviour of that program on that worker. The same arguments give the same result. */
export function planFor(profile: JobProfile, attempt: number, worker: string): ProgramPlan {
  const behavior = profile.behaviors[Math.min(attempt, profile.behaviors.length) - 1] ?? 'succeeds';
  const chance = createChance(hashOf(`${profile.seed}/${attempt}/${worker}`));
  const gang = createChance(hashOf(`${profile.seed}/${attempt}`));
  const failingWorker = gang.between(0, profile.workers - 1);
  const isFailing = worker === 'controller' || worker === `${failingWorker}`;
  // Many programs print on their first worker only.
  const isMute = gang.yes(0.2) && worker !== 'controller' && worker !== '0';
  const usual: ProgramPlan = {
    startDelay: 0,
    duration: profile.duration + chance.between(0, 3_000),
    exitCode: 0,
    linePeriod: profile.linePeriod,
    silentAfter: isMute ? 0 : null,
    lastLine: 'the end',
    stopDelay: profile.stopDelay,
    ...(profile.leavesNoTrace === true && { leavesNoTrace: true as const }),
  };
  switch (behavior) {
    case 'succeeds':
      return usual;
    case 'fails':
      // The others wait for the failed one, as programs that communicate do.
      if (!isFailing) return { ...usual, duration: null };
      return {
        ...usual,
        duration: usual.duration ?? 0,
        exitCode: 1,
        lastLine: gang.pick(['GRPC error', 'it broke', 'it broke']),
      };
    case 'hangs':
      // One waits forever, and soon the others wait for it.
      return {
        ...usual,
        duration: null,
        silentAfter: isMute ? 0 : gang.between(5, 60) * second + (isFailing ? 0 : chance.between(0, 10) * second),
      };
    case 'endless':
      return { ...usual, duration: null };
  }
}
