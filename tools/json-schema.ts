/**
 * The JSON Schema of every --json output, and its tables in docs/json.md, from the types of src/cli/outputs.ts.
 * `npm run reference` writes both.
 */
import { join } from 'node:path';
import { createGenerator, type Schema } from 'ts-json-schema-generator';

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
  return convert({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $defs: definitions as OutputSchema['$defs'],
    outputs: properties as OutputSchema['outputs'],
  });
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
      // Money and the speed of the emulator are the only fractions.
      if (schema.type === undefined || /Usd$|^speed$/.test(key)) return schema;
      const whole = (type: TypeName): TypeName => (type === 'number' ? 'integer' : type);
      return { ...schema, type: Array.isArray(schema.type) ? schema.type.map(whole) : whole(schema.type) };
    });
  const named = Object.fromEntries(Object.entries(all).filter(([name]) => isTypeName(name)));
  return { $schema, ...(convertPart({ $defs: named, outputs }) as Pick<OutputSchema, '$defs' | 'outputs'>) };
}

function isTypeName(name: string): boolean {
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
    types.push(`### ${name}\n\n${typeText(schema)}`);
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

function typeText(schema: Schema): string {
  const about = schema.description === undefined ? '' : `${oneLine(schema.description)}\n\n`;
  const kinds = (schema.anyOf ?? []) as readonly Schema[];
  if (kinds.length > 0 && kinds.every(({ properties }) => properties?.['kind'] !== undefined)) {
    return (
      about +
      table(kinds.flatMap((one) => fieldRows(one, literal((one.properties?.['kind'] as Schema | undefined)?.const))))
    );
  }
  return about + (schema.properties === undefined ? `${typeOf(schema)}.` : table(fieldRows(schema)));
}

type Row = readonly [field: string, type: string, meaning: string];

/** The fields of an object, and below them those of the objects in it. */
function fieldRows({ properties = {}, required = [] }: Schema, of = '', front = ''): readonly Row[] {
  return Object.entries(properties as Readonly<Record<string, Schema>>).flatMap(([name, schema]): readonly Row[] => {
    if (of !== '' && (name === 'at' || name === 'seq')) return [];
    const absent = required.includes(name) ? '' : '?';
    const field = of !== '' && name === 'kind' ? `**\`${of}\`**` : `\`${front}${name}\`${absent}`;
    const meaning = schema.description === undefined ? '' : oneLine(schema.description);
    const inner = [schema, ...((schema.anyOf ?? []) as readonly Schema[])].find((one) => one.properties !== undefined);
    const type = of !== '' && name === 'kind' ? '' : typeOf(schema);
    return [[field, type, meaning], ...(inner === undefined ? [] : fieldRows(inner, '', `${front}${name}.`))];
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
