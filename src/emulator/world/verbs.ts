/** The one table of admin verbs for HTTP, the terminal and fault schedules. A verb acts now or adds a condition. */
import { zones } from '../../catalogue/zones.ts';
import { type AdminReply, EmulatorError } from '../contract.ts';
import { preemptNode } from './node-lifecycle.ts';
import { billOf, formatBill } from './bill.ts';
import { parseLocation, formatLocation } from './buckets.ts';
import { announceMaintenance, restartNode } from './maintenance.ts';
import { type OptionRule, type Options, parseOptions, formatDuration, suggestion } from './options.ts';
import type { FaultCondition, HostFault } from './records.ts';
import { parseReservationTarget, quotaUnitOf } from './limits.ts';
import { type ResolvedTarget, resolveTarget, type TargetKind, withWorker } from './targets.ts';
import { removeExpiredConditions } from './faults.ts';
import { changeWorker, clearHostFault, type World } from './world.ts';

interface AdminVerb extends OptionRule {
  readonly description: string;
  readonly target: TargetKind;
  readonly extraTargets?: readonly string[];
  /** Returns the mistake in the target, or in these options for it, as a sentence. */
  readonly validate?: (target: string, options: Options) => string | undefined;
  /** Absent when the verb adds a condition. */
  readonly run?: (world: World, found: ResolvedTarget, options: Options) => string;
}

const conditionOptions = { for: 'duration', clear: 'flag' } as const;
/** The same with a limited number of uses. Capacity, reservations, prices and `hold` have no single uses to count. */
const countedOptions = { for: 'duration', times: 'count', clear: 'flag' } as const;
const scopeOptions = { pricing: 'pricing', project: 'text' } as const;

export const verbs: Readonly<Record<string, AdminVerb>> = {
  preempt: {
    description: 'preempt a node, as Google does with spot TPUs',
    target: 'node',
    options: { after: 'duration' },
    run(world, { node }, options) {
      if (node === undefined) return '';
      if (typeof options['after'] === 'number') {
        world.schedule(options['after'], { kind: 'node-preempted', name: node.name, id: node.id });
        return `${node.nodeId} in ${node.zone} will be preempted in ${formatDuration(options['after'])}.`;
      }
      preemptNode(world, node);
      return `${node.nodeId} in ${node.zone} is preempted.`;
    },
  },
  maintenance: {
    description: 'take a node down for maintenance; it comes back with its disks',
    target: 'node',
    options: { in: 'duration' },
    run(world, { node }, options) {
      if (node === undefined) return '';
      if (node.state !== 'READY') throw new EmulatorError(409, `${node.nodeId} is ${node.state}, not READY.`);
      if (typeof options['in'] === 'number') {
        announceMaintenance(world, node, options['in']);
        return `${node.nodeId} in ${node.zone} goes down for maintenance in ${formatDuration(options['in'])}; it has been announced.`;
      }
      restartNode(world, node, 'maintenance', null);
      return `${node.nodeId} in ${node.zone} goes down for maintenance.`;
    },
  },
  'kill-host': hostVerb(
    'cut the power of one worker: it does not answer, and its node stays READY',
    'power',
    'has no power',
  ),
  'hang-host': hostVerb('freeze one worker: its processes stop and its connections are silent', 'hung', 'hangs'),
  'fill-disk': hostVerb('fill the disk of one worker: writes fail', 'diskFull', 'has a full disk'),
  'ssh-refuse': hostVerb(
    'refuse SSH connections to one worker: its programs keep running',
    'sshRefused',
    'refuses SSH',
  ),
  'start-host': {
    description: 'clear all faults of one worker; boot it if it has no power',
    target: 'worker',
    options: { worker: 'count' },
    run(world, { node, worker = 0 }) {
      if (node === undefined) return '';
      clearHostFault(world, node, worker, undefined);
      return `Worker ${String(worker)} of ${node.nodeId} runs.`;
    },
  },
  stockout: {
    description: 'have no capacity in a zone, for a type or a generation',
    target: 'offering',
    options: { ...countedOptions, ...scopeOptions },
  },
  capacity: {
    description: 'limit the chips of a generation in a zone',
    target: 'offering',
    options: { ...conditionOptions, ...scopeOptions, chips: 'number' },
    required: ['chips'],
  },
  quota: {
    description:
      'limit the cores (for v5e and v6e: chips), `addresses` or `requests` per minute of a project in a region; `--limit 32` is 32 cores',
    target: 'offering',
    extraTargets: ['addresses', 'requests'],
    options: { ...countedOptions, ...scopeOptions, limit: 'number' },
    required: ['limit'],
    units: { limit: 'cores (for v5e and v6e: chips), addresses or requests per minute' },
  },
  reserve: {
    description: 'reserve chips of a generation in a zone',
    target: 'offering',
    options: { ...conditionOptions, project: 'text', chips: 'number', name: 'text' },
    required: ['chips'],
    validate: (target) =>
      target === '*' || parseReservationTarget(target) !== undefined
        ? undefined
        : 'A reservation is for one generation in one zone: us-central1-a/v5e.',
  },
  price: {
    description: 'set the price of a chip per hour in US dollars; `bill` uses it',
    target: 'offering',
    options: { ...conditionOptions, ...scopeOptions, usd: 'number' },
    required: ['usd'],
  },
  permission: {
    description:
      'deny a zone, a permission (tpu.nodes.create, storage.objects.get), `login` (expired) or `api` (disabled)',
    target: 'permission',
    options: countedOptions,
  },
  hold: {
    description: 'keep queued requests waiting, and creations unfinished',
    target: 'request',
    options: conditionOptions,
  },
  fail: {
    description: 'fail the next creation, or as many as `times`',
    target: 'request',
    options: { ...countedOptions, code: 'number', message: 'text' },
  },
  slow: {
    description: 'take `factor` times longer, or delay every reply by `replies` (of `storage`: only its replies)',
    target: 'request',
    extraTargets: ['storage'],
    // In Storage only replies take time, and Storage belongs to no zone or project.
    validate: (target, options) =>
      !target.split('/').includes('storage') ||
      (target === 'storage' && (options['clear'] ?? options['replies']) !== undefined)
        ? undefined
        : 'Storage has no actions, only replies, and is not in a zone: slow storage, with `replies`.',
    options: { ...countedOptions, factor: 'number', replies: 'duration' },
  },
  drop: {
    description: 'make the next change, or as many as `times`, and lose the reply',
    target: 'call',
    options: countedOptions,
  },
  flaky: {
    description: 'answer calls with 503, with probability `p`: every call, one kind, those of a zone, or of `storage`',
    target: 'call',
    extraTargets: [...zones, 'storage'],
    options: { ...countedOptions, p: 'share' },
  },
  bucket: {
    description:
      'show or set the location of a bucket: a region, a zone, US, EU, ASIA, NAM4, or two regions with a comma',
    target: 'bucket',
    options: { location: 'text' },
    run(world, { target }, { location }) {
      if (location !== undefined) {
        const bucketLocation = parseLocation(String(location));
        if (bucketLocation === undefined)
          throw new EmulatorError(400, `${JSON.stringify(location)} is not a location of a bucket.`);
        world.buckets.put(target, bucketLocation);
      }
      const bucketLocation = world.buckets.location(target);
      if (bucketLocation !== undefined) return `The bucket ${target} is in ${formatLocation(bucketLocation)}.`;
      return `The bucket ${target} has no location yet; its first use sets it.`;
    },
  },
  bill: {
    description: 'show what all nodes so far would cost at Google',
    target: 'none',
    options: {},
    run: (world) => formatBill(billOf(world)),
  },
  clear: {
    description: 'remove conditions: those of one verb, or all',
    target: 'condition',
    options: {},
    run(world, { target }) {
      return removeConditions(
        world,
        world.conditions.values().filter((condition) => target === '*' || condition.verb === target),
      );
    },
  },
};

export function findVerb(verb: string): AdminVerb {
  const rule = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (rule !== undefined) return rule;
  throw new EmulatorError(
    404,
    `The emulator has no verb ${JSON.stringify(verb)}.${suggestion(verb, Object.keys(verbs))} ` +
      `There are: ${Object.keys(verbs).join(', ')}.`,
  );
}

/** `given` has the `target` and the options, as text or JSON values. Throws EmulatorError. */
export function runVerb(world: World, verb: string, given: Readonly<Record<string, unknown>>): AdminReply {
  const rule = findVerb(verb);
  const { target, ...rest } = given;
  if (target !== undefined && typeof target !== 'string') {
    throw new EmulatorError(400, `The target of ${verb} must be a string.`);
  }
  const options = parseOptions(verb, rule, rest);
  removeExpiredConditions(world);
  const keywords = rule.target === 'condition' ? Object.keys(verbs) : (rule.extraTargets ?? []);
  const found = resolveTarget(world, verb, rule.target, keywords, target);
  const problem = rule.validate?.(found.target, options);
  if (problem !== undefined) throw new EmulatorError(400, problem);
  if (rule.run !== undefined) {
    const picked = rule.target === 'worker' ? withWorker(found, options) : found;
    return { message: rule.run(world, picked, options) };
  }
  return addCondition(world, verb, found.target, options);
}

function addCondition(world: World, verb: string, target: string, options: Options): AdminReply {
  const same = world.conditions
    .values()
    .filter((condition) => condition.verb === verb && (target === '*' || condition.target === target));
  const { for: length, times, clear, ...rest } = options;
  if (clear === true) return { message: removeConditions(world, same) };
  // Keep conditions for another pricing, project or reservation.
  const isSame = (each: FaultCondition): boolean =>
    each.target === target && ['pricing', 'project', 'name'].every((option) => each.options[option] === rest[option]);
  for (const condition of same.filter(isSame)) world.conditions.remove(condition.key);
  const once = verb === 'fail' || verb === 'drop';
  const condition: FaultCondition = {
    key: world.newKey(),
    verb,
    target,
    options: rest,
    since: world.now(),
    until: typeof length === 'number' ? world.now() + length : null,
    remaining: typeof times === 'number' ? times : once && length === undefined ? 1 : null,
  };
  world.conditions.put(condition.key, condition);
  const end = condition.until === null && condition.remaining === null ? ` End it: jobman emulator clear ${verb}` : '';
  return { message: `In force: ${formatCondition(condition)}.${end}`, condition };
}

/** For example `quota us-central2-b/v4, limit 32 cores, for 10m`. */
export function formatCondition(condition: FaultCondition): string {
  const parts = [`${condition.verb} ${condition.target === '*' ? 'everywhere' : condition.target}`];
  for (const [name, value] of Object.entries(condition.options)) {
    const unit = condition.verb === 'quota' && name === 'limit' ? ` ${quotaUnitOf(condition.target)}` : '';
    parts.push(`${name} ${String(value)}${unit}`);
  }
  if (condition.until !== null) parts.push(`for ${formatDuration(condition.until - condition.since)}`);
  if (condition.remaining !== null)
    parts.push(condition.remaining === 1 ? 'once more' : `${String(condition.remaining)} more times`);
  return parts.join(', ');
}

function hostVerb(description: string, fault: HostFault, phrase: string): AdminVerb {
  return {
    description,
    target: 'worker',
    options: { worker: 'count', for: 'duration' },
    run(world, { node, worker = 0 }, options) {
      if (node === undefined) return '';
      if (node.state !== 'READY')
        throw new EmulatorError(409, `${node.nodeId} is ${node.state}; its hosts do not run.`);
      // A host without power cannot hang.
      changeWorker(world, node, worker, fault === 'power' ? { power: false, hung: false } : { [fault]: true });
      const length = options['for'];
      if (typeof length === 'number') {
        world.schedule(length, { kind: 'host-recovered', name: node.name, id: node.id, worker, fault });
        return `Worker ${String(worker)} of ${node.nodeId} ${phrase} for ${formatDuration(length)}.`;
      }
      return `Worker ${String(worker)} of ${node.nodeId} ${phrase}. \`start-host\` brings it back.`;
    },
  };
}

function removeConditions(world: World, conditions: readonly FaultCondition[]): string {
  for (const condition of conditions) world.conditions.remove(condition.key);
  return conditions.length === 0
    ? 'No condition was in force.'
    : `Cleared: ${conditions.map(formatCondition).join('; ')}.`;
}
