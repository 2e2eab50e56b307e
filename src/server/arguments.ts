// Arguments: a request becomes the arguments of the operation, checked against the types of Client.

import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import schemas from '../api/arguments.schema.json' with { type: 'json' };
import type { ApiOperation, Route } from '../api/routes.ts';
import { decodeBlobs, decodeSegment } from '../api/wire.ts';
import { usageError } from '../app/errors.ts';

/** The parts of a JSON schema that decide how a parameter is read. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface Schemas {
  readonly $defs: Readonly<Record<string, Schema>>;
  readonly operations: Readonly<Record<ApiOperation, Schema>>;
}

const { $defs, operations } = schemas as unknown as Schemas;

export interface RawRequest {
  /** The segment of the path with that name, decoded. */
  segment(name: string): string;
  /** The parameters of the query, in order. */
  readonly parameters: URLSearchParams;
  /** Reads the whole body; empty for a request without one. */
  body(): Promise<Buffer>;
}

/** Reads the arguments in the order of the method's parameters. Throws JobmanError (2) for values that the types do not allow. */
export async function readArguments(
  operation: ApiOperation,
  route: Route,
  request: RawRequest,
): Promise<readonly unknown[]> {
  const { properties = {}, required = [] } = operations[operation];
  const parameters = readParameters(request.parameters);
  const values: Record<string, unknown> = {};
  let members: Readonly<Record<string, unknown>> | undefined;
  for (const [carrier, name] of route.arguments) {
    const schema = resolve(properties[name] ?? {});
    const isRequired = required.includes(name);
    if (carrier === 'path') values[name] = readText(decodeSegment(request.segment(name)), schema);
    else if (carrier === 'query') values[name] = parameters.take(name, schema, isRequired);
    else if (carrier === 'fields') values[name] = readFields(parameters, schema, isRequired);
    else if (carrier === 'body') values[name] = parseJson(await request.body());
    else if (carrier === 'bytes') values[name] = await request.body();
    else if (carrier === 'blobs') values[name] = decodeBlobs(await request.body());
    else {
      members ??= membersOf(parseJson(await request.body()));
      values[name] = members[name];
    }
  }
  const names = route.arguments.map(([, name]) => name);
  const unknown = parameters.rest() ?? Object.keys(members ?? {}).find((name) => !names.includes(name));
  if (unknown !== undefined) throw usageError(`There is no parameter ${JSON.stringify(unknown)} here.`);
  check(operation, route, values);
  return names.map((name) => values[name]);
}

// ------------------------------------------------------------------------------------------ parameters

type Parameters = ReturnType<typeof readParameters>;

function readParameters(query: URLSearchParams) {
  const left = new Set(query.keys());
  return {
    has: (name: string) => query.has(name),
    /** A query cannot contain null, so an absent required parameter that may be null is null. */
    take(name: string, schema: Schema, isRequired: boolean): unknown {
      left.delete(name);
      const texts = query.getAll(name);
      if (texts.length === 0) return isRequired && kindsOf(schema).has('null') ? null : undefined;
      const items = resolve(schema).items;
      if (items !== undefined) return texts.join() === '' ? [] : texts.map((text) => readText(text, items));
      if (texts.length > 1) throw usageError(`The parameter ${name} is given more than once.`);
      return readText(texts[0] ?? '', schema);
    },
    /** The name of a parameter that no argument has. */
    rest: (): string | undefined => [...left][0],
  };
}

function readFields(parameters: Parameters, { properties = {}, required = [] }: Schema, isRequired: boolean): unknown {
  const names = Object.keys(properties);
  if (!isRequired && !names.some((name) => parameters.has(name))) return undefined;
  const fields = names.map((name) => [name, parameters.take(name, properties[name] ?? {}, required.includes(name))]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

/** Parses a parameter as JSON, unless its type allows strings. If it allows strings and numbers, only a number is parsed. */
function readText(text: string, schema: Schema): unknown {
  const kinds = kindsOf(schema);
  if (kinds.has('string') && !kinds.has('number')) return text;
  try {
    const value = JSON.parse(text) as unknown;
    return kinds.has('string') && typeof value !== 'number' ? text : value;
  } catch {
    return text;
  }
}

function resolve(schema: Schema): Schema {
  return schema.$ref === undefined ? schema : resolve($defs[schema.$ref.replace('#/$defs/', '')] ?? {});
}

function kindsOf(schema: Schema): ReadonlySet<string> {
  const { type = [], anyOf = [], enum: allowed = [], const: only } = resolve(schema);
  const values = [...allowed, ...(only === undefined ? [] : [only])];
  return new Set([
    ...[type].flat().map((kind) => (kind === 'integer' ? 'number' : kind)),
    ...values.map((value) => (value === null ? 'null' : typeof value)),
    ...anyOf.flatMap((one) => [...kindsOf(one)]),
  ]);
}

// ------------------------------------------------------------------------------------------ bodies

/** Far more than the largest request has. */
const nesting = { maxLists: 100_000, maxDepth: 100 };
const [quote, backslash] = Buffer.from('"\\');
const [openList, openObject, closeList, closeObject] = Buffer.from('[{]}');

/** Throws JobmanError (2) for a body whose lists and objects would take seconds to parse, or overflow the stack of a function. */
function requireFewLists(body: Buffer): void {
  let [isText, lists, depth] = [false, 0, 0];
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at];
    if (byte === quote) isText = !isText;
    else if (isText) at += byte === backslash ? 1 : 0;
    else if (byte === openList || byte === openObject) {
      lists += 1;
      depth += 1;
      if (lists > nesting.maxLists || depth > nesting.maxDepth)
        throw usageError('The body has too many lists and objects, or they are nested too deeply.');
    } else if (byte === closeList || byte === closeObject) depth -= 1;
  }
}

function parseJson(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  requireFewLists(body);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as unknown;
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : 'it is not UTF-8';
    throw usageError(`The body is not JSON: ${reason}.`);
  }
}

function membersOf(body: unknown): Readonly<Record<string, unknown>> {
  if (body === undefined) return {};
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw usageError('The body must be a JSON object.');
  return body as Readonly<Record<string, unknown>>;
}

// ------------------------------------------------------------------------------------------ validation

// Only the first mistake, because a client could send a body whose complete check takes very long.
const ajv = new Ajv2020({ strict: false, validateSchema: false, validateFormats: false, discriminator: true });
const checked = checkByKind(schemas) as unknown as Schemas;
const validators = new Map<ApiOperation, ValidateFunction>();

function check(operation: ApiOperation, route: Route, values: Readonly<Record<string, unknown>>): void {
  const validate = validators.get(operation) ?? compile(operation, route);
  validators.set(operation, validate);
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  if (!validate(given)) throw usageError(describe(validate.errors?.[0]));
}

function compile(operation: ApiOperation, route: Route): ValidateFunction {
  const { properties = {}, ...schema } = checked.operations[operation];
  const bytes = route.arguments.flatMap(([carrier, name]) => (/^(?:bytes|blobs)$/.test(carrier) ? [name] : []));
  // Bytes are not JSON, so there is nothing to validate.
  const inJson = Object.fromEntries(
    Object.entries(properties).map(([name, one]) => [name, bytes.includes(name) ? {} : one]),
  );
  return ajv.compile({ ...schema, properties: inJson, $defs: checked.$defs });
}

/**
 * Of types that `kind` tells apart, only the type of the value's `kind` is checked. Otherwise the first mistake would be
 * that of another type.
 */
function checkByKind(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(checkByKind);
  const mapped = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, checkByKind(value)]));
  const { anyOf = [] } = schema as Schema;
  const kinds = anyOf.map((one) => {
    const { const: only, enum: allowed = [only] } = resolve(one).properties?.['kind'] ?? {};
    return allowed;
  });
  if (kinds.length === 0 || kinds.flat().includes(undefined)) return mapped;
  const { anyOf: oneOf, ...rest } = mapped;
  return {
    ...rest,
    type: 'object',
    required: ['kind'],
    properties: { kind: { enum: kinds.flat() } },
    discriminator: { propertyName: 'kind' },
    oneOf,
  };
}

function describe(error: ErrorObject | undefined): string {
  const { instancePath = '', message = 'is not valid', params = {} } = error ?? {};
  const where = instancePath
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .join('.');
  const { allowedValues, additionalProperty } = params as {
    readonly allowedValues?: readonly unknown[];
    readonly additionalProperty?: string;
  };
  const detail =
    allowedValues !== undefined
      ? `: ${allowedValues.join(', ')}`
      : additionalProperty !== undefined
        ? `: ${additionalProperty}`
        : '';
  return `${where === '' ? 'The request' : where} ${message}${detail}.`;
}
