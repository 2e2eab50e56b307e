/** The Cloud TPU API without HTTP. Reference: https://cloud.google.com/tpu/docs/reference/rest */
import { camelCase, type EncodeOptions } from '../../wire/json.ts';
import type { Data } from '../../wire/messages.ts';
import { selectFields } from '../../wire/lists.ts';
import type { World } from '../../world/world.ts';
import { locationMethods, operationMethods } from './lists.ts';
import { type Call, type Methods, type Target, unknownParameter } from './method.ts';
import { nodeMethods, legacyNodeMethods, queuedMethods } from './nodes.ts';

export interface ParsedCall {
  readonly project: string;
  /** `-` for all zones; undefined when the path names none. */
  readonly zone: string | undefined;
  readonly collection: string;
  readonly verb: string;
  readonly permission: string;
  /** True when the call may change the world. */
  readonly changes: boolean;
  /** The resource or its parent. */
  readonly resource: string;
  answer(world: World): Data;
}

const commonParameters = [
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

/** Finds the method and validates its parameters. Undefined if this version has no such method. Throws CloudError. */
export function parseCall(call: Call): ParsedCall | undefined {
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
  const table = call.version === 'v1' && kind === 'nodes' ? legacyNodeMethods : methods;
  const method = Object.hasOwn(table, key) ? table[key] : undefined;
  if (method === undefined || !method.versions.includes(call.version)) return undefined;

  const query: Record<string, string> = {};
  for (const [name, value] of Object.entries(call.query)) {
    if (commonParameters.includes(name)) continue;
    const known = camelCase(name);
    if (!(method.query ?? []).includes(known)) throw unknownParameter(name);
    query[known] = value;
  }
  const parent = `projects/${project}/locations${zone === undefined ? '' : `/${zone}`}`;
  const name = collection === undefined || id === undefined ? parent : `${parent}/${collection}/${id}`;
  const target: Target = { version: call.version, project, zone: zone ?? '-', collection: kind, id: id ?? '', name };
  const writing: EncodeOptions = {
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
      return fields === '' ? reply : selectFields(reply, fields);
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
