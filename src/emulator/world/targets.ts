// Targets of verbs: the words that people say for nodes, workers, places and calls, and what they mean now.

import { offeredGenerations, zones } from '../../catalogue/zones.ts';
import { EmulatorRefusal } from '../contract.ts';
import { bucketPattern } from './buckets.ts';
import { type Options, suggestion } from './options.ts';
import { isLiving, type NodeRecord } from './records.ts';
import { isPlace, jobWords, placeWords } from './temper.ts';
import type { World } from './world.ts';

/** The kinds of targets, which also decide how a target is looked up. */
export type TargetKind =
  | 'node'
  | 'worker'
  | 'place'
  | 'request'
  | 'permission'
  | 'call'
  | 'condition'
  | 'bucket'
  | 'none';

/** A target that was found. */
export interface Found {
  readonly target: string;
  readonly node?: NodeRecord;
  readonly worker?: number;
}

/** The calls that `drop` and `flaky` can be about; `*` for all that they would meet. */
const callWords = ['create', 'delete', 'update', 'start', 'stop', 'reset', 'get', 'list', 'read', 'change'];

/** The same target with the worker that the option, the target or nobody named; then it is the first. */
export function withWorker(found: Found, options: Options): Found {
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

/** Finds what is meant. Throws EmulatorRefusal that says what there is instead. */
export function findTarget(
  world: World,
  verb: string,
  kind: TargetKind,
  targets: readonly string[],
  target: string | undefined,
): Found {
  switch (kind) {
    case 'node':
    case 'worker': {
      const found = target === 'any' ? anyNode(world, verb, kind) : findNodeTarget(world, verb, target);
      // A name of one worker does not mean all of them.
      if (kind === 'node' && found.worker !== undefined)
        throw new EmulatorRefusal(400, `${verb} takes a whole node with all its workers; say it without the worker.`);
      return found;
    }
    case 'place':
      return { target: placeTarget(verb, target, false, world, targets) };
    case 'none':
      if (target !== undefined)
        throw new EmulatorRefusal(400, `${verb} is about nothing in particular: it takes no target.`);
      return { target: '*' };
    case 'request':
      return { target: placeTarget(verb, target, true, world, targets) };
    case 'permission':
      return { target: permissionTarget(verb, target) };
    case 'call':
      return { target: wordTarget(verb, target, [...callWords, ...targets]) };
    case 'bucket':
      return { target: bucketTarget(verb, target, world) };
    case 'condition':
      return { target: wordTarget(verb, target === 'all' ? '*' : target, targets) };
  }
}

/** `any`: one of the nodes that the verb can be about, and one of its workers, drawn from the seed. */
function anyNode(world: World, verb: string, kind: 'node' | 'worker'): Found {
  const nodes = world.nodes
    .values()
    .filter((node) => (kind === 'worker' || verb === 'maintenance' ? node.state === 'READY' : isLiving(node)))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const node = nodes[world.chance.between(0, nodes.length - 1)];
  if (node === undefined) throw new EmulatorRefusal(409, `${verb} finds no node now.`);
  return {
    target: node.name,
    node,
    ...(kind === 'worker' ? { worker: world.chance.between(0, node.workers.length - 1) } : {}),
  };
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
    const guess = suggestion(
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

function placeTarget(
  verb: string,
  target: string | undefined,
  resources: boolean,
  world: World,
  more: readonly string[],
): string {
  if (target === undefined || target === 'all') return '*';
  const places = target.split('/').filter((word) => !more.includes(word));
  if (places.length === 0 || isPlace(places.join('/'))) return target;
  const names = [...world.queued.values(), ...world.nodes.values()].flatMap((record) => [
    record.name,
    'queuedId' in record ? record.queuedId : record.nodeId,
    ...jobWords(jobOf(record)),
  ]);
  if (resources && names.includes(target)) return target;
  const words = [...placeWords, ...more];
  const mistyped = target.split('/').find((word) => !words.includes(word)) ?? target;
  throw new EmulatorRefusal(
    404,
    `${verb} does not know ${JSON.stringify(mistyped)}.${suggestion(mistyped, resources ? [...words, ...names] : words)} ` +
      `Name a zone, an accelerator type, a generation (${offeredGenerations.join(', ')}), or two of them joined by /` +
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

/** A right of the Cloud TPU API, or one of those that the emulator's Storage asks for. */
const rightPattern = /^(tpu\.[a-zA-Z]+\.[a-zA-Z]+|storage\.(objects|buckets)\.(get|list|create|update|delete))$/;

function permissionTarget(verb: string, target: string | undefined): string {
  const known = ['login', 'api', ...zones];
  if (target !== undefined && (known.includes(target) || rightPattern.test(target))) return target;
  throw new EmulatorRefusal(
    target === undefined ? 400 : 404,
    `${verb} needs a zone, a right such as tpu.nodes.create or storage.objects.get, \`login\` or \`api\`.${suggestion(target ?? '', known)}`,
  );
}

function bucketTarget(verb: string, target: string | undefined, world: World): string {
  const name = (target ?? '').replace(/^gs:\/\//, '').replace(/\/$/, '');
  if (bucketPattern.test(name)) return name;
  const names = world.buckets.names();
  throw new EmulatorRefusal(
    400,
    `${verb} needs the name of a bucket; ${names.length === 0 ? 'there is none yet' : `there are: ${names.join(', ')}`}.`,
  );
}

function wordTarget(verb: string, target: string | undefined, words: readonly string[]): string {
  if (target === undefined || target === '*') return '*';
  if (words.includes(target)) return target;
  throw new EmulatorRefusal(
    404,
    `${verb} does not know ${JSON.stringify(target)}.${suggestion(target, words)} There are: ${words.join(', ')}.`,
  );
}
