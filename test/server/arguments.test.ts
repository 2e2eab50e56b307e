/** The arguments of every operation arrive as they are sent. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import schemas from '../../src/api/arguments.schema.json' with { type: 'json' };
import type { CreateRequest } from '../../src/app/client.ts';
import { maxPage, type Page } from '../../src/app/pages.ts';
import { routes, type Operation } from '../../src/api/routes.ts';
import { arbitraryOf, type Definitions, type JsonSchema } from '../support/schema-arbitrary.ts';
import type { Problem } from '../../src/api/problem.ts';
import { send } from './support/send.ts';
import { openServer } from './support/server.ts';

const { $defs, operations } = schemas as unknown as {
  readonly $defs: Definitions;
  readonly operations: Readonly<Record<Operation, JsonSchema>>;
};

const bytes = fc.uint8Array({ maxLength: 40 }).map((value) => Buffer.from(value));
const blobs = fc.array(
  fc.record(
    { digest: fc.string({ unit: 'binary' }).map((text) => `sha256:${text}`), content: bytes },
    { noNullPrototype: true },
  ),
);

/** Texts that a path, a query, a header or JSON could change. */
const texts = fc.oneof(
  fc.constantFrom(
    '',
    '.',
    '..',
    '~',
    '~x',
    '../x',
    'a/b',
    'a%2Fb',
    '%',
    '%zz',
    'a b',
    'a+b',
    'a&b=c',
    '#',
    '?',
    'é',
    '\u0000',
    '\n',
    '1',
    'null',
    '[]',
  ),
  fc.string({ unit: 'binary' }),
);

/** The arguments in order. Null and absent fields of a query are the same. */
function argumentsOf(operation: Operation): fc.Arbitrary<readonly unknown[]> {
  const { properties = {}, required = [] } = operations[operation];
  return fc.tuple(
    ...routes[operation].arguments.map(([carrier, name]) => {
      if (carrier === 'bytes') return bytes;
      if (carrier === 'blobs') return blobs;
      const value = arbitraryOf(properties[name] ?? {}, $defs, texts);
      return required.includes(name) ? value : fc.option(value, { nil: undefined });
    }),
  );
}

/** An empty text alone in a list travels as an empty list; a field that is null, or an object of such, as an absent one. */
function asReceived(operation: Operation, given: readonly unknown[]): unknown {
  // The client adds a key to a request for a new job.
  const values = operation === 'create' ? [{ ...(given[0] as CreateRequest), idempotencyKey: null }] : given;
  const { answer, arguments: carriers } = routes[operation];
  const parameter = (value: unknown): unknown => (Array.isArray(value) && value.join() === '' ? [] : value);
  // The server limits each page.
  const limitOf = (limit: unknown): unknown => (Number(limit ?? maxPage) < maxPage ? limit : maxPage);
  return carriers.map(([carrier, name], at) => {
    const isPage = answer === 'rows' && carrier === 'fields';
    const value = isPage
      ? { ...(values[at] as Page), limit: limitOf((values[at] as Page | undefined)?.limit) }
      : values[at];
    if (answer === 'rows' && name === 'limit') return limitOf(value);
    if (carrier === 'query') return parameter(value) ?? null;
    if (carrier !== 'fields') return value ?? null;
    const fields = Object.entries(value ?? {}).filter(([, one]) => one !== null && one !== undefined);
    return fields.length === 0 ? null : Object.fromEntries(fields.map(([name, one]) => [name, parameter(one)]));
  });
}

suite('the arguments of', () => {
  for (const operation of Object.keys(routes) as Operation[]) {
    if (routes[operation].arguments.length === 0) continue;
    test(`${operation} arrive as they are sent`, async (t) => {
      let received: readonly unknown[] | undefined;
      const echo = (...values: readonly unknown[]) => {
        received = values;
        const answers = {
          json: null,
          rows: [],
          bytes: Buffer.from(''),
          log: { bytes: Buffer.from(''), from: 0, end: 0, isComplete: true },
        };
        const { answer } = routes[operation];
        return answer === 'events' || answer === 'chunks' ? none() : Promise.resolve(answers[answer]);
      };
      const { client } = await openServer(t, { client: { [operation]: echo } });
      const method = client[operation] as unknown as (...values: readonly unknown[]) => unknown;
      await fc.assert(
        fc.asyncProperty(argumentsOf(operation), async (values) => {
          received = undefined;
          const answer = method(...values);
          await (answer instanceof Promise ? answer : Array.fromAsync(answer as AsyncIterable<unknown>));
          assert.deepEqual(asReceived(operation, received ?? assert.fail('no call')), asReceived(operation, values));
        }),
        { numRuns: 60 },
      );
    });
  }
});

test('a time that no date can have is refused', async (t) => {
  const { client } = await openServer(t, {});
  for (const createdSince of [1e30, -1e30])
    await assert.rejects(client.list({ createdSince }), /query\.createdSince must be [<>]= -?8640000000000000\./);
});

async function* none(): AsyncIterable<never> {}

test('a body with too many or too deep lists is refused before it is parsed, and their signs in a text do not count', async (t) => {
  const { server } = await openServer(t, { client: { plan: async (spec: unknown) => spec } });
  const answerTo = (body: string) => send(server.url, '/v1/plans', { method: 'POST', body });
  const many = `{"spec":[${'[],'.repeat(100_000)}[]]}`;
  const deep = `{"spec":${'{"a":'.repeat(101)}1${'}'.repeat(101)}}`;
  for (const body of [many, deep]) {
    const { status, text } = await answerTo(body);
    assert.deepEqual(
      [status, (JSON.parse(text) as Problem).detail],
      [400, 'The body has too many lists and objects, or they are nested too deeply.'],
    );
  }
  const { text } = await answerTo(JSON.stringify({ spec: `"\\${'[{'.repeat(200_000)}` }));
  assert.equal((JSON.parse(text) as Problem).detail, 'spec must be object.');
});
