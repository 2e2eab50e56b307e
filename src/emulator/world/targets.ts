// Targets of verbs: parses and resolves the names of nodes, workers, offerings and calls.

import { offeredGenerations, zones } from '../../catalogue/zones.ts';
import { EmulatorError } from '../contract.ts';
import { bucketPattern } from './buckets.ts';
import { type Options, suggestion } from './options.ts';
import { isLive, type NodeRecord } from './records.ts';
import { isOffering, jobIdForms, offeringTerms } from './faults.ts';
import type { World } from './world.ts';

export type TargetKind =
  | 'node'
  | 'worker'
  | 'offering'
  | 'request'
  | 'permission'
  | 'call'
  | 'condition'
  | 'bucket'
  | 'none';

export interface ResolvedTarget {
  readonly target: string;
  readonly node?: NodeRecord;
  readonly worker?: number;
}

/** The calls that `drop` and `flaky` accept; `*` means all of them. */
const callTargets = ['create', 'delete', 'update', 'start', 'stop', 'reset', 'get', 'list', 'read', 'change'];

export function withWorker(found: ResolvedTarget, options: Options): ResolvedTarget {
  const worker = Number(options['worker'] ?? found.worker ?? 0);
  const count = found.node?.workers.length ?? 0;
  if (worker >= count) {
    throw new EmulatorError(
      404,
      `${String(found.node?.nodeId)} has no worker ${String(worker)}: they are 0 to ${String(count - 1)}.`,
    );
  }
  return { ...found, worker };
}

/** Throws EmulatorError with the possible targets. */
export function resolveTarget(
  world: World,
  verb: string,
  kind: TargetKind,
  targets: readonly string[],
  target: string | undefined,
): ResolvedTarget {
  switch (kind) {
    case 'node':
    case 'worker': {
      const found = target === 'any' ? anyNode(world, verb, kind) : findNodeTarget(world, verb, target);
      // The name of one worker must not act on all of them.
      if (kind === 'node' && found.worker !== undefined)
        throw new EmulatorError(400, `${verb} acts on a whole node with all its workers; leave out the worker.`);
      return found;
    }
    case 'offering':
      return { target: offeringTarget(verb, target, false, world, targets) };
    case 'none':
      if (target !== undefined) throw new EmulatorError(400, `${verb} takes no target.`);
      return { target: '*' };
    case 'request':
      return { target: offeringTarget(verb, target, true, world, targets) };
    case 'permission':
      return { target: permissionTarget(verb, target) };
    case 'call':
      return { target: keywordTarget(verb, target, [...callTargets, ...targets]) };
    case 'bucket':
      return { target: bucketTarget(verb, target, world) };
    case 'condition':
      return { target: keywordTarget(verb, target === 'all' ? '*' : target, targets) };
  }
}

/** For a worker verb, also a random worker. */
function anyNode(world: World, verb: string, kind: 'node' | 'worker'): ResolvedTarget {
  const nodes = world.nodes
    .values()
    .filter((node) => (kind === 'worker' || verb === 'maintenance' ? node.state === 'READY' : isLive(node)))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const node = nodes[world.random.between(0, nodes.length - 1)];
  if (node === undefined) throw new EmulatorError(409, `${verb} finds no suitable node now.`);
  return {
    target: node.name,
    node,
    ...(kind === 'worker' ? { worker: world.random.between(0, node.workers.length - 1) } : {}),
  };
}

/** By id, full name, queued resource or job id (with or without zeros). `n1/2` is worker 2 of n1. Live nodes only. */
function findNodeTarget(world: World, verb: string, target: string | undefined): ResolvedTarget {
  const all = world.nodes.values();
  const live = all.filter(isLive);
  const list =
    live.length === 0 ? 'The emulator has no TPUs.' : `The TPUs of the emulator: ${live.map(formatNode).join(', ')}.`;
  if (target === undefined) throw new EmulatorError(400, `${verb} needs a job id or a node. ${list}`);
  const [, base = target, index] = /^(?!projects\/)(.+)\/(\d+)$/.exec(target) ?? [];
  const matching = all.filter(
    (node) =>
      node.nodeId === base ||
      node.name === base ||
      node.queuedResource === base ||
      node.queuedResource?.endsWith(`/${base}`) === true ||
      jobIdForms(((node.spec['labels'] ?? {}) as Record<string, string>)['jobman-job']).includes(base),
  );
  const candidates = matching.filter(isLive);
  const [node] = candidates;
  if (node === undefined) {
    const [gone] = matching;
    if (gone !== undefined) throw new EmulatorError(409, `${gone.nodeId} is ${gone.state} already. ${list}`);
    const guess = suggestion(
      base,
      live.map((each) => each.nodeId),
    );
    throw new EmulatorError(404, `There is no node ${JSON.stringify(base)}.${guess} ${list}`);
  }
  if (candidates.length > 1 && new Set(candidates.map((each) => each.queuedResource ?? each.name)).size > 1) {
    throw new EmulatorError(
      409,
      `${JSON.stringify(base)} means several nodes; name one: ${candidates.map((each) => each.name).join(', ')}.`,
    );
  }
  return { target, node, ...(index === undefined ? {} : { worker: Number(index) }) };
}

function formatNode(node: NodeRecord): string {
  const job = ((node.spec['labels'] ?? {}) as Record<string, string>)['jobman-job'];
  return `${node.nodeId} (${node.zone}, ${node.state}${job === undefined ? '' : `, job ${job}`})`;
}

function offeringTarget(
  verb: string,
  target: string | undefined,
  resources: boolean,
  world: World,
  more: readonly string[],
): string {
  if (target === undefined || target === 'all') return '*';
  const offeringParts = target.split('/').filter((term) => !more.includes(term));
  if (offeringParts.length === 0 || isOffering(offeringParts.join('/'))) return target;
  const names = [...world.queued.values(), ...world.nodes.values()].flatMap((record) => [
    record.name,
    'queuedId' in record ? record.queuedId : record.nodeId,
    ...jobIdForms(jobLabelOf(record)),
  ]);
  if (resources && names.includes(target)) return target;
  const terms = [...offeringTerms, ...more];
  const mistyped = target.split('/').find((term) => !terms.includes(term)) ?? target;
  throw new EmulatorError(
    404,
    `${verb} does not know ${JSON.stringify(mistyped)}.${suggestion(mistyped, resources ? [...terms, ...names] : terms)} ` +
      `Name a zone, an accelerator type, a generation (${offeredGenerations.join(', ')}), or two of them joined by /` +
      (resources ? ', or a node, queued resource or job that exists.' : '.'),
  );
}

function jobLabelOf(record: object): string | undefined {
  const spec = 'queuedId' in record ? firstNode(record) : (record as NodeRecord).spec;
  return ((spec['labels'] ?? {}) as Record<string, string>)['jobman-job'];
}

function firstNode(record: object): Record<string, unknown> {
  return (record as { nodes?: readonly { node: Record<string, unknown> }[] }).nodes?.[0]?.node ?? {};
}

/** A permission of the Cloud TPU API or the Cloud Quotas API, or one that the emulator's Storage checks. */
const permissionPattern =
  /^(tpu\.[a-zA-Z]+\.[a-zA-Z]+|cloudquotas\.quotas\.get|storage\.(objects|buckets)\.(get|list|create|update|delete))$/;

function permissionTarget(verb: string, target: string | undefined): string {
  const known = ['login', 'api', ...zones];
  if (target !== undefined && (known.includes(target) || permissionPattern.test(target))) return target;
  throw new EmulatorError(
    target === undefined ? 400 : 404,
    `${verb} needs a zone, a permission such as tpu.nodes.create or storage.objects.get, \`login\` or \`api\`.${suggestion(target ?? '', known)}`,
  );
}

function bucketTarget(verb: string, target: string | undefined, world: World): string {
  const name = (target ?? '').replace(/^gs:\/\//, '').replace(/\/$/, '');
  if (bucketPattern.test(name)) return name;
  const names = world.buckets.names();
  throw new EmulatorError(
    400,
    `${verb} needs the name of a bucket; ${names.length === 0 ? 'there is none yet' : `there are: ${names.join(', ')}`}.`,
  );
}

function keywordTarget(verb: string, target: string | undefined, keywords: readonly string[]): string {
  if (target === undefined || target === '*') return '*';
  if (keywords.includes(target)) return target;
  throw new EmulatorError(
    404,
    `${verb} does not know ${JSON.stringify(target)}.${suggestion(target, keywords)} There are: ${keywords.join(', ')}.`,
  );
}
