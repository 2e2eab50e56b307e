// The JSON of `--json` and of a job's copies for scripts: the program's own values, with times as RFC 3339 in UTC,
// which every language reads.

import type { JobRow, JobView, Why } from './client.ts';
import type { Event } from '../core/model/event.ts';
import { hexDigits, toRfc3339 } from './format.ts';
import type { JobSpec } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';

export function rowJson(row: JobRow): object {
  return { ...row, createdAt: toRfc3339(row.createdAt), phaseStartedAt: toRfc3339(row.phaseStartedAt) };
}

export function whyJson({ situation, ...why }: Why, isExplained = false): object {
  return {
    ...why,
    nextAt: toRfc3339(why.nextAt),
    nextCheckAt: toRfc3339(why.nextCheckAt),
    ...(isExplained && { situation }),
  };
}

export function viewJson(view: JobView): object {
  return {
    ...rowJson(view),
    spec: withoutSecrets(view.spec),
    why: whyJson(view.why),
    checkpoint: view.checkpoint === null ? null : { ...view.checkpoint, savedAt: toRfc3339(view.checkpoint.savedAt) },
    attempts: view.attempts.map((one) =>
      withTimesAsText(one, ['createdAt', 'notBeforeAt', 'startedAt', 'endingAt', 'endedAt']),
    ),
    allocations: view.allocations.map((one) =>
      withTimesAsText(one, ['requestedAt', 'readyAt', 'releasedAt', 'goneAt']),
    ),
  };
}

/** The spec without values of `--set` for the environment, which the database hides (src/manifest/overrides.ts). */
function withoutSecrets(spec: JobView['spec']): JobView['spec'] {
  const hiddenNames = (spec.overrides ?? []).flatMap(({ key, value }) =>
    value === '***' && /^(?:job|command)\.env(?:\.|$)/.test(key) ? [key.replace(/^\w+\.env\.?/, '')] : [],
  );
  if (hiddenNames.length === 0) return spec;
  const env = Object.entries(spec.command.env).map(([name, value]) => [
    name,
    hiddenNames.includes('') || hiddenNames.includes(name) ? '***' : value,
  ]);
  return { ...spec, command: { ...spec.command, env: Object.fromEntries(env) as Record<string, string> } };
}

export function eventJson(seq: number, event: Event): object {
  return { seq, ...recordJson(event) };
}

export function recordJson(part: object): object {
  return JSON.parse(JSON.stringify(part, timeAsText)) as object;
}

/** DEL, C1 and bidirectional controls: JSON does not escape them, and a terminal that shows the file obeys them. */
const invisibleCharacters = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export function jsonText(value: object, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    invisibleCharacters,
    (found) => `\\u${hexDigits(found.codePointAt(0) ?? 0, 4)}`,
  );
}

/** A time in a stored job is called `at`, or its name ends in `At`. */
const timeKey = /^(?:at|\w+At)$/;

function timeAsText(key: string, value: unknown): unknown {
  return typeof value === 'number' && timeKey.test(key) ? toRfc3339(value) : value;
}

function withTimesAsText<K extends string>(view: Readonly<Record<K, Instant | null>>, keys: readonly K[]): object {
  return { ...view, ...Object.fromEntries(keys.map((key) => [key, toRfc3339(view[key])])) };
}

/** A spec without scripts, frozen files and environments: enough for a job's phase and for lists of thousands. */
export function specOutline(spec: JobSpec): JobSpec {
  return {
    ...spec,
    capacity: spec.capacity.kind === 'tpu' ? { ...spec.capacity, startupScript: null, metadata: {} } : spec.capacity,
    steps: spec.steps.map((step) => ({ ...step, check: null, apply: '', files: [] })),
    command: { ...spec.command, script: '', env: {} },
  };
}

/** A JSON type, a list, or an object by its fields; `*` is any other field. Unlisted fields may have any value. */
export type Shape = 'string' | 'number' | 'boolean' | readonly [Shape] | { readonly [field: string]: Shape };

/** Fields that identify an object and therefore must exist. */
const requiredFields = ['name', 'digest'];

/** Fields may be missing, except `name` and `digest`; with `allowNull` they may also be null. */
export function matchesShape(value: unknown, shape: Shape, allowNull = false): boolean {
  if (typeof shape === 'string') return typeof value === shape;
  if (isList(shape)) return Array.isArray(value) && value.every((one) => matchesShape(one, shape[0], allowNull));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (requiredFields.some((field) => shape[field] !== undefined && !Object.hasOwn(value, field))) return false;
  return Object.entries(value).every(([field, part]) => {
    const wanted = Object.hasOwn(shape, field) ? shape[field] : shape['*'];
    const isMissing = wanted === undefined || (allowNull && part === null && !requiredFields.includes(field));
    return isMissing || matchesShape(part, wanted, allowNull);
  });
}

function isList(shape: Exclude<Shape, string>): shape is readonly [Shape] {
  return Array.isArray(shape);
}
