/**
 * dist/sdk/index.d.ts: the types of the package as a library, from docs/openapi.json and the schemas of arguments.
 * `npm run build` writes it.
 */
import { apiRoutes, type ApiOperation } from '../src/api/routes.ts';
import type { DocumentOperation, OpenApiDocument, Schema } from './openapi-document.ts';

type Schemas = Readonly<Record<string, Schema>>;

const head = `// The types of jobman as a library, generated from docs/openapi.json.

export interface ConnectOptions {
  /** \`https://jobman.example.org\`; with \`http\` only on this machine. */
  readonly server: string;
  readonly token: string;
  /** Certificates in PEM of authorities that may sign the server's, in addition to those that Node trusts. */
  readonly ca?: string;
  /** Names proxies, as \`HTTPS_PROXY\`, with Node 24.5 or newer. Absent: none is used. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Connects with the first call. Throws JobmanError for an address that would send the token in clear text. */
export function connect(options: ConnectOptions): Client & CreateFrom;

export interface CreateFrom {
  /**
   * Creates the job of a manifest file, with the files that it names; others are not sent. The answer may need a
   * confirmation: the same call with the tokens of its reasons in \`confirmed\` creates the job.
   */
  createFrom(path: string, options?: CreateFromOptions): Promise<CreateAnswer>;
}

export interface CreateFromOptions {
  /** As \`--set\`: \`job.name=iris\`. */
  readonly sets?: readonly string[];
  readonly confirmed?: readonly string[];
  /** The variables that the manifest may name, such as \`process.env\`. Absent: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** An answer with an error, or no answer. The message is the server's sentence. */
export class JobmanError extends Error {
  /** The exit code of the jobman command for this error: 2 usage, 3 not found, 4 conflict or forbidden, 5 unreachable. */
  readonly code: number;
  /** What to do next. */
  readonly lines: readonly string[];
  readonly errorCode: ErrorCode;
  /** The mistakes of a manifest. */
  readonly problems: readonly ManifestProblem[];
  readonly reasons: readonly string[];
}

/** All rows of a list, or as many as the limit says; \`next\`: the cursor of the next page. */
export type Rows<Row> = readonly Row[] & { readonly next?: string };

export interface Blob {
  readonly digest: string;
  readonly content: Uint8Array;
}

export interface LogPart {
  readonly bytes: Uint8Array;
  /** The offset of the first byte. */
  readonly from: number;
  /** The end of the log now. */
  readonly end: number;
  /** True if no more bytes follow. */
  readonly isComplete: boolean;
}
`;

interface Arguments {
  readonly $defs: Schemas;
  readonly operations: Readonly<Record<ApiOperation, Schema>>;
}

/** The text of the declarations. */
export function typescriptClient(openApi: string, argumentSchemas: string): string {
  const { paths, components } = JSON.parse(openApi) as OpenApiDocument;
  const { $defs, operations } = JSON.parse(argumentSchemas) as Arguments;
  const own = ['Blob', 'LogPart', 'Uint8Array'];
  const types = Object.entries({ ...$defs, ...components.schemas })
    .filter(([name]) => !own.includes(name))
    .map(([name, schema]) => `${comment(schema, '')}export type ${name} = ${typeOf(schema, '')};\n`);
  const all = Object.values(paths).flatMap((ofPath) => Object.values(ofPath));
  const methods = (family = ''): string =>
    all
      .filter(({ operationId }) => operationId.replace(/\.?\w+$/, '') === family)
      .map((operation) => `${method(operation, operations[operation.operationId])}\n`)
      .join('');
  return `${head}\n${types.join('\n')}\n/** A lab that shares TPUs. */\nexport interface Lab {\n${methods('lab')}}\n\n/** The clusters of the server. */\nexport interface Clusters {\n${methods('cluster')}}\n\nexport interface Client {\n${methods()}  readonly lab: Lab;\n  readonly cluster: Clusters;\n  close(): Promise<void>;\n}\n`;
}

function method({ operationId, description, responses }: DocumentOperation, given: Schema): string {
  const [, route] = apiRoutes.find(([name]) => name === operationId) ?? [];
  if (route === undefined) throw new Error(`${operationId} has no route`);
  const { properties = {}, required = [] } = given;
  const parameters = route.arguments.map(([carrier, name]) => {
    const type =
      carrier === 'bytes'
        ? 'Uint8Array'
        : carrier === 'blobs'
          ? 'readonly Blob[]'
          : typeOf(properties[name] ?? {}, '  ');
    return `${name}${required.includes(name) ? '' : '?'}: ${type}`;
  });
  const content = responses['200']?.content ?? {};
  const { rows = {} } = content['application/json']?.schema?.properties ?? {};
  const value = typeOf(content['application/json']?.schema ?? content['text/event-stream']?.schema ?? {}, '  ');
  const answer = {
    json: `Promise<${responses['200'] === undefined ? 'void' : value}>`,
    rows: `Promise<Rows<${typeOf(rows.items || {}, '  ')}>>`,
    bytes: 'Promise<Uint8Array>',
    log: 'Promise<LogPart>',
    chunks: 'AsyncIterable<Uint8Array>',
    events: `AsyncIterable<${value}>`,
  }[route.answer];
  const about = description === undefined ? {} : { description };
  return `${comment(about, '  ')}  ${operationId.replace(/^\w+\./, '')}(${parameters.join(', ')}): ${answer};`;
}

function typeOf(schema: Schema, indent: string): string {
  const { $ref, type, const: only, enum: values, anyOf, items, properties, additionalProperties, prefixItems } = schema;
  if ($ref !== undefined) return $ref.split('/').at(-1) ?? 'unknown';
  if (only !== undefined) return JSON.stringify(only);
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(' | ');
  if (anyOf !== undefined) return anyOf.map((one) => typeOf(one, indent)).join(' | ');
  if (Array.isArray(type)) return type.map((one) => typeOf({ ...schema, type: one as string }, indent)).join(' | ');
  if (prefixItems !== undefined) return `readonly [${prefixItems.map((one) => typeOf(one, indent)).join(', ')}]`;
  if (type === 'array') {
    const item = items === undefined || items === false ? 'unknown' : typeOf(items, indent);
    return `readonly ${item.includes(' | ') ? `(${item})` : item}[]`;
  }
  if (properties !== undefined && Object.keys(properties).length > 0) {
    const inner = `${indent}  `;
    const fields = Object.entries(properties).map(([name, one]) => {
      const optional = schema.required?.includes(name) === true ? '' : '?';
      return `${comment(one, inner)}${inner}readonly ${JSON.stringify(name)}${optional}: ${typeOf(one, inner)};\n`;
    });
    return `{\n${fields.join('')}${indent}}`;
  }
  if (type === 'object')
    return typeof additionalProperties === 'object'
      ? `{ readonly [key: string]: ${typeOf(additionalProperties, indent)} }`
      : 'object';
  return type === 'integer' ? 'number' : ((type as string | undefined) ?? 'unknown');
}

function comment({ description }: Pick<Schema, 'description'>, indent: string): string {
  return description === undefined
    ? ''
    : `${indent}/** ${description.replaceAll('*/', '*\\/').replaceAll('\n', ' ')} */\n`;
}
