// The JSON of `--json` and of a job's copies for scripts: the program's own values, with times as RFC 3339 in UTC,
// which every language reads.

import type { ClusterJobView } from './cluster/job-view.ts';
import type { AttemptView, JobView } from './client.ts';
import type { JobDetails } from './job-source.ts';
import type { Event } from '../core/model/event.ts';
import { hexDigits } from './format.ts';
import type { Evidence, Exit } from '../core/model/job.ts';
import type { JobSpec, WorkerId } from '../core/model/spec.ts';

/** Evidence for the end of an attempt. */
interface EvidenceOutput {
  readonly message: string;
  readonly worker: WorkerId | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** True if the program exited with 0 but did not report its success. */
  readonly unconfirmed: boolean;
  /** Name of the log pattern that matched. */
  readonly pattern: string | null;
  /** The line that matched, or the exception with which a Python program ended. */
  readonly line: string | null;
  /** The cloud's own message. */
  readonly raw: string | null;
}

function evidenceJson(evidence: Evidence): EvidenceOutput {
  const { message, worker = null, exitCode = null, signal = null, unconfirmed = false } = evidence;
  const { pattern = null, line = null, raw = null } = evidence;
  return { message, worker, exitCode, signal, unconfirmed, pattern, line, raw };
}

/** One try at the command. */
interface AttemptOutput extends Omit<AttemptView, 'evidence' | 'exits'> {
  readonly evidence: EvidenceOutput | null;
  /** The exits of its program, grouped by exit code and signal. */
  readonly exits: readonly (Omit<Exit, 'signal'> & { readonly signal: string | null })[];
}

/** A job with everything that has happened to it. */
export interface ShownJobOutput extends Omit<JobView, 'attempts'> {
  readonly attempts: readonly AttemptOutput[];
}

/** For `show`. Nothing of a job in a cluster needs another form. */
export function detailsJson(details: JobDetails): ShownJobOutput | ClusterJobView {
  return details.backend === 'kubernetes' ? details : viewJson(details);
}

export function viewJson(view: JobView): ShownJobOutput {
  return {
    ...view,
    attempts: view.attempts.map((attempt) => ({
      ...attempt,
      evidence: attempt.evidence === null ? null : evidenceJson(attempt.evidence),
      exits: attempt.exits.map(({ signal = null, ...exit }) => ({ ...exit, signal })),
    })),
    spec: withoutSecrets(view.spec),
  };
}

/** The spec without values of `--set` for the environment, which the database hides (src/manifest/overrides.ts). */
export function withoutSecrets(spec: JobView['spec']): JobView['spec'] {
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

/** An event of a job's history. */
export type EventOutput = {
  /** Grows with each event of the job. */
  readonly seq: number;
} & Event;

/** DEL, C1 and bidirectional controls: JSON does not escape them, and a terminal that shows the file obeys them. */
const invisibleCharacters = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export function jsonText(value: object, indent?: number): string {
  return JSON.stringify(value, timesAsText, indent).replace(
    invisibleCharacters,
    (found) => `\\u${hexDigits(found.codePointAt(0) ?? 0, 4)}`,
  );
}

/** Our own objects have times as numbers, called `at` or `...At`. */
const timeKey = /^(?:at|\w+At)$/;

/** For JSON.stringify. */
export function timesAsText(key: string, value: unknown): unknown {
  return typeof value === 'number' && timeKey.test(key) ? new Date(value).toISOString() : value;
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
const requiredFields = ['name', 'digest'] as const;
type RequiredField = (typeof requiredFields)[number];

/** The type of the values that match a shape. */
export type ShapeValue<S> = S extends 'string'
  ? string
  : S extends 'number'
    ? number
    : S extends 'boolean'
      ? boolean
      : S extends readonly [infer Item]
        ? readonly ShapeValue<Item>[]
        : S extends { readonly '*': infer Value }
          ? Readonly<Record<string, ShapeValue<Value>>>
          : { readonly [Field in keyof S as Field & RequiredField]: ShapeValue<S[Field]> } & {
              readonly [Field in Exclude<keyof S, RequiredField>]?: ShapeValue<S[Field]>;
            };

/** Fields may be missing, except `name` and `digest`; with `allowNull` they may also be null. */
export function matchesShape(value: unknown, shape: Shape, allowNull = false): boolean {
  if (typeof shape === 'string') return typeof value === shape;
  if (isList(shape)) return Array.isArray(value) && value.every((one) => matchesShape(one, shape[0], allowNull));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (requiredFields.some((field) => shape[field] !== undefined && !Object.hasOwn(value, field))) return false;
  // Without `Object.entries`, whose pairs were a quarter of what a controller of 1,000 jobs allocates at rest.
  return Object.keys(value).every((field) => {
    const wanted = Object.hasOwn(shape, field) ? shape[field] : shape['*'];
    if (wanted === undefined) return true;
    const part = (value as Readonly<Record<string, unknown>>)[field];
    const mayBeNull = allowNull && !requiredFields.some((name) => name === field);
    return (mayBeNull && part === null) || matchesShape(part, wanted, allowNull);
  });
}

/** The value of a JSON text; undefined if it is not JSON or does not match the shape. */
export function parseShape<const S extends Shape>(
  text: string,
  shape: S,
  allowNull = false,
): ShapeValue<S> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return matchesShape(value, shape, allowNull) ? (value as ShapeValue<S>) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The items of a list that match the shape, and the names of the others, so that one wrong item hides no other. The name is
 * the text at `namePath`; without one, the position in the list: `entry 3`.
 */
export function splitByShape<const S extends Shape>(
  items: readonly unknown[],
  shape: S,
  namePath: readonly string[] = ['name'],
): { readonly matching: readonly ShapeValue<S>[]; readonly unreadable: readonly string[] } {
  const matching: ShapeValue<S>[] = [];
  const unreadable: string[] = [];
  for (const [index, item] of items.entries()) {
    if (matchesShape(item, shape)) matching.push(item as ShapeValue<S>);
    else {
      const name = namePath.reduce<unknown>(
        (value, field) => (value as Readonly<Record<string, unknown>> | null | undefined)?.[field],
        item,
      );
      unreadable.push(typeof name === 'string' && name !== '' ? name : `entry ${index + 1}`);
    }
  }
  return { matching, unreadable };
}

function isList(shape: Exclude<Shape, string>): shape is readonly [Shape] {
  return Array.isArray(shape);
}
