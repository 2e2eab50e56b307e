/**
 * The verbs of the temper, as people and scripts say them: `preempt n1`, `stockout us-central1-a for=10m`. One table for
 * all doors (HTTP, terminal, later a rehearsal file). A verb either does something now, or leaves a standing condition
 * that `temper.ts` is asked about.
 */
import { type Duration, hour, minute, second } from '../../core/time.ts';
import { accelerators, generations } from '../catalogue/accelerators.ts';
import { didYouMean } from '../catalogue/nearest.ts';
import { zones } from '../catalogue/zones.ts';
import { type AdminReply, EmulatorRefusal } from '../contract.ts';
import { preemptNode } from './node-life.ts';
import { changeWorker, endTrouble, isLiving, restartNode } from './nodes.ts';
import type { Condition, HostTrouble, NodeRecord } from './records.ts';
import { isPlace, jobWords, sweepConditions } from './temper.ts';
import type { World } from './world.ts';

type OptionKind = 'duration' | 'number' | 'count' | 'share' | 'flag' | 'text' | 'pricing';
type Options = Readonly<Record<string, string | number | boolean>>;

interface Verb {
  /** One line for people. */
  readonly about: string;
  /** What the target may be, which also decides how it is looked up. */
  readonly target: 'node' | 'worker' | 'place' | 'request' | 'permission' | 'call' | 'condition';
  readonly options: Readonly<Record<string, OptionKind>>;
  /** Options without which the verb says nothing. */
  readonly needs?: readonly string[];
  /** Absent: the verb leaves a condition. */
  readonly act?: (world: World, found: Found, options: Options) => string;
}

interface Found {
  readonly target: string;
  readonly node?: NodeRecord;
  readonly worker?: number;
}

/** Options of every verb that leaves a condition. */
const standingOptions = { for: 'duration', times: 'count', clear: 'flag' } as const;

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
    options: {},
    act(world, { node }) {
      if (node === undefined) return '';
      if (node.state !== 'READY') throw new EmulatorRefusal(409, `${node.nodeId} is ${node.state}, not READY.`);
      restartNode(world, node, 'maintenance', null);
      return `${node.nodeId} in ${node.zone} goes down for maintenance.`;
    },
  },
  'kill-host': {
    about: 'cut the power of one worker: nobody answers there, while the cloud still says READY',
    target: 'worker',
    options: { worker: 'count', for: 'duration' },
    act(world, found, options) {
      return strikeHost(world, found, options, 'power', 'is dead');
    },
  },
  'hang-host': {
    about: 'freeze one worker: its processes stand still and its connections stay silent',
    target: 'worker',
    options: { worker: 'count', for: 'duration' },
    act(world, found, options) {
      return strikeHost(world, found, options, 'hung', 'hangs');
    },
  },
  'fill-disk': {
    about: 'fill the disk of one worker: nothing can be written there',
    target: 'worker',
    options: { worker: 'count', for: 'duration' },
    act(world, found, options) {
      return strikeHost(world, found, options, 'diskFull', 'has a full disk');
    },
  },
  'ssh-refuse': {
    about: 'close the SSH door of one worker: its programs run on, and nobody gets in',
    target: 'worker',
    options: { worker: 'count', for: 'duration' },
    act(world, found, options) {
      return strikeHost(world, found, options, 'sshRefused', 'refuses SSH');
    },
  },
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
    options: { ...standingOptions, pricing: 'pricing' },
  },
  capacity: {
    about: 'how many chips of a generation a zone has',
    target: 'place',
    options: { ...standingOptions, pricing: 'pricing', chips: 'number' },
    needs: ['chips'],
  },
  quota: {
    about: 'how much a project may hold in a region (chips for v5e and v6e, cores for the others)',
    target: 'place',
    options: { ...standingOptions, pricing: 'pricing', limit: 'number' },
  },
  permission: {
    about: 'refuse: a zone, a right such as tpu.nodes.create, `login` (credentials expired) or `api` (not enabled)',
    target: 'permission',
    options: standingOptions,
  },
  hold: {
    about: 'a queue that stays waiting, a creation that does not end',
    target: 'request',
    options: standingOptions,
  },
  fail: {
    about: 'let the next creation fail (once, or `times`)',
    target: 'request',
    options: { ...standingOptions, code: 'number', message: 'text' },
  },
  slow: {
    about: 'let things take `factor` times longer, or delay every reply by `replies`',
    target: 'request',
    options: { ...standingOptions, factor: 'number', replies: 'duration' },
  },
  drop: {
    about: 'lose the next reply (or `times`) of a changing call, although the act is done',
    target: 'call',
    options: standingOptions,
  },
  flaky: {
    about: 'answer 503 with probability `p`',
    target: 'call',
    options: { ...standingOptions, p: 'share' },
  },
  clear: {
    about: 'take conditions off: those of one verb, or all',
    target: 'condition',
    options: {},
    act(world, { target }) {
      const taken = world.conditions.values().filter((condition) => target === '*' || condition.verb === target);
      for (const condition of taken) world.conditions.remove(condition.key);
      return taken.length === 0 ? 'Nothing stood there.' : `Cleared: ${taken.map(sayCondition).join('; ')}.`;
    },
  },
};

/** The calls that `drop` and `flaky` can be about; `*` for all that they would meet. */
export const callWords = ['create', 'delete', 'update', 'start', 'stop', 'reset', 'get', 'list', 'read', 'change'];

/**
 * Does one verb. `given` is the body of the request: `target` and the options as text or JSON values.
 * Throws EmulatorRefusal with a sentence.
 */
export function act(world: World, verb: string, given: Readonly<Record<string, unknown>>): AdminReply {
  const rule = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (rule === undefined) {
    throw new EmulatorRefusal(
      404,
      `The emulator has no verb ${JSON.stringify(verb)}.${didYouMean(verb, Object.keys(verbs))} ` +
        `There are: ${Object.keys(verbs).join(', ')}.`,
    );
  }
  const { target, ...rest } = given;
  if (target !== undefined && typeof target !== 'string') {
    throw new EmulatorRefusal(400, `The target of ${verb} must be a text.`);
  }
  const options = readOptions(verb, rule, rest);
  sweepConditions(world);
  const found = findTarget(world, verb, rule, target);
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
  if (clear === true) {
    for (const condition of same) world.conditions.remove(condition.key);
    return { message: same.length === 0 ? 'Nothing stood there.' : `Cleared: ${same.map(sayCondition).join('; ')}.` };
  }
  for (const condition of same.filter((each) => each.target === target)) world.conditions.remove(condition.key);
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
  if (condition.remaining !== null) parts.push(`${String(condition.remaining)} more times`);
  return parts.join(', ');
}

function strikeHost(
  world: World,
  { node, worker = 0 }: Found,
  options: Options,
  trouble: HostTrouble,
  word: string,
): string {
  if (node === undefined) return '';
  if (node.state !== 'READY') throw new EmulatorRefusal(409, `${node.nodeId} is ${node.state}; its hosts do not run.`);
  // What has no power does not hang.
  changeWorker(world, node, worker, trouble === 'power' ? { power: false, hung: false } : { [trouble]: true });
  const length = options['for'];
  if (typeof length === 'number') {
    world.later(length, { kind: 'host-back', name: node.name, id: node.id, worker, trouble });
    return `Worker ${String(worker)} of ${node.nodeId} ${word} for ${say(length)}.`;
  }
  return `Worker ${String(worker)} of ${node.nodeId} ${word}. \`start-host\` brings it back.`;
}

function withWorker(found: Found, options: Options): Found {
  const worker = Number(options['worker'] ?? found.worker ?? 0);
  const count = found.node?.workers.length ?? 0;
  if (worker >= count) {
    throw new EmulatorRefusal(
      404,
      `${String(found.node?.nodeId)} has no worker ${String(worker)}: they are 0 to ${String(count - 1)}.`,
    );
  }
  return { ...found, worker };
}

function findTarget(world: World, verb: string, rule: Verb, target: string | undefined): Found {
  switch (rule.target) {
    case 'node':
    case 'worker':
      return findNodeTarget(world, verb, target);
    case 'place':
      return { target: placeTarget(verb, target, false, world) };
    case 'request':
      return { target: placeTarget(verb, target, true, world) };
    case 'permission':
      return { target: permissionTarget(verb, target) };
    case 'call':
      return { target: wordTarget(verb, target, callWords) };
    case 'condition':
      return { target: wordTarget(verb, target === 'all' ? '*' : target, Object.keys(verbs)) };
  }
}

/**
 * A node by its id, its full name, the name of its queued resource, or the job id in its labels (with or without leading
 * zeros). `n1/2` is worker 2 of n1. Of several, the one that still lives is meant.
 */
function findNodeTarget(world: World, verb: string, target: string | undefined): Found {
  const all = world.nodes.values();
  const living = all.filter(isLiving);
  const list = living.length === 0 ? 'there is none now' : `there are: ${living.map(sayNode).join(', ')}`;
  if (target === undefined) throw new EmulatorRefusal(400, `${verb} needs a node; ${list}.`);
  const [, base = target, index] = /^(?!projects\/)(.+)\/(\d+)$/.exec(target) ?? [];
  const matching = all.filter(
    (node) =>
      node.nodeId === base ||
      node.name === base ||
      node.queuedResource === base ||
      node.queuedResource?.endsWith(`/${base}`) === true ||
      jobWords(((node.asked['labels'] ?? {}) as Record<string, string>)['jobman-job']).includes(base),
  );
  const candidates = matching.filter(isLiving);
  const [node] = candidates;
  if (node === undefined) {
    const [gone] = matching;
    if (gone !== undefined) throw new EmulatorRefusal(409, `${gone.nodeId} is ${gone.state} already; ${list}.`);
    const guess = didYouMean(
      base,
      living.map((each) => each.nodeId),
    );
    throw new EmulatorRefusal(404, `There is no node ${JSON.stringify(base)}.${guess} Of nodes ${list}.`);
  }
  if (candidates.length > 1 && new Set(candidates.map((each) => each.queuedResource ?? each.name)).size > 1) {
    throw new EmulatorRefusal(
      409,
      `${JSON.stringify(base)} means several nodes; say which: ${candidates.map((each) => each.name).join(', ')}.`,
    );
  }
  return { target, node, ...(index === undefined ? {} : { worker: Number(index) }) };
}

function sayNode(node: NodeRecord): string {
  const job = ((node.asked['labels'] ?? {}) as Record<string, string>)['jobman-job'];
  return `${node.nodeId} (${node.zone}, ${node.state}${job === undefined ? '' : `, job ${job}`})`;
}

function placeTarget(verb: string, target: string | undefined, resources: boolean, world: World): string {
  if (target === undefined || target === 'all') return '*';
  if (isPlace(target)) return target;
  const names = [...world.queued.values(), ...world.nodes.values()].flatMap((record) => [
    record.name,
    'queuedId' in record ? record.queuedId : record.nodeId,
    ...jobWords(jobOf(record)),
  ]);
  if (resources && names.includes(target)) return target;
  const words = [...zones, ...accelerators.map((accelerator) => accelerator.type), ...Object.keys(generations)];
  const mistyped = target.split('/').find((word) => !words.includes(word)) ?? target;
  throw new EmulatorRefusal(
    404,
    `${verb} does not know ${JSON.stringify(mistyped)}.${didYouMean(mistyped, resources ? [...words, ...names] : words)} ` +
      `Name a zone, an accelerator type, a generation (${Object.keys(generations).join(', ')}), or two of them joined by /` +
      (resources ? ', or a node, queued resource or job that exists.' : '.'),
  );
}

function jobOf(record: object): string | undefined {
  const asked = 'queuedId' in record ? firstNode(record) : (record as NodeRecord).asked;
  return ((asked['labels'] ?? {}) as Record<string, string>)['jobman-job'];
}

function firstNode(record: object): Record<string, unknown> {
  return (record as { nodes?: readonly { node: Record<string, unknown> }[] }).nodes?.[0]?.node ?? {};
}

function permissionTarget(verb: string, target: string | undefined): string {
  const known = ['login', 'api', ...zones];
  if (target !== undefined && (known.includes(target) || /^tpu\.[a-zA-Z]+\.[a-zA-Z]+$/.test(target))) return target;
  throw new EmulatorRefusal(
    target === undefined ? 400 : 404,
    `${verb} needs a zone, a right such as tpu.nodes.create, \`login\` or \`api\`.${didYouMean(target ?? '', known)}`,
  );
}

function wordTarget(verb: string, target: string | undefined, words: readonly string[]): string {
  if (target === undefined || target === '*') return '*';
  if (words.includes(target)) return target;
  throw new EmulatorRefusal(
    404,
    `${verb} does not know ${JSON.stringify(target)}.${didYouMean(target, words)} There are: ${words.join(', ')}.`,
  );
}

function readOptions(verb: string, rule: Verb, given: Readonly<Record<string, unknown>>): Options {
  const options: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(given)) {
    const kind = Object.hasOwn(rule.options, name) ? rule.options[name] : undefined;
    if (kind === undefined) {
      const names = Object.keys(rule.options);
      throw new EmulatorRefusal(
        400,
        `${verb} has no option ${JSON.stringify(name)}.${didYouMean(name, names)} ` +
          (names.length === 0 ? 'It has none.' : `It has: ${names.join(', ')}.`),
      );
    }
    const read = readOption(kind, value);
    if (read === undefined) {
      throw new EmulatorRefusal(400, `${verb} ${name}=${String(value)}: ${optionHelp[kind]}.`);
    }
    options[name] = read;
  }
  for (const name of rule.needs ?? []) {
    if (options[name] === undefined && options['clear'] !== true) {
      throw new EmulatorRefusal(400, `${verb} needs ${name}=….`);
    }
  }
  return options;
}

const optionHelp: Readonly<Record<OptionKind, string>> = {
  duration: 'write a length of time such as 30s, 10m or 2h',
  number: 'write a number',
  count: 'write a whole number',
  share: 'write a number from 0 to 1',
  flag: 'write true or false',
  text: 'write a text',
  pricing: 'write spot, ondemand or reserved',
};

function readOption(kind: OptionKind, value: unknown): string | number | boolean | undefined {
  const text = String(value);
  const number = text === '' ? Number.NaN : Number(text);
  switch (kind) {
    case 'duration':
      return readDuration(text);
    case 'number':
      return Number.isFinite(number) && number >= 0 ? number : undefined;
    case 'count':
      return /^\d+$/.test(text) ? number : undefined;
    case 'share':
      return number >= 0 && number <= 1 ? number : undefined;
    case 'flag':
      return text === 'true' || text === '' ? true : text === 'false' ? false : undefined;
    case 'text':
      return text;
    case 'pricing':
      return ['spot', 'ondemand', 'reserved'].includes(text) ? text : undefined;
  }
}

/** `1500ms`, `30s`, `10m`, `2h`; a bare number counts seconds. It is time here, not divided by the speed. */
function readDuration(text: string): Duration | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  if (match === null) return undefined;
  const unit = { ms: 1, s: second, m: minute, h: hour }[match[2] ?? 's'] ?? second;
  return Math.round(Number(match[1]) * unit);
}

function say(length: Duration): string {
  if (length % hour === 0 && length > 0) return `${String(length / hour)}h`;
  if (length % minute === 0 && length > 0) return `${String(length / minute)}m`;
  return length % second === 0 ? `${String(length / second)}s` : `${String(length)}ms`;
}
