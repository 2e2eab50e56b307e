/**
 * The OpenAPI document of the server: the routes of src/api/routes.ts with the types and comments of `Client` in
 * src/app/client.ts, of `LabClient` in src/lab/lab-client.ts and of `ClusterClient` in src/app/cluster/cluster-client.ts. `npm run reference` writes it; the server validates requests with it.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createGenerator, type Schema } from 'ts-json-schema-generator';
import { parseSync } from 'vite';
import { problemType } from '../src/api/problem.ts';
import { answerTypes, apiRoutes, keyedArguments, type Route } from '../src/api/routes.ts';
import { version } from '../src/version.ts';
import { pythonClient } from './python-client.ts';
import { isTypeName } from './json-schema.ts';

const root = join(import.meta.dirname, '..');
const argumentsFile = 'src/api/arguments.schema.json';
const openApiFile = 'docs/openapi.json';
const pythonFile = 'python/jobman/_api.py';
/** The interfaces of the operations; `prefix` begins the names of their operations. */
const sources = [
  { file: join(root, 'src/app/client.ts'), name: 'Client', prefix: '' },
  { file: join(root, 'src/lab/lab-client.ts'), name: 'LabClient', prefix: 'lab.' },
  { file: join(root, 'src/app/cluster/cluster-client.ts'), name: 'ClusterClient', prefix: 'cluster.' },
] as const;

/** A node of the syntax tree, of which only the parts that a method of an interface has are read. */
interface Syntax {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

interface Method {
  /** The name of its operation. */
  readonly name: string;
  /** The comment above it, for people. */
  readonly about: string;
  readonly parameters: readonly { readonly name: string; readonly isOptional: boolean; readonly type: string }[];
  /** The type in its Promise or AsyncIterable. */
  readonly answer: string;
}

type Source = (typeof sources)[number];

/** The methods of the interface, as they are declared. */
function readMethods({ file, name, prefix }: Source, text: string): readonly Method[] {
  const { program, comments } = parseSync(file, text);
  const declarations = (program.body as unknown as readonly Syntax[]).map((one) => one['declaration'] as Syntax | null);
  const client = declarations.find(
    (one) => one?.type === 'TSInterfaceDeclaration' && (one['id'] as Syntax)['name'] === name,
  );
  if (client === undefined || client === null) throw new Error(`${file} declares no ${name}`);
  const textOf = ({ start, end }: Syntax): string => text.slice(start, end);
  return ((client['body'] as Syntax)['body'] as readonly Syntax[]).map((method) => {
    const comment = comments.find(({ end }) => end < method.start && text.slice(end, method.start).trim() === '');
    const answer = (method['returnType'] as Syntax)['typeAnnotation'] as Syntax;
    const [inner] = (answer['typeArguments'] as Syntax)['params'] as readonly [Syntax];
    return {
      name: `${prefix}${(method['key'] as Syntax)['name'] as string}`,
      about: (comment?.value ?? '').replaceAll(/^\s*\* ?/gm, '').trim(),
      parameters: (method['params'] as readonly Syntax[]).map((one) => ({
        name: one['name'] as string,
        isOptional: one['optional'] === true,
        type: textOf((one['typeAnnotation'] as Syntax)['typeAnnotation'] as Syntax),
      })),
      answer: textOf(inner).replace(/^Rows<(.*)>$/s, 'readonly ($1)[]'),
    };
  });
}

/**
 * The generator reads no types out of methods. So it gets a file with an interface of their types, in which the names mean
 * what they mean in that file.
 */
function schemasOf(file: string, methods: readonly Method[], text: string): Schema {
  const absolute = text.replaceAll(/(?<= from ')\.[^']+/g, (path) => join(dirname(file), path));
  const { program } = parseSync(file, absolute);
  const statements = program.body as unknown as readonly Syntax[];
  const isExport = (one: Syntax): boolean => one.type === 'ExportNamedDeclaration';
  const exported = statements.filter(isExport).map((one) => ((one['declaration'] as Syntax)['id'] as Syntax)['name']);
  const own = statements.filter((one) => !isExport(one)).map(({ start, end }) => absolute.slice(start, end));
  const operations = methods.map(({ name, parameters, answer }) => {
    const fields = parameters.map((one) => `${one.name}${one.isOptional ? '?' : ''}: ${one.type}`);
    return `'${name}': { arguments: { ${fields.join('; ')} }; answer: ${answer === 'void' ? 'null' : answer} };`;
  });
  const imports = [
    `import type { ${exported.join(', ')} } from '${file}';`,
    `import type { Problem } from '${join(root, 'src/api/problem.ts')}';`,
  ];
  const folder = mkdtempSync(join(tmpdir(), 'jobman-api-'));
  try {
    const path = join(folder, 'operations.ts');
    writeFileSync(
      path,
      [...imports, ...own, 'export interface Operations {', ...operations, 'problem: Problem', '}'].join('\n'),
    );
    return createGenerator({
      path,
      tsconfig: join(root, 'tsconfig.json'),
      type: 'Operations',
      skipTypeCheck: true,
      topRef: false,
      expose: 'all',
      jsDoc: 'extended',
      encodeRefs: false,
    }).createSchema('Operations');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** JSON Schema 2020-12 of a part: the generator writes draft 7, and gives a name to `Readonly<...>`. */
function convert(part: unknown, definitions: Readonly<Record<string, unknown>>, references: string): unknown {
  return JSON.parse(JSON.stringify(part), (_, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value;
    const { $ref, items, ...rest } = value as Schema;
    // A tuple.
    if (Array.isArray(items)) return { ...rest, prefixItems: items, items: false };
    if (typeof $ref !== 'string') return value;
    const name = $ref.replace('#/definitions/', '');
    return isTypeName(name)
      ? { ...rest, $ref: `${references}${name}` }
      : { ...(convert(definitions[name], definitions, references) as object), ...rest };
  });
}

/** The definitions that the schemas mention, directly or not. */
function reachable(schemas: unknown, all: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const found = new Set<string>();
  const visit = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"\$ref":"#[^"]*\/(\w+)"/g)) {
      // A reference to an answer is none to a schema.
      if (found.has(name) || !Object.hasOwn(all, name)) continue;
      found.add(name);
      visit(all[name]);
    }
  };
  visit(schemas);
  return Object.fromEntries([...found].toSorted().map((name) => [name, all[name]]));
}

/** Types that the generator describes by their members. */
const ownSchemas: Readonly<Record<string, Schema>> = {
  Uint8Array: { type: 'string', contentEncoding: 'base64' } as Schema,
  // The limits are those of Date. PostgreSQL has no larger integers than 2^63.
  Instant: {
    type: 'integer',
    description: 'Milliseconds since 1970-01-01 in UTC.',
    minimum: -8.64e15,
    maximum: 8.64e15,
  } as Schema,
};

interface Signature {
  readonly properties: { readonly arguments: Schema; readonly answer: Schema };
}

type Schemas = Readonly<Record<string, Schema>>;

/** The generated files, by their paths in the repository. Takes about six seconds. */
export function apiFiles(): Readonly<Record<string, string>> {
  const parts = sources.map((source) => {
    const text = readFileSync(source.file, 'utf8');
    const declared = readMethods(source, text).filter(({ name }) => name !== 'close');
    return { methods: declared, ...schemasOf(source.file, declared, text) };
  });
  const methods = parts.flatMap((part) => part.methods);
  const properties = Object.assign({}, ...parts.map((part) => part.properties)) as object;
  const all = { ...(Object.assign({}, ...parts.map((part) => part.definitions)) as Schemas), ...ownSchemas };
  const named = Object.fromEntries(Object.entries(all).filter(([name]) => isTypeName(name)));
  const { problem: _problem, ...signatures } = properties as unknown as Readonly<Record<string, Signature>>;
  const partsOf = (part: 'arguments' | 'answer', references: string): Schemas =>
    Object.fromEntries(
      Object.entries(signatures).map(([name, one]) => [name, convert(one.properties[part], all, references) as Schema]),
    );
  const operations = partsOf('arguments', '#/$defs/');
  const $defs = reachable(operations, convert(named, all, '#/$defs/') as Schemas);
  const components = '#/components/schemas/';
  const document = openApiDocument({
    methods,
    requests: partsOf('arguments', components),
    answers: partsOf('answer', components),
    named: convert(named, all, components) as Schemas,
  });
  return {
    [argumentsFile]: formatLines({ $defs, operations }),
    [openApiFile]: document,
    [pythonFile]: pythonClient(document),
  };
}

// ------------------------------------------------------------------------------------------ OpenAPI

interface DocumentParts {
  readonly methods: readonly Method[];
  readonly requests: Schemas;
  readonly answers: Schemas;
  readonly named: Schemas;
}

const about =
  `Everything that the jobman command does with jobs. Times are milliseconds since 1970-01-01 in UTC. An error is a
problem document (RFC 9457). In a path, a value that is empty, \`.\` or \`..\`, or that begins with \`~\`, is preceded by \`~\`. A
list in a query repeats its parameter; an empty list is the parameter with an empty value. docs/api.md explains the
streams and the bodies that are not JSON. The paths below /login are not here: they are the pages for a browser and the
steps of \`jobman login\`, and may change with every version.`.replaceAll('\n', ' ');

function openApiDocument({ methods, requests, answers, named }: DocumentParts): string {
  const paths: Record<string, Record<string, object>> = {};
  for (const method of methods) {
    const route = requireRoute(method.name);
    const operation = {
      operationId: method.name,
      tags: [route.path.split('/')[2]],
      ...(method.about === '' ? {} : { description: describe(method.about) }),
      ...requestOf(method.name, route, requests[method.name] ?? {}, named),
      responses: {
        ...successOf(route, answers[method.name] ?? {}),
        ...errorsOf(route, method.about),
      },
    };
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation };
  }
  const schemas = reachable(paths, named);
  const frame = {
    openapi: '3.1.0',
    info: { title: 'jobman', version, description: about },
    security: [{ token: [] }],
  };
  const components = {
    securitySchemes: {
      token: { type: 'http', scheme: 'bearer', description: 'A token from `jobman token create` or `jobman login`.' },
    },
    responses: {
      ...Object.fromEntries(Object.entries(errors).map(([status, text]) => [`Error${status}`, problemAnswer(text)])),
      Problem: problemAnswer('Another error.'),
    },
    schemas: { ...reachable({ $ref: '#/components/schemas/Problem' }, named), ...schemas },
  };
  const lines = Object.entries(frame).map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`);
  const { schemas: types, ...others } = components;
  const rest = Object.entries(others).map(([key, value]) => `    ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`);
  return `{\n${lines.join('')}${formatEntries('paths', paths, '  ')},\n  "components": {\n${rest.join('')}${formatEntries('schemas', types, '    ')}\n  }\n}\n`;
}

function requireRoute(operation: string): Route {
  const found = apiRoutes.find(([name]) => name === operation);
  if (found === undefined) throw new Error(`${operation} has no route`);
  return found[1];
}

// ------------------------------------------------------------------------------------------ errors

/** The errors that the server returns. */
const errors: Readonly<Record<number, string>> = {
  400: 'The request is invalid.',
  401: 'The request has no token, or the token is unknown, expired or revoked, or its user is disabled.',
  403: 'The user has no permission.',
  404: 'There is no such job, log or path.',
  409: 'The state of the object does not allow the request, or several jobs have the name.',
  412: 'The job has another revision than If-Match requires.',
  413: 'The body is too large.',
  429: 'The token or the address has sent too many requests. Retry-After says when to try again.',
  500: 'A bug. The log of the server has the details of the incident that the response names.',
  503: 'A database, a cloud or a worker does not answer, or the server is overloaded.',
};

const problemAnswer = (description: string): object => ({
  description,
  content: { [problemType]: { schema: { $ref: '#/components/schemas/Problem' } } },
});

/** The status for an exit code, which the comments of Client name. */
const statusOfExit = (code: string): string => ({ '2': '400', '3': '404', '4': '409', '5': '503' })[code] ?? code;

/** The comment of a method, for a user of the API. */
function describe(comment: string): string {
  return comment
    .replaceAll('\n', ' ')
    .replaceAll('Throws JobmanError (4) if the revision', 'Status 412 if the revision')
    .replaceAll(
      /Throws JobmanError: ([^.]+)\./g,
      (_, list: string) => `Status ${list.replaceAll(/(?<=^|, )\d(?= )/g, (code) => statusOfExit(code))}.`,
    )
    .replaceAll(
      /Throws JobmanError \(([\d, ]+)\)/g,
      (_, codes: string) => `Status ${codes.split(', ').map(statusOfExit).join(' or ')}`,
    )
    .replaceAll(/Throws (?:JobmanError|StoreError)/g, 'Returns an error');
}

/** The errors that the operation may return. The contract suite over HTTP fails for another one. */
function errorsOf({ path, method, answer, changes, arguments: carriers }: Route, comment: string): object {
  const named = [...comment.matchAll(/JobmanError(?:: | \()([^.)]*)/g)].flatMap(([, list = '']) =>
    [...list.matchAll(/(?<=^|, )\d/g)].map(([code]) => statusOfExit(code)),
  );
  const hasBody = carriers.some(([carrier]) => ['body', 'member', 'bytes', 'blobs'].includes(carrier));
  const statuses = [
    ...(carriers.length > 0 ? ['400'] : []),
    '401',
    '403',
    ...(carriers.some(([carrier]) => carrier === 'path') ? ['404'] : []),
    ...(changes || path.includes('{ref}') ? ['409'] : []),
    ...(path.endsWith('/commands/{verb}') && changes ? ['412'] : []),
    ...(hasBody ? ['413'] : []),
    '429',
    '500',
    '503',
    ...named,
  ];
  const entries = [...new Set(statuses)]
    .toSorted()
    .map((status) => [status, { $ref: `#/components/responses/Error${status}` }]);
  const unchanged = hasEtag({ method, answer })
    ? { 304: { description: 'The response has not changed: its ETag is the one in If-None-Match.' } }
    : {};
  return { ...unchanged, ...Object.fromEntries(entries), default: { $ref: '#/components/responses/Problem' } };
}

function hasEtag({ method, answer }: Pick<Route, 'method' | 'answer'>): boolean {
  return method === 'GET' && (answer === 'json' || answer === 'rows');
}

/** Examples of parameters, by name. */
const examples: Readonly<Record<string, unknown>> = {
  ref: '42',
  verb: 'stop',
  phases: ['running'],
  cursor: 'WyJqb2JzIiwxMjAwXQ',
  limit: 100,
  zone: 'us-east5-b',
  accelerator: 'v6e-16',
  createdSince: 1_795_984_623_690,
};

/** The headers with a meaning of their own. The generated clients have other ways for them. */
function headersOf(operation: string, route: Route): readonly object[] {
  const isKeyed = Object.keys(keyedArguments).includes(operation);
  const isResumable = route.answer === 'events' && route.arguments.some(([, name]) => name === 'cursor');
  const headers: Readonly<Record<string, string | false>> = {
    'Idempotency-Key': isKeyed && 'The same as `idempotencyKey` in the body.',
    'If-Match':
      operation === 'sendCommand' && 'The ETag of the job: the command is refused if the job has changed since.',
    'If-None-Match': hasEtag(route) && 'The ETag of an earlier response.',
    'Last-Event-ID': isResumable && 'The same as `cursor`: the id of the last event that was received.',
  };
  return Object.entries(headers).flatMap(([name, description]) =>
    description === false ? [] : [{ name, in: 'header', description, schema: { type: 'string' } }],
  );
}

/** The parameters and the body of a route. */
function requestOf(operation: string, route: Route, request: Schema, named: Schemas): object {
  const { properties = {}, required = [] } = request as { properties?: Schemas; required?: readonly string[] };
  const parameters: object[] = [];
  const members: Record<string, Schema> = {};
  let body: object | undefined;
  for (const [carrier, name] of route.arguments) {
    const schema = properties[name] ?? {};
    const isRequired = required.includes(name);
    const parameter = (at: 'path' | 'query', field: string, one: Schema, isNeeded: boolean): void => {
      // Null travels as nothing.
      const needed = isNeeded && !(at === 'query' && JSON.stringify(one).includes('"null"'));
      const example = examples[field] === undefined ? {} : { example: examples[field] };
      parameters.push({ name: field, in: at, ...(needed ? { required: true } : {}), schema: one, ...example });
    };
    if (carrier === 'path' || carrier === 'query') parameter(carrier, name, schema, isRequired);
    else if (carrier === 'fields') {
      const fields = resolve(schema, named) as { properties?: Schemas; required?: readonly string[] };
      for (const [field, one] of Object.entries(fields.properties ?? {}))
        parameter('query', field, one, isRequired && fields.required?.includes(field) === true);
    } else if (carrier === 'member') members[name] = schema;
    else {
      const type = carrier === 'body' ? answerTypes.json : answerTypes.bytes;
      body = { required: isRequired, content: { [type]: carrier === 'body' ? { schema } : {} } };
    }
  }
  if (Object.keys(members).length > 0) {
    const needed = Object.keys(members).filter((name) => required.includes(name));
    const schema = { type: 'object', properties: members, required: needed, additionalProperties: false };
    body = { required: needed.length > 0, content: { [answerTypes.json]: { schema } } };
  }
  parameters.push(...headersOf(operation, route));
  return { ...(parameters.length === 0 ? {} : { parameters }), ...(body === undefined ? {} : { requestBody: body }) };
}

function resolve(schema: Schema, named: Schemas): Schema {
  return schema.$ref === undefined ? schema : resolve(named[schema.$ref.split('/').at(-1) ?? ''] ?? {}, named);
}

function successOf(route: Route, answer: Schema): object {
  if (route.answer === 'json' && answer.type === 'null') return { 204: { description: 'Done.' } };
  const isEvents = route.answer === 'events';
  const page = {
    type: 'object',
    properties: { rows: answer, next: { type: 'string', description: 'The cursor of the next page.' } },
    required: ['rows'],
    additionalProperties: false,
  };
  const schema = route.answer === 'rows' ? page : answer;
  const hasSchema = route.answer === 'json' || route.answer === 'rows' || isEvents;
  const content = { [answerTypes[route.answer]]: hasSchema ? { schema } : {} };
  const integer = { schema: { type: 'integer' } };
  const headers = {
    'jobman-log-from': integer,
    'jobman-log-end': integer,
    'jobman-log-complete': { schema: { type: 'boolean' } },
  };
  const description = isEvents
    ? 'Server-sent events, each with a value of this schema. The last event is `end`, or `problem` with an error.'
    : 'The result.';
  return { 200: { description, ...(route.answer === 'log' ? { headers } : {}), content } };
}

// ------------------------------------------------------------------------------------------ text

/** One entry a line, so that a change is easy to read. */
function formatLines(parts: Readonly<Record<string, object>>): string {
  return `{\n${Object.entries(parts)
    .map(([key, entries]) => formatEntries(key, entries, '  '))
    .join(',\n')}\n}\n`;
}

function formatEntries(key: string, entries: object, indent: string): string {
  const lines = Object.entries(entries).map(
    ([name, one]) => `${indent}  ${JSON.stringify(name)}: ${JSON.stringify(one)}`,
  );
  return `${indent}${JSON.stringify(key)}: {\n${lines.join(',\n')}\n${indent}}`;
}
