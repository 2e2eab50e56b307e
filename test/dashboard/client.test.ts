/** The client of a page, and its stream of changes, with answers that are cut off. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { JobmanError } from '../../src/app/errors.ts';

// That of Node would keep the process of the test running.
globalThis.BroadcastChannel = class {
  postMessage(): void {}
} as unknown as typeof BroadcastChannel;
// These files need the types of a browser, which the tests do not have.
const folder = '../../src/dashboard';
const { client, startSession } = (await import(`${folder}/session.ts`)) as {
  readonly client: { whoAmI(): Promise<unknown> };
  readonly startSession: () => Promise<void>;
};
const { followChanges } = (await import(`${folder}/live.ts`)) as { readonly followChanges: () => void };

const actor = { user: 'ada', role: 'member', via: 'token', logins: [] };

test('an answer that ends early or is no JSON is a failure with a sentence of jobman', async (t) => {
  let answer = new Response();
  t.mock.method(globalThis, 'fetch', async () => answer);
  const messageOf = async (body: string | ReadableStream, status: number, type: string): Promise<string> => {
    answer = new Response(body, { status, headers: { 'content-type': type } });
    const error = await client.whoAmI().catch((thrown: unknown) => thrown);
    assert.ok(error instanceof JobmanError, String(error));
    return error.message;
  };
  const broken = new ReadableStream({ pull: (controller) => controller.error(new TypeError('network error')) });
  assert.deepEqual(
    [
      await messageOf('{"user":"a', 200, 'application/json'),
      await messageOf('<html>', 502, 'application/problem+json'),
      await messageOf(broken, 200, 'application/json'),
    ],
    [
      'The response is not from jobman: status 200.',
      'The response is not from jobman: status 502.',
      'The connection to the server ended early.',
    ],
  );
});

test('the pauses between streams grow while each stream ends at once', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const target = { visibilityState: 'visible', addEventListener: () => undefined };
  Object.assign(globalThis, { document: target, window: target });
  t.after(() => {
    Reflect.deleteProperty(globalThis, 'document');
    Reflect.deleteProperty(globalThis, 'window');
  });
  let streams = 0;
  t.mock.method(globalThis, 'fetch', async (path: string) => {
    if (path === '/v1/user') return Response.json(actor);
    streams += 1;
    return new Response(': \n\n', { headers: { 'content-type': 'text/event-stream' } });
  });
  const streamsAfter = async (time: number): Promise<number> => {
    t.mock.timers.tick(time);
    for (let turn = 0; turn < 20; turn += 1) await setImmediate();
    return streams;
  };
  followChanges();
  await startSession();
  const counts = [];
  for (const time of [0, 500, 500, 500, 1500, 500]) counts.push(await streamsAfter(time));
  assert.deepEqual(counts, [1, 2, 2, 3, 3, 4]);
});
