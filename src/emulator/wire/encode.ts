// From a message to JSON, as Google's front end writes it: fields with their default value are left out.

import type { Instant } from '../../core/time.ts';
import type { ApiVersion, Data, Kind, Message } from './messages.ts';

export interface Writing {
  readonly version: ApiVersion;
  /** `$alt=json;enum-encoding=int`: enums as numbers, as the Node library asks for them. */
  readonly enumsAsNumbers: boolean;
}

/** Writes a message. Fields that its version does not have are left out too. */
export function encode(message: Message, data: Data, writing: Writing): Data {
  const result: Data = {};
  for (const [name, field] of Object.entries(message.fields)) {
    if (field.only !== undefined && field.only !== writing.version) continue;
    const value = encodeValue(field.kind, data[name], writing);
    if (value !== undefined) result[name] = value;
  }
  return result;
}

function encodeValue(kind: Kind, value: unknown, writing: Writing): unknown {
  if (value === undefined || value === null || value === '' || value === false || value === 0) return undefined;
  if (typeof kind !== 'object') return value;
  if ('message' in kind) return encode(kind.message(), value as Data, writing);
  if ('enum' in kind) {
    const number = kind.enum.numbers[value as string];
    return number === 0 ? undefined : writing.enumsAsNumbers ? number : value;
  }
  if ('list' in kind) {
    const list = value as readonly unknown[];
    if (list.length === 0) return undefined;
    return list.map((item) => encodeValue(kind.list, item, writing) ?? item);
  }
  return Object.keys(value as Data).length === 0 ? undefined : value;
}

/**
 * RFC 3339 in UTC with nine decimals. Our clock counts milliseconds, Google's finer; the last six digits are made from
 * the moment itself so that clients meet the length that they will meet in earnest.
 */
export function timestampText(at: Instant): string {
  const whole = new Date(at).toISOString();
  const finer = String(Math.abs(Math.imul(at | 0, 2654435761)) % 1_000_000).padStart(6, '0');
  return whole.replace('Z', `${finer}Z`);
}

/** Milliseconds of a proto duration such as `3600s` or `1.5s`. */
export function durationMs(text: string): number {
  return Math.round(Number(text.slice(0, -1)) * 1000);
}
