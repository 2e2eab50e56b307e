/** Errors that no code has caught: those of requests do not end the server, all others do. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { openWorld } from '../support/world.ts';
import { open, send } from './support/send.ts';

// The runner of tests has a listener of its own, so the server is in another process. Errors of input are not of a request.
const program = `
import { setTimeout as sleep } from 'node:timers/promises';
import { openServer } from ${JSON.stringify(import.meta.resolve('./support/server.ts'))};

const client = {
  show: () => {
    setTimeout(() => { throw new Error('of a request'); });
    return new Promise(() => {});
  },
  list: async () => {
    void Promise.reject(new Error('of a rejection'));
    await sleep(20);
    return { rows: [], more: 0 };
  },
};
const onUncaught = (call) => {
  process.on('uncaughtException', (error, origin) => {
    const isOver = !call(error, origin === 'uncaughtException');
    console.log(isOver + ' ' + error.message);
    if (isOver) process.exit(3);
  });
  return () => {};
};
const { server } = await openServer({ after() {} }, { client, onUncaught });
console.log(server.url);
process.stdin.once('data', () => { throw new Error('of the process'); });
`;

test('an error that no code has caught does not end the server if a request has caused it', async (t) => {
  const { env } = openWorld(t);
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const printed = createInterface(child.stdout)[Symbol.asyncIterator]();
  const line = async (): Promise<unknown> => (await printed.next()).value;
  const url = String(await line());
  await assert.rejects(open(url, '/v1/jobs/1'), { code: 'ECONNRESET' });
  assert.equal(await line(), 'false of a request');
  const answer = await send(url, '/v1/jobs');
  assert.deepEqual([await line(), answer.status], ['false of a rejection', 200], answer.text);
  child.stdin.write('\n');
  assert.equal(await line(), 'true of the process');
  const [code] = await once(child, 'exit');
  assert.equal(code, 3);
});
