/**
 * The verbs of the temper, as people and scripts say them: `preempt n1`, `stockout us-central1-a for=10m`. One table for
 * all doors (HTTP, terminal, rehearsal file). A verb either does something now, or leaves a standing condition
 * that `temper.ts` is asked about.
 */
import { zones } from '../../catalogue/zones.ts';
import { type AdminReply, EmulatorRefusal } from '../contract.ts';
import { preemptNode } from './node-life.ts';
import { billOf, sayBill } from './bill.ts';
import { readLocation, sayPlace } from './buckets.ts';
import { announceMaintenance, restartNode } from './maintenance.ts';
import { type OptionRule, type Options, readOptions, say, suggestion } from './options.ts';
import type { Condition, HostTrouble } from './records.ts';
import { reservedPlace } from './limits.ts';
import { type Found, findTarget, type TargetKind, withWorker } from './targets.ts';
import { sweepConditions } from './temper.ts';
import { changeWorker, endTrouble, type World } from './world.ts';

interface Verb extends OptionRule {
  /** One line for people. */
  readonly about: string;
  readonly target: TargetKind;
  /** Words that the target may be besides. */
  readonly words?: readonly string[];
  /** The mistake in the target, or in these options for it, in a sentence; undefined when they will do. */
  readonly objection?: (target: string, options: Options) => string | undefined;
  /** Absent: the verb leaves a condition. */
  readonly act?: (world: World, found: Found, options: Options) => string;
}

/** Options of every verb that leaves a condition. */
const standingOptions = { for: 'duration', clear: 'flag' } as const;
/** And of those whose strikes can be counted. How much there is, what it costs or that a queue stands is no strike. */
const strikingOptions = { for: 'duration', times: 'count', clear: 'flag' } as const;
/** And of those that can be about one tier or project. */
const someones = { pricing: 'pricing', project: 'text' } as const;

export const verbs: Readonly<Record<string, Verb>> = {
  preempt: {
    about: 'take a node away, as the cloud takes spot capacity',
    target: 'node',
    options: { after: 'duration' },
    act(world, { node }, options) {
      if (node === undefined) return '';
      if (typeof options['after'] === 'number') {
        world.later(options['after'], { kind: 'node-preempted', name: node.name, id: node.id });
        return `${node.nodeId} in ${node.zone} will be preempted in ${say(options['after'])}.`;
      }
      preemptNode(world, node);
      return `${node.nodeId} in ${node.zone} is preempted.`;
    },
  },
  maintenance: {
    about: 'take a node down for maintenance; it comes back with its disks',
    target: 'node',
    options: { in: 'duration' },
    act(world, { node }, options) {
      if (node === undefined) return '';
      if (node.state !== 'READY') throw new EmulatorRefusal(409, `${node.nodeId} is ${node.state}, not READY.`);
      if (typeof options['in'] === 'number') {
        announceMaintenance(world, node, options['in']);
        return `${node.nodeId} in ${node.zone} goes down for maintenance in ${say(options['in'])}; it has been announced.`;
      }
      restartNode(world, node, 'maintenance', null);
      return `${node.nodeId} in ${node.zone} goes down for maintenance.`;
    },
  },
  'kill-host': hostVerb(
    'cut the power of one worker: nobody answers there, while the cloud still says READY',
    'power',
    'is dead',
  ),
  'hang-host': hostVerb(
    'freeze one worker: its processes stand still and its connections stay silent',
    'hung',
    'hangs',
  ),
  'fill-disk': hostVerb('fill the disk of one worker: nothing can be written there', 'diskFull', 'has a full disk'),
  'ssh-refuse': hostVerb(
    'close the SSH door of one worker: its programs run on, and nobody gets in',
    'sshRefused',
    'refuses SSH',
  ),
  'start-host': {
    about: 'end all that is the matter with one worker; a dead one boots',
    target: 'worker',
    options: { worker: 'count' },
    act(world, { node, worker = 0 }) {
      if (node === undefined) return '';
      endTrouble(world, node, worker, undefined);
      return `Worker ${String(worker)} of ${node.nodeId} runs.`;
    },
  },
  stockout: {
    about: 'no capacity in a zone, for a type or a generation',
    target: 'place',
    options: { ...strikingOptions, ...someones },
  },
  capacity: {
    about: 'how many chips of a generation a zone has',
    target: 'place',
    options: { ...standingOptions, ...someones, chips: 'number' },
    needs: ['chips'],
  },
  quota: {
    about: 'how much a project may hold in a region: cores (of v5e, v6e chips), `addresses`, `requests` a minute',
    target: 'place',
    words: ['addresses', 'requests'],
    options: { ...strikingOptions, ...someones, limit: 'number' },
  },
  reserve: {
    about: 'set chips of a generation in a zone aside, as a reservation does',
    target: 'place',
    options: { ...standingOptions, project: 'text', chips: 'number', name: 'text' },
    needs: ['chips'],
    objection: (target) =>
      target === '*' || reservedPlace(target) !== undefined
        ? undefined
        : 'A reservation is of one generation in one zone: us-central1-a/v5e.',
  },
  price: {
    about: 'what a chip costs an hour, in US dollars; `bill` counts with it',
    target: 'place',
    options: { ...standingOptions, ...someones, usd: 'number' },
    needs: ['usd'],
  },
  permission: {
    about: 'refuse: a zone, a right (tpu.nodes.create, storage.objects.get), `login` (it has expired) or `api` (off)',
    target: 'permission',
    options: strikingOptions,
  },
  hold: {
    about: 'a queue that stays waiting, a creation that does not end',
    target: 'request',
    options: standingOptions,
  },
  fail: {
    about: 'let the next creation fail (once, or `times`)',
    target: 'request',
    options: { ...strikingOptions, code: 'number', message: 'text' },
  },
  slow: {
    about: 'let things take `factor` times longer, or delay every reply (those of `storage`) by `replies`',
    target: 'request',
    words: ['storage'],
    // Nothing that Storage does takes its time here but the replies, and it is everybody's.
    objection: (target, options) =>
      !target.split('/').includes('storage') ||
      (target === 'storage' && (options['clear'] ?? options['replies']) !== undefined)
        ? undefined
        : 'Of Storage only the replies can be slow, and those to everybody: slow storage, with `replies`.',
    options: { ...strikingOptions, factor: 'number', replies: 'duration' },
  },
  drop: {
    about: 'lose the next reply (or `times`) of a changing call, although the act is done',
    target: 'call',
    options: strikingOptions,
  },
  flaky: {
    about: 'answer 503 with probability `p`: to some calls, in a zone, or from `storage`',
    target: 'call',
    words: [...zones, 'storage'],
    options: { ...strikingOptions, p: 'share' },
  },
  bucket: {
    about: 'say where a bucket is, or put it there: a region, a zone, US, EU, ASIA, NAM4, or two regions with a comma',
    target: 'bucket',
    options: { location: 'text' },
    act(world, { target }, { location }) {
      if (location !== undefined) {
        const place = readLocation(String(location));
        if (place === undefined)
          throw new EmulatorRefusal(400, `${JSON.stringify(location)} is no location of a bucket.`);
        world.buckets.put(target, place);
      }
      const place = world.buckets.place(target);
      if (place !== undefined) return `The bucket ${target} is in ${sayPlace(place)}.`;
      return `The bucket ${target} is nowhere yet; it will be where it is first used.`;
    },
  },
  bill: {
    about: 'say what all nodes so far would have cost at Google',
    target: 'none',
    options: {},
    act: (world) => sayBill(billOf(world)),
  },
  clear: {
    about: 'take conditions off: those of one verb, or all',
    target: 'condition',
    options: {},
    act(world, { target }) {
      return takeOff(
        world,
        world.conditions.values().filter((condition) => target === '*' || condition.verb === target),
      );
    },
  },
};

/** The rule of a verb. Throws EmulatorRefusal that names those that there are. */
export function verbRule(verb: string): Verb {
  const rule = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (rule !== undefined) return rule;
  throw new EmulatorRefusal(
    404,
    `The emulator has no verb ${JSON.stringify(verb)}.${suggestion(verb, Object.keys(verbs))} ` +
      `There are: ${Object.keys(verbs).join(', ')}.`,
  );
}

/**
 * Does one verb. `given` is the body of the request: `target` and the options as text or JSON values.
 * Throws EmulatorRefusal with a sentence.
 */
export function act(world: World, verb: string, given: Readonly<Record<string, unknown>>): AdminReply {
  const rule = verbRule(verb);
  const { target, ...rest } = given;
  if (target !== undefined && typeof target !== 'string') {
    throw new EmulatorRefusal(400, `The target of ${verb} must be a text.`);
  }
  const options = readOptions(verb, rule, rest);
  sweepConditions(world);
  const words = rule.target === 'condition' ? Object.keys(verbs) : (rule.words ?? []);
  const found = findTarget(world, verb, rule.target, words, target);
  const objection = rule.objection?.(found.target, options);
  if (objection !== undefined) throw new EmulatorRefusal(400, objection);
  if (rule.act !== undefined) {
    const picked = rule.target === 'worker' ? withWorker(found, options) : found;
    return { message: rule.act(world, picked, options) };
  }
  return leaveCondition(world, verb, found.target, options);
}

function leaveCondition(world: World, verb: string, target: string, options: Options): AdminReply {
  const same = world.conditions
    .values()
    .filter((condition) => condition.verb === verb && (target === '*' || condition.target === target));
  const { for: length, times, clear, ...rest } = options;
  if (clear === true) return { message: takeOff(world, same) };
  // Conditions about another tier, project or reservation stay.
  const isSame = (each: Condition): boolean =>
    each.target === target && ['pricing', 'project', 'name'].every((option) => each.options[option] === rest[option]);
  for (const condition of same.filter(isSame)) world.conditions.remove(condition.key);
  const once = verb === 'fail' || verb === 'drop';
  const condition: Condition = {
    key: world.newKey(),
    verb,
    target,
    options: rest,
    since: world.now(),
    until: typeof length === 'number' ? world.now() + length : null,
    remaining: typeof times === 'number' ? times : once && length === undefined ? 1 : null,
  };
  world.conditions.put(condition.key, condition);
  return { message: `In force: ${sayCondition(condition)}.`, condition };
}

/** `stockout us-central1-a, pricing spot, for 10m`. */
export function sayCondition(condition: Condition): string {
  const parts = [`${condition.verb} ${condition.target === '*' ? 'everywhere' : condition.target}`];
  for (const [name, value] of Object.entries(condition.options)) parts.push(`${name} ${String(value)}`);
  if (condition.until !== null) parts.push(`for ${say(condition.until - condition.since)}`);
  if (condition.remaining !== null)
    parts.push(condition.remaining === 1 ? 'once more' : `${String(condition.remaining)} more times`);
  return parts.join(', ');
}

/** A verb that leaves one worker in trouble, for a while or until `start-host`. */
function hostVerb(about: string, trouble: HostTrouble, word: string): Verb {
  return {
    about,
    target: 'worker',
    options: { worker: 'count', for: 'duration' },
    act(world, { node, worker = 0 }, options) {
      if (node === undefined) return '';
      if (node.state !== 'READY')
        throw new EmulatorRefusal(409, `${node.nodeId} is ${node.state}; its hosts do not run.`);
      // A host without power does not hang.
      changeWorker(world, node, worker, trouble === 'power' ? { power: false, hung: false } : { [trouble]: true });
      const length = options['for'];
      if (typeof length === 'number') {
        world.later(length, { kind: 'host-back', name: node.name, id: node.id, worker, trouble });
        return `Worker ${String(worker)} of ${node.nodeId} ${word} for ${say(length)}.`;
      }
      return `Worker ${String(worker)} of ${node.nodeId} ${word}. \`start-host\` brings it back.`;
    },
  };
}

function takeOff(world: World, conditions: readonly Condition[]): string {
  for (const condition of conditions) world.conditions.remove(condition.key);
  return conditions.length === 0 ? 'Nothing stood there.' : `Cleared: ${conditions.map(sayCondition).join('; ')}.`;
}
