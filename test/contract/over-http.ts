/** A client whose calls go over HTTP to a server on this machine, as those of another machine do. */
import { emptyPages } from '../server/support/server.ts';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before } from 'node:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { toProblem } from '../../src/server/problem.ts';
import { answerTypes, apiRoutes, type ApiOperation } from '../../src/api/routes.ts';
import { JobmanError } from '../../src/app/errors.ts';
import type { Client } from '../../src/app/client.ts';
import type { Rows } from '../../src/app/pages.ts';
import type { Actor } from '../../src/core/model/user.ts';
import { createServerClient } from '../../src/http-client/client.ts';
import { defaultLimits } from '../../src/server/limits.ts';
import { listen, type Listening } from '../../src/server/serve.ts';
import { emptyMetrics } from '../server/support/server.ts';
import { root } from '../support/root.ts';

/** Serves the clients that `open` gives. `bugs` gets what the server reports as bugs. Call it in a suite. */
export function serveClients(bugs: string[] = []) {
  const actors = new Map<string, () => Promise<Actor>>();
  const clients = new WeakMap<Actor, Client>();
  const opened = new Map<string, Client>();
  let server: Listening | undefined;
  before(async () => {
    server = await listen(
      { host: '127.0.0.1', port: 0 },
      {
        async authenticate(token) {
          const actor = { ...(await actors.get(token)?.()) } as Actor;
          const client = opened.get(token);
          if (client === undefined) return null;
          clients.set(actor, client);
          return actor;
        },
        clientOf: (actor) => withCheckedAnswers(clients.get(actor) ?? assert.fail('an actor without a client')),
        connectWorker: () => assert.fail('no operation of a client opens a stream'),
        labOf: () => Promise.reject(new Error('these tests have no lab')),
        clustersOf: () => Promise.reject(new Error('these tests have no cluster')),
        ready: () => Promise.resolve(),
        metrics: emptyMetrics(),
        limits: { ...defaultLimits, requestsPerSecond: 0 },
        login: { logins: async () => null, url: async () => null },
        pages: emptyPages,
        reportBug: (line) => void bugs.push(line),
        reportOutage: () => undefined,
      },
    );
  });
  after(() => server?.close());

  /** The client over HTTP of that actor. It connects at its first call. */
  return (whoAmI: () => Promise<Actor>, client: Client): Client => {
    const token = randomUUID();
    actors.set(token, whoAmI);
    opened.set(token, client);
    let made: Client | undefined;
    const over = (): Client => {
      assert.ok(server, 'the server runs only while the tests of its suite run');
      return (made ??= createServerClient({ server: server.url, token, env: {} }));
    };
    const names = Object.keys(client) as (keyof Client)[];
    const methods = names.map((name) => [name, (...values: readonly unknown[]) => (over()[name] as Method)(...values)]);
    return {
      ...(Object.fromEntries(methods) as unknown as Client),
      async close() {
        await made?.close();
        await client.close();
      },
    };
  };
}

type Method = (...values: readonly unknown[]) => unknown;

// ------------------------------------------------------------------------------------------ the OpenAPI document

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: Responses }>>>>;
  readonly components: object;
}
type Responses = Readonly<
  Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: object }>> }>
>;

const { paths, components } = JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8')) as Document;
const ajv = new Ajv2020({ strict: false });
const validators = new Map<string, ValidateFunction>();

/** Fails for a JSON answer that is not as the document says. */
function checkAnswer(operation: ApiOperation, value: unknown): void {
  const [, { path, method, answer }] = apiRoutes.find(([name]) => name === operation) ?? assert.fail(operation);
  const schema = paths[path]?.[method.toLowerCase()]?.responses['200']?.content?.[answerTypes[answer]]?.schema;
  if (schema === undefined || value instanceof Uint8Array) return;
  const validate = validators.get(operation) ?? ajv.compile({ ...schema, components });
  validators.set(operation, validate);
  const sent = answer === 'rows' ? { rows: value, next: (value as Rows<unknown>).next } : value;
  const isRight = validate(JSON.parse(JSON.stringify(sent)));
  assert.ok(isRight, `${operation}: ${JSON.stringify(validate.errors)} ${JSON.stringify(value)}`);
}

/** Fails for an error whose status the document does not list. */
function checkError(operation: ApiOperation, error: unknown): void {
  if (!(error instanceof JobmanError)) return;
  const { status } = toProblem(error);
  const [, { path, method }] = apiRoutes.find(([name]) => name === operation) ?? assert.fail(operation);
  const responses = paths[path]?.[method.toLowerCase()]?.responses ?? {};
  assert.ok(Object.hasOwn(responses, status), `${operation} may not answer ${status}: ${error.message}`);
}

/** `prefix` begins the names of its operations. */
export function withCheckedAnswers<Methods extends object>(client: Methods, prefix = ''): Methods {
  return new Proxy(client, {
    get(target, name) {
      const method = Reflect.get(target, name) as Method | undefined;
      if (method === undefined) return undefined;
      return (...values: readonly unknown[]) => {
        const answer = method(...values);
        const operation = `${prefix}${String(name)}` as ApiOperation;
        if (!(answer instanceof Promise)) return checked(operation, answer as AsyncIterable<unknown>);
        return answer.then(
          (value: unknown) => {
            checkAnswer(operation, value);
            return value;
          },
          (error: unknown) => {
            checkError(operation, error);
            throw error;
          },
        );
      };
    },
  });
}

/** Bytes in an event are Base64. */
function asSent(value: unknown): unknown {
  const { bytes } = (value ?? {}) as { readonly bytes?: unknown };
  return bytes instanceof Uint8Array ? { ...(value as object), bytes: bytes.toBase64() } : value;
}

function checked(operation: ApiOperation, values: AsyncIterable<unknown>): AsyncIterable<unknown> {
  const iterator = values[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        const result = await iterator.next();
        if (result.done !== true && operation !== 'runStep') checkAnswer(operation, asSent(result.value));
        return result;
      },
      return: async () => (await iterator.return?.()) ?? { done: true, value: undefined },
    }),
  };
}
