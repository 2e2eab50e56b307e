/**
 * The Cloud TPU API: from a method, a path and a body to a reply. It knows no HTTP server, so the same function answers
 * whoever asks. Methods and parameters: https://cloud.google.com/tpu/docs/reference/rest
 */
import { camelCase, type Writing } from '../../wire/json.ts';
import type { Data } from '../../wire/messages.ts';
import { select } from '../../wire/lists.ts';
import type { World } from '../../world/world.ts';
import { locationMethods, operationMethods } from './lists.ts';
import { type Call, type Methods, type Target, unknownParameter } from './method.ts';
import { nodeMethods, oldNodes, queuedMethods } from './nodes.ts';

/** A call that was understood, before anything is done. */
export interface Understood {
  readonly project: string;
  /** `-` for all zones; undefined where the path names none. */
  readonly zone: string | undefined;
  readonly collection: string;
  readonly verb: string;
  /** The right that Google would ask for. */
  readonly permission: string;
  /** True when it may change the world. */
  readonly changes: boolean;
  /** The resource or its parent. */
  readonly resource: string;
  answer(world: World): Data;
}

/** Parameters that every Google method takes. */
const everyQuery = [
  'alt',
  '$alt',
  '$.xgafv',
  '$prettyPrint',
  'access_token',
  'callback',
  'fields',
  'key',
  'oauth_token',
  'prettyPrint',
  'quotaUser',
  'uploadType',
  'upload_protocol',
];

const methods: Methods = { ...locationMethods, ...nodeMethods, ...queuedMethods, ...operationMethods };

/**
 * Understands a call: which method it is, and whether its parameters exist. Undefined for a path that is no method of
 * this version: the front end answers that by itself. Throws CloudError.
 */
export function understand(call: Call): Understood | undefined {
  const [projects, project, locations, second, collection, third] = call.path;
  if (projects !== 'projects' || project === undefined || locations !== 'locations' || call.path.length > 6) {
    return undefined;
  }
  const [zone, zoneVerb] = splitVerb(second);
  const [id, idVerb] = splitVerb(third);
  const kind = collection ?? 'locations';
  const hasId = collection === undefined ? zone !== undefined : id !== undefined;
  const custom = collection === undefined ? zoneVerb : (idVerb ?? zoneVerb);
  const key = `${call.method} ${kind}${hasId ? '/id' : ''}${custom === undefined ? '' : `:${custom}`}`;
  const table = call.version === 'v1' && kind === 'nodes' ? oldNodes : methods;
  const method = Object.hasOwn(table, key) ? table[key] : undefined;
  if (method === undefined || !method.versions.includes(call.version)) return undefined;

  const query: Record<string, string> = {};
  for (const [name, value] of Object.entries(call.query)) {
    if (everyQuery.includes(name)) continue;
    const known = camelCase(name);
    if (!(method.query ?? []).includes(known)) throw unknownParameter(name);
    query[known] = value;
  }
  const parent = `projects/${project}/locations${zone === undefined ? '' : `/${zone}`}`;
  const name = collection === undefined || id === undefined ? parent : `${parent}/${collection}/${id}`;
  const target: Target = { version: call.version, project, zone: zone ?? '-', collection: kind, id: id ?? '', name };
  const writing: Writing = {
    version: call.version,
    enumsAsNumbers: (call.query['$alt'] ?? call.query['alt'] ?? '').includes('enum-encoding=int'),
  };
  const verb = custom ?? verbOf(call.method, hasId);
  return {
    project,
    zone,
    collection: kind,
    verb,
    permission: `tpu.${kind}.${verb}`,
    changes: method.changes === true,
    resource: name,
    answer(world) {
      const reply = method.answer(world, target, { ...call, query }, writing);
      const { fields = '' } = call.query;
      return fields === '' ? reply : select(reply, fields);
    },
  };
}

function splitVerb(segment: string | undefined): [string | undefined, string | undefined] {
  if (segment === undefined) return [undefined, undefined];
  const colon = segment.indexOf(':');
  return colon < 0 ? [segment, undefined] : [segment.slice(0, colon), segment.slice(colon + 1)];
}

function verbOf(method: string, hasId: boolean): string {
  switch (method) {
    case 'GET':
      return hasId ? 'get' : 'list';
    case 'POST':
      return 'create';
    case 'PATCH':
      return 'update';
    default:
      return 'delete';
  }
}
