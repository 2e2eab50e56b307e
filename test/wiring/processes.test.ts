// Background programs: their start, and the environment that they inherit.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import type { Io } from '../../src/app/services.ts';
import { formatUnit } from '../../src/wiring/install.ts';
import { backgroundEnvironment, startInBackground } from '../../src/wiring/processes.ts';
import { localSpec } from '../support/builders.ts';
import { temporaryFolder } from '../support/folder.ts';

test("a controller that a job's program has started is not taken for a part of that program", async () => {
  const env = { PATH: '/bin', JOBMAN_RUN: 'abc123/000001/1/controller', JOBMAN_HOME: '/home' };
  const io = { env } as Pick<Io, 'env'> as Io;
  assert.deepEqual(await backgroundEnvironment(io, '/nowhere'), { PATH: '/bin', JOBMAN_HOME: '/home' });
});

test('a controller does not inherit the secrets of the job that is being created', async () => {
  const io = { env: { TOKEN: 'x', PATH: '/bin' } } as unknown as Io;
  const { command, ...spec } = localSpec();
  const coming = {
    ...spec,
    command: { ...command, secrets: { T: { kind: 'job', secret: 'T', variable: 'TOKEN' } } },
  } as const;
  assert.deepEqual(await backgroundEnvironment(io, '/nowhere', coming), { PATH: '/bin' });
});

test('a program that meets another one of its kind waits for that one, and any other end is a failure', async (t) => {
  const home = temporaryFolder(t);
  const began = performance.now();
  const start = (exitCode: number): Promise<string> =>
    startInBackground({
      io: { env: process.env, launcher: ['/bin/sh', '-c', `echo problem; exit ${exitCode}`] } as unknown as Io,
      home,
      name: 'The program',
      args: [],
      logFile: `${home}/log`,
      find: () => Promise.resolve(performance.now() - began > 1_000 ? 'the other one' : undefined),
      timeoutMs: 30_000,
      failureCode: 5,
    });
  await assert.rejects(start(1), { message: `The program failed to start. Its log: ${home}/log`, lines: ['problem'] });
  assert.equal(await start(4), 'the other one');
});

/** True if a program that writes nothing notices that the reader of its pipe has gone. */

const watches = `
  const { watchPipeReader } = await import(${JSON.stringify(new URL('../../src/wiring/processes.ts', import.meta.url).href)});
  const late = setTimeout(() => { unwatch(); console.error('still read'); }, Number(process.argv[1]));
  const unwatch = watchPipeReader(process.pid, 1, () => { clearTimeout(late); console.error('gone'); });
`;

function into(reader: string, withinMs: number): string {
  const line = `"$NODE" --input-type=module -e "$PROGRAM" ${withinMs} | ${reader}`;
  const env = { ...process.env, NODE: process.execPath, PROGRAM: watches };
  return spawnSync('bash', ['-c', line], { env, encoding: 'utf8' }).stderr;
}

test('the end of a reader is noticed without a write, and a waiting reader is not an end', () => {
  assert.equal(into('true', 20_000), 'gone\n');
  assert.equal(into('cat', 1_500), 'still read\n');
});

// The user service of the controller, as systemd parses it.

test('special characters in paths keep their meaning', () => {
  const io = { env: { PATH: '/bin:/$x' } } as unknown as Io;
  const lines = formatUnit({ io, home: '/opt/50% "off"/$n\\ode' }).split('\n');
  const found = lines.filter((line) => /^(ExecStart|Environment)=/.test(line));
  assert.deepEqual(found, [
    String.raw`ExecStart="/bin/sh" "/opt/50%% \"off\"/$$n\\ode/program" "controller" "run" "--idle-exit" "never"`,
    String.raw`Environment="JOBMAN_HOME=/opt/50%% \"off\"/$n\\ode"`,
    'Environment="PATH=/bin:/$x"',
  ]);
});
