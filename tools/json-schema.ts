/**
 * The JSON Schema of every --json output, and its tables in docs/json.md, from the types of src/cli/outputs.ts.
 * `npm run reference` writes both.
 */
import { join } from 'node:path';
import { createGenerator, type Schema } from 'ts-json-schema-generator';
import { fieldMeanings } from './field-meanings.ts';

type TypeName = Extract<Schema['type'], string>;

const root = join(import.meta.dirname, '..');

export const schemaFile = 'src/cli/outputs.schema.json';
export const jsonPage = 'docs/json.md';

export interface OutputSchema {
  readonly $schema: string;
  readonly $defs: Readonly<Record<string, Schema>>;
  /** A reference for each command; `message` is for all others, `error` for standard error. */
  readonly outputs: Readonly<Record<string, Schema>>;
}

/** Takes about two seconds. */
export function outputSchema(): OutputSchema {
  const generator = createGenerator({
    path: join(root, 'src/cli/outputs.ts'),
    tsconfig: join(root, 'tsconfig.json'),
    type: 'Outputs',
    // npm run check does it.
    skipTypeCheck: true,
    topRef: false,
    expose: 'all',
    jsDoc: 'extended',
    encodeRefs: false,
  });
  const { definitions = {}, properties = {} } = generator.createSchema('Outputs');
  const schema = convert({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $defs: definitions as OutputSchema['$defs'],
    outputs: properties as OutputSchema['outputs'],
  });
  const described = Object.entries(schema.$defs).map(([name, type]) => [name, withMeanings(name, type, schema.$defs)]);
  return { ...schema, $defs: Object.fromEntries(described) as OutputSchema['$defs'] };
}

/** The part of a meaning about null and absent fields. */
export const absencePart = /; (?:null|absent)[^.]*\./;

/** The type with a description of each field. A field that a type has from another one has the meaning of that one. */
function withMeanings(name: string, type: Schema, defs: OutputSchema['$defs']): Schema {
  const bases = [name, ...baseTypes(name, defs)];
  const describe = (schema: Schema, path: string): Schema => {
    const { properties, items, anyOf } = schema;
    const fields = Object.entries((properties ?? {}) as Readonly<Record<string, Schema>>).map(([field, inner]) => {
      const specific = bases
        .flatMap((base) => [fieldMeanings[`${base}${path}.${field}`], fieldMeanings[`${base}.${field}`]])
        .find((text) => text !== undefined);
      const isAlwaysThere = (schema.required ?? []).includes(field) && !/\bnull\b/.test(typeOf(inner));
      const general = isAlwaysThere ? fieldMeanings[field]?.replace(absencePart, '.') : fieldMeanings[field];
      const description = specific ?? inner.description ?? general;
      return [field, { ...describe(inner, `${path}.${field}`), ...(description === undefined ? {} : { description }) }];
    });
    return {
      ...schema,
      ...(properties === undefined ? {} : { properties: Object.fromEntries(fields) as Schema['properties'] }),
      ...(isObject(items) ? { items: describe(items, path) } : {}),
      ...(anyOf === undefined
        ? {}
        : { anyOf: (anyOf as readonly Schema[]).map((one) => describe(one, `${path}${kindPath(one)}`)) }),
    };
  };
  const described = describe(type, '');
  const description = fieldMeanings[name] ?? type.description;
  return description === undefined ? described : { ...described, description };
}

function kindPath({ properties }: Schema): string {
  const kind = (properties?.['kind'] as Schema | undefined)?.const;
  return kind === undefined ? '' : `.${literal(kind)}`;
}

/** The types whose fields, three or more, the type has too, largest first. */
function baseTypes(name: string, defs: OutputSchema['$defs']): readonly string[] {
  const fieldsOf = (type: string): Readonly<Record<string, unknown>> => defs[type]?.properties ?? {};
  const fields = fieldsOf(name);
  const isBase = (type: string): boolean => {
    const own = Object.entries(fieldsOf(type));
    return (
      own.length >= 3 &&
      own.length < Object.keys(fields).length &&
      own.every(([field, schema]) => typeOf(schema as Schema) === typeOf((fields[field] ?? {}) as Schema))
    );
  };
  const size = (type: string): number => Object.keys(fieldsOf(type)).length;
  return Object.keys(defs)
    .filter(isBase)
    .toSorted((a, b) => size(b) - size(a));
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** One definition a line, so that a change is easy to read. */
export function formatSchema({ $schema, $defs, outputs }: OutputSchema): string {
  const lines = (all: object): string =>
    Object.entries(all)
      .map(([name, schema]) => `    ${JSON.stringify(name)}: ${JSON.stringify(schema)}`)
      .join(',\n');
  return `{\n  "$schema": ${JSON.stringify($schema)},\n  "$defs": {\n${lines($defs)}\n  },\n  "outputs": {\n${lines(outputs)}\n  }\n}\n`;
}

/** Times are numbers in the program and text in JSON. */
const timestamp: Schema = {
  type: 'string',
  description: 'RFC 3339 in UTC: `2026-11-21T08:20:14.000Z`.',
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`,
};

/** The generator writes draft 7, knows neither times nor whole numbers, and gives a name to `Readonly<...>`. */
function convert({ $schema, $defs, outputs }: OutputSchema): OutputSchema {
  const all: Readonly<Record<string, Schema>> = { ...$defs, Instant: timestamp };
  const convertPart = (part: object): unknown =>
    JSON.parse(JSON.stringify(part), (key, value: unknown) => {
      if (typeof value !== 'object' || value === null) return value;
      const schema = value as Schema;
      const { $ref, ...rest } = schema;
      if (typeof $ref === 'string') {
        const name = $ref.replace('#/definitions/', '');
        return isTypeName(name)
          ? { $ref: `#/$defs/${name}`, ...rest }
          : { ...(convertPart(all[name] ?? {}) as object), ...rest };
      }
      // Money, percentages, paces, the speed of the emulator and values of metrics are the only fractions.
      const isFraction = /Usd$|Amount$|Percent$|^stepsPerSecond$|^speed$|^Fraction$/.test(key);
      if (schema.type === undefined || isFraction) return schema;
      const whole = (type: TypeName): TypeName => (type === 'number' ? 'integer' : type);
      return { ...schema, type: Array.isArray(schema.type) ? schema.type.map(whole) : whole(schema.type) };
    });
  const named = Object.fromEntries(Object.entries(all).filter(([name]) => isTypeName(name)));
  return { $schema, ...(convertPart({ $defs: named, outputs }) as Pick<OutputSchema, '$defs' | 'outputs'>) };
}

/** False for the names that the generator gives to types such as `Readonly<...>`. */
export function isTypeName(name: string): boolean {
  return /^\w+$/.test(name);
}

// ------------------------------------------------------------------------------------------ docs/json.md

/** The page with everything below `<!-- outputs -->` as it should be. */
export function generateJsonPage(text: string, { outputs, $defs }: OutputSchema): string {
  const [front = ''] = text.split(/(?<=^<!-- outputs -->\n)/m);
  const written = new Set<string>();
  const rows = Object.entries(outputs).map(([command, schema]) => {
    const title =
      command === 'message' ? 'every other command' : command === 'error' ? 'on standard error' : `\`${command}\``;
    return `| ${title} | ${referencesIn(schema).map(link).join(', ')} |`;
  });
  const commands = ['## Commands', '', '| Command | Objects |', '|---|---|', ...rows].join('\n');
  const types: string[] = [];
  const add = (name: string): void => {
    if (written.has(name)) return;
    written.add(name);
    const schema = $defs[name];
    if (schema === undefined) return;
    const [base] = baseTypes(name, $defs);
    types.push(`### ${name}\n\n${typeText(schema, name, base === undefined ? undefined : [base, $defs[base] ?? {}])}`);
    if (base !== undefined) add(base);
    for (const other of referencesIn(schema)) add(other);
  };
  for (const schema of Object.values(outputs)) for (const name of referencesIn(schema)) add(name);
  return `${[front.trimEnd(), commands, '## Objects', ...types].join('\n\n')}\n`;
}

function link(name: string): string {
  return `[${name}](#${name.toLowerCase()})`;
}

function referencesIn(schema: unknown): readonly string[] {
  const found = JSON.stringify(schema).matchAll(/"\$ref":"#\/\$defs\/(\w+)"/g);
  return [...new Set([...found].map(([, name = '']) => name))];
}

/** A type that has all fields of another one names it instead of repeating them. */
function typeText(schema: Schema, name: string, base?: readonly [name: string, schema: Schema]): string {
  const about = schema.description === undefined ? '' : `${oneLine(schema.description)}\n\n`;
  const kinds = (schema.anyOf ?? []) as readonly Schema[];
  if (kinds.length > 0 && kinds.every((one) => kindPath(one) !== '')) {
    return about + table(kinds.flatMap((one) => kindRows(one, name)));
  }
  if (schema.properties === undefined) return `${about}${typeOf(schema)}.`;
  if (base === undefined) return about + table(fieldRows(schema));
  const inherited = Object.keys(base[1].properties ?? {});
  const own = Object.entries(schema.properties).filter(([field]) => !inherited.includes(field));
  const rows = fieldRows({ ...schema, properties: Object.fromEntries(own) });
  return `${about}All fields of ${link(base[0])}, and:\n\n${table(rows)}`;
}

type Row = readonly [field: string, type: string, meaning: string];

/** One kind of an object. `at` and `seq` are in every event. */
function kindRows(schema: Schema, name: string): readonly Row[] {
  const { kind, at: _at, seq: _seq, ...properties } = schema.properties as Readonly<Record<string, Schema>>;
  const value = literal(kind?.const);
  return [
    [`**\`${value}\`**`, '', fieldMeanings[`${name}.kind.${value}`] ?? ''],
    ...fieldRows({ ...schema, properties }),
  ];
}

/** The fields of an object, and below them those of the objects in it. */
function fieldRows({ properties = {}, required = [] }: Schema, front = ''): readonly Row[] {
  return Object.entries(properties as Readonly<Record<string, Schema>>).flatMap(([name, schema]): readonly Row[] => {
    const absent = required.includes(name) ? '' : '?';
    const meaning = schema.description === undefined ? '' : oneLine(schema.description);
    const items = isObject(schema.items) ? [schema.items] : [];
    const inner = [schema, ...((schema.anyOf ?? []) as readonly Schema[]), ...items].find(
      (one) => one.properties !== undefined,
    );
    const path = `${front}${name}${inner !== undefined && items.includes(inner) ? '[]' : ''}`;
    return [
      [`\`${front}${name}\`${absent}`, typeOf(schema), meaning],
      ...(inner === undefined ? [] : fieldRows(inner, `${path}.`)),
    ];
  });
}

function oneLine(text: string): string {
  return text.replaceAll('\n', ' ');
}

function typeOf(schema: Schema): string {
  const { $ref, anyOf, type, items, additionalProperties } = schema;
  const values = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if ($ref !== undefined) return link($ref.replace('#/$defs/', ''));
  if (values !== undefined) return values.map((value) => `\`${literal(value)}\``).join(', ');
  if (anyOf !== undefined) return (anyOf as readonly Schema[]).map(typeOf).join(' or ');
  if (type === 'array') return `list of ${typeOf(items as Schema)}`;
  if (type === 'object' && typeof additionalProperties === 'object') return `object of ${typeOf(additionalProperties)}`;
  return Array.isArray(type) ? type.join(' or ') : (type ?? 'any');
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(
    (cells) => `|${cells.map((cell) => ` ${cell.replaceAll('|', String.raw`\|`)}`.trimEnd()).join(' |')} |`,
  );
  return ['| Field | Type | Meaning |', '|---|---|---|', ...lines].join('\n');
}

function literal(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
