// The JSON of `--json` and of a job's copies for scripts: what the program knows as it is, but with moments as RFC 3339 in
// UTC, which every language reads.

import type { JobRow, JobView, Why } from './client.ts';
import type { Event } from '../core/decision.ts';
import { hexDigits, moment } from './figures.ts';
import type { JobSpec } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';

export function rowJson(row: JobRow): object {
  return { ...row, createdAt: moment(row.createdAt), since: moment(row.since) };
}

/** The situation is part of it only where it was asked for. */
export function whyJson({ situation, ...why }: Why, isExplained = false): object {
  return { ...why, nextAt: moment(why.nextAt), lookAt: moment(why.lookAt), ...(isExplained && { situation }) };
}

export function viewJson(view: JobView): object {
  return {
    ...rowJson(view),
    spec: withoutSecrets(view.spec),
    why: whyJson(view.why),
    saved: view.saved === null ? null : { ...view.saved, at: moment(view.saved.at) },
    attempts: view.attempts.map((one) => withMoments(one, ['created', 'notBefore', 'started', 'ending', 'ended'])),
    allocations: view.allocations.map((one) => withMoments(one, ['requested', 'ready', 'released', 'gone'])),
  };
}

/** The spec without the values of the environment that `--set` gave and the record hides (src/manifest/overrides.ts). */
function withoutSecrets(spec: JobView['spec']): JobView['spec'] {
  const hidden = (spec.overrides ?? []).flatMap(({ key, value }) =>
    value === '***' && /^(?:job|command)\.env(?:\.|$)/.test(key) ? [key.replace(/^\w+\.env\.?/, '')] : [],
  );
  if (hidden.length === 0) return spec;
  const env = Object.entries(spec.command.env).map(([name, value]) => [
    name,
    hidden.includes('') || hidden.includes(name) ? '***' : value,
  ]);
  return { ...spec, command: { ...spec.command, env: Object.fromEntries(env) as Record<string, string> } };
}

export function eventJson(seq: number, event: Event): object {
  return { seq, ...recordJson(event) };
}

export function recordJson(part: object): object {
  return JSON.parse(JSON.stringify(part, textOfMoment)) as object;
}

/** DEL, C1 and the marks that turn text around: JSON has them as they are, and a terminal that shows the file obeys them. */
const unseen = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export function jsonText(value: object, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    unseen,
    (found) => `\\u${hexDigits(found.codePointAt(0) ?? 0, 4)}`,
  );
}

/** The keys of moments in the record: `at`, `since`, `notBefore`, and all that ends in `At` or `Since`. */
const momentKey = /^(?:at|since|notBefore|\w+(?:At|Since))$/;

function textOfMoment(key: string, value: unknown): unknown {
  return typeof value === 'number' && momentKey.test(key) ? moment(value) : value;
}

function withMoments<K extends string>(view: Readonly<Record<K, Instant | null>>, keys: readonly K[]): object {
  return { ...view, ...Object.fromEntries(keys.map((key) => [key, moment(view[key])])) };
}

/** A spec without scripts, frozen files and environments: enough for a job's phase and for lists of thousands. */
export function outline(spec: JobSpec): JobSpec {
  return {
    ...spec,
    capacity: spec.capacity.kind === 'tpu' ? { ...spec.capacity, startupScript: null, metadata: {} } : spec.capacity,
    steps: spec.steps.map((step) => ({ ...step, check: null, apply: '', files: [] })),
    command: { ...spec.command, script: '', env: {} },
  };
}

/** A JSON type, a list of a form, or an object by its fields; `*` is every field that is not named. Other fields may be anything. */
export type Form = 'string' | 'number' | 'boolean' | readonly [Form] | { readonly [field: string]: Form };

/** By these fields a thing is known, so that none may be missing. */
const needed = ['name', 'digest'];

/** True if the value has that form. A field of an object may be missing, except `name` and `digest`; with `nulls` it may be null as well. */
export function fits(value: unknown, form: Form, nulls = false): boolean {
  if (typeof form === 'string') return typeof value === form;
  if (isList(form)) return Array.isArray(value) && value.every((one) => fits(one, form[0], nulls));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (needed.some((field) => form[field] !== undefined && !Object.hasOwn(value, field))) return false;
  return Object.entries(value).every(([field, part]) => {
    const wanted = Object.hasOwn(form, field) ? form[field] : form['*'];
    const isMissing = wanted === undefined || (nulls && part === null && !needed.includes(field));
    return isMissing || fits(part, wanted, nulls);
  });
}

function isList(form: Exclude<Form, string>): form is readonly [Form] {
  return Array.isArray(form);
}
