// JSON to messages and back. As strict as Google's front end: every name must exist, every value must have its type.

import type { Instant } from '../../core/model/time.ts';
import { invalidField, type CloudError } from './errors.ts';
import type { ApiVersion, Data, Kind, Message } from './messages.ts';

/** Accepts camelCase and snake_case, returns camelCase. `root` names the body in errors. Throws CloudError. */
export function decode(message: Message, body: unknown, version: ApiVersion, root: string): Data {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    throw invalidPayload(root, `Root element must be a message.`);
  }
  return decodeMessage(message, body as Data, version, root);
}

function decodeMessage(message: Message, body: Data, version: ApiVersion, path: string): Data {
  const result: Data = {};
  for (const [key, value] of Object.entries(body)) {
    const name = camelCase(key);
    const field = Object.hasOwn(message.fields, name) ? message.fields[name] : undefined;
    if (field === undefined || (field.onlyIn !== undefined && field.onlyIn !== version)) {
      throw invalidPayload(path, `Unknown name "${key}"${path === '' ? '' : ` at '${path}'`}: Cannot find field.`);
    }
    if (value === null) continue;
    result[name] = decodeValue(
      field.kind,
      value,
      version,
      path === '' ? snakeCase(name) : `${path}.${snakeCase(name)}`,
    );
  }
  return result;
}

function decodeValue(kind: Kind, value: unknown, version: ApiVersion, path: string): unknown {
  if (typeof kind === 'object') {
    if ('enum' in kind) return decodeEnum(kind.enum, value, path);
    if ('message' in kind) {
      if (typeof value !== 'object' || Array.isArray(value)) throw invalidValue(path, 'message', value);
      return decodeMessage(kind.message(), value as Data, version, path);
    }
    if ('list' in kind) {
      if (!Array.isArray(value)) throw invalidValue(path, 'list', value);
      return value.map((item, index) => decodeValue(kind.list, item, version, `${path}[${String(index)}]`));
    }
    if (typeof value !== 'object' || Array.isArray(value)) throw invalidValue(path, 'map', value);
    for (const [key, item] of Object.entries(value as Data)) {
      if (typeof item !== 'string') throw invalidValue(`${path}[${key}]`, 'TYPE_STRING', item);
    }
    return value;
  }
  switch (kind) {
    case 'any':
      return value;
    case 'string':
      if (typeof value !== 'string') throw invalidValue(path, 'TYPE_STRING', value);
      return value;
    case 'bool':
      if (typeof value !== 'boolean') throw invalidValue(path, 'TYPE_BOOL', value);
      return value;
    case 'int32':
    case 'int64': {
      const text = typeof value === 'number' ? String(value) : value;
      if (typeof text !== 'string' || !/^-?\d+$/.test(text)) {
        throw invalidValue(path, kind === 'int32' ? 'TYPE_INT32' : 'TYPE_INT64', value);
      }
      return kind === 'int32' ? Number(text) : text;
    }
    case 'timestamp':
      if (typeof value !== 'string' || Number.isNaN(Date.parse(value))) {
        throw invalidValue(path, 'type.googleapis.com/google.protobuf.Timestamp', value);
      }
      return value;
    case 'duration':
      if (typeof value !== 'string' || !/^-?\d+(\.\d{1,9})?s$/.test(value)) {
        throw invalidValue(path, 'type.googleapis.com/google.protobuf.Duration', value);
      }
      return value;
  }
}

function decodeEnum(
  table: { readonly name: string; readonly numbers: Readonly<Record<string, number>> },
  value: unknown,
  path: string,
): string {
  if (typeof value === 'number') {
    const name = Object.keys(table.numbers).find((key) => table.numbers[key] === value);
    if (name !== undefined) return name;
  }
  if (typeof value === 'string' && Object.hasOwn(table.numbers, value)) return value;
  throw invalidValue(path, `type.googleapis.com/${table.name}`, value);
}

function invalidPayload(field: string, what: string): CloudError {
  return invalidField(field, `Invalid JSON payload received. ${what}`);
}

function invalidValue(path: string, kind: string, value: unknown): CloudError {
  return invalidField(path, `Invalid value at '${path}' (${kind}), ${JSON.stringify(value)}`);
}

export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export interface EncodeOptions {
  readonly version: ApiVersion;
  /** `$alt=json;enum-encoding=int`, which Google's Node library requests. */
  readonly enumsAsNumbers: boolean;
}

export function encode(message: Message, data: Data, writing: EncodeOptions): Data {
  const result: Data = {};
  for (const [name, field] of Object.entries(message.fields)) {
    if (field.onlyIn !== undefined && field.onlyIn !== writing.version) continue;
    const value = encodeValue(field.kind, data[name], writing);
    if (value !== undefined) result[name] = value;
  }
  return result;
}

function encodeValue(kind: Kind, value: unknown, writing: EncodeOptions): unknown {
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

/** RFC 3339 in UTC with nine decimals, as at Google. The last six digits are derived from the milliseconds. */
export function formatTimestamp(at: Instant): string {
  const whole = new Date(at).toISOString();
  const finer = String(Math.abs(Math.imul(at | 0, 2654435761)) % 1_000_000).padStart(6, '0');
  return whole.replace('Z', `${finer}Z`);
}

/** Milliseconds of a proto duration such as `3600s` or `1.5s`. */
export function durationMs(text: string): number {
  return Math.round(Number(text.slice(0, -1)) * 1000);
}
